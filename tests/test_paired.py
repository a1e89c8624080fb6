"""Ranks and signed ranks against brute force and published figures."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from npsvm_cvx.report.paired import average_ranks, holm, signed_rank, wilcoxon_holm


def brute_force(difference):
    """Return the two-sided p by going through every choice of signs."""
    values = np.array([d for d in difference if d != 0], dtype=float)
    if not len(values):
        return 1.0
    ranks = rankdata(np.abs(values))
    centre = ranks.sum() / 2
    seen = abs(ranks[values > 0].sum() - centre)
    signs = np.array(list(itertools.product([0, 1], repeat=len(values))))
    return float((np.abs(signs @ ranks - centre) >= seen - 1e-9).mean())


@pytest.mark.parametrize(
    "difference",
    [
        (0, 0, 0, 1, 2, 3),
        (2, 2, 3, 5, 7),
        (1, -1, 2, -2, 3),
        (-1, 4, 4, 6, -2, 9, 9, 1),
        (1,),
        (0, 0),
        tuple(np.random.default_rng(0).integers(-4, 5, 13)),
        tuple(np.random.default_rng(1).normal(size=12)),
    ],
)
def test_the_p_value_is_the_share_of_signs_as_extreme(difference):
    assert signed_rank(difference) == pytest.approx(brute_force(difference), abs=1e-12)


def test_equal_scores_have_p_one_and_a_note():
    # scipy's exact method with zeros kept says 0.03 of six equal scores
    scores = pd.DataFrame({"new": [0.1 + 0.2] * 6, "old": [0.3] * 6})
    (found,) = wilcoxon_holm(scores, "new")
    assert (found.p, found.adjusted, found.nonzero, found.ties) == (1.0, 1.0, 0, 6)
    assert found.note == "every difference is zero"


def test_a_failure_is_never_ranked():
    scores = pd.DataFrame(
        {"a": [0.9, 0.8, 0.7], "b": [0.8, np.nan, 0.7], "c": [np.nan] * 3, "d": [0.7, 0.9, 0.6]},
        index=["one", "two", "three"],
    )
    ranks = average_ranks(scores)
    assert ranks.failed == ("c",)
    assert ranks.dropped == ("two",)
    # one: a, b, d are 1, 2, 3; three: a and b share 1 and 2
    assert ranks.mean.to_dict() == {"a": 1.25, "b": 1.75, "d": 3.0}
    other = {found.other: found for found in wilcoxon_holm(scores, "a")}
    assert (other["b"].sets, other["d"].sets, other["c"].sets) == (2, 3, 0)
    assert np.isnan(other["c"].p)
    assert other["c"].note == "no data set has both"


def test_everything_failed_is_nothing_ranked():
    ranks = average_ranks(pd.DataFrame({"a": [np.nan], "b": [np.nan]}, index=["one"]))
    assert ranks.failed == ("a", "b")
    assert ranks.mean.empty


def test_ties_share_their_ranks():
    # Demsar (2006), section 3.2.2: average ranks are assigned in case of ties
    scores = pd.DataFrame({"a": [0.5, 0.5], "b": [0.5, 0.6], "c": [0.5, 0.4]})
    assert average_ranks(scores).each.to_numpy().tolist() == [[2, 2, 2], [2, 1, 3]]


def test_holm_against_its_definition():
    # sorted: .005 * 4, .01 * 3, .03 * 2, .04 * 1, each no less than the one before
    assert holm([0.04, 0.005, 0.03, 0.01]).tolist() == pytest.approx([0.06, 0.02, 0.06, 0.03])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert np.isnan(holm([0.01, np.nan])[1])
    assert holm([0.01, np.nan])[0] == 0.01


def test_the_smallest_p_says_what_so_few_sets_can_show():
    scores = pd.DataFrame({"new": [0.9, 0.8, 0.7, 0.6, 0.5], "old": [0.5, 0.5, 0.5, 0.5, 0.5]})
    (found,) = wilcoxon_holm(scores, "new")
    assert (found.wins, found.ties, found.losses) == (4, 1, 0)
    assert found.p == found.smallest == 2 / 2**4
    assert found.difference == pytest.approx(0.2)
