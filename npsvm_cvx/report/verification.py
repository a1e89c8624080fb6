"""The verification report: every formulation, on every set, by every solver, and what that adds up to.

Runs in worker processes, saving each result as it comes; the tidy table ``verification.csv`` is all that the tables,
figures and sentences are made from.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from .. import catalog, datasets, planes
from ..reading import NotCompilable
from ..solution import solve
from ..store import Store, key_of
from ..verification import environment, verify
from . import analysis, checker, figures, render, runner
from .analysis import Table
from .runner import Progress

CORNERS = ((1.0, 1.0), (2.0**-8, 2.0**8), (2.0**-8, 1.0), (1.0, 2.0**8))
"""The settings (C1, C2): the middle of the grid 2^-8 .. 2^8 and the corners where solvers have the hardest time."""
SOLVERS = ("clarabel", "osqp", "ecos", "highs", "scs")
QUICK_ROWS, FULL_ROWS = 60, 120
"""Rows of the stratified subsample that the general solvers see."""


@dataclass(frozen=True)
class Task:
    """One formulation on one set with one kernel, at every setting."""

    formulation: str
    dataset: str
    kernel: str
    corners: tuple[tuple[float, float], ...]
    solvers: tuple[str, ...]
    max_rows: int
    max_planes: int
    whole_set: bool

    @property
    def name(self) -> str:
        """What the progress line says."""
        return f"{self.formulation} · {self.dataset} · {self.kernel}"

    @property
    def key(self) -> str:
        """What the result depends on: this task, the formulation's source, the data, the package and its solvers."""
        return key_of(
            task=self.__dict__,
            formulation=runner.formulation_digest(self.formulation),
            data=runner.data_digest(self.dataset),
            package=_package_digest(),
            versions=environment(),
        )


def tasks(quick: bool) -> list[Task]:
    """Return the work of the full or the quick report."""
    names = catalog.available()
    sets = ("heart_statlog", "iris", "wine") if quick else datasets.DATASETS
    corners, solvers = (CORNERS[:2], SOLVERS[:3]) if quick else (CORNERS, SOLVERS)
    rows, whole = (QUICK_ROWS, False) if quick else (FULL_ROWS, True)
    return [
        Task(name, dataset, kernel, _distinct(name, corners), solvers, rows, 2, whole)
        for dataset in sets
        for kernel in ("linear", "rbf")
        for name in names
    ]


