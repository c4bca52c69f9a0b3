"""Latencies by distribution: a draw from [0, 1) becomes the seconds before a reply."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from transforms.errors import OptionError

#: From an even draw from [0, 1) to seconds: the inverse of a distribution function.
Latency = Callable[[float], float]

FORMS = "constant:SECONDS, uniform:LEAST:MOST or lognormal:MEDIAN:SIGMA"


def latency(text: str) -> Latency:
    """Return the latency that ``text`` (one of ``FORMS``; a bare number is constant) names.

    Raises:
        OptionError: the text has another form.
    """
    kind, *numbers = text.split(":")
    try:
        if not numbers:
            kind, numbers = "constant", [kind]
        given = [float(number) for number in numbers]
        if not all(math.isfinite(number) and number >= 0 for number in given):
            raise ValueError
        return _KINDS[kind](*given)
    except (KeyError, TypeError, ValueError):
        raise OptionError(f"--latency {text!r}: write {FORMS}") from None


def constant(seconds: float) -> Latency:
    """Return the latency that is always the same."""
    return lambda drawn: seconds


def uniform(least: float, most: float) -> Latency:
    """Return the latency that is evenly spread between ``least`` and ``most`` seconds."""
    return lambda drawn: least + drawn * (most - least)


def lognormal(median: float, sigma: float) -> Latency:
    """Return the heavy-tailed latency whose logarithm has the deviation ``sigma``.

    Raises:
        ValueError: the median is 0.
    """
    location, normal = math.log(median), NormalDist()
    least = 1e-12  # the distribution's ends lie at infinity

    def seconds(drawn: float) -> float:
        return math.exp(location + sigma * normal.inv_cdf(min(max(drawn, least), 1 - least)))

    return seconds


_KINDS: dict[str, Callable[..., Latency]] = {
    "constant": constant,
    "uniform": uniform,
    "lognormal": lognormal,
}
