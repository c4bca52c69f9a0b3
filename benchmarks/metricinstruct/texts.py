"""Texts of made-up examples: English from word lists, other languages from theirs.

All is drawn by the generator that is handed in, so that the same state of it gives the same text.
"""

from __future__ import annotations

import re
from random import Random

_SUBJECTS = (
    "The museum", "Her older brother", "The city council", "A young engineer", "The river ferry",
    "Our neighbor", "The football club", "The bakery", "A small team", "The orchestra", "My aunt",
    "The research group", "The harbor master", "The new teacher", "A local farmer", "The library",
    "The mountain guide", "Their landlord", "The printing house", "A retired pilot", "The choir",
    "The train company", "The gardener", "The night shift", "A visiting scholar", "The pharmacy",
    "The village school", "The film crew", "A group of students", "The bicycle shop",
)  # fmt: skip
_VERBS = (
    "opened", "repaired", "painted", "moved", "sold", "described", "counted", "planned", "cleaned",
    "borrowed", "measured", "visited", "photographed", "renamed", "replaced", "lost", "returned",
    "studied", "improved", "ordered", "presented", "found", "rebuilt", "discussed", "shared",
)  # fmt: skip
_OBJECTS = (
    "the old lighthouse", "forty wooden chairs", "a collection of maps", "the main bridge",
    "two hundred apples", "the winter timetable", "a set of brass bells", "the northern road",
    "an early draft of the report", "the village well", "three blue lanterns", "a box of letters",
    "the concert hall", "a pair of red boots", "the morning newspaper", "a field of barley",
    "the town archive", "seven small boats", "the glass roof", "a recipe for plum cake",
    "the tram depot", "a painting of the bay", "the water tower", "twelve folding tables",
    "the ticket office", "a barrel of cider", "the stone staircase", "an unusual telescope",
    "the summer program", "a list of donors", "the copper kettle", "a basket of eggs",
)  # fmt: skip
_TIMES = (
    "in the spring of 1987", "last Tuesday", "after the long storm", "before the first snow",
    "during the annual fair", "on the third of May", "at the end of the season", "in 2004",
    "within two weeks", "for the fifth time", "early in the morning", "over the weekend",
    "shortly after noon", "when the rain stopped", "at a cost of 300 dollars", "in late autumn",
    "on the way to the coast", "with the help of volunteers", "despite the high price",
    "while the guests were asleep", "because the lease had ended", "to everyone's surprise",
)  # fmt: skip
_LINKS = (
    ", and", ", but", ", so", ", while", ", because", ". Later", ". In the end", ". Meanwhile",
)  # fmt: skip
_QUESTIONS = (
    "Why is it that {} {} {} {}?", "How can one explain that {} {} {} {}?",
    "What happened after {} {} {} {}?", "Can you tell me how {} {} {} {}?",
)  # fmt: skip
_NAMES = ("Amanda", "Jerry", "Olivia", "Ben", "Tina", "Rob", "Hannah", "Omar", "Lena", "Igor")
_UNITS = ("apples", "pencils", "tickets", "marbles", "stamps", "cookies", "shells", "books")
_FOREIGN_TEXTS = {
    "de": "die der das Stadt Brücke Übung größere Häuser wurde gestern langsam über Straße "
    "Mädchen erzählte später öffnete früh zwei Bücher unter dem Dach grüne Tür während "
    "schließlich niemand wusste warum Flüsse nördlich liegen möglich Jahr",
    "ru": "город мост старый построили весной река медленно течёт между домами новые книги "
    "никто не знал почему вечером открыли дверь музея дети пели песню поезд опоздал на час "
    "после дождя улицы были пусты",
    "cs": "město most starý postavili jaře řeka pomalu teče mezi domy nové knihy nikdo nevěděl "
    "proč večer otevřeli dveře muzea děti zpívaly píseň vlak přijel pozdě dešti ulice byly",
    "fr": "la ville le pont ancien fut construit au printemps une rivière coule lentement entre "
    "les maisons personne ne savait pourquoi le musée a ouvert hier après la pluie très tôt",
    "zh": "城市 桥梁 春天 河流 缓慢 之间 房屋 没有 人 知道 博物馆 昨天 开放 孩子们 唱歌 火车 晚点 "
    "雨后 街道 空荡 新书 老师 决定 搬到 北方 因为 价格 太高",
}
_FOREIGN = {language: text.split() for language, text in _FOREIGN_TEXTS.items()}
_WORD = re.compile(r"\S+")


def sentence(source: Random) -> str:
    """Return an English sentence of some twenty words; or two shorter ones."""
    first = f"{_clause(source)}{source.choice(_LINKS)} "
    second = _clause(source)
    return f"{first}{second[0].lower()}{second[1:]}."


