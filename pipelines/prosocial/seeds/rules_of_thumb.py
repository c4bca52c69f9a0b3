"""Rules-of-thumb from stereotypes: what is wrong with thinking one, or doing what it says.

A stereotype of SBIC is free text: a statement ("cat owners are lonely"), a statement that lacks its
subject ("are lonely", "lonely"), or what the post does to a group ("makes fun of cat owners"). The
first two become "It's not right to think <statement>", the third "You shouldn't <base verb> ...".
There is no tagger here. A text is a verb phrase when its first word is a form of one of the verbs
by which annotators say what a post does, and no finite verb follows it at once ("attacks are ..."
has a noun there); all other texts are statements.
"""

from __future__ import annotations

import re

#: Verbs by which annotators describe what a post does, in base form.
VERBS = (
    *("abuse", "accuse", "assume", "attack", "beat", "belittle", "blame", "bully", "call"),
    *("compare", "complain", "condemn", "condone", "criticize", "degrade", "dehumanize"),
    *("demean", "denigrate", "deny", "deride", "despise", "devalue", "discriminate", "dismiss"),
    *("disrespect", "downplay", "encourage", "endorse", "equate", "excuse", "exclude"),
    *("fetishize", "generalize", "glorify", "harass", "hate", "hit", "hurt", "ignore", "imply"),
    *("insult", "joke", "judge", "justify", "kill", "laugh", "lump", "make", "minimize", "mock"),
    *("objectify", "offend", "portray", "promote", "punish", "put", "rape", "reduce", "ridicule"),
    *("romanticize", "sexualize", "shame", "slander", "stereotype", "suggest", "support", "tease"),
    *("threaten", "treat", "trivialize", "undermine", "use", "view", "vilify"),
)

#: Finite verbs that can't open a statement: a text that starts with one lacks its subject.
_PREDICATE = frozenset(
    {
        *("are", "is", "was", "were", "am", "aren't", "isn't", "wasn't", "weren't"),
        *("can", "can't", "cannot", "could", "couldn't", "should", "shouldn't", "will", "won't"),
        *("would", "wouldn't", "must", "mustn't", "do", "don't", "does", "doesn't", "did"),
        *("didn't", "have", "haven't", "has", "hasn't", "had", "need", "deserve", "deserves"),
    }
)
#: Words whose capital at the start of a sentence goes when they come to stand inside one.
_LOWERED = frozenset(
    {
        *("the", "a", "an", "all", "some", "most", "many", "every", "only", "no", "these"),
        *("those", "this", "they", "people", "we", "you", "it", "there", "if"),
    }
)
_DOUBLED = frozenset({"hit", "put"})
_NO_WORD = re.compile(r"[^\w']+")


def _forms(base: str) -> tuple[str, str, str]:
    """Return base form, third person and -ing form of a verb of VERBS."""
    if base[-1] == "y" and base[-2] not in "aeou":
        third = base[:-1] + "ies"
    elif base.endswith(("s", "sh", "ch", "x", "z")):
        third = base + "es"
    else:
        third = base + "s"
    if base in _DOUBLED:
        gerund = base + base[-1] + "ing"
    elif base.endswith("e"):
        gerund = base[:-1] + "ing"
    else:
        gerund = base + "ing"
    return base, third, gerund


_BASE_FORM = {form: base for base in VERBS for form in _forms(base)}


def rule_of_thumb(stereotype: str, subject: str | None = None) -> str | None:
    """Return the rule-of-thumb that speaks against ``stereotype``, None where it has no words.

    Args:
        stereotype: free text of an annotator.
        subject: the group it is about, for texts that lack their subject (else "people"); its
            spelling is taken where the text starts with it.
    """
    text = " ".join(stereotype.split()).strip(' .;,!?"').strip()
    words = [_NO_WORD.sub("", word.replace("’", "'")).casefold() for word in text.split(" ")]
    if not any(any(letter.isalpha() for letter in word) for word in words):
        return None
    first, following = words[0], words[1] if len(words) > 1 else ""
    rest = text.split(" ", 1)[1] if len(words) > 1 else ""
    base = _BASE_FORM.get(first)
    if base is not None and rest and following not in _PREDICATE:
        return f"You shouldn't {base} {rest}."
    group = " ".join((subject or "people").split())
    if first in _PREDICATE:
        statement = f"{group} {first} {rest}".strip()
    elif not rest:
        statement = f"{group} are {text}"
    elif subject and text[: len(subject)].casefold() == subject.casefold():
        statement = subject + text[len(subject) :]
    elif first in _LOWERED:
        statement = f"{first} {rest}"
    else:
        statement = text
    return f"It's not right to think {statement}."
