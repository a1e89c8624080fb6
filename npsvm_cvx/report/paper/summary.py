"""What the report says before anything decides how it looks: its answer, its figures and its notes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..analysis import Report, setup
from . import experiments, published, sets, tables
from .cells import DIFFERS, EXPLAINED, REPRODUCES, Beside, Cells, Failures
from .protocol import Protocol


def report(rows: Sequence[Beside], found: Cells, failed: Failures, table: pd.DataFrame, protocol: Protocol) -> Report:
    """Return the report of a run.

    Parameters
    ----------
    rows : list of Beside
        The cells of Tables 3 to 6.
    found : Cells
    failed : Failures
    table : DataFrame
        The tidy table.
    protocol : Protocol
    """
    printed = int(published.accuracies()["accuracy"].notna().sum())
    judged = [row for row in rows if row.verdict in (REPRODUCES, EXPLAINED, DIFFERS)]
    counts = {verdict: sum(row.verdict == verdict for row in judged) for verdict in (REPRODUCES, EXPLAINED, DIFFERS)}
    close = sum(row.close for row in judged)
    ran = [row for row in rows if row.ours is not None]
    facts = [
        ("of the paper's 144 figures were at hand", str(printed)),
        ("of these were run", str(len(judged))),
        ("reproduce", str(counts[REPRODUCES])),
        ("do otherwise", str(counts[EXPLAINED])),
        ("differ", str(counts[DIFFERS])),
        ("cells of Tables 3 to 6 run", f"{len(ran)} of {len(rows)}"),
    ]
    medians = {words: optimisms(found, kernel) for kernel, words in tables.KERNEL.items()}
    if any(medians.values()):
        shown = ", ".join(f"{np.median(values):.2f}" for values in medians.values() if values)
        facts.append((f"median optimism, {' and '.join(w for w, values in medians.items() if values)}", shown))
    if failed:
        facts.append(("methods failed on a set", str(len(failed))))
    made = [tables.toy_table(found), tables.sets_table(), *tables.paper_tables(rows)]
    made += [tables.differences_table(rows)]
    made += tables.experiment_tables(found, table)
    made += [tables.friedman_table(found), tables.rank_table(found), tables.wilcoxon_table(found)]
    for nested in (False, True):
        for kernel in tables.KERNEL:
            for names in (sets.TWO_CLASS, sets.SEVERAL):
                made.append(tables.variant_table(found, failed, kernel, names, nested=nested))
    return Report(
        "The paper's tables, reproduced and questioned",
        answer(rows, found, protocol, close),
        bool(ran) and counts[DIFFERS] == 0,
        facts,
        [each for each in made if each.rows],
        notes(rows, found, protocol),
        setup("npsvm report paper" + (" --quick" if protocol.name == "quick" else "")),
    )


def optimisms(found: Cells, kernel: str) -> list[float]:
    """Return the optimism of every cell of the eighteen sets that has one, with one kernel."""
    wanted = {*sets.TWO_CLASS, *sets.SEVERAL}
    return [
        cell.optimism
        for (dataset, its, _), cell in found.items()
        if its == kernel and dataset in wanted and not math.isnan(cell.nested)
    ]


def answer(rows: Sequence[Beside], found: Cells, protocol: Protocol, close: int) -> str:
    """Return the report's answer, in a few sentences."""
    judged = [row for row in rows if row.verdict in (REPRODUCES, EXPLAINED, DIFFERS)]
    good = [row for row in judged if row.verdict == REPRODUCES]
    explained = [row for row in judged if row.verdict == EXPLAINED]
    differ = [row for row in judged if row.verdict == DIFFERS]
    said = [] if protocol.name == "full" else [
        f"A quick look, at most {protocol.max_rows} samples a set and {protocol.folds} folds: its figures are rough."
    ]  # fmt: skip
    if not any(row.ours is not None for row in rows):
        return " ".join([*said, "Nothing of Tables 3 to 6 has been run."])
    loose = len(good) - close
    outcomes = [
        f"{len(good)} of the {len(judged)} figures of the paper that were at hand and run here reproduce: the paper's "
        "lies within two standard deviations of our folds"
        + (f" ({loose} only because those are wide)" if loose else "")
    ]
    if by_form := [row for row in explained if not row.why.startswith(experiments.AT_C)]:
        forms = dict.fromkeys(f"{row.row}, {row.why.partition(':')[0]}" for row in by_form)
        outcomes.append(f"{len(by_form)} do on another form of the data ({'; '.join(forms)})")
    if by_c := [row for row in explained if row not in by_form]:
        outcomes.append(f"{len(by_c)} at another C, which is weak evidence ({_named(by_c)})")
    if differ:
        outcomes.append(f"{len(differ)} do not ({_named(differ)})")
    if judged:
        said.append("; ".join(outcomes) + ".")
    adds = [
        f"{np.median(optimism):.1f} ({words}, at most {max(optimism):.1f})"
        for kernel, words in tables.KERNEL.items()
        if (optimism := optimisms(found, kernel))
    ]
    if adds:
        said.append(
            f"Reporting the best of the grid, as the paper does, adds a median {' and '.join(adds)} points to nested "
            "cross-validation on the same folds."
        )
    said += _told_apart(found)
    return " ".join(said)


