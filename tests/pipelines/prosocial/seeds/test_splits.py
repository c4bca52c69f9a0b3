from __future__ import annotations

import pytest

from pipelines.prosocial.schema import SPLITS
from pipelines.prosocial.seeds.splits import RELEASED_DIALOGUES, split_of_key
from transforms.keys import content_key


def test_drawn_splits_have_the_released_shares_and_depend_on_the_salt() -> None:
    keys = [content_key(f"seed {number}") for number in range(4000)]
    drawn = [split_of_key(key, "a") for key in keys]
    for split, dialogues in zip(SPLITS, RELEASED_DIALOGUES, strict=True):
        share = dialogues / sum(RELEASED_DIALOGUES)
        assert drawn.count(split) / len(keys) == pytest.approx(share, abs=0.03)
    assert drawn == [split_of_key(key, "a") for key in keys]
    assert drawn != [split_of_key(key, "b") for key in keys]
