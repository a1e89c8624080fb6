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
        ("explained by what was tried", str(counts[EXPLAINED])),
        ("not explained", str(counts[DIFFERS])),
        ("cells of Tables 3 to 6 run", f"{len(ran)} of {len(rows)}"),
    ]
    optimism = optimisms(rows)
    if optimism:
        shown = ", ".join(f"{np.median(values):.2f}" for values in optimism.values())
        facts.append((f"median optimism, {' and '.join(tables.KERNEL[kernel] for kernel in optimism)}", shown))
    if failed:
        facts.append(("methods failed on a set", str(len(failed))))
    made = [tables.toy_table(found), tables.sets_table(), *tables.paper_tables(rows)]
    made += [tables.differences_table(rows, experiments.tried(found, table, protocol))]
    made += tables.experiment_tables(found, table, protocol)
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


def optimisms(rows: Sequence[Beside]) -> dict[str, list[float]]:
    """Return, by kernel, the optimism of those cells of Tables 3 to 6 that have one with every kernel that was run.

    Of the same cells, so that kernels can be compared.
    """
    by_kernel: dict[str, dict[tuple[str, str], float]] = {kernel: {} for kernel in tables.KERNEL}
    for row in rows:
        if row.ours is not None and not math.isnan(row.ours.nested):
            by_kernel[row.kernel][row.dataset, row.method] = row.ours.optimism
    ran = {kernel: values for kernel, values in by_kernel.items() if values}
    common = set.intersection(*map(set, ran.values())) if ran else set()
    return {kernel: [values[cell] for cell in sorted(common)] for kernel, values in ran.items() if common}


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
        + (f" ({loose} of them beyond two standard errors of our mean)" if loose else "")
    ]
    if explained:
        by_form = [row for row in explained if not row.why.startswith(experiments.AT_C)]
        sure = [row for row in by_form if experiments.BOTH not in row.why]
        unsure = [row for row in explained if row not in sure]
        how = [f"{len(sure)} on another form of the data or with another kernel ({_places(sure)})"] if sure else []
        how += [f"{len(unsure)} less surely, there or at another C ({_places(unsure)})"] if unsure else []
        outcomes.append(f"{len(explained)} come out otherwise, {' and '.join(how)}")
    if differ:
        outcomes.append(f"nothing that was tried gives {len(differ)} ({_places(differ)})")
    if judged:
        said.append("; ".join(outcomes) + ".")
    optimism = optimisms(rows)
    adds = [
        f"{np.median(values):.1f} points ({tables.KERNEL[kernel]}, at most {max(values):.1f})"
        for kernel, values in optimism.items()
    ]
    if adds:
        said.append(
            f"Reporting the best of the grid, as the paper does, adds a median {' and '.join(adds)} to nested "
            f"cross-validation on the same folds, over {len(next(iter(optimism.values())))} cells"
            + (" run with both." if len(adds) > 1 else ".")
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
            how = f"differ (p = {test.corrected_p:.2g}): {first} best at {best:.1f}, {last} worst at {worst:.1f}"
            if not test.different:
                how = f"do not differ (p = {test.corrected_p:.2g})"
            said.append(
                f"Over {test.sets} sets ({tables.KERNEL[kernel]}), average ranks of {test.contenders} methods {how}."
            )
    return said


def _places(rows: Sequence[Beside]) -> str:
    """Name cells, those of one set and method with all their kernels."""
    kernels: dict[str, list[str]] = {}
    for row in rows:
        kernels.setdefault(f"{row.row} {row.column}", []).append(tables.KERNEL[row.kernel])
    return ", ".join(f"{name} {' and '.join(words)}" for name, words in kernels.items())


def _named(rows: Sequence[Beside]) -> str:
    return "; ".join(f"{r.row} {r.column} {tables.KERNEL[r.kernel]}: {r.theirs:.1f}, here {_ours(r)}" for r in rows)


def _ours(row: Beside) -> str:
    assert row.ours is not None
    return f"{row.ours.accuracy:.1f}"


def _loose(rows: Sequence[Beside]) -> str:
    """Name what reproduces by the width of the folds alone."""
    loose = [row for row in rows if row.verdict == REPRODUCES and not row.close]
    return f"; it is above two for some ({_named(loose)})." if loose else "."


def _latest(found: Cells) -> str:
    """Name the cells with the largest shares of stopped trainings."""
    shares = sorted(((cell.late, key) for key, cell in found.items() if cell.late >= 0.05), reverse=True)[:5]
    named = ", ".join(
        f"{sets.LABELS.get(dataset, dataset)} {tables.name_of(method)} {tables.KERNEL[kernel]} {100 * share:.0f} %"
        for share, (dataset, kernel, method) in shares
    )
    return f"; most of them: {named}." if named else "."


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
        "of the data comes within two of its own standard deviations and nearer, or another C within two of those of "
        "the best C. It is a conjecture: other cells were not tried so, and a wide spread explains much; where our own "
        "figure is within it too, that is said.",
        "1-v-r is read as TWSVM one against the rest, two planes a class, after the paper's [23]; the SVM one against "
        "the rest is among the variants. CMC is taken as no use against the rest; the other two forms have a "
        "section of their own, and long-term against the rest is 77.4 % one class.",
        f"Every plane is within a relative gap of {protocol.tol:g} of its optimum; of {len(found)} cells, {late} have "
        "trainings that were stopped before (LIBSVM after a million iterations), and are used as they were"
        + _latest(found),
        f"With the Gaussian kernel, sets of more than {protocol.large:,} samples get {protocol.landmarks} stratified "
        "centres (the rectangular kernel); LIBSVM, which needs none, all of them."
        + (f" Sets were cut to {protocol.max_rows} stratified samples." if protocol.max_rows else ""),
        "“Not run” is work that the time given did not reach. Such a cell is nowhere counted, ranked or averaged. "
        "Times: training one fold at all settings, divided by how many there are, since one decomposition serves many; "
        "the median fold, and the mean over gammas. They are no comparison of speed: runs are continued, so they may "
        "be of several versions of the solver, and of a machine that was doing other work.",
    ]
