"""From the tidy table of a verification run to the sentences and tables of its report.  Computes; does not format."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from .. import datasets
from ..verification import environment

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """A titled table.

    ``digits`` names the columns whose figures are digits of accuracy, drawn as such; ``decimals`` is how many places
    a figure is shown with.
    """

    title: str
    intro: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    digits: frozenset[str] = frozenset()
    decimals: int = 1


@dataclass(frozen=True)
class Report:
    """What the report says, before anything decides how it looks.

    The ``appendix`` is tables of another run, which :func:`render.refresh` can put into a written report anew.
    """

    title: str
    answer: str
    passed: bool
    facts: Sequence[tuple[str, str]]
    tables: Sequence[Table]
    notes: Sequence[str]
    setup: Sequence[tuple[str, str]] = field(default_factory=tuple)
    appendix: Sequence[Table] = ()


def digits(value: float) -> float | None:
    """Return how many decimal digits agree: ``-log10`` of a relative figure, at most 16."""
    if value is None or np.isnan(value):
        return None
    if not np.isfinite(value):
        return 0.0
    return float(min(16.0, max(0.0, -np.log10(max(value, 1e-16)))))


def summarise(frame: pd.DataFrame, *, quick: bool) -> Report:
    """Return the report of a run."""
    failed = frame[frame["status"] == "fail"]
    ran = frame["status"].isin(["pass", "fail"])
    names, sets = frame["formulation"].nunique(), frame["dataset"].nunique()
    whole = frame[frame["check"] == "SOR on the whole set"]
    solver_rows = frame[(frame["check"] == "KKT") & (frame["claim"] != "")]
    wrong = solver_rows[(solver_rows["claim"] == "solved") & (solver_rows["status"] == "solver")]
    if failed.empty:
        answer = (
            f"All {names} formulations are verified: every one of the {int(ran.sum()):,} checks that ran passed, on "
            f"{sets} data sets, linear and RBF, at up to {_settings(frame)} settings of (C1, C2)."
        )
    else:
        first = failed.iloc[0]
        answer = (
            f"{len(failed)} of {int(ran.sum()):,} checks failed, in {failed['formulation'].nunique()} of {names} "
            f"formulations. First: {first['formulation']} on {first['dataset']} ({first['kernel']}): {first['meaning']}"
        )
    planes = frame[frame["plane"] != ""]  # a check of all planes together has none
    facts = [
        ("formulations", str(names)),
        ("data sets", str(sets)),
        ("planes", f"{len(planes.drop_duplicates(['formulation', 'dataset', 'kernel', 'C1', 'C2', 'plane'])):,}"),
        ("checks passed", f"{int((frame['status'] == 'pass').sum()):,}"),
        ("checks failed", f"{len(failed):,}"),
        ("solver fell short", f"{int((frame['status'] == 'solver').sum()):,}"),
        ("do not apply", f"{int((frame['status'] == 'skip').sum()):,}"),
    ]
    tables = [_formulations(frame), _solvers(solver_rows), _settings_table(frame), _sets(frame, whole)]
    tables += [t for t in (_shortfalls(frame), _failures(failed)) if t is not None]
    rows = 60 if quick else 120
    notes = [
        f"General solvers saw a stratified subsample of at most {rows} rows a set, and the first two classes' planes; "
        "features are standardised, categories one-hot.",
        "A figure in digits is -log10 of a relative error: 9 means they agree to 1e-9. Worst is the smallest.",
        "“Fell short” means that a solver's own residuals, recomputed here, are above 1e-6, or SOR's gap is: "
        "such an answer is no evidence for or against a formulation and is never counted as a pass.",
        f"{len(wrong)} of {int((solver_rows['claim'] == 'solved').sum()):,} answers that a general solver called "
        "solved "
        "were not, to 1e-6.",
        "A mistake that a file's primal and dual share passes every duality check; the test suite compares each "
        "formulation with numbers typed from the paper's table, which never read the file.",
    ]
    if len(whole):
        notes.append(
            "SOR ran on every row of every set; with the RBF kernel above 300 rows on 300 stratified centres (the "
            "rectangular kernel)."
        )
    command = "npsvm report verification" + (" --quick" if quick else "")
    return Report("Verification", answer, failed.empty, facts, tables, notes, setup(command))


def _settings(frame: pd.DataFrame) -> int:
    return int(frame.groupby("formulation")[["C1", "C2"]].apply(lambda g: len(g.drop_duplicates())).max())


def setup(command: str) -> list[tuple[str, str]]:
    """Return how a report was made: date, command, processor, versions."""
    versions = ", ".join(f"{k} {v}" for k, v in environment().items())
    return [
        ("date", datetime.date.today().isoformat()),
        ("command", command),
        ("processor", processor()),
        ("versions", versions),
    ]


def processor() -> str:
    """Return the processor's name and how many cores it has."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        return f"{names[0]}, {len(names)} cores" if names else platform.processor()
    except OSError:
        return platform.processor() or platform.machine()


