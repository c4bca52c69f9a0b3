from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pipelines.prosocial.filter_settings import DEFAULT_FILE, FilterSettings, load_filters
from transforms.errors import InputError, OptionError


def test_the_files_order_is_the_order_of_the_filters() -> None:
    mapping = yaml.safe_load(DEFAULT_FILE.read_text(encoding="utf-8"))
    assert list(mapping) == list(FilterSettings.model_fields)


def test_a_file_changes_what_it_names_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("echo: {similarity: 0.5}\nrefusal: {level: warning}\n", encoding="utf-8")
    ours, mine = load_filters(), load_filters(str(path))
    assert (mine.echo.similarity, mine.echo.level) == (0.5, ours.echo.level)
    assert mine.refusal.level == "warning"
    changed = mine.model_copy(update={"echo": ours.echo, "refusal": ours.refusal})
    assert changed == ours
    path.write_text("", encoding="utf-8")
    assert load_filters(str(path)) == ours


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ehco: {level: off}", "ehco: Extra inputs"),
        ("echo: {likeness: 1}", r"echo\.likeness: Extra inputs"),
        ("echo: {similarity: 7}", r"echo\.similarity: Input should be less"),
        ("refusal: {level: fatal}", r"refusal\.level: Input should be"),
        ("blank_utterance: {level: off}", r"blank_utterance\.level: Input should be 'error'"),
        ("missing_rot: {level: warning}", r"missing_rot\.level"),
        ("intervention_then_casual: {level: off}", r"intervention_then_casual\.level"),
        ("refusal: warning", "refusal must be a mapping"),
        ("[1, 2]", "must map filters"),
        ("a: [1", r"not YAML \(line \d\)"),
    ],
)
def test_what_there_isnt_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(OptionError, match=rf"mine\.yaml: {message}"):
        load_filters(str(path))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_filters(str(tmp_path / "none.yaml"))


def test_yamls_off_is_a_level(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("echo: {level: off}\n", encoding="utf-8")
    assert load_filters(str(path)).echo.level == "off"
