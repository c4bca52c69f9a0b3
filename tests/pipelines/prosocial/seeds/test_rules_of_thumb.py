from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.prosocial.seeds.rules_of_thumb import rule_of_thumb


@pytest.mark.parametrize(
    ("stereotype", "expected"),
    [
        ("cat owners are lonely", "It's not right to think cat owners are lonely."),
        ("Cat owners are lonely.", "It's not right to think cat owners are lonely."),
        ("The neighbors are greedy!", "It's not right to think the neighbors are greedy."),
        ("Norwegians are cold", "It's not right to think Norwegians are cold."),
        ("I  am better", "It's not right to think I am better."),
        ("are lonely", "It's not right to think cat owners are lonely."),
        ("can't  travel", "It's not right to think cat owners can't travel."),
        ("Can’t travel", "It's not right to think cat owners can't travel."),
        ("lonely", "It's not right to think cat owners are lonely."),
        ("attacks are what they like", "It's not right to think attacks are what they like."),
        ("makes fun of cat owners", "You shouldn't make fun of cat owners."),
        ("Mocking cat owners", "You shouldn't mock cat owners."),
        ("trivializes harm to cats", "You shouldn't trivialize harm to cats."),
        ("belittle people who whistle", "You shouldn't belittle people who whistle."),
        ("denies that cats matter", "You shouldn't deny that cats matter."),
        ("bullies cat owners", "You shouldn't bully cat owners."),
        ("putting cat owners down", "You shouldn't put cat owners down."),
        ("dismisses cat owners", "You shouldn't dismiss cat owners."),
    ],
)
def test_statements_are_not_to_be_thought_and_verb_phrases_not_to_be_done(
    stereotype: str, expected: str
) -> None:
    assert rule_of_thumb(stereotype, "cat owners") == expected


def test_without_a_group_people_are_the_subject() -> None:
    assert rule_of_thumb("are lonely") == "It's not right to think people are lonely."


@pytest.mark.parametrize("stereotype", ["", " . ", "?!", "100"])
def test_no_words_make_no_rule_of_thumb(stereotype: str) -> None:
    assert rule_of_thumb(stereotype) is None


@given(st.text(max_size=60), st.one_of(st.none(), st.text(max_size=20)))
def test_every_rule_of_thumb_is_one_line_of_one_of_two_forms(
    stereotype: str, subject: str | None
) -> None:
    made = rule_of_thumb(stereotype, subject)
    if made is not None:
        assert made.startswith(("It's not right to think ", "You shouldn't "))
        assert made.endswith(".")
        assert len(made.splitlines()) == 1
