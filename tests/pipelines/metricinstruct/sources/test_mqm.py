from __future__ import annotations

import gzip
import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.metricinstruct.sources.mqm import (
    language_pair_of,
    marked,
    segment_scores,
    weight_of,
)
from transforms.errors import InputError

PAIRS = ("zh-en", "en-de", "en-ru")
HEADER = "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity\tcomment"
#: How the averages call the human translations of the annotated files.
REFERENCES = {"ref": "ref-A", "refB": "ref-B"}


@pytest.mark.parametrize(("pair", "scored"), [("ende", 7406), ("zhen", 7935)])
def test_segment_averages_are_those_of_the_repository(shared_data, read_file, pair, scored):
    frames = read_file("wmt_mqm", shared_data(f"wmt_mqm/mqm_ted_{pair}.tsv.gz"))
    averages = shared_data(f"wmt_mqm/mqm_ted_{pair}.avg_seg_scores.tsv").read_text("utf-8")
    published = {}
    for line in averages.splitlines()[1:]:
        system, score, segment = line.replace("\t", " ").split()
        if score != "None":
            published[system, segment] = score
    ours = {
        (REFERENCES.get(system, system), item.split("/")[-1]): f"{score:.6f}"
        for _, item, system, score in segment_scores(frames["human_errors"]).iter_rows()
    }
    assert len(published) == scored
    assert ours == published


@pytest.mark.parametrize(("pair", "opened", "repeated"), [("ende", 4016, 351), ("zhen", 5268, 512)])
def test_spans_have_offsets_even_where_their_text_occurs_more_than_once(
    shared_data, read_file, pair, opened, repeated
):
    path = shared_data(f"wmt_mqm/mqm_ted_{pair}.tsv.gz")
    frames = read_file("wmt_mqm", path)
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        raw = {n: line.split("\t") for n, line in enumerate(file, 1)}
    spans = frames["human_errors"].filter(pl.col("side") == "output")
    assert spans.height == opened + 1  # one is never closed
    ambiguous = 0
    for line, start, end, text in spans.select("line", "start", "end", "text").iter_rows():
        target = raw[line][6]
        plain = target.replace("<v>", "").replace("</v>", "")
        assert plain[start:end] == text
        assert start == target.index("<v>")
        ambiguous += "</v>" in target and plain.count(text) > 1
    assert ambiguous == repeated


def test_marks_in_the_source_and_unclosed_ones_are_kept(shared_data, read_file):
    german = read_file("wmt_mqm", shared_data("wmt_mqm/mqm_ted_ende.tsv.gz"))["human_errors"]
    chinese = read_file("wmt_mqm", shared_data("wmt_mqm/mqm_ted_zhen.tsv.gz"))["human_errors"]
    assert german.filter(pl.col("side") == "source").height == 14
    assert chinese.filter(pl.col("side") == "source").height == 349
    whole = chinese.filter(
        (pl.col("system") == "MiSS") & pl.col("item").str.ends_with("/827") & (pl.col("start") == 0)
    )
    assert whole["text"].to_list() == [
        "The same country, the same inequality measurement method, one problem after another."
    ]


def test_a_reference_is_what_humans_wrote_for_the_segment(shared_data, read_file):
    frames = read_file("wmt_mqm", shared_data("wmt_mqm/mqm_ted_zhen.tsv.gz"))
    given = frames["examples"]
    assert given["reference_system"].unique().to_list() == ["ref"]
    assert given.filter(pl.col("references").list.len() == 0).is_empty()
    assert not {"ref", "refB"} & set(given["system"].unique())


@pytest.mark.parametrize(
    ("text", "plain", "spans"),
    [
        ("plain", "plain", []),
        ("an <v>error</v> here", "an error here", [(3, 8)]),
        ("up to the <v>end", "up to the end", [(10, 13)]),
        ("<v>one</v> and <v>two</v>", "one and two", [(0, 3), (8, 11)]),
        ("  <v> led</v> by blanks ", "led by blanks", [(0, 3)]),
        ("stray </v> close", "stray  close", []),
        ("twice <v>opened <v>here</v>", "twice opened here", [(6, 17)]),
        ('a "quote" <v>"in"</v> it', 'a "quote" "in" it', [(10, 14)]),
    ],
)
def test_marked(text, plain, spans):
    assert marked(text) == (plain, spans)


