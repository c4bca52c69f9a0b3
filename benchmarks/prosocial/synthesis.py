"""Inputs of the size of the release, made up: seeds, crowd files, and a cache that is warm.

    python -m benchmarks.prosocial.synthesis DIRECTORY DIALOGUES BASE_URL

Everything follows from a dialogue's index, so the same size gives the same inputs. The filters have
their ordinary work with the texts and pass nearly all; some hundredths are made to fail one.
"""

from __future__ import annotations

import csv
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.inputs import Inputs, partitions_of
from benchmarks.prosocial import texts
from benchmarks.replies import MODEL, completion
from pipelines.prosocial import schema
from pipelines.prosocial.command import DATASET_DEFAULTS, PROMPTS
from pipelines.prosocial.dialogue import CrowdResponse, CrowdSoFar, DraftSettings, Seed, draft
from pipelines.prosocial.publication import DATASET
from transforms.keys import content_key, partition_of
from transforms.llm.cache import PartitionCache
from transforms.llm.calls import Answer, CallClass
from transforms.llm.prompts import Prompt, load_prompts
from transforms.llm.replay import replay
from transforms.llm.request import RequestForms
from transforms.llm.settings import EngineSettings
from transforms.publishing.versions import open_dataset

#: The release: dialogues, and those of them that have two rows (the others have three).
RELEASED_DIALOGUES, RELEASED_TWO_ROWS = 58_137, 8_730
#: Dialogues per split of the release, as Social Chemistry names its splits.
_SPLITS = (("train", 42_304), ("dev", 7_132), ("test", 8_701))
FILES = 2  # of responses and of annotations
#: Of the rules-of-thumb that workers give, those they select from what they are shown.
SELECTED_SHARE = 0.4

#: Numbers of votes for casual, caution and intervention, and how many of 100 rows have them.
_VOTES = (((3, 0, 0), 17), ((2, 1, 0), 13), ((1, 2, 0), 15), ((0, 3, 0), 42), ((0, 2, 1), 13))
_VOTE_NAMES = (schema.VOTE_CASUAL, schema.VOTE_CAUTION, schema.VOTE_INTERVENTION)
_COLUMNS = (
    "area", "m", "split", "rot-agree", "rot-categorization", "rot-moral-foundations",
    "rot-char-targeting", "rot-bad", "rot-judgment", "action", "action-agency",
    "action-moral-judgment", "action-agree", "action-legal", "action-pressure",
    "action-char-involved", "action-hypothetical", "situation", "situation-short-id", "rot",
    "rot-id", "rot-worker-id", "breakdown-worker-id", "n-characters", "characters",
)  # fmt: skip


def arguments(inputs: Inputs) -> list[str]:
    """Return the arguments with which remint reads ``inputs``."""
    return [
        *("--seeds", f"socialchemistry={_seeds_of(inputs)}"),
        *("--responses", str(inputs.directory / "responses-*.jsonl")),
        *("--annotations", str(inputs.directory / "annotations-*.jsonl")),
    ]


def _seeds_of(inputs: Inputs) -> Path:
    return inputs.directory / "seeds.tsv"


class Turn(NamedTuple):
    """One turn: what the model drafts, and what the crowd makes of it (None: as drafted)."""

    drafts: tuple[str, ...]  # turn 0: utterance and question; later: the continuation
    context: str | None
    response: str | None
    rots: list[str]
    votes: tuple[tuple[str, str, str], ...]  # annotator, vote, reason


class Dialogue(NamedTuple):
    """One made-up dialogue."""

    key: str
    situation: str
    turns: tuple[Turn, ...]


def synthesise(directory: Path, dialogues: int, base_url: str) -> Inputs:
    """Write the inputs of so many dialogues below ``directory`` and return where they stand."""
    directory.mkdir(parents=True)
    inputs = Inputs(DATASET, directory, base_url)
    _write_seeds(_seeds_of(inputs), dialogues)
    made: dict[int, list[Dialogue]] = defaultdict(list)
    partitions = partitions_of(dialogues, RELEASED_DIALOGUES)
    chosen = {"partitions": partitions}
    open_dataset(str(inputs.output / DATASET), DATASET, DATASET_DEFAULTS, chosen)
    responses = [(directory / f"responses-{n}.jsonl").open("w") for n in range(FILES)]
    annotations = [(directory / f"annotations-{n}.jsonl").open("w") for n in range(FILES)]
    for index in range(dialogues):
        one = dialogue(index, dialogues)
        made[partition_of(one.key, partitions)].append(one)
        responses[index % FILES].writelines(_response_lines(one, index))
        annotations[index % FILES].writelines(_annotation_lines(one))
    for file in (*responses, *annotations):
        file.close()
    _warm(inputs, made)
    return inputs