def _distinct(name: str, corners: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    """A formulation without C1 has fewer distinct settings."""
    if "C1" in catalog.load(name)().get_params():
        return corners
    return tuple({C2: (math.nan, C2) for _, C2 in corners}.values())


def build(out: Path, *, quick: bool = False, jobs: int = 2, on_progress: Progress | None = None) -> Path:
    """Run what is not yet in the store, write the report, and return the path of its HTML file.

    Parameters
    ----------
    out : Path
        Folder for the report; the store ``results.sqlite`` lies in it, so that an interrupted run continues.
    quick : bool
        Three sets and two settings, under two minutes on two cores.
    jobs : int
        Worker processes.
    on_progress : callable (done, total, name), optional

    Raises
    ------
    NPSVMError
        The folder cannot be written, or jobs is not positive.
    """
    runner.check_jobs(jobs)
    work = tasks(quick)
    total = len(work) + checker.size(quick)
    with Store(out / "results.sqlite") as store:
        frame = pd.DataFrame(runner.collect(work, run, store, jobs, runner.part_of(on_progress, 0, total)))
        rest = runner.part_of(on_progress, len(work), total)
        appendix = checker.collect(store, out, quick=quick, jobs=jobs, on_progress=rest)
    for column in ("C1", "C2", "value", "tolerance", "seconds"):
        frame[column] = pd.to_numeric(frame[column])  # None and "inf" are how the store spells NaN and infinity
    return write(frame, out, quick=quick, appendix=appendix)


def write(frame: pd.DataFrame, out: Path, *, quick: bool, appendix: Sequence[Table] = ()) -> Path:
    """Write CSV, figures, Markdown and HTML from the tidy table; the appendix's tables are made from their own."""
    render.csv(_compact(frame), out / "verification.csv", "%.3g")
    report = replace(analysis.summarise(frame, quick=quick), appendix=appendix)
    pictures = figures.draw(frame, out)
    return render.write(report, pictures, out)


def _compact(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a check and solver, worst over the planes; sentences only where something fell short."""
    keys = ["formulation", "dataset", "kernel", "C1", "C2", "check", "solver", "claim"]
    rows = frame.copy()
    rows["meaning"] = rows["meaning"].where(rows["status"].isin(["fail", "solver"]), "")
    rows["rank"] = rows["status"].map({"skip": 0, "pass": 1, "solver": 2, "fail": 3})
    rows = rows.sort_values(["rank", "value"], na_position="first", kind="stable")
    worst = rows.groupby(keys, dropna=False, sort=True).last()
    worst["planes"] = rows.groupby(keys, dropna=False, sort=True).size()
    return worst.reset_index()[[*keys, "planes", "value", "tolerance", "status", "seconds", "meaning"]]


def run(task: Task) -> list[dict[str, Any]]:
    """Do one task; return its rows."""
    rows: list[dict[str, Any]] = []
    with threadpool_limits(1):
        X, y = datasets.as_arrays(datasets.load_dataset(task.dataset))
        small = datasets.stratified_subsample(X, y, task.max_rows)
        cls = catalog.load(task.formulation)
        for C1, C2 in task.corners:
            formulation = cls(C2=C2) if math.isnan(C1) else cls(C1=C1, C2=C2)
            tag = {"formulation": task.formulation, "dataset": task.dataset, "kernel": task.kernel, "C1": C1, "C2": C2}
            answer = verify(formulation, small, solvers=task.solvers, kernel=task.kernel, max_planes=task.max_planes)
            rows += [runner.plain({**tag, **row.__dict__}) for row in answer.rows]
            if task.whole_set:
                rows += [runner.plain({**tag, **row}) for row in _whole(formulation, X, y, task)]
    return rows


def _whole(formulation: Any, X: Any, y: Any, task: Task) -> list[dict[str, Any]]:
    """SOR on all rows of the set; kernels with at most ``LANDMARKS`` centres (the rectangular kernel)."""
    centres = X if len(X) <= LANDMARKS else datasets.stratified_subsample(X, y, LANDMARKS)[0]
    rows = planes.Rows.of(task.kernel, centres, gamma=planes.scale_gamma(X))(X)
    found = []
    for k in np.unique(y)[: task.max_planes]:
        S, R = planes.class_matrices(rows, y, k, formulation.scheme)
        begin = time.perf_counter()
        try:
            solution = solve(formulation, S, R, tol=1e-8, time_limit=20.0)
        except NotCompilable as reason:
            row: dict[str, Any] = {"value": math.nan, "status": "skip", "meaning": str(reason), "claim": ""}
        else:
            proved = solution.certificate
            gap = solution.relative_gap if proved is None else proved.relative_gap
            row = {
                "value": gap,
                "status": "pass" if gap <= 1e-6 else "solver",
                "meaning": f"gap {gap:.1e} ({solution.status})",
                "claim": solution.status,
            }
        found.append(
            {
                "check": "SOR on the whole set",
                "solver": "sor",
                "plane": str(k),
                "tolerance": 1e-6,
                "seconds": time.perf_counter() - begin,
                **row,
            }
        )
    return found


LANDMARKS = 300


@cache
def _package_digest() -> str:
    """Return a digest of the modules a result depends on; reports and the command line are not among them."""
    return runner.package_digest({"cli", "scaffold", "estimator", "baselines", "store"}, __file__)
