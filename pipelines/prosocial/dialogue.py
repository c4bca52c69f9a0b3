"""Drafting one dialogue: its model calls in order, with the crowd's work so far woven in.

=========  ===================  ==============================================================
utterance  row and field        author
=========  ===================  ==============================================================
1          turn 0, context      ``utterance`` prompt from the situation; sbic: the post itself
2          turn 0, response     ``question`` prompt
3          turn 1, context      ``continuation`` prompt
4          turn 1, response     a crowd worker, or the model as one (``respond`` prompt)
5          turn 2, context      ``continuation`` prompt
6          turn 2, response     like utterance 4
=========  ===================  ==============================================================

Votes come last, on the final text. An utterance the crowd edited is shown as edited to every later
prompt; the draft stays beside it. How a dialogue ends that can't be finished:

* A step the crowd has yet to do makes it *waiting*, and so does a call that a later run is to make.
* A call without a usable answer makes it *dead*, with two exceptions in the released data's
  favour, which has dialogues of two rows: where only the third row is concerned and another run
  would get the same answer, the dialogue is cut to two rows and goes on. A failure that another
  run may mend (``CallClass.transient``) never cuts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipelines.prosocial import schema, worker
from transforms.keys import fraction_of
from transforms.llm.calls import Answer, CallClass, Caller
from transforms.llm.prompts import Prompt
from transforms.llm.replay import gather

#: Names of the prompts drafting uses; each is a file in pipelines/prosocial/prompts.
PROMPTS = ("utterance", "question", "continuation", "rots", "respond", "vote")
_TURNS_SALT = "prosocial/turns"
_LAST_TURN = schema.MAX_TURNS - 1


@dataclass(frozen=True, slots=True)
class Seed:
    """What drafting needs of a selected seed: its ``rots`` are candidates, none where unknown."""

    key: str
    source: str
    situation: str
    rots: tuple[str, ...] = ()


class CrowdResponse(NamedTuple):
    """A crowd worker's row of one turn; None in ``context`` or ``response``: left as drafted."""

    context: str | None = None
    response: str | None = None
    episode_done: bool | None = None


@dataclass(frozen=True, slots=True)
class CrowdSoFar:
    """What the crowd files hold for one key: responses and numbers of votes, by turn."""

    responses: dict[int, CrowdResponse] = field(default_factory=dict)
    votes: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DraftSettings:
    """``model_as_crowd`` lets the model do what the crowd files lack; else dialogues wait."""

    model_as_crowd: bool = False


@dataclass(frozen=True, slots=True)
class DialogueDraft:
    """What drafting one key gave: rows in the column order of the schemas of the same names.

    A finished dialogue has as many turns as ``drafts`` has contexts. A waiting one has the drafts
    so far, and the model-made candidates (``field`` is ``rot``) that a crowd worker is to be
    shown. A dead one has no drafts; a cut one has those of its first two turns, and ``unfinished``
    says which call cut it.
    """

    drafts: list[tuple[Any, ...]]
    responses: list[tuple[Any, ...]]
    annotations: list[tuple[Any, ...]]
    unfinished: tuple[Any, ...] | None


class _CallFailed(Exception):  # noqa: N818 - steers the drafting of one dialogue, never leaves it
    def __init__(self, turn: int, prompt: Prompt, answer: Answer) -> None:
        super().__init__(answer.call_class.value)
        self.turn = turn
        self.prompt = prompt
        self.answer = answer

    @property
    def cuts(self) -> bool:
        return cuts_last_turn(self.turn, self.answer.call_class)


class _CrowdAwaited(Exception):  # noqa: N818 - see above
    def __init__(self, turn: int, waits_for: str) -> None:
        super().__init__(waits_for)
        self.turn = turn
        self.waits_for = waits_for


def cuts_last_turn(turn: int, call_class: CallClass) -> bool:
    """Whether a call that failed so leaves the dialogue's first two rows standing."""
    return turn == _LAST_TURN and not call_class.transient


