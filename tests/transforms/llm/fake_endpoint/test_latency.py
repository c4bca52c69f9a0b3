"""Latencies are inverse distribution functions of the form that was asked for."""

from __future__ import annotations

import statistics

import pytest

from transforms.errors import OptionError
from transforms.llm.fake_endpoint.latency import latency

EVEN = [(place + 0.5) / 1000 for place in range(1000)]


@pytest.mark.parametrize(
    ("text", "median", "most"),
    [
        ("constant:0.05", 0.05, 0.05),
        ("0.05", 0.05, 0.05),
        ("uniform:0.1:0.3", 0.2, 0.3),
        ("lognormal:0.4:0.8", 0.4, 6),
    ],
)
def test_each_form_has_its_median(text: str, median: float, most: float) -> None:
    seconds = [latency(text)(drawn) for drawn in [0.0, *EVEN]]
    assert seconds == sorted(seconds)
    assert statistics.median(seconds) == pytest.approx(median, rel=0.01)
    assert max(seconds) <= most


def test_the_heavy_tail_is_heavy() -> None:
    seconds = [latency("lognormal:0.4:0.8")(drawn) for drawn in EVEN]
    assert statistics.mean(seconds) == pytest.approx(0.4 * 2.718281828 ** (0.8**2 / 2), rel=0.02)
    assert seconds[-1] > 4


@pytest.mark.parametrize(
    "text", ["", "fast", "constant", "constant:-1", "uniform:1", "lognormal:0:1", "constant:nan"]
)
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="lognormal:MEDIAN:SIGMA"):
        latency(text)
