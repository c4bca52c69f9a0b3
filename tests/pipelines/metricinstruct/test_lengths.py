from __future__ import annotations

import pytest

from pipelines.metricinstruct.lengths import EMBEDDED_LENGTHS, Lengths
from pipelines.metricinstruct.schema import SUMMARIZATION, TRANSLATION
from transforms.errors import OptionError


def test_lengths_are_those_of_the_original_by_task():
    lengths = Lengths()
    assert [lengths.of_input(task) for task in (TRANSLATION, SUMMARIZATION, "mathQA")] == [
        400,
        600,
        512,
    ]
    assert EMBEDDED_LENGTHS.of_input(SUMMARIZATION) == EMBEDDED_LENGTHS.of_input("mathQA") < 400


def test_lengths_are_positive():
    with pytest.raises(OptionError):
        Lengths(output=0)
    with pytest.raises(OptionError):
        Lengths(inputs={TRANSLATION: 0})