def _told_apart(found: Cells) -> list[str]:
    said = []
    for words, kernel, names, chosen in tables.scopes():
        test = tables.ranked(found, kernel, names, chosen)
        if words.startswith("every") and test is not None and test.sets >= 5 and test.contenders >= 5:
            first, last = test.ranks.mean.index[0], test.ranks.mean.index[-1]
            best, worst = test.ranks.mean.iloc[0], test.ranks.mean.iloc[-1]
            how = f"differ (p = {test.corrected_p:.2g}): {first} is first at {best:.1f}, {last} last at {worst:.1f}"
            if not test.different:
                how = f"do not differ (p = {test.corrected_p:.2g})"
            said.append(
                f"Over {test.sets} sets ({tables.KERNEL[kernel]}), average ranks of {test.contenders} methods {how}."
            )
    return said


def _named(rows: Sequence[Beside]) -> str:
    return "; ".join(f"{r.row} {r.column} {tables.KERNEL[r.kernel]}: {r.theirs:.1f}, here {_ours(r)}" for r in rows)


def _ours(row: Beside) -> str:
    assert row.ours is not None
    return f"{row.ours.accuracy:.1f}"


def _loose(rows: Sequence[Beside]) -> str:
    """Name what reproduces by the width of the folds alone."""
    loose = [row for row in rows if row.verdict == REPRODUCES and not row.close]
    return f"; it is above two for some ({_named(loose)})." if loose else "."


def notes(rows: Sequence[Beside], found: Cells, protocol: Protocol) -> list[str]:
    """Return how to read the report."""
    grid = f"2^{protocol.exponents[0]} .. 2^{protocol.exponents[-1]} ({len(protocol.exponents)} values)"
    printed = int(published.accuracies()["accuracy"].notna().sum())
    late = sum(cell.late > 0 for cell in found.values())
    return [
        f"Of the paper's 144 accuracies in Tables 3 to 6, {printed} were available when this was made: the columns SVM "
        "and 1-v-1 whole, and single cells of others. The rest, and its standard deviations and times, are left blank "
        "rather than guessed: typed into `published.csv` in the package, they are shown and compared.",
        f"Protocol: {protocol.folds} stratified folds, shuffled by seed {protocol.seed}; each of C1, C2 (C, delta) "
        f"over {grid}, the Gaussian kernel's gamma over 2^{protocol.gammas[0]} .. 2^{protocol.gammas[-1]} "
        f"({len(protocol.gammas)} values), the same for all planes of a classifier; medians, scales and categories are "
        "the training part's. Other hyperparameters (tau, delta, d of the losses, eps of TWSVM and MBSVM) stay at "
        "their defaults.",
        "Best of the grid: the setting with the best mean over the folds, the first where several tie, judged on those "
        "same folds. Nested: fold i at the setting that is best on the folds up to "
        f"{protocol.reach[0]} (linear) or {protocol.reach[1]} (Gaussian) from it on either side, by models that saw "
        f"neither those nor fold i. So {2 * protocol.reach[0]} or {2 * protocol.reach[1]} folds choose where the best "
        f"of the grid has all {protocol.folds}: part of what is called optimism, the more so with the Gaussian kernel, "
        "is that they choose less well.",
        "“Reproduces”: the paper's accuracy lies within two standard deviations of our folds. On small sets that is "
        "wide, and weak evidence; the difference in standard errors (Nadeau and Bengio's, which allow for training "
        "parts that overlap) is the sharper figure" + _loose(rows) + " “Explained”: it does not, and another form "
        "of the data or another C, which this report ran for that cell, comes within two of its own standard "
        "deviations and nearer. It is a conjecture: other cells were not tried so, and a wide spread explains much.",
        "1-v-r is read as TWSVM one against the rest, two planes a class, after the paper's [23]; the SVM one against "
        "the rest is among the variants. CMC is taken as no use against the rest, which the paper's linear SVM "
        "figure fits; long-term against the rest is 77.4 % one class.",
        f"Every plane is within a relative gap of {protocol.tol:g} of its optimum; of {len(found)} cells, {late} have "
        "trainings that were stopped before (LIBSVM after a million iterations), and are used as they were.",
        f"With the Gaussian kernel, sets of more than {protocol.large:,} samples get {protocol.landmarks} stratified "
        "centres (the rectangular kernel); LIBSVM, which needs none, all of them."
        + (f" Sets were cut to {protocol.max_rows} stratified samples." if protocol.max_rows else ""),
        "“Not run” is work that the time given did not reach. Such a cell is nowhere counted, ranked or averaged. "
        "Times: training one fold at all settings, divided by how many there are, since one decomposition serves many; "
        "the median fold, and the mean over gammas. They are no comparison of speed: runs are continued, so they may "
        "be of several versions of the solver, and of a machine that was doing other work.",
    ]
