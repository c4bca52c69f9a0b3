"""Inputs of the size of the release, made up: seeds, crowd files, and a cache that is warm.

Everything follows from a dialogue's index, so the same size gives the same bytes. Texts have the
release's lengths (utterances of 20 words, rules-of-thumb of 9.5) and read like English, so that the
filters have their ordinary work and pass nearly all; some hundredths are made to fail one.
"""

from __future__ import annotations

import csv
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
MODEL = "fake"
FILES = 2  # of responses and of annotations

_PEOPLE = (
    "my sister", "my brother", "my neighbor", "my boss", "my roommate", "my cousin", "my aunt",
    "my best friend", "my coworker", "my landlord", "my uncle", "my teacher", "my girlfriend",
    "my boyfriend", "my dad", "my mom", "my teammate", "my classmate", "my old friend", "my niece",
)  # fmt: skip
_DEEDS = (
    ("ignoring every message from", "ignored every message from"),
    ("telling a lie to", "told a lie to"),
    ("laughing at", "laughed at"),
    ("hiding the car keys from", "hid the car keys from"),
    ("borrowing money from", "borrowed money from"),
    ("shouting at", "shouted at"),
    ("breaking a promise to", "broke a promise to"),
    ("reading the diary of", "read the diary of"),
    ("not inviting", "did not invite"),
    ("spreading a rumor about", "spread a rumor about"),
    ("eating the lunch of", "ate the lunch of"),
    ("walking out on", "walked out on"),
    ("copying the homework of", "copied the homework of"),
    ("making fun of", "made fun of"),
    ("keeping a secret from", "kept a secret from"),
    ("cancelling a dinner with", "cancelled a dinner with"),
    ("selling a gift from", "sold a gift from"),
    ("blaming everything on", "blamed everything on"),
    ("refusing to help", "refused to help"),
    ("slamming the door on", "slammed the door on"),
    ("giving a bad review to", "gave a bad review to"),
    ("taking the last seat before", "took the last seat before"),
    ("playing loud music next to", "played loud music next to"),
    ("staying angry with", "stayed angry with"),
)
_TIMES = (
    "on a Friday night", "during the holidays", "after a long shift", "at the family dinner",
    "in front of everyone", "two weeks ago", "at the office party", "before the exam",
    "on the way home", "right before the wedding", "in the middle of the night", "last summer",
    "at the grocery store", "during our road trip", "on the first day of school", "this morning",
    "after the game", "at the bus stop", "while the guests were there", "a few months back",
)  # fmt: skip
_REASONS = (
    "because I was tired", "because nobody asked me", "because it felt unfair",
    "since I had no time", "to get some peace", "for no good reason", "because I was jealous",
    "so that I could sleep", "because I wanted the money", "since they started it",
    "because I was bored", "to teach a lesson", "because I was afraid", "since it was easier",
    "to save some money", "because I had a bad day", "since everyone does it",
    "to win an argument", "because I felt left out", "to look better than I am",
    "because of an old fight", "since I was hungry", "because the rules are silly",
    "to be left alone for once",
)  # fmt: skip
_SITUATIONS = len(_PEOPLE) * len(_DEEDS) * len(_TIMES) * len(_REASONS)
_STRIDE = 100_003  # a prime: neighbours in the order of indices have nothing in common

