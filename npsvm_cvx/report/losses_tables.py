"""From the results of a losses report to its sentences and tables.  Computes; does not format."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from .analysis import Cell, Report, Table, digits, setup
from .paired import Comparison, Ranks, average_ranks, wilcoxon_holm
from .trials import GRID, INNER

_LEVEL = 0.05


def scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the mean accuracy over folds, a row a set and a column a contender, in their order.

    NaN where a fold failed.
    """
    rows = frame[frame["kind"] == "accuracy"]
    table = rows.pivot_table(
        index="dataset",
        columns="contender",
        values="accuracy",
        aggfunc=lambda each: each.mean(skipna=False),
        dropna=False,
    )
    return table.reindex(index=rows["dataset"].unique(), columns=rows["contender"].unique())


def newcomers(frame: pd.DataFrame) -> list[str]:
    """Return the labels of the new contenders, in their order."""
    return [str(name) for name in frame.loc[frame["new"].astype(bool), "contender"].unique()]


def summarise(frame: pd.DataFrame, command: str) -> Report:
    """Return the report of a run."""
    rows = frame[frame["kind"] == "accuracy"]
    table, new = scores(frame), newcomers(frame)
    ranks = average_ranks(table)
    found = {name: wilcoxon_holm(table, name) for name in new}
    answer = " ".join(_sentence(frame, name, ranks, found[name]) for name in new)
    tables = [_contenders(rows, ranks, new)]
    tables += [_against(name, found[name]) for name in new]
    tables += [_by_set(rows, ranks, new), _verification(frame)]
    tables += [broken for broken in (_failures(frame),) if broken is not None]
    facts: list[tuple[str, str]] = []
    for name in new:
        own, prefix = rows[rows["contender"] == name], f"{name}: " if len(new) > 1 else ""
        if name in ranks.mean:
            facts.append((f"{prefix}mean rank", f"{ranks.mean[name]:.1f} of {len(ranks.mean)}"))
        facts.append((f"{prefix}multipliers at zero", _percent(own["zero"].mean())))
        facts.append((f"{prefix}median fit", _seconds(own["fit_seconds"].median())))
        passed, ran, _ = _checks(frame, name)
        facts.append((f"{prefix}checks passed", f"{passed} of {ran}"))
    facts.append(("data sets", str(len(table))))
    verified = all(_verified(frame, name) for name in new)
    passed = verified and not (rows["contender"].isin(new) & (rows["status"] == "failed")).any()
    made = [*setup(command), ("processor time", f"{rows['cpu_seconds'].sum():.0f} s, over all contenders and sets")]
    return Report("Losses", answer, passed, facts, tables, _notes(frame, table, ranks, found), made)


# --- the answer ----------------------------------------------------------------------------------------------


def _sentence(frame: pd.DataFrame, name: str, ranks: Ranks, found: list[Comparison]) -> str:
    if name in ranks.mean:
        parts = [f"mean rank {ranks.mean[name]:.1f} of {len(ranks.mean)}", *_difference(name, ranks, found)]
    else:
        rows = frame[(frame["kind"] == "accuracy") & (frame["contender"] == name) & (frame["status"] == "failed")]
        reason = f": {rows['note'].iloc[0].rstrip('.')}" if len(rows) else ""
        parts = [f"not ranked{reason}"]
    passed, ran, diagnosis = _checks(frame, name)
    if _verified(frame, name):
        parts.append(f"verified: {passed} of {ran} checks that ran passed")
    else:
        parts.append(f"WRONG: {diagnosis.rstrip('.')}; {passed} of {ran} checks passed")
    return f"{name}: {'; '.join(parts)}."


def _difference(name: str, ranks: Ranks, found: list[Comparison]) -> list[str]:
    """Say how it stands to the best of the others, and to how many it differs."""
    others = ranks.mean.drop(name)
    if others.empty:
        return []
    best = next(one for one in found if one.other == others.index[0])
    where = f"(Holm-adjusted p = {best.adjusted:.2g}, {best.sets} sets)"
    shown = [verdict(one) for one in found]
    better, worse, how = shown.count("better"), shown.count("worse"), verdict(best)
    if how == "not shown":
        first = f"no significant difference from {best.other}, the best ranked of the others {where}"
    else:
        first = f"significantly {how} than {best.other}, the best ranked of the others {where}"
    if len(found) == 1:
        return [first]
    if not better + worse:
        return [f"{first}, nor from any other"]
    return [first, f"of the {len(found)} others, significantly better than {better} and worse than {worse}"]