def _worst(frame: pd.DataFrame, check: str, *, solver: str | None = None, without: str | None = None) -> float | None:
    rows = frame[(frame["check"] == check) & frame["status"].isin(["pass", "fail"])]
    if solver is not None:
        rows = rows[rows["solver"] == solver]
    if without is not None:
        rows = rows[rows["solver"] != without]
    return digits(float(rows["value"].max())) if len(rows) else None


def _count(frame: pd.DataFrame) -> tuple[int, int, int]:
    status = frame["status"]
    return int((status == "pass").sum()), int((status == "fail").sum()), int((status == "solver").sum())


def _best(frame: pd.DataFrame) -> float | None:
    """Worst over the problems of SOR's agreement with whichever general solver agrees best on each."""
    rows = frame[
        (frame["check"] == "SOR agreement") & frame["status"].isin(["pass", "fail"]) & (frame["solver"] != "planes")
    ]
    if rows.empty:
        return None
    keys = ["formulation", "dataset", "kernel", "C1", "C2", "plane"]
    return digits(float(rows.groupby(keys, dropna=False)["value"].min().max()))


def _formulations(frame: pd.DataFrame) -> Table:
    columns = [
        "formulation",
        "kernel",
        "checks passed",
        "failed",
        "fell short",
        "dual function",
        "strong duality",
        "recovery",
        "SOR value",
        "SOR plane",
        "verdict",
    ]
    rows: list[list[Cell]] = []
    for (name, kernel), group in frame.groupby(["formulation", "kernel"]):
        passed, failed, short = _count(group)
        rows.append(
            [
                str(name),
                str(kernel),
                passed,
                failed,
                short,
                _worst(group, "dual function"),
                _worst(group, "strong duality"),
                _worst(group, "plane from dual", solver=""),
                _best(group),
                _worst(group, "SOR agreement", solver="planes"),
                "verified" if not failed else "wrong",
            ]
        )
    return Table(
        "Formulations",
        "Worst over sets, settings, planes and solvers, in digits. Dual function: declared dual objective against the "
        "infimum of the Lagrangian at random multipliers. Strong duality: primal by one solver, dual by another. "
        "Recovery: declared plane against the Lagrangian's minimiser. SOR value and plane: against the best and the "
        "most accurate general solver.",
        columns,
        rows,
        frozenset({"dual function", "strong duality", "recovery", "SOR value", "SOR plane"}),
    )


def _solvers(rows: pd.DataFrame) -> Table:
    table: list[list[Cell]] = []
    for solver, group in rows.groupby("solver"):
        said = group[group["claim"] == "solved"]
        true = said[said["status"] == "pass"]
        finite = group["value"].replace(np.inf, np.nan)
        table.append(
            [
                str(solver),
                len(group),
                f"{len(said) / len(group):.1%}",
                f"{len(true) / len(said):.1%}" if len(said) else "--",
                digits(float(finite.median())),
                digits(float(said["value"].max())) if len(said) else None,
                f"{1e3 * group['seconds'].median():.1f} ms",
                f"{1e3 * group['seconds'].max():.0f} ms",
            ]
        )
    return Table(
        "Solved, and was it true",
        "Each general solver on the declared primals and duals. True: residual, cone, stationarity, complementarity "
        "and gap all below 1e-6 on the standard form, with slacks recomputed.",
        [
            "solver",
            "problems",
            "said solved",
            "of those true",
            "median digits",
            "worst when solved",
            "median time",
            "longest",
        ],
        table,
        frozenset({"median digits", "worst when solved"}),
    )


