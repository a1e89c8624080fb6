"""From the tidy table to the cells of the tables: what comes out here, and beside it what the paper prints.

Knows the tidy table and the paper's figures.  Must not know how anything is run or looks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from . import published, sets
from .protocol import Protocol
from .results import parsed
from .work import PAPER, family

REPRODUCES, EXPLAINED, DIFFERS = "reproduces", "explained", "differs"
UNKNOWN, NOT_RUN, FAILED = "no figure", "not run", "failed"


@dataclass(frozen=True)
class Cell:
    """A method on a set with a kernel, accuracies in percent.

    Attributes
    ----------
    accuracy, sd : float
        Best mean over the folds, as the paper reports it, and the folds' standard deviation there.
    nested, nested_sd : float
        With every fold's setting chosen on other folds; NaN where there is one fold only.
    folds : int
    setting : str
    seconds : float
        Training time a fold, averaged over the settings.
    late : float
        Share of the trainings that were stopped before they reached the tolerance.
    """

    accuracy: float
    sd: float
    nested: float
    nested_sd: float
    folds: int
    setting: str
    seconds: float
    late: float

    @property
    def optimism(self) -> float:
        """What choosing the setting on the folds that judge it adds."""
        return self.accuracy - self.nested

    @property
    def error(self) -> float:
        """The standard error of the mean over the folds, corrected for training parts that overlap.

        Nadeau, Bengio (2003): the variance over k folds times ``1/k + 1/(k - 1)`` in place of ``1/k``.
        """
        return self.sd * math.sqrt(1 / self.folds + 1 / (self.folds - 1)) if self.folds > 1 else math.nan


Cells = Mapping[tuple[str, str, str], Cell]
"""By set, kernel and method."""


Failures = Mapping[tuple[str, str, str], str]
"""What went wrong, by set, kernel and method."""


def of(table: pd.DataFrame, protocol: Protocol) -> Cells:
    """Return every cell all of whose kernel parameters were run, and none of which failed."""
    found: dict[tuple[str, str, str], Cell] = {}
    failed = failures(table)
    for (dataset, kernel, method), rows in table.groupby(["dataset", "kernel", "method"], sort=False):
        if (dataset, kernel, method) not in failed and len(rows) == (1 if kernel == "linear" else len(protocol.gammas)):
            found[str(dataset), str(kernel), str(method)] = _cell(rows)
    return found


def failures(table: pd.DataFrame) -> Failures:
    """Return what went wrong in the cells that have no figure for it."""
    rows = table[table["failed"] != ""]
    return {
        (str(row["dataset"]), str(row["kernel"]), str(row["method"])): str(row["failed"])
        for row in rows.to_dict("records")
    }


def _cell(rows: pd.DataFrame) -> Cell:
    slices = [parsed(row) for row in rows.to_dict("records")]
    sizes = np.array(slices[0]["sizes"])
    shares = [100 * np.array(each["correct"]) / sizes for each in slices]
    best = int(np.argmax([round(float(share.mean()), 8) for share in shares]))
    chosen = []
    for fold, size in enumerate(sizes):
        offers = [each["chosen"][fold] for each in slices if each["chosen"]]
        if offers:
            chosen.append(100 * offers[int(np.argmax([score for score, _ in offers]))][1] / size)
    gamma = rows["gamma"].iloc[best]
    setting = dict(slices[best]["setting"]) if math.isnan(gamma) else {"gamma": gamma, **slices[best]["setting"]}
    return Cell(
        float(shares[best].mean()),
        _sd(shares[best]),
        float(np.mean(chosen)) if chosen else math.nan,
        _sd(np.array(chosen)),
        len(sizes),
        ", ".join(f"{name} = {power(value)}" for name, value in setting.items()),
        float(np.mean([each["seconds"] for each in slices])),
        sum(each["late"] for each in slices) / sum(each["trained"] for each in slices),
    )


def frame(found: Cells, rows: Sequence[Beside]) -> pd.DataFrame:
    """Return every cell as a line of a table, with the paper's figure where it has one."""
    theirs = {(row.dataset, row.kernel, row.method): row for row in rows}
    lines = []
    for (dataset, kernel, method), cell in found.items():
        row = theirs.get((dataset, kernel, method))
        known = row is not None and not math.isnan(row.theirs)
        lines.append(
            {
                **{"dataset": dataset, "kernel": kernel, "method": method},
                **{name: value for name, value in cell.__dict__.items() if name != "late"},
                "optimism": cell.optimism,
                "standard_error": cell.error,
                "table": f"Table {row.table}, {row.row}, {row.column}" if row else "",
                "paper": row.theirs if row else math.nan,
                "verdict": row.verdict if row and known else "",
            }
        )
    return pd.DataFrame(lines)


