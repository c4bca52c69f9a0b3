"""Splits of seeds whose source has none: a salted hash of the key."""

from __future__ import annotations

from pipelines.prosocial.schema import SPLITS
from transforms.keys import fraction_of

#: Dialogues per split in the release, in the order of SPLITS: what hashed splits aim at.
RELEASED_DIALOGUES = (42_304, 7_132, 8_701)


def split_of_key(key: str, salt: str) -> str:
    """Return the split of a seed whose source has none: drawn from its key in released shares."""
    drawn = fraction_of(key, f"split:{salt}") * sum(RELEASED_DIALOGUES)
    for split, dialogues in zip(SPLITS, RELEASED_DIALOGUES, strict=True):
        if drawn < dialogues:
            return split
        drawn -= dialogues
    return SPLITS[-1]
