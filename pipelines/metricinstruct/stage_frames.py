"""The frames that the stages hand on by name, and their schemas.

Names of frames on the way: ``examples``, ``human_errors`` and ``beside`` as read; ``chosen``, once
the outputs of each input were chosen; ``analyses`` and ``verdicts``, once the model has answered;
``rows``, the analyses that are published, with their examples' columns; and throughout
``rejected``, ``dead``, ``waiting`` (what ended on the way) and ``counts`` (for the ledger).
``funnel`` is what the filters saw, ``answers`` how well the model answered, ``pair_counts`` and
``pair_scores`` are the sums that the agreement with human annotators is made of, ``removed`` the
errors that made an analysis too long.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from pipelines.metricinstruct import schema
from pipelines.metricinstruct.answer_shares import ANSWERS
from pipelines.metricinstruct.drafts import ANALYSED, UNFINISHED, VERDICTS
from transforms.crowd import spans
from transforms.filters import FUNNEL
from transforms.frames import NamedFrames, Schema, polars_schema
from transforms.ledger import COUNTS

#: The errors that were taken from an analysis because it was too long.
REMOVED: Schema = {"id": pl.String, "number": pl.Int64}

SCHEMAS: Mapping[str, Schema] = {
    "examples": schema.EXAMPLES,
    "human_errors": schema.HUMAN_ERRORS,
    "beside": schema.BESIDE,
    "chosen": schema.CHOSEN,
    "analyses": ANALYSED,
    "rows": {**ANALYSED, **schema.CHOSEN},
    "verdicts": VERDICTS,
    "unfinished": UNFINISHED,
    "removed": REMOVED,
    "rejected": polars_schema(schema.REJECTED),
    "dead": polars_schema(schema.DEAD),
    "waiting": polars_schema(schema.WAITING),
    "counts": COUNTS,
    "funnel": FUNNEL,
    "answers": ANSWERS,
    "pair_counts": spans.COUNTS,
    "pair_scores": spans.SCORES,
}
#: Frames of sums that go from the filters to the statistics.
SUMS = ("funnel", "answers", "pair_counts", "pair_scores")
_FRAMES = NamedFrames(SCHEMAS)
named = _FRAMES.named
together = _FRAMES.together