def number_of_turns(key: str, crowd: CrowdSoFar) -> int:
    """Return how many rows the dialogue is to have: 2 or 3.

    The crowd's word counts; without one, the released share of two-row dialogues is drawn from the
    key.
    """
    second = crowd.responses.get(1)
    if second is not None and second.episode_done is not None:
        return schema.MIN_TURNS if second.episode_done else schema.MAX_TURNS
    if _LAST_TURN in crowd.responses:
        return schema.MAX_TURNS
    drawn = fraction_of(key, _TURNS_SALT)
    return schema.MIN_TURNS if drawn < schema.TWO_TURN_SHARE else schema.MAX_TURNS


async def draft(
    seed: Seed,
    crowd: CrowdSoFar,
    call: Caller,
    prompts: Mapping[str, Prompt],
    settings: DraftSettings,
) -> DialogueDraft:
    """Draft the dialogue of ``seed`` as far as answers and crowd files go; never raises for data.

    Dependent calls are awaited one after the other, the votes all at once.
    """
    drafting = _Drafting(seed, crowd, call, prompts, settings)
    try:
        return await drafting.run()
    except _CrowdAwaited as awaited:
        return drafting.waiting(awaited.turn, awaited.waits_for)
    except _CallFailed as failure:
        if failure.answer.call_class.awaited:
            return drafting.waiting(failure.turn, failure.answer.call_class.value)
        return DialogueDraft([], [], [], _dead(seed.key, failure))


