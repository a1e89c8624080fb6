"""From cells to the tables of the report.  Computes; does not format."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set

import numpy as np
import pandas as pd

from ... import catalog, datasets
from ...errors import NPSVMError
from ..analysis import Cell as Entry
from ..analysis import Table
from ..paired import Comparison, wilcoxon_holm
from ..statistics import Friedman, friedman
from . import experiments, published, sets, toys
from .cells import DIFFERS, EXPLAINED, FAILED, NOT_RUN, REPRODUCES, UNKNOWN, Beside, Cells, Failures, power
from .experiments import QUESTIONS
from .methods import methods
from .protocol import Protocol
from .work import PAPER, family

NAMES = {
    "twsvm": "TWSVM",
    "tbsvm": "TBSVM",
    "ls_twsvm": "LS-TWSVM",
    "l1_ls_twsvm": "1-norm LS-TWSVM",
    "nppc": "NPPC",
    "smooth_twsvm": "smooth TWSVM",
    "hnpsvm": "HNPSVM",
    "mbsvm": "MBSVM",
    "pinball": "pinball loss",
    "absolute": "absolute loss",
    "huber_hinge": "Huber hinge",
    "svm": "SVM",
    "svm_ovr": "SVM 1-v-r",
    "twsvm_ovr": "TWSVM 1-v-r",
    "gepsvm": "GEPSVM",
}
"""The methods as the tables of all variants name them; another formulation goes by its own name."""

KERNEL = {"linear": "linear", "rbf": "Gaussian"}
TITLES = {
    3: "Table 3: two classes, linear",
    4: "Table 4: two classes, Gaussian kernel",
    5: "Table 5: several classes, linear",
    6: "Table 6: several classes, Gaussian kernel",
}


def name_of(method: str) -> str:
    """Return a method's name for people."""
    return NAMES.get(method, method)


# --- Tables 1 to 6 -----------------------------------------------------------------------------------------


def toy_table(found: Cells) -> Table:
    """Return Table 1: the toy sets."""
    rows: list[list[Entry]] = []
    for dataset in toys.NAMES:
        paper = PAPER[family(dataset)]
        others = [m for m in methods() if m not in paper and (dataset, "linear", m) in found]
        for method in [*(m for m in paper if (dataset, "linear", m) in found), *others]:
            cell = found[dataset, "linear", method]
            rows.append(
                [dataset.replace("_", " "), paper.get(method, name_of(method)), cell.accuracy, cell.sd, cell.setting]
            )
    return Table(
        "Table 1: cross planes and three lines",
        "Best mean accuracy over the folds and its standard deviation, and where on the grid it is reached first, by "
        "our own points: the paper shows its in a figure only, and its Table 1 was not available." + _schemes(found),
        ["set", "method", "accuracy", "sd", "setting"],
        rows,
        decimals=2,
    )


def _schemes(found: Cells) -> str:
    """Say how the two rules of decision fare on three lines, of which no one plane is near two."""
    best: dict[str, float] = {}
    for name, method in methods().items():
        cell = found.get(("three_lines", "linear", name))
        if cell is not None and method.kind == "planes":
            scheme = catalog.load(method.formulation).scheme
            best[scheme] = max(best.get(scheme, 0.0), cell.accuracy)
    if len(best) < 2:
        return ""
    return (
        f" On three lines the best formulation that decides by the nearest plane has {best['nearest']:.2f}, the best "
        f"by the farthest {best['farthest']:.2f}: the farthest rule wants a plane near all other classes at once."
    )


def sets_table() -> Table:
    """Return Table 2: the sets, as they are here and as printed."""
    printed = published.sets().set_index("row")
    rows: list[list[Entry]] = []
    for name in datasets.DATASETS:
        bunch = datasets.load_dataset(name)
        here = (len(bunch.target), bunch.data.shape[1], len(bunch.target_names))
        given = tuple(int(v) for v in printed.loc[name])
        rows.append([sets.LABELS[name], *here, "{} x {}, {}".format(*given), _misprint(name, here, given)])
    return Table(
        "Table 2: the sets",
        "Samples, features and classes as UCI's files have them, and as the paper prints them.",
        ["set", "samples", "features", "classes", "printed", "meaning"],
        rows,
    )


