"""Classifiers compared over data sets: average ranks, and Wilcoxon's signed-rank test with Holm's correction.

After Demšar (2006), *Statistical comparisons of classifiers over multiple data sets*, JMLR 7.  Knows tables of scores;
must not know what they are scores of.

A table has a row a data set and a column a contender.  Scores are rounded before anything is compared, so that
0.1 + 0.2 ties with 0.3; a contender that failed has NaN, is never ranked there, and is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import PermutationMethod, rankdata, wilcoxon

DECIMALS = 6
_EXACT = 13  # nonzero differences up to which ties leave all 2^n signs to be counted; above, the normal law is used
_EXACT_WITHOUT_TIES = 50


@dataclass(frozen=True)
class Ranks:
    """The average rank of each contender, one being best, and what was left out.

    Attributes
    ----------
    mean : Series
        A contender's average rank, ascending.
    each : DataFrame
        Its rank on each data set that was ranked; ties share the average of their places.
    dropped : tuple of str
        Data sets that were not ranked, since a contender failed there.
    failed : tuple of str
        Contenders that failed everywhere, and are not ranked.
    """

    mean: pd.Series
    each: pd.DataFrame
    dropped: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Two contenders over the data sets that both have a score on.

    Attributes
    ----------
    other : str
    sets : int
    wins, ties, losses : int
        Of the subject.
    difference : float
        Mean of the subject's score minus the other's.
    p, adjusted : float
        Of the two-sided test, before and after Holm's correction; NaN where no data set has both.
    smallest : float
        The smallest p that so many nonzero differences can have.
    note : str
    """

    other: str
    sets: int
    wins: int
    ties: int
    losses: int
    difference: float
    p: float
    adjusted: float
    smallest: float
    note: str = ""

    @property
    def nonzero(self) -> int:
        """How many differences are not zero, which is all that the test looks at."""
        return self.wins + self.losses


def average_ranks(scores: pd.DataFrame, decimals: int = DECIMALS) -> Ranks:
    """Rank contenders on each data set, the highest score first, and average.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [0.9, 0.3], "b": [0.8, 0.1 + 0.2], "c": [0.7, np.nan]}, index=["one", "two"])
    >>> average_ranks(table).dropped
    ('two',)
    >>> average_ranks(table[["a", "b"]]).mean.to_dict()
    {'a': 1.25, 'b': 1.75}
    """
    rounded = scores.round(decimals)
    failed = tuple(str(name) for name in rounded.columns[rounded.isna().all()])
    present = rounded.drop(columns=[name for name in rounded.columns if str(name) in failed])
    kept = present.dropna()
    dropped = tuple(str(name) for name in present.index.difference(kept.index, sort=False))
    each = (-kept).rank(axis=1, method="average")
    return Ranks(each.mean().sort_values(kind="stable"), each, dropped, failed)


def wilcoxon_holm(scores: pd.DataFrame, subject: str, decimals: int = DECIMALS) -> list[Comparison]:
    """Compare one contender with each other by the signed-rank test, two-sided, p-values adjusted by Holm.

    Zero differences are dropped and counted. The p-value is exact up to 13 nonzero differences, and up to 50 where no
    two are equally large. Where every difference is zero it is 1.

    Examples
    --------
    >>> table = pd.DataFrame({"new": [0.0, 0.0, 0.0, 1.0, 2.0, 3.0], "old": [0.0] * 6})
    >>> wilcoxon_holm(table, "new")[0].p  # three differences of one sign: 2 / 2^3
    0.25
    """
    rounded = scores.round(decimals)
    found = []
    for other in rounded.columns.drop(subject):
        pair = rounded[[subject, other]].dropna()
        difference = np.round((pair[subject] - pair[other]).to_numpy(dtype=float), decimals)
        wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
        nonzero = wins + losses
        note = "no data set has both" if not len(difference) else "" if nonzero else "every difference is zero"
        found.append(
            Comparison(
                other=str(other),
                sets=len(difference),
                wins=wins,
                ties=len(difference) - nonzero,
                losses=losses,
                difference=float(difference.mean()) if len(difference) else np.nan,
                p=signed_rank(difference) if len(difference) else np.nan,
                adjusted=np.nan,
                smallest=min(1.0, 2.0 ** (1 - nonzero)),
                note=note,
            )
        )
    adjusted = holm([one.p for one in found])
    return [replace(one, adjusted=float(p)) for one, p in zip(found, adjusted, strict=True)]


def signed_rank(difference: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the two-sided p-value of differences that are rounded already, zeros dropped; 1 where nothing is left.

    >>> signed_rank([2, 2, 3, 5, 7]), signed_rank([0, 0])
    (0.0625, 1.0)
    """
    values = np.asarray(difference, dtype=float)
    values = values[values != 0]
    if not len(values):
        return 1.0
    tied = len(np.unique(rankdata(np.abs(values)))) < len(values)
    if not tied and len(values) <= _EXACT_WITHOUT_TIES:
        method: object = "exact"
    elif len(values) <= _EXACT:
        method = PermutationMethod(n_resamples=2**_EXACT)  # no fewer than the 2^n signs there are: all of them
    else:
        method = "asymptotic"
    return float(wilcoxon(values, method=method).pvalue)


def holm(p: Sequence[float]) -> NDArray[np.float64]:
    """Return p-values adjusted for their number by Holm's step-down; NaN stays, and does not count.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=float)
    order = np.argsort(values)[: int((~np.isnan(values)).sum())]
    adjusted = np.full(len(values), np.nan)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * np.arange(len(order), 0, -1)))
    return adjusted
