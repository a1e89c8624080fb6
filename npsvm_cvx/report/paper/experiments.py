"""What does not reproduce, asked of other forms of the data: each answer is a run of this report, not a remark.

Knows cells and the paper's figures.  Must not know how anything is run or looks.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from . import published
from .cells import Cell, Cells, power
from .protocol import PROTOCOLS
from .results import parsed
from .work import PAPER, family


@dataclass(frozen=True)
class Trial:
    """A form of the data, in words, and the set of this report that it is."""

    words: str
    dataset: str


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
)


def explanations(found: Cells, table: pd.DataFrame) -> dict[tuple[int, str, str], str]:
    """Return, for each figure of the paper that ours does not reproduce, the trial that does, if there is one.

    A trial explains a figure that is within two of its standard deviations and nearer to it than ours.
    """
    why: dict[tuple[int, str, str], str] = {}
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
                if (cell := found.get((trial.dataset, kernel, method))) is not None
                and abs(cell.accuracy - figure) <= 2 * cell.sd
                and (ours is None or abs(cell.accuracy - figure) < abs(ours.accuracy - figure))
            ]
            if near:
                _, trial, cell = min(near, key=lambda each: each[0])
                why[number, row, column] = f"{trial.words}: {_with_sd(cell)}"
    curve = small_c(table)
    for key in [(5, "Segment", "1-v-1")]:
        figure = printed.get(key)
        if figure is not None and curve and min(curve.values()) <= figure <= max(curve.values()):
            at, value = min(curve.items(), key=lambda pair: abs(pair[1] - figure))
            why[key] = f"C = {power(at)} in place of the best: {value:.2f}"
    return why


def small_c(table: pd.DataFrame) -> dict[float, float]:
    """Return the mean accuracy of the linear SVM on Segment against C, in percent; empty where it was not run."""
    rows = table[(table["dataset"] == "segment") & (table["kernel"] == "linear") & (table["method"] == "svm")]
    if rows.empty or rows.iloc[0]["failed"]:
        return {}
    row = rows.iloc[0].to_dict()
    curve = parsed(row)["curve"]
    return {2.0**e: 100 * value for e, value in zip(PROTOCOLS[row["protocol"]].exponents, curve, strict=True)}


@dataclass(frozen=True)
class Line:
    """One trial of a question with one method and kernel, and the paper's figure."""

    trial: Trial
    kernel: str
    method: str
    column: str
    cell: Cell
    theirs: float


def lines(question: Question, found: Cells) -> list[Line]:
    """Return what was run for a question."""
    printed = published.accuracies().set_index(["table", "row", "column"])["accuracy"]
    rows = []
    columns = PAPER[family(question.trials[0].dataset)]
    for number, kernel in published.KERNELS.items():
        for method, column in columns.items():
            if (number, question.row, column) not in printed:
                continue
            theirs = float(printed[number, question.row, column])
            for trial in question.trials:
                cell = found.get((trial.dataset, kernel, method))
                if cell is not None:
                    rows.append(Line(trial, kernel, method, column, cell, theirs))
    return rows


def _with_sd(cell: Cell) -> str:
    return f"{cell.accuracy:.2f}" + ("" if cell.sd != cell.sd else f" ± {cell.sd:.2f}")
