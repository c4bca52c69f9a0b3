from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.metricinstruct.filter_settings import load_filters
from transforms.errors import InputError, OptionError


def _file(tmp_path: Path, content: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(content, encoding="utf-8")
    return str(path)


def test_defaults() -> None:
    settings = load_filters()
    assert (settings.severity_band.major, settings.severity_band.minor) == ((2, 5), (0.5, 2))
    assert settings.error_free_share.most == 0.115
    assert "null" in settings.empty_explanation.same_as_empty


def test_a_file_changes_what_it_names(tmp_path: Path) -> None:
    changed = load_filters(_file(tmp_path, "too_many_errors: {most: 3}\nformat: {level: warning}"))
    assert (changed.too_many_errors.level, changed.too_many_errors.most) == ("error", 3)
    assert changed.format.level == "warning"
    assert changed.severity_band == load_filters().severity_band
    assert load_filters(_file(tmp_path, "")) == load_filters()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("too_long: {level: off}", "too_long: Field required|too_long.*Extra inputs"),
        ("format: {tolerate: []}", r"format.tolerate: Extra inputs"),
        ("format: {tolerated: [missing_field]}", "format.tolerated"),
        ("too_many_errors: {most: 0}", "too_many_errors.most"),
        ("unwritable: {level: warning}", "unwritable.level"),
        ("unknown_aspect: {level: off}", "unknown_aspect.level: Input should be 'error'"),
        ("unknown_severity: {level: warning}", "unknown_severity.level"),
        ("too_many_errors: {level: loud}", "too_many_errors.level"),
        ("severity_band: {minor: [2, 0.5]}", "severity_band.minor.*least, most"),
        ("mentions_reference: {patterns: ['(']}", "mentions_reference.patterns.*no regular expr"),
        ("mentions_reference: {allowed: ['a(?!b)']}", "mentions_reference.allowed.*Rust's syntax"),
        ("too_many_errors: 3", "too_many_errors must be a mapping"),
        ("- format", "must map filters"),
        ("format: {level", r"not YAML \(line 1\)"),
    ],
)
def test_what_is_not_known_stops_the_run(tmp_path: Path, content: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        load_filters(_file(tmp_path, content))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        load_filters(str(tmp_path / "none.yaml"))
