"""The losses report: a new loss or formulation beside the built-in ones.

Nested cross-validation on chosen sets with paired statistics, sparsity and time, decision regions on the toy sets, the
loss and its conjugate, and the verification.  The tidy tables ``losses.csv``, ``checks.csv``, ``toys.csv`` and
``curves.csv`` are all that the page is made from.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .. import catalog
from ..errors import NPSVMError
from ..store import Store, key_of
from ..verification import environment
from . import losses_figures, losses_tables, render, runner, trials
from .analysis import processor
from .runner import Progress
from .trials import Contender

SETS = ("heart_statlog", "hepatitis", "iris", "wine", "wpbc", "sonar", "bupa", "votes", "australian")
"""Nine small sets: the fewest on which a contender that wins everywhere differs from eleven others at 5 % after Holm's
correction, ``11 * 2 / 2^9 = 0.043``."""
QUICK_SETS = SETS[:4]
FOLDS, QUICK_FOLDS = 10, 5


@dataclass(frozen=True)
class Task:
    """One trial of one contender."""

    kind: str
    contender: Contender
    dataset: str
    folds: int
    new: bool

    @property
    def name(self) -> str:
        """What the progress line says."""
        return " · ".join(part for part in (self.contender.label, self.dataset, self.kind) if part)

    @property
    def key(self) -> str:
        """The key of its result: this task, the formulation's file, the data, the package, its libraries, the machine.

        The machine, since times are among the results.
        """
        return key_of(
            task=(self.kind, self.contender.label, self.dataset, self.folds, self.new),
            formulation=_source_digest(self.contender.source),
            data=runner.data_digest(self.dataset) if self.kind not in ("toy", "curves") else "",
            package=_package_digest(),
            versions=environment(),
            machine=processor(),
        )


def contenders(files: Sequence[str]) -> tuple[list[Contender], list[Contender]]:
    """Return the new contenders and the built-in ones, each tried as far as being convex.

    Raises
    ------
    NPSVMError
        No file; a file that is not there or declares no formulation, or several; a problem that is not convex, or
        that raises; two files of one name.
    """
    if not files:
        raise NPSVMError(
            "FILE is missing: give the file of a loss or formulation, as in npsvm report losses my_loss.py."
        )
    new: dict[str, Contender] = {}
    for file in dict.fromkeys(files):
        path = Path(file).expanduser()
        named = path.suffix != ".py" and path.name == file
        if not named and not path.is_file():
            raise NPSVMError(f"FILE={file!r}: there is no such file.")
        source = file if named else str(path.resolve())
        cls = catalog.load(source)
        label = file if named else cls.__name__
        if label in new:
            raise NPSVMError(f"FILE: two of the files declare {label}; rename the class in one.")
        new[label] = Contender(label, source)
        _tried(new[label])
    builtin = [Contender(name, name) for name in catalog.available() if name not in new]
    clash = sorted(set(new) & {contender.label for contender in builtin})
    if clash:
        raise NPSVMError(f"FILE: {clash[0]} is the name of a built-in formulation; rename the class.")
    return list(new.values()), builtin


def _tried(contender: Contender) -> None:
    """Build both problems once on a small instance, so that what is wrong with a file is said before anything runs."""
    formulation = contender.formulation()
    rows = np.array([[0.3, -1.0, 1.0], [1.1, 0.4, 1.0], [-0.7, 0.9, 1.0], [0.2, 0.8, 1.0]])
    formulation.program("primal", rows, -rows[:3])
    formulation.program("dual", rows, -rows[:3])


def check(*, files: Sequence[str], data: Sequence[str]) -> None:
    """Raise NPSVMError, naming what is wrong, for files or sets that a report cannot be made of."""
    contenders(files)
    for source in data:
        trials.check_data(source)


def tasks(files: Sequence[str], data: Sequence[str], folds: int) -> list[Task]:
    """Return the work: the new contenders' curves and verification first, then set by set."""
    new, builtin = contenders(files)
    everyone = [(contender, True) for contender in new] + [(contender, False) for contender in builtin]
    found = [Task("curves", contender, "", 0, own) for contender, own in everyone]
    found += [Task(kernel, contender, data[0], 0, True) for kernel in ("linear", "rbf") for contender in new]
    found += [Task("accuracy", contender, name, folds, own) for name in data for contender, own in everyone]
    found += [Task("toy", contender, name, 0, own) for name in trials.TOYS for contender, own in everyone]
    return found


def run(task: Task) -> list[dict[str, Any]]:
    """Do one trial; return its rows."""
    rows = trials.run(task.kind, task.contender, task.dataset, task.folds)
    return [{"new": task.new, **row} for row in rows]


def build(
    out: Path,
    *,
    files: Sequence[str] = (),
    data: Sequence[str] = (),
    quick: bool = False,
    jobs: int = 2,
    on_progress: Progress | None = None,
) -> Path:
    """Run what is not yet in the store, write the report, and return the path of its HTML file.

    Parameters
    ----------
    out : Path
        Folder for the report; the store ``results.sqlite`` lies in it, so that an interrupted run continues.
    files : sequence of str
        The new losses or formulations: ``.py`` files, or names of built-in ones.
    data : sequence of str
        Names of sets that ship with the package, or files whose last column is the label; ``SETS`` by default.
    quick : bool
        Four sets and five folds.
    jobs : int
        Worker processes.
    on_progress : callable (done, total, name), optional

    Raises
    ------
    NPSVMError
        What :func:`contenders` refuses, an unknown set, or a folder that cannot be written.
    """
    runner.check_jobs(jobs)
    check(files=files, data=data)
    chosen = tuple(dict.fromkeys(data)) or (QUICK_SETS if quick else SETS)
    folds = QUICK_FOLDS if quick else FOLDS
    work = tasks(files, chosen, folds)
    with Store(out / "results.sqlite") as store:
        frame = pd.DataFrame(runner.collect(work, run, store, jobs, on_progress))
    words = ["npsvm", "report", "losses", *(Path(file).name for file in files)]
    words += ["--quick"] * quick + [word for source in data for word in ("--data", Path(source).name)]
    return write(frame, out, command=shlex.join(words))


FIGURES = ("C1", "C2", "fold", "test", "accuracy", "zero", "fit_seconds", "total_seconds", "cpu_seconds", "gap",
           "value", "tolerance", "seconds", "x", "y")  # fmt: skip


def write(frame: pd.DataFrame, out: Path, *, command: str) -> Path:
    """Write CSVs, figures, Markdown and HTML from the table of all results."""
    frame = frame.copy()
    for column in FIGURES:
        # a column that no row has is one of figures that nothing has
        frame[column] = pd.to_numeric(frame[column]) if column in frame else np.nan
    for kind, name in (("accuracy", "losses"), ("check", "checks"), ("toy", "toys"), ("curves", "curves")):
        part = frame[frame["kind"] == kind].drop(columns="kind").dropna(axis=1, how="all")
        render.csv(part, out / f"{name}.csv", "%.6g")
    report = losses_tables.summarise(frame, command)
    return render.write(report, losses_figures.draw(frame, out), out)


@cache
def _source_digest(source: str) -> str:
    return runner.file_digest(catalog.path_of(source))


@cache
def _package_digest() -> str:
    return runner.package_digest({"cli", "scaffold", "baselines", "plotting", "store", "display"}, trials.__file__)