class _Drafting:
    """The state of one dialogue while it is drafted."""

    __slots__ = (
        "annotations",
        "call",
        "candidates",
        "crowd",
        "drafts",
        "failure",
        "prompts",
        "responses",
        "seed",
        "settings",
        "turns",
        "utterances",
    )

    def __init__(
        self,
        seed: Seed,
        crowd: CrowdSoFar,
        call: Caller,
        prompts: Mapping[str, Prompt],
        settings: DraftSettings,
    ) -> None:
        self.seed = seed
        self.crowd = crowd
        self.call = call
        self.prompts = prompts
        self.settings = settings
        self.turns = number_of_turns(seed.key, crowd)
        self.candidates = seed.rots
        self.utterances: list[str] = []
        self.drafts: list[tuple[Any, ...]] = []
        self.responses: list[tuple[Any, ...]] = []
        self.annotations: list[tuple[Any, ...]] = []
        self.failure: _CallFailed | None = None

    async def run(self) -> DialogueDraft:
        """Draft turn by turn, then have the votes cast."""
        await self.first_turn()
        await self.later_turn(1)
        if self.turns == schema.MAX_TURNS:
            try:
                await self.later_turn(_LAST_TURN)
            except _CallFailed as failure:
                self.cut(failure)
        await self.votes()
        unfinished = _dead(self.seed.key, self.failure) if self.failure else None
        return DialogueDraft(self.drafts, self.responses, self.annotations, unfinished)

    async def first_turn(self) -> None:
        edited = self.crowd.responses.get(0)
        situation = self.seed.situation
        if self.seed.source == schema.SBIC:
            self.drafts.append((self.seed.key, 0, "context", "seed", situation, None, None, None))
            utterance = situation
        else:
            utterance = await self.utter(0, "context", "utterance", {"situation": situation})
        if edited is not None and edited.context is not None:
            utterance = edited.context
        question = await self.utter(0, "response", "question", {"utterance": utterance})
        if edited is not None and edited.response is not None:
            question = edited.response
        self.utterances += (utterance, question)

    async def later_turn(self, turn: int) -> None:
        row = self.crowd.responses.get(turn)
        history = {"utterances": self.utterances}
        utterance = await self.utter(turn, "context", "continuation", history)
        if row is not None and row.context is not None:
            utterance = row.context
        self.utterances.append(utterance)
        if row is not None and row.response is not None:
            self.utterances.append(row.response)
        elif self.settings.model_as_crowd:
            self.utterances.append(await self.respond(turn))
        else:
            await self.candidate_rots(turn)
            raise _CrowdAwaited(turn, "response")

    async def utter(self, turn: int, field: str, name: str, variables: Mapping[str, Any]) -> str:
        answer = await self.ask(turn, name, variables)
        text = str(answer.data["text"]).strip() if answer.data is not None else ""
        made_by = (self.prompts[name].id, answer.request, answer.model)
        self.drafts.append((self.seed.key, turn, field, "model", text, *made_by))
        return text

    async def respond(self, turn: int) -> str:
        candidates = await self.candidate_rots(turn)
        variables = {"utterances": self.utterances, "rots": candidates}
        answer = await self.ask(turn, "respond", variables)
        data = answer.data or {}
        response = str(data["response"]).strip()
        self.responses.append(
            (
                self.seed.key,
                turn,
                worker.annotator_id(answer.model, 0),
                None,
                response,
                list(worker.chosen_rots(data, candidates)),
                list(candidates),
                None,
                "model",
                self.prompts["respond"].id,
                answer.request,
                answer.model,
                None,
                None,
            )
        )
        return response

    async def candidate_rots(self, turn: int) -> tuple[str, ...]:
        """Return the rules-of-thumb to choose from; the model writes them where a seed has none."""
        if not self.candidates:
            answer = await self.ask(turn, "rots", {"situation": self.seed.situation})
            self.candidates = worker.candidates_of(answer.data or {})
            prompt = self.prompts["rots"].id
            self.drafts += [
                (self.seed.key, turn, "rot", "model", rot, prompt, answer.request, answer.model)
                for rot in self.candidates
            ]
        return self.candidates

    async def ask(self, turn: int, name: str, variables: Mapping[str, Any]) -> Answer:
        prompt = self.prompts[name]
        answer = await self.call(prompt, variables)
        if answer.data is None:
            raise _CallFailed(turn, prompt, answer)
        return answer

    async def votes(self) -> None:
        """Fill every turn's votes up to three, all calls at once; or wait for the crowd's."""
        turns = range(len(self.utterances) // 2)
        missing = {
            turn: range(number)
            for turn in turns
            if (number := schema.VOTES_PER_TURN - self.crowd.votes.get(turn, 0)) > 0
        }
        if not missing:
            return
        if not self.settings.model_as_crowd:
            raise _CrowdAwaited(min(missing), "annotations")
        prompt = self.prompts["vote"]
        dialogues = [
            {"history": self.utterances[: 2 * turn], "utterance": self.utterances[2 * turn]}
            for turn in turns
        ]
        cast = await gather(
            *(self.call.samples(prompt, dialogues[turn], own) for turn, own in missing.items())
        )
        answers = [
            (turn, sample, answer)
            for (turn, own), of_turn in zip(missing.items(), cast, strict=True)
            for sample, answer in zip(own, of_turn, strict=True)
        ]
        failures = [
            _CallFailed(turn, prompt, answer) for turn, _, answer in answers if answer.data is None
        ]
        for failure in failures:
            if not failure.cuts:
                raise failure
        for turn, sample, answer in answers:
            if answer.data is not None:
                self.annotations.append(self.vote(turn, sample, prompt, answer))
        if failures:
            self.cut(failures[0])

    def vote(self, turn: int, sample: int, prompt: Prompt, answer: Answer) -> tuple[Any, ...]:
        data = answer.data or {}
        annotator = worker.annotator_id(answer.model, sample)
        reason = str(data["reason"]).strip()
        head = (self.seed.key, turn, annotator, data["vote"], reason)
        return (*head, "model", prompt.id, answer.request, answer.model, None, None)

    def cut(self, failure: _CallFailed) -> None:
        """Take the last turn back, if its failure allows that; else the failure goes on."""
        if not failure.cuts:
            raise failure
        self.failure = failure
        del self.utterances[2 * _LAST_TURN :]
        self.drafts = [row for row in self.drafts if row[1] != _LAST_TURN]
        self.responses = [row for row in self.responses if row[1] != _LAST_TURN]
        self.annotations = [row for row in self.annotations if row[1] != _LAST_TURN]

    def waiting(self, turn: int, what: str) -> DialogueDraft:
        row = (self.seed.key, turn, "waiting", what, what, None, None, None, None)
        return DialogueDraft(self.drafts, self.responses, self.annotations, row)


def _dead(key: str, failure: _CallFailed) -> tuple[Any, ...]:
    answer = failure.answer
    head = (key, failure.turn, "dead", failure.prompt.id, None, answer.call_class.value)
    return (*head, answer.detail, answer.request, answer.attempts)
