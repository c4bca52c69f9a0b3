"""Agreement among annotators: Krippendorff's alpha from counts that partitions can add up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def alpha_of_counts(counts: Mapping[tuple[str, ...], int], values: Sequence[str]) -> float | None:
    """Return Krippendorff's alpha for nominal values, by the ``krippendorff`` package.

    Who voted does not enter alpha, only what was voted on each unit; so the counts of several
    partitions can be added before.

    Args:
        counts: how many units received these votes, the votes in any order.
        values: all values a vote can have, two at least.

    Returns:
        At most 1; None where it is undefined: no unit with two votes, or all votes that can be
        paired are the same, so that there is no disagreement to expect.
    """
    import numpy as np
    from krippendorff import alpha

    rows = [[votes.count(value) for value in values] for votes in counts]
    paired = [(row, n) for row, n in zip(rows, counts.values(), strict=True) if n and sum(row) > 1]
    if sum(1 for column in zip(*(row for row, _ in paired), strict=True) if any(column)) < 2:
        return None
    units = np.repeat([row for row, _ in paired], [n for _, n in paired], axis=0)
    result = float(alpha(value_counts=units, level_of_measurement="nominal"))
    return None if math.isnan(result) else result