def verdict(one: Comparison) -> str:
    """Return what a comparison shows at five per cent: better, worse, or no difference."""
    if math.isnan(one.adjusted) or one.adjusted > _LEVEL:
        return "not shown"
    return "better" if one.difference > 0 else "worse"


def _checks(frame: pd.DataFrame, name: str) -> tuple[int, int, str]:
    """Return how many checks passed, how many ran, and the diagnosis where something is wrong."""
    rows = frame[(frame["kind"] == "check") & (frame["contender"] == name)]
    wrong = rows.loc[rows["verdict"] == "wrong", "diagnosis"]
    passed = int((rows["status"] == "pass").sum())
    return passed, passed + int((rows["status"] == "fail").sum()), str(wrong.iloc[0]) if len(wrong) else ""


def _verified(frame: pd.DataFrame, name: str) -> bool:
    rows = frame[(frame["kind"] == "check") & (frame["contender"] == name)]
    return bool(len(rows)) and bool((rows["verdict"] == "verified").all())


# --- tables --------------------------------------------------------------------------------------------------


def _order(rows: pd.DataFrame, ranks: Ranks) -> list[str]:
    """The ranked, best first, and then those that are not."""
    rest = [str(name) for name in rows["contender"].unique() if name not in ranks.mean]
    return [*(str(name) for name in ranks.mean.index), *rest]


def _marked(name: str, new: list[str]) -> str:
    return f"{name} (new)" if name in new else name


def _contenders(rows: pd.DataFrame, ranks: Ranks, new: list[str]) -> Table:
    cells: list[list[Cell]] = []
    for name in _order(rows, ranks):
        own = rows[rows["contender"] == name]
        ok = own[own["status"] != "failed"]
        cells.append(
            [
                _marked(name, new),
                float(ranks.mean[name]) if name in ranks.mean else "failed",
                100 * float(ok["accuracy"].mean()) if len(ok) else None,
                _percent(ok["zero"].mean()),
                _seconds(ok["fit_seconds"].median()),
                _seconds(own["total_seconds"].median()),
                digits(float(ok["gap"].max())) if len(ok) else None,
                int((own["status"] == "short").sum()),
                int((own["status"] == "failed").sum()),
            ]
        )
    return Table(
        "Contenders",
        "Best mean rank first. Accuracy in per cent, over all folds of all sets. Multipliers at zero: the share of "
        "margin multipliers that are; what a sparse solution has many of. Median fit: NPSVMClassifier.fit at the "
        "setting chosen; fold: choosing it included. Gap: the worst of all fitted planes, in digits.",
        ["contender", "mean rank", "accuracy", "multipliers at zero", "median fit", "median fold", "worst gap",
         "not converged", "failed folds"],
        cells,
        frozenset({"worst gap"}),
    )  # fmt: skip


def _against(name: str, found: list[Comparison]) -> Table:
    cells: list[list[Cell]] = [
        [
            one.other,
            one.wins,
            one.ties,
            one.losses,
            None if math.isnan(one.difference) else f"{100 * one.difference:+.2f}",
            one.nonzero,
            _p(one.p) if not one.note else f"{_p(one.p)} ({one.note})",
            _p(one.adjusted),
            verdict(one),
        ]
        for one in sorted(found, key=lambda one: (math.isnan(one.p), one.p, one.other))
    ]
    return Table(
        f"{name} against each of the others",
        "Sets won, tied and lost by mean accuracy; difference in percentage points. Wilcoxon's signed-rank test on the "
        f"nonzero differences, two-sided; p adjusted by Holm for {len(found)} comparisons.",
        ["other", "won", "tied", "lost", "mean difference", "nonzero", "p", "adjusted p", "difference"],
        cells,
    )


def _by_set(rows: pd.DataFrame, ranks: Ranks, new: list[str]) -> Table:
    sets = list(rows["dataset"].unique())
    cells: list[list[Cell]] = []
    for name in _order(rows, ranks):
        line: list[Cell] = [_marked(name, new)]
        for dataset in sets:
            own = rows[(rows["contender"] == name) & (rows["dataset"] == dataset)]
            accuracy = 100 * own["accuracy"]
            failed = (own["status"] == "failed").any()
            line.append("failed" if failed else f"{accuracy.mean():.1f} ± {accuracy.std(ddof=1):.1f}")
        cells.append(line)
    return Table(
        "Accuracy by set",
        "Mean and standard deviation over the folds, in per cent; folds overlap in their training parts, so the "
        "deviation is no standard error.",
        ["contender", *(_short(name) for name in sets)],
        cells,
    )


