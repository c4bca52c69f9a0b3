"""How many tokens a call is counted with before it is answered.

Its prompt, as it was counted or estimated and then held against what the endpoint reported of
others; and its answer: the most that it may have, until enough answers of the same bound have shown
that they stay far below it. Counting all with their bound would leave half of a limit unused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from transforms.llm.admission import PendingCall
from transforms.llm.answers import Verdict
from transforms.llm.tokens import Calibration

#: Answers after which the longest of them tells of those to come, and with how much to spare.
_ENOUGH, _TO_SPARE = 20, 1.25


@dataclass
class _Answers:
    number: int = 0
    longest: int = 0


class Reservation:
    """Estimates the tokens of calls, and learns from those that were answered."""

    def __init__(self) -> None:
        self._calibration = Calibration()
        self._answers: dict[tuple[str, int], _Answers] = {}

    def tokens(self, call: PendingCall) -> int:
        """Return the tokens that ``call`` may come to, as far as is known."""
        calibrated = math.ceil(self._calibration.total(1, call.prompt_tokens))
        return max(call.prompt_tokens, calibrated) + self._completion(call)

    def observe(self, call: PendingCall, verdict: Verdict) -> None:
        """Take note of the usage that the endpoint reported of ``call``."""
        self._calibration.observe(call.prompt_tokens, verdict.prompt_tokens)
        seen = self._answers.setdefault((call.model, call.completion_tokens), _Answers())
        seen.number += 1
        seen.longest = max(seen.longest, verdict.completion_tokens)

    def _completion(self, call: PendingCall) -> int:
        seen = self._answers.get((call.model, call.completion_tokens))
        if seen is None or seen.number < _ENOUGH:
            return call.completion_tokens
        return min(call.completion_tokens, math.ceil(seen.longest * _TO_SPARE))
