"""The checker is checked: every mutant of every formulation file, what caught it, and whether the place was named."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from .. import catalog, defects
from ..mutation import Mutant, mutants
from ..store import key_of
from . import runner

QUICK_SIZE = 40
SOLVERS, MAX_PLANES = ("clarabel",), 1
"""One solver and one plane of the seeded instance: what is caught so is caught by more."""


@dataclass(frozen=True)
class Task:
    """One mutant of one formulation's file."""

    formulation: str
    mutant: Mutant

    @property
    def name(self) -> str:
        """What the progress line says."""
        return f"mutant · {self.formulation} · {self.mutant.operator} · {self.mutant.place}"

    @property
    def key(self) -> str:
        """What the result depends on: the mutated file, the original, the judge, the package and its solvers."""
        return key_of(
            mutant=self.mutant.__dict__,
            options=(SOLVERS, MAX_PLANES),
            formulation=runner.formulation_digest(self.formulation),
            package=runner.verifier_digest(),
            judge=runner.file_digest(defects.__file__),
            versions=runner.versions(),
        )


def tasks(quick: bool = False) -> list[Task]:
    """Return every mutant, or a seeded sample of them."""
    every = _every()
    if not quick:
        return list(every)
    chosen = np.random.default_rng(0).choice(len(every), QUICK_SIZE, replace=False)
    return [every[i] for i in sorted(chosen)]


@cache
def _every() -> tuple[Task, ...]:
    found = []
    for name in catalog.available():
        source = (catalog._folder() / f"{name}.py").read_text(encoding="utf-8")
        found += [Task(name, mutant) for mutant in mutants(source)]
    return tuple(found)


def run(task: Task) -> list[dict[str, Any]]:
    """Verify one mutant as a user's file would be, by the least that a verification can be; return one row."""
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        original = catalog.load(task.formulation)()
        judged = defects.judge(original, task.mutant, Path(folder), solvers=SOLVERS, max_planes=MAX_PLANES)
    mutant = task.mutant
    return [
        {
            "formulation": task.formulation,
            "operator": mutant.operator,
            "place": mutant.place,
            "line": mutant.line,
            "before": mutant.before,
            "after": mutant.after,
            **{k: (round(v, 3) if isinstance(v, float) else v) for k, v in judged.to_dict().items() if k != "line"},
            "diagnosis": judged.line,
        }
    ]