def _sd(values: Any) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def power(value: float) -> str:
    """Return a power of two as one.

    >>> power(0.25), power(1.0), power(3.0), power(4.0)
    ('2^-2', '1', '3', '2^2')
    """
    exponent = math.log2(value)
    return f"2^{int(exponent)}" if exponent == int(exponent) and exponent not in (0, 1) else f"{value:g}"


# --- beside the paper --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Beside:
    """A cell of the paper's tables and ours.

    Attributes
    ----------
    table : int
    row, column : str
        As the paper prints them.
    dataset, kernel, method : str
        Ours.
    ours : Cell or None
        None where it was not run.
    theirs, theirs_sd, theirs_seconds : float
        The paper's; NaN where not available.
    why : str
        The sentence of the experiment that explains the difference; empty where none does.
    failure : str
        What went wrong, where it did.
    """

    table: int
    row: str
    column: str
    dataset: str
    kernel: str
    method: str
    ours: Cell | None
    theirs: float
    theirs_sd: float
    theirs_seconds: float
    why: str = ""
    failure: str = ""

    @property
    def difference(self) -> float:
        """Ours minus the paper's, in points."""
        return math.nan if self.ours is None else self.ours.accuracy - self.theirs

    @property
    def agrees(self) -> bool:
        """Whether the paper's figure is within two standard deviations of ours over the folds."""
        return self.ours is not None and abs(self.difference) <= 2 * self.ours.sd

    @property
    def close(self) -> bool:
        """Whether it is even within two standard errors of our mean."""
        return self.ours is not None and abs(self.difference) <= 2 * self.ours.error

    @property
    def verdict(self) -> str:
        """What to say of the cell."""
        if self.ours is None:
            return FAILED if self.failure else NOT_RUN
        if math.isnan(self.theirs):
            return UNKNOWN
        if self.agrees:
            return REPRODUCES
        return EXPLAINED if self.why else DIFFERS


def beside(found: Cells, failed: Failures, why: Mapping[tuple[int, str, str], str]) -> list[Beside]:
    """Return every cell of Tables 3 to 6, in the paper's order.

    Parameters
    ----------
    found : Cells
    failed : Failures
    why : mapping of (table, row, column) to str
        What experiments explain.
    """
    theirs = published.accuracies().set_index(["table", "row", "column"])
    rows = []
    for table, kernel in published.KERNELS.items():
        names = sets.TWO_CLASS if table in (3, 4) else sets.SEVERAL
        for dataset in names:
            for method, column in PAPER[family(dataset)].items():
                row = sets.LABELS[dataset]
                printed = theirs.loc[table, row, column]
                rows.append(
                    Beside(
                        table,
                        row,
                        column,
                        dataset,
                        kernel,
                        method,
                        found.get((dataset, kernel, method)),
                        float(printed["accuracy"]),
                        float(printed["std"]),
                        float(printed["seconds"]),
                        why.get((table, row, column), ""),
                        failed.get((dataset, kernel, method), ""),
                    )
                )
    return rows
