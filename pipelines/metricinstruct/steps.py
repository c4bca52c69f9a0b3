"""The calls of one example, step by step, and how they end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transforms.llm.calls import Answer, Caller
from transforms.llm.prompts import Prompt


class CallFailed(Exception):  # noqa: N818 - steers the work on one example, never leaves it
    """A call without a usable answer: the example is dead.

    Attributes:
        prompt: the prompt that was to be answered.
        answer: how the call ended.
    """

    def __init__(self, prompt: Prompt, answer: Answer) -> None:
        super().__init__(answer.call_class.value)
        self.prompt = prompt
        self.answer = answer


class Steps:
    """Makes the calls of one example and keeps a record of them.

    Attributes:
        prompts: ids of the prompts that were answered, in the order in which they were asked.
        requests: the hashes of their requests.
        models: the models that answered.
    """

    __slots__ = ("_call", "_prompts", "models", "prompts", "requests")

    def __init__(self, call: Caller, prompts: Mapping[str, Prompt]) -> None:
        self._call = call
        self._prompts = prompts
        self.prompts: list[str] = []
        self.requests: list[str] = []
        self.models: list[str] = []

    async def ask(self, name: str, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer to the prompt called ``name``, which is one of the example's steps.

        Raises:
            CallFailed: there is no usable one.
        """
        answer = await self.ask_beside(name, variables)
        self.prompts.append(self._prompts[name].id)
        self.requests.append(answer.request)
        self.models.append(answer.model)
        return answer.data or {}

    async def ask_beside(self, name: str, variables: Mapping[str, Any]) -> Answer:
        """Return the answer to a prompt that makes nothing of the row itself, say a check of it.

        Raises:
            CallFailed: there is no usable one.
        """
        prompt = self._prompts[name]
        answer = await self._call(prompt, variables)
        if answer.data is None:
            raise CallFailed(prompt, answer)
        return answer

    def id_of(self, name: str) -> str:
        """Return the id of the prompt called ``name``."""
        return self._prompts[name].id