def dialogue(index: int, dialogues: int) -> Dialogue:
    """Return dialogue ``index`` of so many."""
    source = random.Random(index)
    two_rows = round(dialogues * RELEASED_TWO_ROWS / RELEASED_DIALOGUES)
    rows = schema.MIN_TURNS if index * two_rows % dialogues < two_rows else schema.MAX_TURNS
    situation = texts.scene(index).situation
    fault = _fault(index)
    turns: list[Turn] = []
    warned = False
    for number in range(rows):
        votes = _draw_votes(source, may_be_casual=not warned)
        warned = warned or votes[2] > 0
        turns.append(_turn(number, index, source, votes))
    last = turns[-1]
    if fault == "duplicate":
        # Two dialogues whose first rows the crowd edited to the same words, so that the model is
        # asked the same from then on, and answers the same.
        number = index // _FAULT_EVERY
        question = "So you stand by it? What was it that you wanted them to understand?"
        turns[0] = turns[0]._replace(
            drafts=(turns[0].drafts[0], question),
            context=f"I said what I said to them {number} times, and I meant it.",
            response=None,
        )
        turns[1] = turns[1]._replace(drafts=(f"I have told {number} people about it so far.",))
    elif fault == "short_response":
        turns[-1] = last._replace(response="That was not kind.")
    elif fault == "personal_data":
        turns[-1] = last._replace(
            response="It would help to talk to someone, so write to me at sam@example.org today."
        )
    elif fault == "refusal":
        refusal = "I'm sorry, but as an AI language model I have no opinion on what they did."
        turns[-1] = last._replace(drafts=(refusal,), context=None)
    elif fault == "missing_rot":
        turns[-1] = last._replace(rots=[])
    elif fault == "rot_form":
        turns[1] = turns[1]._replace(rots=["Is it right to take what is not yours?"])
    return Dialogue(content_key(situation), situation, tuple(turns))


_FAULT_EVERY = 80
_FAULTS = ("duplicate", "short_response", "personal_data", "refusal", "missing_rot", "rot_form")


