"""The facts of ProsocialDialog in one place: labels, votes, sources, splits, and every schema.

Rules and numbers stand in the paper (Kim et al. 2022) and the dataset card; the label rule is
theirs: any vote for intervention decides, else the number of votes for caution does.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa

CASUAL = "__casual__"
POSSIBLY = "__possibly_needs_caution__"
PROBABLY = "__probably_needs_caution__"
CAUTION = "__needs_caution__"
INTERVENTION = "__needs_intervention__"
#: Final labels by severity, 0 to 4 (the alphabetical order is another one: a known pitfall).
LABELS = (CASUAL, POSSIBLY, PROBABLY, CAUTION, INTERVENTION)

VOTE_CASUAL = "casual"
VOTE_CAUTION = "needs caution"
VOTE_INTERVENTION = "needs intervention"
VOTES = (VOTE_CASUAL, VOTE_CAUTION, VOTE_INTERVENTION)
VOTES_PER_TURN = 3

MAX_TURNS = 3
MIN_TURNS = 2
#: Share of dialogues that stop after four utterances (two rows) in the release.
TWO_TURN_SHARE = 0.15

SOCIAL_CHEMISTRY = "socialchemistry"
SBIC = "sbic"
ETHICS_AMT = "ethics_amt"
ETHICS_REDDIT = "ethics_reddit"
SOURCES = (SOCIAL_CHEMISTRY, SBIC, ETHICS_AMT, ETHICS_REDDIT)

SPLITS = ("train", "validation", "test")
#: Which copy of a seed text is kept when it stands in several splits: evaluation sets stay whole.
SPLIT_PRIORITY = ("test", "validation", "train")

# --- frames between the stages -----------------------------------------------------------------

#: One row per usable row of a seed file. ``rule`` is null when the row qualifies its seed, else the
#: selection rule it fails; ``rank`` is how far it got (higher is nearer to being selected).
SEED_ROWS: dict[str, pl.DataType | type[pl.DataType]] = {
    "key": pl.String,
    "file": pl.String,
    "line": pl.Int64,
    "source": pl.String,
    "split": pl.String,  # null where the source has no split of its own
    "situation": pl.String,  # for sbic: the post itself
    "etc": pl.String,
    "rot": pl.String,  # this row's candidate rule-of-thumb, or null
    "rule": pl.String,
    "rank": pl.Int32,
    "value": pl.String,  # what failed the rule
}

#: One row per selected seed; ``rots`` are up to five candidates, ``input_rows`` the rows behind it.
SEEDS: dict[str, pl.DataType | type[pl.DataType]] = {
    "key": pl.String,
    "source": pl.String,
    "split": pl.String,
    "situation": pl.String,
    "etc": pl.String,
    "rots": pl.List(pl.String),
    "file": pl.String,
    "line": pl.Int64,
    "input_rows": pl.Int64,
}

#: One row per utterance that a model drafted or a seed gave verbatim (``field`` context/response).
DRAFTS: dict[str, pl.DataType | type[pl.DataType]] = {
    "key": pl.String,
    "turn": pl.Int32,
    "field": pl.String,
    "author": pl.String,  # seed | model
    "text": pl.String,
    "prompt": pl.String,  # id of the prompt, null for a seed's own words
    "request": pl.String,  # hash of the request: the cache key
    "model": pl.String,  # that was asked
}

#: One row per response of a crowd worker, or of the model in a worker's role.
RESPONSES: dict[str, pl.DataType | type[pl.DataType]] = {
    "key": pl.String,
    "turn": pl.Int32,
    "annotator": pl.String,
    "context": pl.String,  # the utterance as edited, null where it stands as drafted
    "response": pl.String,  # null on turn 0 where the drafted question stands
    "rots": pl.List(pl.String),
    "candidates": pl.List(pl.String),  # rules-of-thumb that were shown
    "episode_done": pl.Boolean,  # true ends the dialogue with this turn; null: not said
    "author": pl.String,  # crowd | model
    "prompt": pl.String,
    "request": pl.String,
    "model": pl.String,
    "file": pl.String,
    "line": pl.Int64,
}

#: One row per safety vote.
ANNOTATIONS: dict[str, pl.DataType | type[pl.DataType]] = {
    "key": pl.String,
    "turn": pl.Int32,
    "annotator": pl.String,
    "vote": pl.String,
    "reason": pl.String,
    "author": pl.String,  # crowd | model
    "prompt": pl.String,
    "request": pl.String,
    "model": pl.String,
    "file": pl.String,
    "line": pl.Int64,
}

#: One row per key whose drafting did not get to its end.
UNFINISHED: dict[str, pl.DataType | type[pl.DataType]] = {
    "key": pl.String,
    "turn": pl.Int32,
    "outcome": pl.String,  # waiting | dead
    "step": pl.String,  # the prompt id of the call that failed, or the crowd step awaited
    # batch | budget wait for calls that a later run is to make; null when dead
    "waits_for": pl.String,  # response | annotations | call | batch | budget
    "error_class": pl.String,  # a CallClass value, null when waiting
    "detail": pl.String,
    "request": pl.String,
    "attempts": pl.Int32,
}

#: One row per turn of an assembled dialogue, before and after the filters.
TURNS: dict[str, pl.DataType | type[pl.DataType]] = {
    "key": pl.String,
    "turn": pl.Int32,
    "split": pl.String,
    "source": pl.String,
    "etc": pl.String,
    "context": pl.String,
    "response": pl.String,
    "response_author": pl.String,  # crowd | model (in a worker's role) | drafted
    "rots": pl.List(pl.String),
    "safety_label": pl.String,
    "safety_annotations": pl.List(pl.String),
    "safety_annotation_reasons": pl.List(pl.String),
    "episode_done": pl.Boolean,
    "input_rows": pl.Int64,
}

# --- what a version publishes ------------------------------------------------------------------

#: The released schema: eleven columns, in this order.
RELEASED = pa.schema(
    [
        pa.field("context", pa.string()),
        pa.field("response", pa.string()),
        pa.field("rots", pa.list_(pa.string())),
        pa.field("safety_label", pa.string()),
        pa.field("safety_annotations", pa.list_(pa.string())),
        pa.field("safety_annotation_reasons", pa.list_(pa.string())),
        pa.field("source", pa.string()),
        pa.field("etc", pa.string()),
        pa.field("dialogue_id", pa.int64()),
        pa.field("response_id", pa.int64()),
        pa.field("episode_done", pa.bool_()),
    ]
)

#: One row per published utterance.
PROVENANCE = pa.schema(
    [
        pa.field("dialogue_id", pa.int64()),
        pa.field("response_id", pa.int64()),
        pa.field("field", pa.string()),  # context | response
        pa.field("key", pa.string()),
        pa.field("author", pa.string()),  # seed | model | crowd | model as annotator
        pa.field("annotator", pa.string()),  # hashed; null for seed and model drafts
        pa.field("model", pa.string()),
        pa.field("prompt_id", pa.string()),
        pa.field("prompt_hash", pa.string()),
        pa.field("request_hash", pa.string()),
        pa.field("sampling", pa.string()),  # JSON
        pa.field("raw_text", pa.string()),  # as drafted, null where nobody drafted it
        pa.field("text", pa.string()),  # as published
        pa.field("edited", pa.bool_()),
    ]
)

#: One row per vote of a published turn.
PUBLISHED_ANNOTATIONS = pa.schema(
    [
        pa.field("dialogue_id", pa.int64()),
        pa.field("response_id", pa.int64()),
        pa.field("key", pa.string()),
        pa.field("annotator", pa.string()),  # hashed
        pa.field("author", pa.string()),  # crowd | model
        pa.field("vote", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("model", pa.string()),  # null where a crowd worker voted
        pa.field("prompt_id", pa.string()),
        pa.field("request_hash", pa.string()),
    ]
)

#: One row per thing that was dropped, by the rule that dropped it.
REJECTED = pa.schema(
    [
        pa.field("unit", pa.string()),  # seed_row | seed | response | annotation | dialogue | turn
        pa.field("rule", pa.string()),
        pa.field("value", pa.string()),  # what failed the rule
        pa.field("outcome", pa.string()),  # rejected | duplicate
        pa.field("key", pa.string()),
        pa.field("turn", pa.int32()),
        pa.field("field", pa.string()),
        pa.field("source", pa.string()),
        pa.field("split", pa.string()),
        pa.field("file", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("text", pa.string()),  # the text it is about, so that a user can judge the rule
        pa.field("input_rows", pa.int64()),  # rows of seed files that end here
    ]
)

#: One row per model call without a usable answer that ended a dialogue or cut its last turn.
DEAD = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("turn", pa.int32()),
        pa.field("step", pa.string()),
        pa.field("error_class", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("request_hash", pa.string()),
        pa.field("attempts", pa.int32()),  # null where an answer came and could not be used
        pa.field("ends_dialogue", pa.bool_()),  # false: only the third row is lost
        pa.field("source", pa.string()),
        pa.field("split", pa.string()),
        pa.field("situation", pa.string()),
        pa.field("input_rows", pa.int64()),
    ]
)

#: One row per dialogue that can go on when something arrives, with all a crowd worker needs.
WAITING = pa.schema(
    [
        pa.field("key", pa.string()),
        # response | annotations | call | batch | budget | limit
        pa.field("waits_for", pa.string()),
        pa.field("turn", pa.int32()),
        pa.field("have", pa.int32()),
        pa.field("need", pa.int32()),
        pa.field("source", pa.string()),
        pa.field("split", pa.string()),
        pa.field("situation", pa.string()),
        pa.field("utterances", pa.list_(pa.string())),  # the dialogue so far
        pa.field("rots", pa.list_(pa.string())),  # candidates
        pa.field("input_rows", pa.int64()),
    ]
)

#: Configurations of a version by name; the first is the default one.
CONFIGURATIONS: dict[str, pa.Schema] = {
    "default": RELEASED,
    "provenance": PROVENANCE,
    "annotations": PUBLISHED_ANNOTATIONS,
    "rejected": REJECTED,
    "dead": DEAD,
    "waiting": WAITING,
}
#: Configurations that come in the dataset's splits; the others are one split of their own name.
SPLIT_CONFIGURATIONS = ("default", "provenance", "annotations")