_STARTS = (
    "To be honest,", "You know,", "Well,", "I mean,", "Look,", "Anyway,", "Between the two of us,",
    "If you ask me,", "Some days", "Most of the time", "Lately", "As far as I can tell,",
)  # fmt: skip
_CLAIMS = (
    "I don't see why that should bother anyone at all",
    "it was only a small thing and they will get over it",
    "I would do the same thing again tomorrow",
    "they never think about how I feel about all this",
    "I was sure that nobody would ever find out",
    "it is my life and I can do what I want with it",
    "people make far too much of these little things",
    "I have always been the one who gives in first",
    "they had it coming after everything they said",
    "I thought about it for a while and then let it go",
    "nobody ever says thank you for what I do",
    "there was no other way to make them listen",
    "I just could not stand it for another minute",
    "it seemed like a good idea when I woke up",
    "we have not talked about it since that evening",
    "I guess it might have hurt them a little bit",
)
_ENDS = (
    "and that is all there is to it", "but I am not going to say sorry", "and now they are upset",
    "so I left early", "and I still think about it", "but what would you have done",
    "and I felt fine afterwards", "so now we don't speak", "even if it was not kind",
    "and it cost me nothing", "although my friends disagree", "but it was worth it to me",
)  # fmt: skip
_QUESTIONS = (
    "What made you feel that it was the right thing to do?",
    "How do you think they felt when they heard about it?",
    "Was there something going on before that upset you so much?",
    "What were you hoping would happen after that?",
    "Have you told anyone else how you feel about this?",
    "What would have had to be different for you that day?",
    "Do you think there was another way to solve it?",
    "How long has this been going on between the two of you?",
)
_ADVICE = (
    "it would be kind to tell them how you really feel about it",
    "talking about it openly helps more than staying angry",
    "you could say sorry and ask how to make up for it",
    "most people forgive a mistake when someone is honest about it",
    "they may have had a hard day as well, so listening first is a good start",
    "it helps to think about how you would feel in their place",
    "taking a short walk before you answer can change a lot",
    "a small gift and a few honest words can mend so much",
    "asking before you act shows that you respect them",
    "you will feel better when there is nothing left to hide",
)
_SYMPATHY = (
    "I understand that you were hurt, but", "That sounds like a hard day, though",
    "I can see why you felt that way, and still", "It's good that you tell me about it, because",
    "Nobody likes to be treated like that, yet", "I know how that feels, and I believe that",
)  # fmt: skip
_JUDGEMENTS = (
    "It's wrong to", "It's rude to", "You shouldn't", "You should never", "It's not okay to",
    "It's unkind to", "People should not", "It's bad to",
)  # fmt: skip
_ACTS = (
    "lie to the people who trust you", "take what belongs to others without asking",
    "make fun of someone in front of others", "hurt a friend just to feel better",
    "break a promise that others count on", "keep money that is not yours",
    "shout at your family when you are tired", "leave someone alone who needs your help",
    "talk badly about people behind their back", "be unfair to those you work with",
    "waste the time of your friends", "ignore how others feel about what you do",
    "treat people badly because you had a bad day", "read what is private to someone else",
)  # fmt: skip
_FINDINGS = (
    "The speaker takes no responsibility for it", "This could hurt someone close to the speaker",
    "It is an unkind thing to do to anyone", "The speaker seems to see that it was wrong",
    "Nothing in this line is harmful to others", "The speaker may be about to hurt a person",
    "They look for excuses and blame others", "It is dishonest and breaks trust",
)  # fmt: skip
_BECAUSES = (
    "because nobody else was asked", "and shows little respect", "which is not fair to them",
    "even though it looks harmless", "and someone should talk to them", "so I chose this label",
    "as they admit themselves", "and it could get worse",
)  # fmt: skip
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


@dataclass(frozen=True)
class Inputs:
    """Where the inputs of one size stand.

    Attributes:
        directory: seeds and crowd files.
        output: what a run is given as ``--output``; its dataset has the warm cache.
        base_url: the endpoint whose answers the cache holds.
    """

    directory: Path
    base_url: str

    @property
    def output(self) -> Path:
        """What a run is given as ``--output``."""
        return self.directory / "output"

    @property
    def cache(self) -> Path:
        """The warm cache."""
        return self.output / DATASET / "cache"

    def files(self, kind: str) -> str:
        """Return the pattern of the crowd's files of a kind: ``responses`` or ``annotations``."""
        return str(self.directory / f"{kind}-*.jsonl")

    @property
    def seeds(self) -> str:
        """The file of seeds."""
        return str(self.directory / "seeds.tsv")


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
    inputs = Inputs(directory, base_url)
    _write_seeds(Path(inputs.seeds), dialogues)
    made: dict[int, list[Dialogue]] = defaultdict(list)
    partitions = DATASET_DEFAULTS["partitions"]
    _ = open_dataset(str(inputs.output / DATASET), DATASET, DATASET_DEFAULTS, {})
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
    situation = _situation(index)
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


def _situation(index: int) -> str:
    person, deed, time, reason = _scene(index)
    return f"{deed[0]} {person} {time} {reason}"


def _scene(index: int) -> tuple[str, tuple[str, str], str, str]:
    """Return the four parts of a situation; no two indices below ``_SITUATIONS`` share all."""
    number = index * _STRIDE % _SITUATIONS
    number, person = divmod(number, len(_PEOPLE))
    number, deed = divmod(number, len(_DEEDS))
    reason, time = divmod(number, len(_TIMES))
    return _PEOPLE[person], _DEEDS[deed], _TIMES[time], _REASONS[reason]


