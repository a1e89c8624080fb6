"""Many classifiers over many data sets: Friedman's test with Iman and Davenport's correction, and Nemenyi's distance.

After Demšar (2006), *Statistical comparisons of classifiers over multiple data sets*, JMLR 7.  Ranks and pairs are
:mod:`~npsvm_cvx.report.paired`'s; Nemenyi's p-values and the diagram are scikit-posthocs'.  Knows tables of scores;
must not know what they are scores of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import chi2, f, studentized_range

from ..errors import NPSVMError
from .paired import DECIMALS, Ranks, average_ranks


@dataclass(frozen=True)
class Friedman:
    """Whether contenders differ over data sets.

    Attributes
    ----------
    ranks : Ranks
    statistic, p : float
        Friedman's chi-squared, corrected for ties, with k - 1 degrees of freedom; NaN and 1 where all scores tie.
    corrected, corrected_p : float
        Iman and Davenport's F with k - 1 and (k - 1)(n - 1) degrees of freedom.
    distance : float
        Nemenyi's critical difference of average ranks.
    alpha : float
    """

    ranks: Ranks
    statistic: float
    p: float
    corrected: float
    corrected_p: float
    distance: float
    alpha: float

    @property
    def sets(self) -> int:
        """How many data sets were ranked."""
        return len(self.ranks.each)

    @property
    def contenders(self) -> int:
        """How many contenders were ranked."""
        return len(self.ranks.mean)

    @property
    def different(self) -> bool:
        """Whether the corrected test rejects that all are alike."""
        return self.corrected_p < self.alpha


def friedman(scores: pd.DataFrame, *, alpha: float = 0.05, decimals: int = DECIMALS) -> Friedman:
    r"""Test whether contenders rank alike.

    .. math::
        \chi^2 = \frac{12 n}{k (k + 1)} \sum_j \Big(R_j - \frac{k + 1}{2}\Big)^2 / T, \qquad
        F = \frac{(n - 1) \chi^2}{n (k - 1) - \chi^2}

    with average ranks :math:`R_j` of k contenders on n sets, and :math:`T` the share of the ranks' variance that ties
    leave.

    Parameters
    ----------
    scores : DataFrame
        A row a data set, a column a contender, larger is better. A set on which a contender has NaN is dropped and
        named, a contender with nothing but NaN too.
    alpha : float
    decimals : int
        Scores are rounded to so many.

    Raises
    ------
    NPSVMError
        Fewer than two contenders or data sets are left.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [0.9, 0.8, 0.7], "b": [0.8, 0.9, 0.6], "c": [0.5, 0.4, 0.3]})
    >>> found = friedman(table)
    >>> round(found.statistic, 4), round(found.corrected, 4)
    (4.6667, 7.0)
    """
    ranks = average_ranks(scores, decimals)
    n, k = ranks.each.shape
    if n < 2 or k < 2:
        raise NPSVMError(f"scores: {k} contenders on {n} data sets are left to rank; two of each are needed.")
    each = ranks.each.to_numpy()
    spread = float(((each - (k + 1) / 2) ** 2).sum())
    if spread == 0:  # all tie on every set: nothing to tell apart, and SciPy would say NaN
        return Friedman(ranks, math.nan, 1.0, math.nan, 1.0, critical_difference(k, n, alpha), alpha)
    between = n * float(((each.mean(axis=0) - (k + 1) / 2) ** 2).sum())
    statistic = n * (k - 1) * between / spread
    corrected = iman_davenport(statistic, k, n)
    return Friedman(
        ranks,
        statistic,
        float(chi2.sf(statistic, k - 1)),
        corrected,
        float(f.sf(corrected, k - 1, (k - 1) * (n - 1))) if math.isfinite(corrected) else 0.0,
        critical_difference(k, n, alpha),
        alpha,
    )


def iman_davenport(statistic: float, k: int, n: int) -> float:
    """Return F for Friedman's statistic of k contenders on n sets; infinite where they rank alike on every set."""
    room = n * (k - 1) - statistic
    return (n - 1) * statistic / room if room > 1e-9 * n * k else math.inf


def critical_difference(k: int, n: int, alpha: float = 0.05) -> float:
    r"""Return Nemenyi's :math:`q_\alpha \sqrt{k (k + 1) / (6 n)}`, q being the studentised range over the root of two.

    >>> round(critical_difference(4, 14), 4)
    1.2536
    """
    q = float(studentized_range.ppf(1 - alpha, k, np.inf)) / math.sqrt(2)
    return q * math.sqrt(k * (k + 1) / (6 * n))


def nemenyi(found: Friedman) -> pd.DataFrame:
    """Return the p-value of every two contenders, by Nemenyi's test."""
    return _posthocs().posthoc_nemenyi_friedman(found.ranks.each)


def diagram(found: Friedman, axis: Any) -> None:
    """Draw a critical-difference diagram: average ranks, and bars over those that are not told apart.

    Where all tie there is nothing to draw, and the axes say so.
    """
    if math.isnan(found.statistic):
        axis.text(0.5, 0.5, "all tie: no diagram", ha="center", va="center")
        axis.set_axis_off()
        return
    _posthocs().critical_difference_diagram(
        found.ranks.mean,
        nemenyi(found),
        ax=axis,
        label_fmt_left="{label}  {rank:.2f}",
        label_fmt_right="{rank:.2f}  {label}",
        color_palette=dict.fromkeys(found.ranks.mean.index, "#1c2430"),
        crossbar_props={"color": "#bd1f01", "linewidth": 2.2},
    )
    axis.set_title(f"critical difference {found.distance:.2f}", fontsize=9, pad=16)


def _posthocs() -> Any:
    try:
        import scikit_posthocs
    except ImportError as error:
        raise NPSVMError('the paper report needs scikit-posthocs: pip install "npsvm-cvx[paper]".') from error
    return scikit_posthocs
