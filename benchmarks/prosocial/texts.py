"""Texts of made-up dialogues: as long as the release's, and enough like English for the filters.

All is drawn from word lists by the generator that is handed in, so that the same state of it gives
the same text.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

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
_OTHERS = (
    "your friends", "a neighbor", "your family", "people who trust you", "someone you love",
    "an old friend", "your coworkers", "a stranger", "your parents", "a younger child",
    "your roommate", "people in need", "a guest", "your teacher", "your partner", "the new kid",
    "your team", "those around you", "the people at home", "someone who is sick", "your boss",
    "a person on the bus", "the whole class", "somebody you hardly know",
)  # fmt: skip
_THINGS = (
    "the noise", "a few dollars", "the old car", "some cake", "the rent", "a broken window",
    "the last parking space", "an empty fridge", "the dishes", "a silly joke", "my own plans",
    "the wedding list", "a borrowed jacket", "the group project", "the dog next door",
    "a missed call", "the birthday gift", "one bad grade", "the guest room", "a spilled drink",
    "the heating bill", "an old promise", "the school play", "a long weekend", "the garden fence",
    "two concert tickets", "the coffee machine", "a wrong address", "the family photos",
    "my savings", "the late train", "a lost wallet",
)  # fmt: skip
_STARTS = (
    "To be honest,", "You know,", "Well,", "I mean,", "Look,", "Anyway,", "Between the two of us,",
    "If you ask me,", "Some days", "Most of the time", "Lately", "As far as I can tell,",
)  # fmt: skip
_CLAIMS = (
    "I don't see why they should care so much about {thing}",
    "it was only about {thing} and they will get over it",
    "I would do it again tomorrow just for {thing}",
    "nobody ever thinks about how I feel about {thing}",
    "I was sure that no one would find out about {thing}",
    "it is my life and {thing} is none of their business",
    "people make far too much of {thing} these days",
    "I have always been the one who gives in about {thing}",
    "they had it coming after what they said about {thing}",
    "there was no other way to make them listen about {thing}",
    "I just could not stand another word about {thing}",
    "we have not talked since that evening about {thing}",
    "I guess it might have hurt them to hear about {thing}",
)
_ENDS = (
    "and that is all", "but I won't say sorry", "and now they are upset", "so I left early",
    "and I still think about it", "but what would you do", "and I felt fine afterwards",
    "so now we don't speak", "even if it was unkind", "and it cost me nothing",
    "although my friends disagree", "but it was worth it",
)  # fmt: skip
_QUESTIONS = (
    "What made you feel that it was right?",
    "How do you think they felt when they heard about {thing}?",
    "Was there something about {thing} that upset you before?",
    "What were you hoping would happen after that?",
    "Have you told anyone else how you feel about {thing}?",
    "What would have had to be different that day?",
    "Do you think there was another way to deal with {thing}?",
    "How long has this been going on between you?",
)
_SYMPATHY = (
    "I understand that you were hurt, but", "That sounds like a hard day, though",
    "I can see why you felt that way, and still", "It's good that you tell me, because",
    "Nobody likes to be treated like that, yet", "I know how that feels, and I believe",
)  # fmt: skip
_ADVICE = (
    "it would be kind to tell {other} how you feel about {thing}",
    "talking about {thing} helps more than being angry with {other}",
    "you could say sorry to {other} and make up for {thing}",
    "{other} may forgive a mistake when you are honest about {thing}",
    "it helps to think what {thing} means to {other}",
    "a short walk before you answer {other} can change a lot",
    "a few honest words about {thing} can mend so much with {other}",
    "asking {other} before you act shows respect",
    "you will sleep better with nothing to hide from {other}",
)
_JUDGEMENTS = (
    "It's wrong to", "It's rude to", "You shouldn't", "You should never", "It's not okay to",
    "It's unkind to", "People should not", "It's bad to",
)  # fmt: skip
_ACTS = (
    "lie to", "take things from", "make fun of", "hurt", "break a promise to", "keep money from",
    "shout at", "turn away from", "talk badly about", "be unfair to", "waste the time of",
    "ignore", "look down on", "play a trick on", "argue with", "blame", "cheat", "be rude to",
)  # fmt: skip
_MANNERS = (
    "for fun", "to get ahead", "when you are tired", "behind their back", "in front of others",
    "for no reason", "because of money", "to feel better", "after a long day", "out of envy",
    "when they trust you", "to win", "at a party", "over small things", "without asking",
    "when nobody looks",
)  # fmt: skip
_FINDINGS = (
    "The speaker takes no responsibility for it", "This could hurt someone close to the speaker",
    "It is an unkind thing to do to anyone", "The speaker seems to see that it was wrong",
    "Nothing in this line is harmful to others", "The speaker may be about to hurt a person",
    "They look for excuses and blame others", "It is dishonest and breaks trust",
)  # fmt: skip
_BECAUSES = (
    "because nobody else was asked about {thing}", "and shows little respect",
    "which is not fair to {other}", "even though it looks harmless",
    "and someone should talk to them about {thing}", "so I chose this label",
    "as they admit themselves", "and it could get worse for {other}",
)  # fmt: skip

#: Scenes without a thing beside the reason, and all that there are.
_PLAIN_SCENES = len(_PEOPLE) * len(_DEEDS) * len(_TIMES) * len(_REASONS)
SCENES = _PLAIN_SCENES * (1 + len(_THINGS))
_STRIDE = 100_003  # a prime: neighbours in the order of indices have nothing in common


class Scene(NamedTuple):
    """What a dialogue is about."""

    person: str
    deed: tuple[str, str]
    time: str
    reason: str

    @property
    def situation(self) -> str:
        """The seed's text."""
        return f"{self.deed[0]} {self.person} {self.time} {self.reason}"