def _misprint(name: str, here: tuple[int, int, int], given: tuple[int, ...]) -> str:
    if given == here:
        return "same"
    if given == (here[0], here[2], here[1]):
        return "features and classes are swapped in print"
    known = {
        "wpbc": "34 is every column but the outcome, the patient number included",
        "cmc": "printed with two classes; UCI's set has three",
        "ecoli": "8 counts the sequence's name as a feature",
        "glass": "features and classes are swapped in print, and 13 is the number of neither",
    }
    return known[name]


def paper_tables(rows: Sequence[Beside]) -> list[Table]:
    """Return Tables 3 to 6, one line a cell; of columns that may be empty, those that are not."""
    found = []
    for number, title in TITLES.items():
        lines = [_line(each) for each in rows if each.table == number]
        columns = [c for c in lines[0] if c not in _OPTIONAL or any(line[c] not in (None, "") for line in lines)]
        entries = [[line[c] for c in columns] for line in lines]
        found.append(Table(title, _INTRO[number], columns, entries, decimals=2))
    return found


_OPTIONAL = ("their sd", "their s")


def _line(each: Beside) -> dict[str, Entry]:
    cell = each.ours
    return {
        "set": each.row,
        "method": each.column,
        "ours": cell.accuracy if cell else None,
        "sd": cell.sd if cell else None,
        "the paper's": _known(each.theirs),
        "their sd": _known(each.theirs_sd),
        "difference": _known(each.difference),
        "in se": _known(abs(each.difference) / cell.error) if cell and cell.error > 0 else None,
        "verdict": each.verdict,
        "nested": cell.nested if cell else None,
        "optimism": cell.optimism if cell else None,
        "ms a fit": 1e3 * cell.seconds if cell else None,
        "their s": _known(each.theirs_seconds),
        "setting": cell.setting if cell else "",
    }