@given(st.lists(st.sampled_from(["<v>", "</v>", " ", "a", "bc", "ü"]), max_size=12))
def test_marked_spans_lie_within_the_text(parts):
    plain, spans = marked("".join(parts))
    assert plain == "".join(part for part in parts if "v>" not in part).strip()
    assert all(0 <= start <= end <= len(plain) for start, end in spans)
    assert spans == sorted(spans)


@pytest.mark.parametrize(
    ("category", "severity", "weight"),
    [
        ("Accuracy/Mistranslation", "Major", 5.0),
        ("Fluency/Punctuation", "Major", 5.0),
        ("Fluency/Punctuation", "Minor", 0.1),
        ("Fluency/Grammar", "Minor", 1.0),
        ("Source error", "Major", 5.0),
        ("Non-translation!", "Major", 25.0),
        ("Style/Awkward", "Neutral", 0.0),
    ],
)
def test_weights(category, severity, weight):
    assert weight_of(category, severity) == weight


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("mqm_ted_ende.tsv.gz", "en-de"),
        ("mqm_newstest2020_zhen.tsv", "zh-en"),
        ("mqm-newstest2021_en-ru.tsv", "en-ru"),
    ],
)
def test_the_file_name_tells_the_language_pair(name, pair):
    assert language_pair_of(f"some/folder_zhen/{name}", PAIRS) == pair


def test_a_file_name_without_a_pair_is_refused():
    with pytest.raises(InputError, match="zh-en, en-de, en-ru"):
        language_pair_of("annotations.tsv", PAIRS)


def test_rows_may_be_narrower_or_wider_than_the_header(written, read_file):
    rows = [
        "A\td\t1\t1\tr1\tOne.\t<v>Ein</v>.\tOther\tMajor",  # no comment
        "A\td\t1\t1\tr2\tOne.\tEin.\tNo-error\tNo-error\t\textra",  # a cell too many
        "B\td\t1\t1\tr1\tOne.\tEin",  # what is needed is missing
    ]
    path = written("mqm_x_ende.tsv", "\n".join([HEADER, *rows]) + "\n")
    frames = read_file("wmt_mqm", path)
    assert frames["examples"].select("system", "hypothesis", "input_rows").rows() == [
        ("A", "Ein.", 2)
    ]
    assert frames["rejected"].select("rule", "field", "line").rows() == [("missing", "category", 4)]


def test_an_error_in_two_pieces_weighs_once(written, read_file):
    row = "A\td\t1\t1\tr1\tOne two.\t<v>Ein</v> und <v>zwei</v>.\tFluency/Grammar\tMajor\t"
    frames = read_file("wmt_mqm", written("mqm_x_ende.tsv", f"{HEADER}\n{row}\n"))
    assert frames["human_errors"]["text"].to_list() == ["Ein", "zwei"]
    assert segment_scores(frames["human_errors"])["score"].to_list() == [-5.0]


def test_annotators_who_differ_are_averaged(written, read_file):
    rows = [
        "A\td\t1\t1\tr1\tOne.\t<v>Ein</v>.\tFluency/Grammar\tMajor\t",
        "A\td\t1\t1\tr1\tOne.\tEin<v>.</v>\tFluency/Punctuation\tMinor\t",
        "A\td\t1\t1\tr2\tOne.\tEin.\tno-error\tno-error\t",
    ]
    path = written("mqm_x_ende.tsv", "\n".join([HEADER, *rows]) + "\n")
    scores = segment_scores(read_file("wmt_mqm", path)["human_errors"])
    assert scores["score"].to_list() == [pytest.approx(-2.55)]


@pytest.mark.parametrize(
    ("name", "is_used"),
    [
        ("mqm_newstest2021_ende.tsv", True),
        ("mqm_ted_ende.tsv", True),
        ("mqm_generalMT2022_ende.tsv", False),
        ("mqm_generalMT2023_ende.tsv", False),
    ],
)
def test_outputs_of_evaluation_years_are_left_out(written, read_file, name, is_used):
    header = "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n"
    row = "A\td\t1\t1\tr1\tSource text.\tEin <v>Text</v>.\tStyle/Awkward\tMinor\n"
    frames = read_file("wmt_mqm", written(name, header + row))
    assert frames["examples"].height == is_used
    rejected = frames["rejected"].select("rule", "value").rows()
    assert rejected == ([] if is_used else [("evaluation_year", re.search(r"20\d\d", name)[0])])
    assert frames["human_errors"].height == 1
