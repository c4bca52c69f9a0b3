"""Rate-limit headers in the forms that endpoints use."""

from __future__ import annotations

import pytest

from transforms.llm.rate_headers import RateReport, Window, duration, rate_report


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360.0),
        ("1s", 1.0),
        ("20ms", 0.02),
        ("1m30.5s", 90.5),
        ("1h2m3s", 3723.0),
        ("1d", 86400.0),
        ("7.66s", 7.66),
        ("12", 12.0),
        (" 0s ", 0.0),
        ("", None),
        ("soon", None),
        ("9" * 400, None),
        ("9" * 400 + "s", None),
        ("-1s", None),
        ("5 minutes", None),
        ("1s!", None),
        (None, None),
    ],
)
def test_durations(text: str | None, seconds: float | None) -> None:
    found = duration(text)
    assert found == (pytest.approx(seconds) if seconds is not None else None)


def test_the_headers_of_openai() -> None:
    headers = {
        "x-ratelimit-limit-requests": "5000",
        "x-ratelimit-remaining-requests": "4999",
        "x-ratelimit-reset-requests": "12ms",
        "x-ratelimit-limit-tokens": "160000",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "1m0s",
    }
    assert rate_report(headers) == RateReport(
        Window(5000, None, 4999, pytest.approx(0.012)), Window(160000, None, 0, 60.0)
    )


def test_a_limit_that_is_full_again_in_hours_is_none_a_minute() -> None:
    day = rate_report(
        {
            "x-ratelimit-limit-requests": "14400",
            "x-ratelimit-remaining-requests": "9000",
            "x-ratelimit-reset-requests": "9h0m0s",
        }
    ).requests
    assert day is not None
    assert not day.by_the_minute
    assert Window(500, None, 499, 0.12).by_the_minute
    assert Window(500, 60, 499, 0.12).by_the_minute
    assert not Window(1000, 86400, 999, 40000).by_the_minute
    assert not Window(1000, 3600, 999, 5).by_the_minute  # near its hour's end


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (
            {"ratelimit-policy": '"burst";q=100;w=60', "ratelimit": '"burst";r=50;t=30'},
            Window(100, 60, 50, 30),
        ),
        (
            {"ratelimit-policy": '"a";q=10;w=1, "b";q=500;w=60', "ratelimit": '"a";r=9;t=1'},
            Window(10, 1, 9, 1),
        ),
        (
            {"ratelimit-limit": "100", "ratelimit-remaining": "7", "ratelimit-reset": "30"},
            Window(100, None, 7, 30),
        ),
        ({"ratelimit-policy": '"x";q=65535;qu="content-bytes";w=10'}, None),
        (
            {
                "ratelimit-policy": '"a, b";q=9;w=1;qu="content-bytes", calls;q=5;w=2',
                "ratelimit": 'calls;r=3;t=1,"a, b";r=8;t=1',
            },
            Window(5, 2, 3, 1),
        ),
        ({"ratelimit": '"a";r=9;t=1'}, Window(None, None, 9, 1)),
        (
            {
                "ratelimit-policy": "5;w=60",
                "ratelimit-limit": "5",
                "ratelimit-remaining": "0",
                "ratelimit-reset": "30",
            },
            Window(5, 60, 0, 30),
        ),
        (
            {"ratelimit-policy": "100;w=60", "ratelimit": "limit=100, remaining=0, reset=30"},
            Window(100, 60, 0, 30),
        ),
        ({"ratelimit": "limit=100, remaining=1, reset=30"}, Window(100, None, 1, 30)),
        ({"ratelimit-limit": "100, 100;w=1, 5000;w=3600"}, Window(100, 1)),
        ({"ratelimit-limit": "100", "ratelimit-policy": "9;w=1, 100;w=5"}, Window(100, 5)),
        (
            {"ratelimit-policy": '"d";q=900;w=86400, "m";q=9;w=60', "ratelimit": '"m";r=8;t=3'},
            Window(9, 60, 8, 3),
        ),
        ({"ratelimit-policy": '"d";q=900;w=86400'}, Window(900, 86400)),
        (
            {
                "ratelimit-policy": "1000;w=86400",
                "ratelimit-limit": "1000",
                "ratelimit-remaining": "500",
                "ratelimit-reset": "40000",
            },
            Window(1000, 86400, 500, 40000),
        ),
        (
            {
                "ratelimit-policy": "1000;w=86400, 10;w=1",
                "ratelimit-limit": "1000",
                "ratelimit-remaining": "500",
                "ratelimit-reset": "40000",
            },
            Window(10, 1),
        ),
        ({"ratelimit-limit": "9", "ratelimit-policy": "9;w=3600, 9;w=60"}, Window(9, 60)),
        ({"ratelimit-policy": '"burst";w=60'}, None),
        ({"ratelimit-limit": "9" * 400}, None),
        ({"ratelimit-limit": "plenty"}, None),
        ({"x-ratelimit-limit-requests": ""}, None),
        ({}, None),
    ],
)
def test_the_forms_of_the_ietf(headers: dict[str, str], expected: Window | None) -> None:
    assert rate_report(headers) == RateReport(expected, None)
