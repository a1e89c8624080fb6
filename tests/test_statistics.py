"""Friedman, Iman-Davenport and Nemenyi against published figures and SciPy."""

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import friedmanchisquare

from npsvm_cvx.errors import NPSVMError
from npsvm_cvx.report.statistics import critical_difference, diagram, friedman, iman_davenport, nemenyi


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728)])
def test_nemenyis_q_is_the_published_one(k, q):
    # Demsar (2006), table 5(a): alpha = 0.05
    assert critical_difference(k, 1) / math.sqrt(k * (k + 1) / 6) == pytest.approx(q, abs=1e-3)


def test_nemenyis_distance_is_demsars():
    # Demsar (2006), section 3.2.2: four classifiers, 14 sets, 1.25; without the root of two it would be 1.7728
    assert critical_difference(4, 14) == pytest.approx(1.2536, abs=1e-4)


def test_iman_and_davenports_figure_is_demsars():
    # Demsar (2006), section 3.2.2: chi2 = 9.28 of four classifiers on 14 sets is F = 3.69
    assert iman_davenport(9.28, 4, 14) == pytest.approx(3.69, abs=0.005)


def test_ties_share_ranks_and_are_corrected_for():
    # SciPy corrects for ties as well
    table = pd.DataFrame({"a": [.9, .9, .5, .7], "b": [.9, .8, .5, .8], "c": [.8, .7, .5, .7]})  # fmt: skip
    found = friedman(table)
    assert found.statistic == pytest.approx(friedmanchisquare(*table.to_numpy().T).statistic)
    assert found.p == pytest.approx(friedmanchisquare(*table.to_numpy().T).pvalue)


def test_scores_are_rounded_before_they_are_ranked():
    table = pd.DataFrame({"a": [0.1 + 0.2, 0.5], "b": [0.3, 0.6]})
    assert friedman(table).ranks.each.iloc[0].tolist() == [1.5, 1.5]


def test_all_tied_is_no_statistic_and_no_diagram():
    found = friedman(pd.DataFrame({"a": [0.5, 0.6], "b": [0.5, 0.6], "c": [0.5, 0.6]}))
    assert math.isnan(found.statistic)
    assert (found.p, found.corrected_p, found.different) == (1.0, 1.0, False)
    axis = Figure().subplots()
    diagram(found, axis)
    assert axis.texts[0].get_text() == "all tie: no diagram"


def test_a_perfect_order_is_the_limit():
    found = friedman(pd.DataFrame({"a": [0.9] * 4, "b": [0.8] * 4}))
    assert found.statistic == pytest.approx(4.0)  # n (k - 1), its largest
    assert found.corrected == math.inf
    assert found.corrected_p == 0.0


def test_what_failed_is_dropped_and_named():
    table = pd.DataFrame(
        {"a": [0.9, 0.8, 0.7], "b": [0.8, np.nan, 0.6], "c": [np.nan] * 3}, index=["one", "two", "three"]
    )
    found = friedman(table)
    assert found.ranks.dropped == ("two",)
    assert found.ranks.failed == ("c",)
    assert (found.sets, found.contenders) == (2, 2)
    with pytest.raises(NPSVMError, match="two of each are needed"):
        friedman(table.loc[["one"]])


def test_nemenyis_p_values_agree_with_the_distance():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(12, 4)) + np.array([0.0, 0.5, 1.0, 2.0]), columns=list("abcd"))
    found = friedman(table)
    p = nemenyi(found)
    for one in "abcd":
        for other in "abcd":
            if one != other:
                apart = abs(found.ranks.mean[one] - found.ranks.mean[other]) > found.distance
                assert (p.loc[one, other] < 0.05) == apart
    axis = Figure(figsize=(6, 2)).subplots()
    diagram(found, axis)
    assert len(axis.texts) >= 4
