"""Data Docs of verdicts: Great Expectations' own rendering, in one page that loads nothing else.

The stock page fetches styles, scripts and a logo from several hosts; a dataset's report must open
offline and tell nobody that it was read, so only the template around the results is our own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from expectations.runner import Check, Verdict, load_suite

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: What the renderers look up beside a result.
_NO_EXCEPTION = {
    "raised_exception": False,
    "exception_message": None,
    "exception_traceback": None,
}


def render_data_docs(verdicts: Sequence[Verdict]) -> str:
    """Return the HTML page of what one suite found on all its subjects, added up.

    Args:
        verdicts: the verdicts of one suite, at least one.
    """
    from great_expectations.core.expectation_validation_result import (
        ExpectationSuiteValidationResult,
        ExpectationValidationResult,
    )
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    class Page(DefaultJinjaPageView):  # type: ignore[misc]
        _template = "data_docs.j2"

    suite = load_suite(verdicts[0].suite)
    results = []
    for index, expectation in enumerate(suite["expectations"]):
        checks = [verdict.checks[index] for verdict in verdicts]
        results.append(
            ExpectationValidationResult(
                success=all(check.success for check in checks),
                expectation_config=ExpectationConfiguration(
                    type=expectation["type"],
                    kwargs=_qualified(expectation),
                    severity=expectation["severity"],
                ),
                result=_summed(checks),
                exception_info=dict(_NO_EXCEPTION),
            )
        )
    passed = sum(result.success for result in results)
    page = Page(custom_views_directory=str(Path(__file__).parent)).render(
        ValidationResultsPageRenderer().render(
            ExpectationSuiteValidationResult(
                success=all(verdict.success for verdict in verdicts),
                results=results,
                suite_name=suite["name"],
                statistics={
                    "evaluated_expectations": len(results),
                    "successful_expectations": passed,
                    "unsuccessful_expectations": len(results) - passed,
                    "success_percent": 100.0 * passed / len(results),
                },
                meta={},
            )
        )
    )
    return _numbered(str(page))


def _qualified(expectation: dict[str, Any]) -> dict[str, Any]:
    """Return the expectation's arguments, its columns named with the view they belong to."""
    view = expectation["meta"]["view"]
    columns = ("column", "column_A", "column_B")
    return {
        name: f"{view}.{value}" if name in columns else value
        for name, value in expectation["kwargs"].items()
    }


def _summed(checks: Sequence[Check]) -> dict[str, Any]:
    observed = [check.observed for check in checks if check.observed is not None]
    if observed:
        low, high = min(observed), max(observed)
        return {"observed_value": f"{low:g}" if low == high else f"{low:g} to {high:g}"}
    elements = sum(check.element_count or 0 for check in checks)
    unexpected = sum(check.unexpected_count or 0 for check in checks)
    return {
        "element_count": elements,
        "unexpected_count": unexpected,
        "unexpected_percent": 100.0 * unexpected / elements if elements else 0.0,
        "partial_unexpected_list": [],
    }


def _numbered(page: str) -> str:
    """Return ``page`` with its random ids replaced by numbers, so that the same page repeats."""
    numbers: dict[str, str] = {}
    return _UUID.sub(lambda match: numbers.setdefault(match[0], f"n{len(numbers)}"), page)