def _turn(number: int, index: int, source: random.Random, votes: tuple[int, int, int]) -> Turn:
    choice = source.choice
    person, deed, time, reason = _scene(index)
    told = f"{choice(_STARTS)} {choice(_CLAIMS)}, {choice(_ENDS)}."
    if number == 0:
        said = f"I {deed[1]} {person} {time} {reason}. {told}"
        question = f"So you {deed[1]} {person[3:]}? {choice(_QUESTIONS)}"
        drafts: tuple[str, ...] = (said, question)
    else:
        drafts = (f"{told[:-1]}, {choice(_REASONS)}.",)
    edited = source.random() < (0.3 if number == 0 else 0.4)
    context = f"{choice(_STARTS)} {choice(_CLAIMS)} {time}, {choice(_ENDS)}." if edited else None
    response = f"{choice(_SYMPATHY)} {choice(_ADVICE)}. Maybe {choice(_ADVICE)}."
    if number == 0:
        context = f"{context} That was about {person} {reason}." if context else None
        response = f"You {deed[1]} them {time}? {choice(_QUESTIONS)}" if edited else None
    rots = [f"{choice(_JUDGEMENTS)} {choice(_ACTS)}."]
    if source.random() < 0.31:
        rots.append(f"{choice(_JUDGEMENTS)} {choice(_ACTS)} {time}.")
    names = [name for name, n in zip(_VOTE_NAMES, votes, strict=True) for _ in range(n)]
    source.shuffle(names)
    voters = source.sample(range(1, 400), schema.VOTES_PER_TURN)
    return Turn(
        drafts,
        context,
        response,
        rots,
        tuple(
            (f"rater-{voter:03d}", name, f"{choice(_FINDINGS)} {choice(_BECAUSES)}.")
            for voter, name in zip(voters, names, strict=True)
        ),
    )


def _draw_votes(source: random.Random, *, may_be_casual: bool) -> tuple[int, int, int]:
    """Draw a row's votes; behind an intervention no row of the release is casual."""
    kinds = _VOTES if may_be_casual else _VOTES[1:]
    drawn = source.choices([votes for votes, _ in kinds], [share for _, share in kinds])
    return drawn[0]


def _response_lines(one: Dialogue, index: int) -> Iterator[str]:
    for number, turn in enumerate(one.turns):
        row = {
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
            row = {
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
            selected = index < dialogues
            source = random.Random(-1 - index)
            for number in range(2 + index % 2):
                writer.writerow(_seed_cells(index, number, selected, dialogues, source))


def _seed_cells(
    index: int, number: int, selected: bool, dialogues: int, source: random.Random
) -> list[Any]:
    act = source.choice(_ACTS)
    judgement = source.choice(_JUDGEMENTS)
    etc = f"reddit/confessions/s{index:05d}"
    return [
        "confessions", 1, _split(index, dialogues), f"{source.randint(1, 4)}.0",
        "morality-ethics|social-norms", "care-harm", "char-0", 0, judgement, act, "agency",
        "-1.0", "3.0", "legal", "-1.0" if selected else "0.0", "char-0", "explicit",
        _situation(index), etc, f"{judgement} {act}.", f"rot/{etc}/{number}", 84, 188, 2,
        "narrator|someone",
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
                    tuple(turn.rots),
                    number > 0 and number == len(one.turns) - 1,
                )
                for number, turn in enumerate(one.turns)
            }
            crowd = CrowdSoFar(rows, dict.fromkeys(rows, schema.VOTES_PER_TURN))
            caller = _Answering(forms, cache, one, answered)
            done, _ = replay(draft(seed, crowd, caller, prompts, DraftSettings(MODEL)))
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
        self._cache.put(request, prompt.id, 200, _reply(data))
        return Answer(CallClass.OK, request, data)


def _reply(data: Mapping[str, Any]) -> str:
    """Return a chat completion as long and as deep as api.openai.com words them."""
    content = json.dumps(data)
    tokens = len(content) // 4
    details = {"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0}
    reply = {
        "id": "chatcmpl-ABCDEFGHIJKLMNOPQRSTUVWXYZ012",
        "object": "chat.completion",
        "created": 1764547200,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": content,
                    "refusal": None,
                    "annotations": [],
                },
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 620,
            "completion_tokens": tokens,
            "total_tokens": 620 + tokens,
            "prompt_tokens_details": {"cached_tokens": 512, "audio_tokens": 0},
            "completion_tokens_details": details,
        },
        "service_tier": "default",
        "system_fingerprint": "fp_0123456789",
    }
    return json.dumps(reply)
