"""The lengths at which inputs, outputs and references are cut before a model sees them.

No tokenizer is at hand that would suit every endpoint, so tokens are estimated from characters:
four of the Latin script a token, two of the other alphabets, one of Chinese, Japanese and Korean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from pipelines.metricinstruct.schema import SUMMARIZATION, TRANSLATION
from transforms.errors import OptionError

#: How far back from where a text has to end a blank is looked for, in characters.
_LONGEST_WORD = 60
_LAST_BLANK = re.compile(r"\s(?=\S*$)")


@dataclass(frozen=True)
class Lengths:
    """The most tokens of each text; the defaults are TIGERScore's (Jiang et al. 2023).

    Attributes:
        inputs: tokens of the input, and of the instruction, which may hold it, for tasks where
            that is another length than ``input``.
        input: the same for every other task.
        output: tokens of the output that is analysed.
        reference: tokens of the reference that is shown or edited, and of the model's own answer
            where that is shown.

    Raises:
        OptionError: a length isn't positive.
    """

    inputs: Mapping[str, int] = field(
        default_factory=lambda: {TRANSLATION: 400, SUMMARIZATION: 600}
    )
    input: int = 512
    output: int = 400
    reference: int = 400

    def __post_init__(self) -> None:
        if min(*self.inputs.values(), self.input, self.output, self.reference) < 1:
            raise OptionError("lengths of texts must be at least 1 token")

    def of_input(self, task: str) -> int:
        """Return the most tokens of an input of ``task``."""
        return self.inputs.get(task, self.input)


#: For the embedded model, whose context of 2,048 tokens has to hold examples and answer as well.
EMBEDDED_LENGTHS = Lengths(inputs={}, input=240, output=120, reference=120)


def cut(text: str, tokens: int) -> str:
    """Return ``text`` as far as ``tokens`` go, up to the end of a word where one ends nearby."""
    if len(text) <= tokens or (text.isascii() and len(text) <= 4 * tokens):
        return text
    # In quarters of a token, so that the sums are whole numbers.
    spent = accumulate(1 if char < "\u0250" else 2 if char < "\u2e80" else 4 for char in text)
    end = next((index for index, sum_ in enumerate(spent) if sum_ > 4 * tokens), len(text))
    if end == len(text):
        return text
    if not text[end].isspace():
        blank = _LAST_BLANK.search(text, max(0, end - _LONGEST_WORD), end)
        end = blank.start() if blank else end
    return text[:end].rstrip()
