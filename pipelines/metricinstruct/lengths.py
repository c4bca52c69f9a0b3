"""The lengths at which inputs, outputs and references are cut before a model sees them.

Tokens are estimated, see ``transforms.tokens``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.metricinstruct.schema import SUMMARIZATION, TRANSLATION
from transforms.errors import OptionError


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