def _fault(index: int) -> str | None:
    """Return what is made to fail: every so many dialogues one, the duplicates two in a row."""
    if index % _FAULT_EVERY == 1 and index // _FAULT_EVERY % len(_FAULTS) == 0:
        return "duplicate"
    if index % _FAULT_EVERY:
        return None
    return _FAULTS[index // _FAULT_EVERY % len(_FAULTS)]


def _turn(number: int, index: int, source: random.Random, votes: tuple[int, int, int]) -> Turn:
    about = texts.scene(index)
    edited = source.random() < (0.3 if number == 0 else 0.4)
    if number == 0:
        drafts: tuple[str, ...] = (
            texts.first_utterance(source, about),
            texts.question(source, about),
        )
        context = texts.first_utterance(source, about) if edited else None
        answer = texts.question(source, about) if edited else None
    else:
        drafts = (texts.utterance(source, about),)
        context = texts.utterance(source, about) if edited else None
        answer = texts.response(source)
    rots = [_chosen(source, index) for _ in range(1 + (source.random() < 0.31))]
    names = [name for name, n in zip(_VOTE_NAMES, votes, strict=True) for _ in range(n)]
    source.shuffle(names)
    voters = source.sample(range(1, 400), schema.VOTES_PER_TURN)
    cast = tuple(
        (f"rater-{voter:03d}", name, texts.reason(source))
        for voter, name in zip(voters, names, strict=True)
    )
    return Turn(drafts, context, answer, list(dict.fromkeys(rots)), cast)


def _candidates(index: int) -> list[str]:
    """Return the rules-of-thumb of a seed."""
    source = random.Random(-1 - index)
    return [texts.rule_of_thumb(source) for _ in range(2 + index % 2)]


def _chosen(source: random.Random, index: int) -> str:
    """Return a rule-of-thumb that a worker chose, or, as in the release, more often wrote."""
    own = source.random() < SELECTED_SHARE
    return source.choice(_candidates(index)) if own else texts.rule_of_thumb(source)


def _draw_votes(source: random.Random, *, may_be_casual: bool) -> tuple[int, int, int]:
    """Draw a row's votes; behind an intervention no row of the release is casual."""
    kinds = _VOTES if may_be_casual else _VOTES[1:]
    drawn = source.choices([votes for votes, _ in kinds], [share for _, share in kinds])
    return drawn[0]


def _response_lines(one: Dialogue, index: int) -> Iterator[str]:
    for number, turn in enumerate(one.turns):
        row: dict[str, Any] = {
            "key": one.key,
            "turn": number,
            "annotator": f"writer-{(index + number // 2) % 211:03d}",
            "context": turn.context,
            "response": turn.response,
            "rots": turn.rots,
            "episode_done": number > 0 and number == len(one.turns) - 1,
        }
        yield json.dumps(row) + "\n"


def _annotation_lines(one: Dialogue) -> Iterator[str]:
    for number, turn in enumerate(one.turns):
        for annotator, vote, reason in turn.votes:
            row: dict[str, Any] = {
                "key": one.key,
                "turn": number,
                "annotator": annotator,
                "vote": vote,
                "reason": reason,
            }
            yield json.dumps(row) + "\n"


def _write_seeds(path: Path, dialogues: int) -> None:
    """Write seeds with two or three rules-of-thumb each, and a twentieth more that qualify not."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(_COLUMNS)
        for index in range(dialogues + dialogues // 20):
            pressure = "-1.0" if index < dialogues else "0.0"
            split = _split(index, dialogues)
            for number, rot in enumerate(_candidates(index)):
                writer.writerow(_seed_cells(index, number, rot, split, pressure))


def _seed_cells(index: int, number: int, rot: str, split: str, pressure: str) -> list[Any]:
    etc = f"reddit/confessions/s{index:05d}"
    return [
        "confessions", 1, split, f"{1 + (index + number) % 4}.0", "morality-ethics|social-norms",
        "care-harm", "char-0", 0, "it's bad", rot, "agency", "-1.0", "3.0", "legal", pressure,
        "char-0", "explicit", texts.scene(index).situation, etc, rot, f"rot/{etc}/{number}", 84,
        188, 2, "narrator|someone",
    ]  # fmt: skip


def _split(index: int, dialogues: int) -> str:
    place = index % dialogues * RELEASED_DIALOGUES // dialogues
    for name, size in _SPLITS:
        if place < size:
            return name
        place -= size
    raise AssertionError("the splits add up to the release")


def _warm(inputs: Inputs, made: Mapping[int, list[Dialogue]]) -> None:
    """Fill the cache with an answer to every request that drafting the dialogues makes."""
    settings = EngineSettings(inputs.base_url, MODEL, str(inputs.cache))
    prompts = load_prompts(PROMPTS)
    forms = RequestForms(settings)
    answered: dict[str, str] = {}
    for number, dialogues in made.items():
        cache = PartitionCache(settings.cache, number)
        for one in dialogues:
            seed = Seed(one.key, schema.SOCIAL_CHEMISTRY, one.situation)
            rows = {
                number: CrowdResponse(
                    turn.context,
                    turn.response,
                    number > 0 and number == len(one.turns) - 1,
                )
                for number, turn in enumerate(one.turns)
            }
            crowd = CrowdSoFar(rows, dict.fromkeys(rows, schema.VOTES_PER_TURN))
            caller = _Answering(forms, cache, one, answered)
            done, _ = replay(draft(seed, crowd, caller, prompts, DraftSettings()))
            assert done  # noqa: S101 - nothing in it waits
        cache.close()


class _Answering:
    """A ``Caller`` that answers with a dialogue's drafts and keeps the replies in the cache.

    ``answered`` are texts by request: two dialogues that ask the same get the same answer.
    """

    def __init__(
        self, forms: RequestForms, cache: PartitionCache, one: Dialogue, answered: dict[str, str]
    ) -> None:
        self._forms, self._cache, self._answered = forms, cache, answered
        self._texts = iter([text for turn in one.turns for text in turn.drafts])

    async def __call__(
        self, prompt: Prompt, variables: Mapping[str, Any], *, sample: int = 0
    ) -> Answer:
        form = self._forms.get(prompt, room=1)
        request = form.key(form.question(variables), sample)
        data = {"text": self._answered.setdefault(request, next(self._texts))}
        self._cache.put(request, prompt.id, 200, completion(json.dumps(data)))
        return Answer(CallClass.OK, request, data, model=MODEL)

    async def samples(
        self, prompt: Prompt, variables: Mapping[str, Any], samples: Sequence[int]
    ) -> list[Answer]:
        return [await self(prompt, variables, sample=sample) for sample in samples]


if __name__ == "__main__":
    synthesise(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
