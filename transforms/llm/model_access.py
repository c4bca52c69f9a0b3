"""Whether an endpoint that refuses a call refuses its model, or that one request.

HTTP 403 and 404 may say either: no access to the model, no such model; or a question that a
firewall or moderation stopped, a provider that was gone for a moment. What the model has answered
so far tells them apart.
"""

from __future__ import annotations

from transforms.llm.answers import PAID, Verdict
from transforms.llm.calls import CallClass

#: So many refusals in a row are of the model: whole partitions of flagged texts are not known.
_IN_A_ROW = 20


class ModelAccess:
    """What is known of one model at its endpoint.

    Attributes:
        refused: the class in which all later calls end unsent, once the model is refused.
    """

    def __init__(self) -> None:
        self.refused: CallClass | None = None
        self._answered = False
        self._in_a_row = 0

    def judged(self, verdict: Verdict) -> Verdict:
        """Take note of what came of a call, and return it as what it is.

        Once the model has answered, a 403 is the request's own (``CallClass.REQUEST``) and a 404
        may pass, until many come in a row. Before, a 404 ends all, a 403 alone is no reason to.
        """
        if verdict.call_class in PAID:
            self._answered, self._in_a_row = True, 0
        elif verdict.of_model:
            self._in_a_row += 1
            unknown = verdict.status == 404 and not self._answered
            if unknown or self._in_a_row >= _IN_A_ROW:
                self.refused = verdict.call_class
            elif self._answered and verdict.status == 403:
                return verdict._replace(call_class=CallClass.REQUEST)
        return verdict
