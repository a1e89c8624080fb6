"""What does not reproduce, asked of other forms of the data: each answer is a run of this report, not a remark.

Knows cells and the paper's figures.  Must not know how anything is run or looks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from . import published, sets
from .cells import Cell, Cells, power
from .protocol import Protocol
from .results import parsed
from .work import PAPER, family, planned


@dataclass(frozen=True)
class Trial:
    """A form of the data, in words, the set of this report that it is, and the kernel, where not the table's own."""

    words: str
    dataset: str
    kernel: str = ""


@dataclass(frozen=True)
class Question:
    """A row of the paper's tables, and the forms of the data it is compared on; the first is the one tabulated."""

    row: str
    title: str
    intro: str
    trials: tuple[Trial, ...]


QUESTIONS = (
    Question(
        "Glass",
        "Glass: was the Id column left in?",
        "UCI's file is sorted by class and its first column numbers the samples, so that column gives the class away.",
        (
            Trial("as described, nine features", "glass"),
            Trial("Id kept as a tenth feature", "glass_with_id"),
            Trial("Id alone", "glass_id_only"),
        ),
    ),
    Question(
        "Vowel",
        "Vowel: folds, or speakers apart?",
        "Each of fifteen speakers says each of eleven vowels six times; in random folds a speaker is on both sides.",
        (
            Trial("528 samples, random folds", "vowel"),
            Trial("990 samples, each speaker tested by models of the others", "vowel_speakers"),
            Trial("UCI's split: 528 samples of eight speakers to train on, 462 of seven to test", "vowel_split"),
        ),
    ),
    Question(
        "CMC",
        "CMC: which two classes?",
        "The set has three: no use, long-term and short-term methods. The paper says two and not which.",
        (
            Trial("no use against the rest", "cmc2_nouse"),
            Trial("long-term against the rest", "cmc2_longterm"),
            Trial("short-term against the rest", "cmc2_shortterm"),
            Trial("three classes", "cmc"),
        ),
    ),
    Question(
        "Car",
        "Car: categories, or numbers?",
        "All six features are ordered words. One column a category, or one number a feature, 0, 1, 2, ...?",
        (Trial("one 0/1 column a category", "car"), Trial("ordered codes", "car_ordered")),
    ),
    Question(
        "WPBC",
        "WPBC: what may a classifier know?",
        "The feature `time` is the time to recurrence or of follow-up, known only afterwards; Table 2 counts 34 "
        "features, which is all columns of the file but the outcome, patient number included.",
        (
            Trial("as tabulated, time included", "wpbc"),
            Trial("without time", "wpbc_without_time"),
            Trial("with the patient number too, 34 features", "wpbc_with_id"),
        ),
    ),
    Question(
        "Satimage",
        "Satimage: linear, or Gaussian?",
        "Are its linear figures those of another kernel?",
        (
            Trial("the table's kernel", "satimage"),
            Trial("the Gaussian kernel in the linear one's place", "satimage", "rbf"),
        ),
    ),
)


def explanations(found: Cells, table: pd.DataFrame, protocol: Protocol) -> dict[tuple[int, str, str], str]:
    """Return, for each figure of the paper that ours does not reproduce, what was tried that does, if anything.

    A trial explains a figure that is within two of its standard deviations and nearer to it than ours; a C of the SVM's
    grid one within two standard deviations of the best C's folds.  Where several do, all are named; a trial so wide
    that our own figure is within it too is said to be.
    """
    why: dict[tuple[int, str, str], list[str]] = {}
    printed = published.accuracies().dropna(subset="accuracy").set_index(["table", "row", "column"])["accuracy"]
    for question in QUESTIONS:
        first, *others = question.trials
        for (number, row, column), figure in printed.items():
            if row != question.row:
                continue
            kernel = published.KERNELS[number]
            method = next(m for m, name in PAPER[family(first.dataset)].items() if name == column)
            ours = found.get((first.dataset, kernel, method))
            near = [
                (abs(cell.accuracy - figure), trial, cell)
                for trial in others
                if (cell := found.get((trial.dataset, trial.kernel or kernel, method))) is not None
                and abs(cell.accuracy - figure) <= 2 * cell.sd
                and (ours is None or abs(cell.accuracy - figure) < abs(ours.accuracy - figure))
            ]
            if near:
                _, trial, cell = min(near, key=lambda each: each[0])
                said = f"{trial.words}: {_with_sd(cell)}"
                if ours is not None and abs(cell.accuracy - ours.accuracy) <= 2 * cell.sd:
                    said += BOTH
                why.setdefault((number, row, column), []).append(said)
    for curve in curves(table, protocol):
        ours = found.get((curve.dataset, published.KERNELS[curve.table], "svm"))
        off = abs(curve.means[curve.nearest] - curve.theirs)
        if ours is not None and off <= 2 * ours.sd and round(off, 6) < round(abs(ours.accuracy - curve.theirs), 6):
            there = f"{AT_C}{power(curve.nearest)} in place of the best: {curve.means[curve.nearest]:.2f}"
            why.setdefault((curve.table, curve.row, curve.column), []).append(there)
    return {key: OR.join(words) for key, words in why.items()}