def _settings_table(frame: pd.DataFrame) -> Table:
    rows: list[list[Cell]] = []
    for (kernel, C1, C2), group in frame.groupby(["kernel", "C1", "C2"], dropna=False):
        passed, failed, short = _count(group)
        sor = group[(group["check"] == "certified gap")]
        rows.append(
            [
                str(kernel),
                "own" if np.isnan(C1) else _power(C1),
                _power(C2),
                passed,
                failed,
                short,
                _best(group),
                _worst(group, "SOR agreement", solver="planes"),
                digits(float(sor["value"].median())),
                int((sor["status"] == "solver").sum()),
            ]
        )
    return Table(
        "Settings",
        "The same evidence by kernel and (C1, C2); a formulation without C1 has a ridge of its own, at its default.",
        [
            "kernel",
            "C1",
            "C2",
            "checks passed",
            "failed",
            "fell short",
            "SOR value",
            "SOR plane",
            "median SOR gap",
            "SOR fell short",
        ],
        rows,
        frozenset({"SOR value", "SOR plane", "median SOR gap"}),
    )


def _power(value: float) -> str:
    exponent = np.log2(value)
    return f"2^{int(exponent)}" if exponent == int(exponent) and exponent != 0 else f"{value:g}"


def _sets(frame: pd.DataFrame, whole: pd.DataFrame) -> Table:
    rows: list[list[Cell]] = []
    order = [name for name in datasets.DATASETS if name in set(frame["dataset"])]
    for name in order:
        group = frame[frame["dataset"] == name]
        passed, failed, short = _count(group)
        bunch = datasets.load_dataset(name)
        row: list[Cell] = [
            name,
            f"{len(bunch.data):,} x {bunch.data.shape[1]}",
            len(bunch.target_names),
            passed,
            failed,
            short,
            _best(group),
            _worst(group, "SOR agreement", solver="planes"),
        ]
        full = whole[whole["dataset"] == name]
        if len(whole):
            true = full[full["status"] == "pass"]
            row += [f"{len(true)} of {len(full[full['status'] != 'skip'])}", f"{1e3 * full['seconds'].median():.0f} ms"]
        rows.append(row)
    columns = ["set", "rows x features", "classes", "checks passed", "failed", "fell short", "SOR value", "SOR plane"]
    if len(whole):
        columns += ["whole set to 1e-6", "median SOR time"]
    return Table(
        "Data sets", "All formulations, kernels and settings.", columns, rows, frozenset({"SOR value", "SOR plane"})
    )


def _shortfalls(frame: pd.DataFrame) -> Table | None:
    short = frame[frame["status"] == "solver"]
    short = short[short["check"].isin(["KKT", "certified gap", "SOR on the whole set"])]
    if short.empty:
        return None
    rows: list[list[Cell]] = []
    groups = short.groupby(["solver", "formulation", "kernel"])
    for (solver, name, kernel), group in sorted(groups, key=lambda pair: -len(pair[1])):
        worst = group.sort_values("value", na_position="first").iloc[-1]
        at = f"{worst['dataset']}, C2 = {_power(worst['C2'])}"
        rows.append([str(solver), str(name), str(kernel), len(group), digits(float(group["value"].max())), at])
    return Table(
        "Where solvers fell short",
        "Answers above 1e-6, by solver; the solver is at fault here, not the formulation.",
        ["solver", "formulation", "kernel", "answers", "worst digits", "worst at"],
        rows,
        frozenset({"worst digits"}),
    )


def _failures(failed: pd.DataFrame) -> Table | None:
    if failed.empty:
        return None
    rows: list[list[Cell]] = [
        [r["formulation"], r["dataset"], r["kernel"], _power(r["C2"]), r["plane"], r["check"], r["meaning"]]
        for _, r in failed.iterrows()
    ]
    return Table("What failed", "", ["formulation", "set", "kernel", "C2", "plane", "check", "meaning"], rows)