def sentences(source: Random, number: int) -> str:
    """Return so many sentences on one line."""
    return " ".join(sentence(source) for _ in range(number))


def paragraphs(source: Random, number: int) -> str:
    """Return so many paragraphs of two sentences each, with blank lines between them."""
    return "\n\n".join(sentences(source, 2) for _ in range(number))


def foreign(source: Random, language: str) -> str:
    """Return a sentence in ``language``: en, or one that texts are translated from or to."""
    if language == "en":
        return sentence(source)
    words = _FOREIGN[language]
    if language == "zh":
        return "".join(source.choices(words, k=source.randint(14, 24))) + "。"
    text = " ".join(source.choices(words, k=source.randint(14, 24)))
    return f"{text[0].upper()}{text[1:]}."


def question(source: Random) -> str:
    """Return a question."""
    subject = source.choice(_SUBJECTS)
    return source.choice(_QUESTIONS).format(
        subject[0].lower() + subject[1:],
        source.choice(_VERBS),
        source.choice(_OBJECTS),
        source.choice(_TIMES),
    )


def dialogue(source: Random, turns: int) -> str:
    """Return a chat of two people, a line each turn."""
    names = source.sample(_NAMES, 2)
    return "\r\n".join(f"{names[turn % 2]}: {_clause(source)}." for turn in range(turns))


def table(source: Random) -> tuple[list[str], list[str]]:
    """Return the headers and the cells of a row of a table."""
    number = source.randint(4, 7)
    headers = source.sample(("name", "year", "place", "builder", "length", "owner", "rank"), number)
    return headers, [source.choice((*_OBJECTS, *_TIMES)) for _ in headers]


def tuples(source: Random) -> list[list[str]]:
    """Return triples of one subject."""
    subject = source.choice(_SUBJECTS)
    return [
        [subject, source.choice(("OWNER", "BUILT", "PART_OF", "CITY")), source.choice(_OBJECTS)]
        for _ in range(source.randint(2, 5))
    ]


def problem(source: Random) -> tuple[str, str]:
    """Return a word problem and its solution, worked out line by line."""
    name, unit = source.choice(_NAMES), source.choice(_UNITS)
    boxes, each, gone = source.randint(3, 40), source.randint(4, 60), source.randint(2, 11)
    asked = (
        f"{_clause(source)}. {name} has {boxes} boxes with {each} {unit} in each of them, and "
        f"gives away {gone} {unit}. How many {unit} does {name} have left?"
    )
    whole = boxes * each
    solved = (
        f"There are {boxes} * {each} = <<{boxes}*{each}={whole}>>{whole} {unit} in the boxes.\n"
        f"{name} keeps {whole} - {gone} = <<{whole}-{gone}={whole - gone}>>{whole - gone} {unit}.\n"
        f"So {name} has {whole - gone} {unit} left, which is what was asked.\n#### {whole - gone}"
    )
    return asked, solved


def phrase(source: Random, like: str = "") -> str:
    """Return words that may stand in place of ``like``, in its script."""
    if like and not like.isascii():
        script = [words for words in _FOREIGN.values() if any(word in like for word in words)]
        words = script[0] if script else _FOREIGN["fr"]
        gap = "" if words is _FOREIGN["zh"] else " "
        return gap.join(source.choices(words, k=source.randint(1, 3)))
    return source.choice((_OBJECTS, _TIMES, _VERBS)[source.randrange(3)])


def altered(source: Random, text: str, places: int) -> str:
    """Return ``text`` with other words in so many places, as a system may have written it."""
    for _ in range(places):
        start, end = span(source, text)
        text = text[:start] + phrase(source, text[start:end]) + text[end:]
    return text


def span(source: Random, text: str, low: int = 0, high: int | None = None) -> tuple[int, int]:
    """Return where one to four words of a line stand that begin between ``low`` and ``high``.

    In a text without blanks it is two to six characters.
    """
    high = len(text) if high is None else high
    words = [word.span() for word in _WORD.finditer(text, low, high)]
    if not words:
        return low, high
    first = source.randrange(len(words))
    last = min(len(words) - 1, first + source.choice((0, 0, 1, 1, 2, 3)))
    start, end = words[first][0], words[last][1]
    line = text.find("\n", start, end)
    if line >= 0:
        end = len(text[:line].rstrip())
    if end - start > 120 or (len(words) == 1 and not text.isascii()):
        start = source.randrange(start, max(start + 1, end - 6))
        end = min(end, start + source.randint(2, 6))
    while end - start > 1 and text[end - 1] in ".,;:!?":
        end -= 1
    return start, end


def _clause(source: Random) -> str:
    return (
        f"{source.choice(_SUBJECTS)} {source.choice(_VERBS)} {source.choice(_OBJECTS)} "
        f"{source.choice(_TIMES)}"
    )