AT_C, BOTH, OR = "C = ", ", which fits ours as well", "; or "
"""How an explanation by another C begins, how one ends that tells nothing apart, and what stands between two."""


@dataclass(frozen=True)
class Curve:
    """The SVM's mean accuracy against C, at the best gamma for each, in percent, and the paper's figure."""

    table: int
    row: str
    column: str
    dataset: str
    means: dict[float, float]
    theirs: float

    @property
    def best(self) -> float:
        """The C of the best mean, the first where several are."""
        return max(self.means, key=self.means.__getitem__)

    @property
    def nearest(self) -> float:
        """The C whose mean is nearest to the paper's figure."""
        return min(self.means, key=lambda c: abs(self.means[c] - self.theirs))

    @property
    def passes(self) -> bool:
        """Whether the paper's figure lies between the least and the best."""
        return min(self.means.values()) <= self.theirs <= max(self.means.values())


def curves(table: pd.DataFrame, protocol: Protocol) -> list[Curve]:
    """Return the SVM's curve for each of its cells that was run whole and of which the paper's figure is known."""
    printed = published.accuracies().set_index(["table", "row", "column"])["accuracy"]
    ran = table[(table["method"] == "svm") & (table["failed"] == "")]
    made = []
    for number, kernel in published.KERNELS.items():
        for dataset in sets.TWO_CLASS if number in (3, 4) else sets.SEVERAL:
            rows = ran[(ran["dataset"] == dataset) & (ran["kernel"] == kernel)].to_dict("records")
            if len(rows) != (1 if kernel == "linear" else len(protocol.gammas)):
                continue
            best = np.max([parsed(row)["curve"] for row in rows], axis=0)
            key = (number, sets.LABELS[dataset], PAPER[family(dataset)]["svm"])
            values = {2.0**e: 100 * float(value) for e, value in zip(protocol.exponents, best, strict=True)}
            if not math.isnan(printed[key]):
                made.append(Curve(*key, dataset, values, float(printed[key])))
    return made


@dataclass(frozen=True)
class Line:
    """One trial of a question with one method, the kernel of the paper's table, and its figure there."""

    trial: Trial
    table: int
    kernel: str
    method: str
    column: str
    cell: Cell | None
    theirs: float


def lines(question: Question, found: Cells, protocol: Protocol) -> list[Line]:
    """Return what was run for a question, and, without a cell, what time did not reach."""
    printed = published.accuracies().set_index(["table", "row", "column"])["accuracy"]
    rows = []
    columns = PAPER[family(question.trials[0].dataset)]
    for number, kernel in published.KERNELS.items():
        for method, column in columns.items():
            if (number, question.row, column) not in printed:
                continue
            theirs = float(printed[number, question.row, column])
            for trial in question.trials:
                if trial.kernel == kernel:  # the table's own
                    continue
                key = (trial.dataset, trial.kernel or kernel, method)
                if key in found or key in planned(protocol):
                    rows.append(Line(trial, number, kernel, method, column, found.get(key), theirs))
    return rows if any(line.cell is not None for line in rows) else []


def tried(found: Cells, table: pd.DataFrame, protocol: Protocol) -> set[tuple[int, str, str]]:
    """Return the cells of the paper's tables of which anything else was tried here."""
    asked = {
        (line.table, question.row, line.column)
        for question in QUESTIONS
        for line in lines(question, found, protocol)
        if line.cell is not None and line.trial is not question.trials[0]
    }
    return asked | {(curve.table, curve.row, curve.column) for curve in curves(table, protocol)}


def _with_sd(cell: Cell) -> str:
    return f"{cell.accuracy:.2f}" + ("" if math.isnan(cell.sd) else f" ± {cell.sd:.2f}")