def differences_table(rows: Sequence[Beside], tried: Set[tuple[int, str, str]]) -> Table:
    """Return every cell that is beyond two standard errors or that failed, and what was tried of it."""
    entries: list[list[Entry]] = []
    for each in rows:
        if each.verdict not in (REPRODUCES, EXPLAINED, DIFFERS, FAILED) or each.close:
            continue
        asked = (each.table, each.row, each.column) in tried
        near = "nearer" if each.verdict == REPRODUCES else "near"
        said = (
            each.failure or each.why or (f"nothing that was tried comes {near}" if asked else "nothing else was tried")
        )
        ours = each.ours.accuracy if each.ours else None
        error = abs(each.difference) / each.ours.error if each.ours and each.ours.error > 0 else None
        number = [each.row, each.column, KERNEL[each.kernel], ours, _known(each.theirs), _known(each.difference)]
        entries.append([*number, error, each.verdict, said])
    return Table(
        "What does not reproduce, or barely",
        "The figures of Tables 3 to 6 beyond two standard errors of our mean, and what was tried of them that comes "
        "within two standard deviations; the trials are below, method by method.",
        ["set", "method", "kernel", "ours", "the paper's", "difference", "in se", "verdict", "meaning"],
        entries,
        decimals=2,
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


_FIRST = (
    "Ours: best mean accuracy over the folds and the folds' standard deviation, in percent, beside the paper's; the "
    "difference also in standard errors of our mean, corrected for overlapping training parts. "
    "Nested: each fold judged at a setting chosen on other folds; optimism is what is lost by that."
)
_INTRO = {3: _FIRST, 4: "As Table 3.", 5: "As Table 3.", 6: "As Table 3."}


# --- all variants ------------------------------------------------------------------------------------------


def variant_table(found: Cells, failures: Failures, kernel: str, names: Sequence[str], *, nested: bool) -> Table:
    """Return the accuracies of every method on every set of some, best of the grid or nested."""
    kind = "two" if names[0] in sets.TWO_CLASS else "several"
    chosen = [name for name, method in methods().items() if method.classes in ("any", kind)]
    if not any((dataset, kernel, method) in found for dataset in names for method in chosen):
        chosen = []
    rows: list[list[Entry]] = []
    for dataset in names if chosen else ():
        row: list[Entry] = [sets.LABELS[dataset]]
        for method in chosen:
            cell = found.get((dataset, kernel, method))
            if cell is None:
                row.append(FAILED if (dataset, kernel, method) in failures else NOT_RUN)
            else:
                row.append(cell.nested if nested else cell.accuracy)
        rows.append(row)
    how = "nested" if nested else "best of the grid"
    intro = (
        "Accuracy in percent at settings chosen on other folds."
        if nested
        else "Best mean accuracy over the folds in percent, by the paper's protocol: what it announces and never shows."
    )
    title = f"Every variant: {kind} classes, {KERNEL[kernel]}, {how}"
    return Table(title, intro, ["set", *(name_of(m) for m in chosen)], rows, decimals=2)


# --- statistics --------------------------------------------------------------------------------------------


def scores(found: Cells, kernel: str, names: Sequence[str], chosen: Sequence[str]) -> pd.DataFrame:
    """Return nested accuracies, a row a set and a column a method; NaN where not run."""
    return pd.DataFrame(
        {
            name_of(m): [found[d, kernel, m].nested if (d, kernel, m) in found else math.nan for d in names]
            for m in chosen
        },
        index=[sets.LABELS[d] for d in names],
    )


def scopes() -> list[tuple[str, str, Sequence[str], list[str]]]:
    """Return what is compared: words, kernel, sets, methods."""
    everywhere = [name for name, method in methods().items() if method.classes == "any"]
    all_sets = (*sets.TWO_CLASS, *sets.SEVERAL)
    found: list[tuple[str, str, Sequence[str], list[str]]] = []
    for kernel, words in KERNEL.items():
        found.append((f"Table {3 + (kernel == 'rbf')}, {words}", kernel, sets.TWO_CLASS, list(PAPER["two"])))
        found.append((f"Table {5 + (kernel == 'rbf')}, {words}", kernel, sets.SEVERAL, list(PAPER["several"])))
        found.append((f"every formulation and SVM, {words}", kernel, all_sets, everywhere))
    return found


def ranked(found: Cells, kernel: str, names: Sequence[str], chosen: Sequence[str]) -> Friedman | None:
    """Return Friedman's test of nested accuracies, or None where too little was run."""
    table = scores(found, kernel, names, chosen)
    try:
        test = friedman(table.assign(**dict.fromkeys(_left_out(table), math.nan)))
    except NPSVMError:
        return None
    # of fewer, the F distribution says nothing: two sets that agree would be proof
    return test if test.contenders >= 3 and test.sets >= 5 else None


def _left_out(table: pd.DataFrame) -> list[str]:
    """Return the methods without which most results, methods times sets that have them all, are left to rank."""
    by_coverage = list(table.notna().sum().sort_values(ascending=False, kind="stable").index)
    left = {j: j * len(table[by_coverage[:j]].dropna()) for j in range(2, len(by_coverage) + 1)}
    most = max(left, key=lambda j: (left[j], j))
    return by_coverage[most:]


def friedman_table(found: Cells) -> Table:
    """Return Friedman's test of every scope."""
    rows: list[list[Entry]] = []
    for words, kernel, names, chosen in scopes():
        test = ranked(found, kernel, names, chosen)
        if test is None:
            rows.append([words, len(chosen), *[None] * 6, "too little was run: fewer than five sets have them all"])
            continue
        gone = {"sets": test.ranks.dropped, "methods": test.ranks.failed}
        left = "".join(f"; {what} left out: {', '.join(names)}" for what, names in gone.items() if names)
        rows.append(
            [
                *(words, test.contenders, test.sets, test.statistic),
                *(_p(test.p), test.corrected, _p(test.corrected_p), f"{test.distance:.2f}"),
                ("ranks differ" if test.different else "ranks do not differ") + left,
            ]
        )
    return Table(
        "Do the methods differ?",
        "Friedman's test of nested accuracies, corrected for ties, and Iman and Davenport's F; CD is Nemenyi's "
        "critical difference of average ranks at 5 %. Nothing missing or failed is ranked: where not all was run, the "
        "methods run on fewest sets are left out as far as that leaves more results to rank, then the sets that lack "
        "one of the others; both are named.",
        ["compared", "methods", "sets", "chi2", "p", "F", "p of F", "CD", "meaning"],
        rows,
        decimals=2,
    )


def rank_table(found: Cells) -> Table:
    """Return average ranks, a line a method and a column a scope."""
    columns, tests = ["method"], []
    for words, kernel, names, chosen in scopes():
        test = ranked(found, kernel, names, chosen)
        if test is not None:
            columns.append(words)
            tests.append(test)
    every = dict.fromkeys(name for test in tests for name in test.ranks.mean.index)
    rows: list[list[Entry]] = [
        [name, *(float(t.ranks.mean[name]) if name in t.ranks.mean else None for t in tests)]
        for name in sorted(every, key=lambda name: min(t.ranks.mean.get(name, np.inf) for t in tests))
    ]
    return Table(
        "Average ranks",
        "Of nested accuracies, rounded to six decimals before ranking; 1 is best, ties share their places.",
        columns,
        rows,
        decimals=2,
    )


def wilcoxon_table(found: Cells) -> Table:
    """Return the framework's own classifier against each other method, in pairs."""
    rows: list[list[Entry]] = []
    for words, kernel, names, chosen in scopes():
        table = scores(found, kernel, names, chosen)
        if words.startswith("Table") or table[SUBJECT].isna().all():
            continue
        for pair in wilcoxon_holm(table, SUBJECT):
            if pair.sets:
                rows.append(
                    [
                        *(KERNEL[kernel], pair.other, pair.sets, pair.wins, pair.ties, pair.losses, pair.difference),
                        *(_p(pair.p), _p(pair.adjusted), _said(pair)),
                    ]
                )
    return Table(
        f"{SUBJECT} against each",
        f"Wilcoxon's signed-rank test of nested accuracies, two-sided, exact for so few sets, with Holm's correction "
        f"over the methods of a kernel. Wins, ties and losses are {SUBJECT}'s; zero differences are dropped.",
        ["kernel", "against", "sets", "wins", "ties", "losses", "mean difference", "p", "p by Holm", "meaning"],
        rows,
        decimals=2,
    )


SUBJECT = NAMES["hnpsvm"]


def _said(pair: Comparison) -> str:
    if pair.note:
        return pair.note
    if pair.smallest > _LEVEL:
        return f"too few sets to tell: p is at least {pair.smallest:.2g}"
    if pair.adjusted >= _LEVEL:
        return "not told apart"
    return f"{SUBJECT} is better" if pair.difference > 0 else f"{SUBJECT} is worse"


_LEVEL = 0.05


def _p(value: float) -> str:
    return "--" if math.isnan(value) else f"{value:.3f}" if value >= 0.001 else "<0.001"


# --- experiments -------------------------------------------------------------------------------------------


def experiment_tables(found: Cells, table: pd.DataFrame, protocol: Protocol) -> list[Table]:
    """Return a table for every question of which something was run, the answer first."""
    made = []
    for question in QUESTIONS:
        lines = experiments.lines(question, found, protocol)
        if not lines:
            continue
        rows = [_trial(line) for line in lines]
        columns = ["data", "kernel", "method", "accuracy", "sd", "nested", "the paper's", "difference", "verdict"]
        made.append(Table(question.title, f"{question.intro} {answer(lines)}", columns, rows, decimals=2))
    curves = experiments.curves(table, protocol)
    made += [_segment(curve) for curve in curves if (curve.table, curve.row) == (5, "Segment")]
    if curves:
        made.append(_any_c(curves))
    return made


def _trial(line: experiments.Line) -> list[Entry]:
    """Return a trial's row."""
    cell, theirs = line.cell, _known(line.theirs)
    what = [line.trial.words, KERNEL[line.kernel], line.column]
    if cell is None:
        return [*what, None, None, None, theirs, None, NOT_RUN]
    if theirs is None:
        verdict = UNKNOWN
    elif math.isnan(cell.sd):
        verdict = "one fold"
    else:
        verdict = REPRODUCES if abs(cell.accuracy - theirs) <= 2 * cell.sd else DIFFERS
    difference = None if theirs is None else cell.accuracy - theirs
    return [*what, cell.accuracy, cell.sd, cell.nested, theirs, difference, verdict]


def _segment(curve: experiments.Curve) -> Table:
    """Return the linear SVM's curve on Segment, of which a small C was suspected."""
    low, best = min(curve.means.values()), max(curve.means.values())
    shown = f"{curve.theirs:.2f} is passed on the way from {low:.2f} at the worst C"
    intro = (
        f"The linear SVM's mean accuracy against C. The paper prints {curve.theirs:.2f}; the best here is {best:.2f}, "
        f"and {shown if curve.passes else f'no C of the grid gives {curve.theirs:.2f}'}."
    )
    rows: list[list[Entry]] = [[power(c), value, value - curve.theirs] for c, value in curve.means.items()]
    return Table("Segment: a small C?", intro, ["C", "accuracy", "minus the paper's"], rows, decimals=2)


def _any_c(curves: Sequence[experiments.Curve]) -> Table:
    """Return the same question of every figure of the SVM."""
    passed = [curve for curve in curves if curve.passes]
    smaller = sum(curve.nearest < curve.best for curve in passed)
    above = sum(curve.theirs > max(curve.means.values()) for curve in curves)
    below = len(curves) - len(passed) - above
    intro = (
        "The question Segment was asked, asked of every figure of the SVM: the mean accuracy against C, with the "
        f"Gaussian kernel at the best gamma for each C. Of {len(curves)} figures, {len(passed)} lie between the worst "
        f"and the best C ({smaller} of them are met nearest at a C smaller than the best), {above} above the best and "
        f"{below} below the worst. That a C can be found is weak evidence: a curve passes through many figures. Of "
        "equal means the smallest C is named, whatever its gamma."
    )
    rows: list[list[Entry]] = []
    for curve in curves:
        rows.append(
            [
                *(curve.row, KERNEL[published.KERNELS[curve.table]], curve.theirs),
                *(curve.means[curve.best], power(curve.best), curve.means[min(curve.means)]),
                *(curve.means[curve.nearest], power(curve.nearest)),
            ]
        )
    columns = ["set", "kernel", "the paper's", "best", "at C", "at the smallest C", "nearest", "at that C"]
    return Table("Every SVM figure: at another C?", intro, columns, rows, decimals=2)


def answer(lines: Sequence[experiments.Line]) -> str:
    """Say what the runs of a question show, where the paper's figure is known."""
    said = []
    known = [line for line in lines if not math.isnan(line.theirs) and line.cell is not None]
    for kernel, column in dict.fromkeys((line.kernel, line.column) for line in known):
        mine = [line for line in known if (line.kernel, line.column) == (kernel, column)]
        shown = "; ".join(f"{line.cell.accuracy:.2f} ({line.trial.words})" for line in mine if line.cell)
        said.append(f"{column}, {KERNEL[kernel]}: the paper {mine[0].theirs:.2f}, here {shown}.")
    return " ".join(said)