def scene(index: int) -> Scene:
    """Return a scene; no two indices below ``SCENES`` have the same."""
    again, number = divmod(index, _PLAIN_SCENES)
    number, person = divmod(number * _STRIDE % _PLAIN_SCENES, len(_PEOPLE))
    number, deed = divmod(number, len(_DEEDS))
    reason, time = divmod(number, len(_TIMES))
    also = f", what with {_THINGS[again - 1]}" if again else ""
    return Scene(_PEOPLE[person], _DEEDS[deed], _TIMES[time], f"{_REASONS[reason]}{also}")


def first_utterance(source: Random, about: Scene) -> str:
    """Return what the speaker begins with."""
    told = f"{source.choice(_STARTS)} {_filled(source, _CLAIMS)}."
    return f"I {about.deed[1]} {about.person} {about.time} {about.reason}. {told}"


def question(source: Random, about: Scene) -> str:
    """Return what the listener asks back."""
    return f"So you {about.deed[1]} {about.person[3:]}? {_filled(source, _QUESTIONS)}"


def utterance(source: Random, about: Scene) -> str:
    """Return what the speaker goes on with."""
    claim = f"{source.choice(_STARTS)} {_filled(source, _CLAIMS)}, {source.choice(_ENDS)}"
    return f"{claim} {about.time}."


def response(source: Random) -> str:
    """Return what a worker answers."""
    said = f"{source.choice(_SYMPATHY)} {_filled(source, _ADVICE)}."
    return f"{said} Maybe {_filled(source, _ADVICE)}." if source.random() < 0.3 else said


def rule_of_thumb(source: Random) -> str:
    """Return a rule-of-thumb."""
    act = f"{source.choice(_ACTS)} {source.choice(_OTHERS)} {source.choice(_MANNERS)}"
    return f"{source.choice(_JUDGEMENTS)} {act}."


def reason(source: Random) -> str:
    """Return the reason of a vote."""
    return f"{source.choice(_FINDINGS)} {_filled(source, _BECAUSES)}."


def _filled(source: Random, patterns: tuple[str, ...]) -> str:
    pattern = source.choice(patterns)
    return pattern.format(thing=source.choice(_THINGS), other=source.choice(_OTHERS))
