"""The five-label rule: from a turn's three safety votes to its final label.

Any vote for intervention decides; without one, the number of votes for caution does (Kim et al.
2022, section 3.4 and the dataset card). The order of the votes never matters.
"""

from __future__ import annotations

import polars as pl

from pipelines.prosocial import schema


def label_of(votes: pl.Expr) -> pl.Expr:
    """Return the final label of each list of votes (String).

    Args:
        votes: a column of lists of votes, see ``schema.VOTES``.

    Returns:
        One of ``schema.LABELS``; null where the list is not three known votes, for the rule says
        nothing about such a list.
    """
    interventions = votes.list.count_matches(schema.VOTE_INTERVENTION)
    cautions = votes.list.count_matches(schema.VOTE_CAUTION)
    casuals = votes.list.count_matches(schema.VOTE_CASUAL)
    known = interventions + cautions + casuals
    complete = (known == schema.VOTES_PER_TURN) & (votes.list.len() == schema.VOTES_PER_TURN)
    by_cautions = cautions.replace_strict(
        list(range(schema.VOTES_PER_TURN + 1)),
        list(schema.LABELS[: schema.VOTES_PER_TURN + 1]),
        default=None,
        return_dtype=pl.String,
    )
    decided = pl.when(interventions > 0).then(pl.lit(schema.INTERVENTION)).otherwise(by_cautions)
    return pl.when(complete).then(decided)


def severity_of(label: pl.Expr) -> pl.Expr:
    """Return the severity of each label, 0 (casual) to 4 (intervention); null for another text."""
    return label.replace_strict(
        list(schema.LABELS), list(range(len(schema.LABELS))), default=None, return_dtype=pl.Int32
    )
