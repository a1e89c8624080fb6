"""The paper report: section 4 of the paper, its six tables and two figures, beside what comes out here.

``paper.csv`` is all that the tables, figures and sentences are made from, and what a later run continues from.
"""

from __future__ import annotations

import contextlib
from collections.abc import Set
from pathlib import Path

from ...errors import NPSVMError
from ...store import FILE, Store
from .. import latex, render
from ..runner import Progress, Spread, by_joblib, check_jobs
from . import cells, experiments, figures, protocol, results, summary, work


def build(
    out: Path,
    *,
    quick: bool = False,
    jobs: int = 2,
    on_progress: Progress | None = None,
    backend: str = "loky",
    scheduler: str | None = None,
    time_limit: float | None = None,
) -> Path:
    """Run what is not yet in the store, write the report, and return the path of its HTML file.

    Parameters
    ----------
    out : Path
        Folder for the report; the store lies in it, so that an interrupted run continues, and so does one that only
        has the ``paper.csv`` of an earlier run there.  One with results of another protocol, version or code is kept
        beside as ``paper.previous1.csv``, from which a run they are of continues.
    quick : bool
        A coarse grid, five folds, at most 200 rows a set.
    jobs : int
        Worker processes.
    on_progress : callable (done, total, name), optional
    backend, scheduler : str
        Of :func:`~npsvm_cvx.report.runner.by_joblib`.
    time_limit : float, optional
        Seconds after which no further fold is begun; what is missing then is shown as not run.

    Raises
    ------
    NPSVMError
        The folder cannot be written, or an argument is out of its range.
    """
    spread = check(jobs=jobs, backend=backend, scheduler=scheduler, time_limit=time_limit)
    chosen = protocol.QUICK if quick else protocol.FULL
    slices = work.slices(chosen)
    tidy = out / "paper.csv"
    if tidy.is_dir():
        raise NPSVMError(f"{tidy} is a folder, where the table of results is to be written.")
    with Store(out / FILE) as store:
        for table in results.tables_in(out):
            with contextlib.suppress(NPSVMError):  # another version's table, of which nothing could be used
                results.take_over(table, slices, store)
        results.gather(slices, store, spread, on_progress, time_limit)
        tidied = results.frame(slices, store)
        if tidy.is_file():
            results.set_aside(tidy, slices, store)
    results.write_csv(tidied, tidy)
    return write(out, chosen)


def check(
    *, jobs: int = 2, backend: str = "loky", scheduler: str | None = None, time_limit: float | None = None
) -> Spread:
    """Refuse wrong arguments of :func:`build` before anything is made; return how its work will be spread."""
    check_jobs(jobs)
    if time_limit is not None and not time_limit >= 0:
        raise NPSVMError(f"time_limit={time_limit!r} must not be negative.")
    return by_joblib(jobs, backend, scheduler)


def write(out: Path, chosen: protocol.Protocol) -> Path:
    """Write the report from the tidy table in ``out``: figures, Markdown, HTML, LaTeX, cells; return the HTML file."""
    table = results.read_csv(out / "paper.csv")
    found = cells.of(table, chosen)
    failed = cells.failures(table)
    rows = cells.beside(found, failed, experiments.explanations(found, table, chosen))
    report = summary.report(rows, found, failed, table, chosen)
    render.csv(cells.frame(found, rows), out / "cells.csv", "%.6g")
    pictures = figures.draw(rows, found, table, out)
    render.put(out / "tables.tex", latex.document(report.title, report.tables, report.notes))
    return render.write(report, pictures, out)


def keys(quick: bool, there: Set[str]) -> set[str]:
    """Return the keys that a run would look for in a store with those of ``there``: of slices, or of their folds."""
    wanted: set[str] = set()
    for each in work.slices(protocol.QUICK if quick else protocol.FULL):
        wanted.add(each.key)
        if each.key not in there:
            wanted |= {unit.key for unit in each.units()}
    return wanted
