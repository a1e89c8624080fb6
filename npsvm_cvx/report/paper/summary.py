"""What the report says before anything decides how it looks: its answer, its figures and its notes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..analysis import Report, setup
from . import published, sets, tables
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
    optimism = optimisms(found)
    facts = [
        ("of the paper's 144 figures were at hand", str(printed)),
        ("of these were run", str(len(judged))),
        ("reproduce", str(counts[REPRODUCES])),
        ("come out in another form", str(counts[EXPLAINED])),
        ("differ", str(counts[DIFFERS])),
        ("cells of Tables 3 to 6 run", f"{len(ran)} of {len(rows)}"),
        ("median optimism, points", f"{np.median(optimism):.2f}" if optimism else "--"),
    ]
    if failed:
        facts.append(("methods failed on a set", str(len(failed))))
    made = [tables.toy_table(found), tables.sets_table(), *tables.paper_tables(rows)]
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
        notes(found, protocol),
        setup("npsvm report paper" + (" --quick" if protocol.name == "quick" else "")),
    )


def optimisms(found: Cells) -> list[float]:
    """Return the optimism of every cell of the eighteen sets that has one."""
    wanted = {*sets.TWO_CLASS, *sets.SEVERAL}
    return [c.optimism for (dataset, _, _), c in found.items() if dataset in wanted and not math.isnan(c.nested)]


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
    said.append(
        f"{len(good)} of the {len(judged)} figures of the paper that were at hand and run here reproduce: the paper's "
        f"lies within two standard deviations of our folds (for {close} within two standard errors of our mean)."
    )
    if explained:
        forms = dict.fromkeys(f"{row.row} ({row.why.partition(':')[0]})" for row in explained)
        said.append(
            f"{len(explained)} do not, but come within two standard deviations of what was tried for them, another "
            f"form of the data or another C: {', '.join(forms)}."
        )
    if judged:
        said.append(f"{len(differ)} do not come out: {_named(differ)}." if differ else "Nothing else differs.")
    optimism = optimisms(found)
    if optimism:
        said.append(
            f"Reporting the best of the grid, as the paper does, adds a median {np.median(optimism):.1f} points (up to "
            f"{max(optimism):.1f}) to nested cross-validation on the same folds."
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
    return ", ".join(f"{r.row} {r.column} {tables.KERNEL[r.kernel]} ({r.theirs:.1f}, here {_ours(r)})" for r in rows)


def _ours(row: Beside) -> str:
    assert row.ours is not None
    return f"{row.ours.accuracy:.1f}"


def notes(found: Cells, protocol: Protocol) -> list[str]:
    """Return how to read the report."""
    grid = f"2^{protocol.exponents[0]} .. 2^{protocol.exponents[-1]} ({len(protocol.exponents)} values)"
    printed = int(published.accuracies()["accuracy"].notna().sum())
    late = sum(cell.late > 0 for cell in found.values())
    return [
        f"Of the paper's 144 accuracies in Tables 3 to 6, {printed} were available when this was made: the columns SVM "
        "and 1-v-1 whole, and single cells of others. The rest, most standard deviations and all times are not shown, "
        "rather than guessed; `published.csv` in the package takes accuracies, and the report then compares them.",
        f"Protocol: {protocol.folds} stratified folds, shuffled by seed {protocol.seed}; each of C1, C2 (C, delta) "
        f"over {grid}, the Gaussian kernel's gamma over 2^{protocol.gammas[0]} .. 2^{protocol.gammas[-1]} "
        f"({len(protocol.gammas)} values), the same for all planes of a classifier; medians, scales and categories are "
        "the training part's. Other hyperparameters (tau, delta, d of the losses, eps of TWSVM and MBSVM) stay at "
        "their defaults.",
        "Best of the grid: the setting with the best mean over the folds, the first where several tie, judged on those "
        "same folds. Nested: fold i at the setting that is best on the folds up to "
        f"{protocol.reach[0]} (linear) or {protocol.reach[1]} (Gaussian) from it on either side, by models that saw "
        "neither those nor fold i.",
        "“Reproduces”: the paper's accuracy lies within two standard deviations of our folds. On small sets that is "
        "wide, and weak evidence; the difference in standard errors (Nadeau and Bengio's, which allow for training "
        "parts that overlap) is the sharper figure. “Explained”: it does not, and another form "
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
        "Times are training times a fold, averaged over the grid, where one decomposition serves many settings.",
    ]