def _verification(frame: pd.DataFrame) -> Table:
    rows = frame[frame["kind"] == "check"]
    cells: list[list[Cell]] = []
    for (name, check), group in rows.groupby(["contender", "check"], sort=False):
        status = group["status"]
        ran = group[status.isin(["pass", "fail"])]
        failed = group[status == "fail"]
        said = failed if len(failed) else group[status == "skip"] if ran.empty else ran.iloc[:0]
        cells.append(
            [
                str(name),
                str(check),
                int((status == "pass").sum()),
                len(failed),
                int((status == "solver").sum()),
                int((status == "skip").sum()),
                digits(float(ran["value"].max())) if len(ran) else None,
                "wrong" if len(failed) else "verified" if len(ran) else "--",
                str(said["meaning"].iloc[0]) if len(said) else "",
            ]
        )
    return Table(
        "Verification",
        "Of the new contenders, with the linear and the RBF kernel, two planes, at the default hyperparameters and at "
        "others. Digits: the worst relative figure of the checks that ran. Fell short: a solver's answer too "
        "inaccurate to be evidence.",
        ["contender", "check", "passed", "failed", "fell short", "do not apply", "digits", "verdict", "meaning"],
        cells,
        frozenset({"digits"}),
    )


def _failures(frame: pd.DataFrame) -> Table | None:
    failed = frame[frame["status"] == "failed"]
    if failed.empty:
        return None
    cells: list[list[Cell]] = [
        [str(name), _short(str(dataset)), len(group), str(group["note"].iloc[0])]
        for (name, dataset), group in failed.groupby(["contender", "dataset"], sort=False)
    ]
    return Table("What failed", "", ["contender", "set", "times", "meaning"], cells)


def _notes(frame: pd.DataFrame, table: pd.DataFrame, ranks: Ranks, found: dict[str, list[Comparison]]) -> list[str]:
    rows = frame[frame["kind"] == "accuracy"]
    folds = rows.groupby("dataset")["fold"].nunique()
    smallest = [one.smallest for each in found.values() for one in each if one.sets]
    count = max((len(each) for each in found.values()), default=0)
    notes = [
        f"Linear kernel, each contender by its own scheme. The outer folds ({_range(folds)}, stratified, seeded) are "
        f"the same for all; inside the training part of each, {INNER} inner folds choose (C1, C2) from "
        f"{{{', '.join(_power(c) for c in GRID)}}}, of those of the two that a contender has. Other hyperparameters "
        "keep their defaults. Of equally good settings the one of least C2, then of least C1, is taken.",
        "Missing values, scales and categories are fitted in each training part alone.",
        "A rank is by mean accuracy on a set, rounded to six decimals; ties share the average of their places.",
        "Folds of one set are no independent samples, so the tests are over sets: with n nonzero differences the "
        "smallest two-sided p is 2 / 2^n"
        + (f", here at best {min(smallest):.2g}, times {count} for the first of Holm's steps." if smallest else "."),
        "“Not shown” means that these sets do not show a difference; it does not mean that there is none.",
        "Drawn with C2 = 1, a built-in formulation's loss and conjugate are what its declared dual says they are.",
    ]
    if ranks.dropped:
        notes.append(f"Not ranked, since a contender failed there: {', '.join(map(_short, ranks.dropped))}.")
    if ranks.failed:
        notes.append(f"Failed everywhere and not ranked: {', '.join(ranks.failed)}.")
    return notes


# --- words ---------------------------------------------------------------------------------------------------


def _range(counts: pd.Series) -> str:
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"


def _short(source: str) -> str:
    """A set by its name, a file without the folder it lies in."""
    return source.replace("\\", "/").rpartition("/")[2]


def _percent(share: float) -> str:
    return "--" if np.isnan(share) else f"{share:.0%}"


def _seconds(value: float) -> str:
    return "--" if np.isnan(value) else f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def _p(value: float) -> str:
    return "--" if np.isnan(value) else f"{value:.2g}"


def _power(value: float) -> str:
    exponent = math.log2(value)
    return f"2^{exponent:.0f}" if exponent == round(exponent) else f"{value:g}"
