"""The originals raise no alarm: a seeded sample of what a verification can be asked, and what each said.

The sample covers every pair of levels of formulation, set, kernel, grid point, own hyperparameters, solver, scheme and
seed, so that no two of them disagree unseen; beyond that it takes in as many triples as its size allows.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, get_args

import numpy as np
from threadpoolctl import threadpool_limits

from .. import catalog, datasets
from ..modeling import Formulation, Scheme
from ..store import key_of
from ..verification import verify
from . import runner

SIZE, QUICK_SIZE = 1000, 40
MAX_ROWS, MAX_PLANES = 50, 2
LEVELS = (2.0**-8, 2.0**-4, 1.0, 2.0**4, 2.0**8)
"""Of the ridge (C1, or what stands for it) and of C2: every grid point, the four corners among them."""
KERNELS = ("linear", "rbf", "poly")
SOLVERS = ("clarabel", "osqp", "ecos", "scs", "highs")
OWN = ("low", "default", "high")
"""Where a formulation's remaining hyperparameters stand in their intervals."""


@dataclass(frozen=True)
class Task:
    """One verification of an original."""

    formulation: str
    dataset: str
    kernel: str
    ridge: float
    C2: float
    own: str
    solver: str
    scheme: Scheme
    seed: int

    @property
    def name(self) -> str:
        """What the progress line says."""
        return f"no alarm · {self.formulation} · {self.dataset} · {self.kernel} · {self.solver}"

    @property
    def key(self) -> str:
        """What the result depends on: this task, the formulation's file, the data, the package and its solvers."""
        return key_of(
            task=self.__dict__,
            rows=(MAX_ROWS, MAX_PLANES),
            formulation=runner.formulation_digest(self.formulation),
            data=runner.data_digest(self.dataset),
            package=runner.verifier_digest(),
            versions=runner.versions(),
        )


def tasks(quick: bool = False) -> list[Task]:
    """Return the sample; the quick one is its beginning, where most new pairs are."""
    return list(_sample()[: QUICK_SIZE if quick else SIZE])


@cache
def _sample() -> tuple[Task, ...]:
    levels = _factors()
    rows = covering_sample(levels, SIZE, random_state=0)
    found = []
    for row in rows:
        ridge, C2 = row.pop("grid")
        found.append(Task(**row, ridge=ridge, C2=C2))
    return tuple(found)


def _factors() -> dict[str, Sequence[Any]]:
    return {
        "formulation": catalog.available(),
        "dataset": tuple(datasets.DATASETS),
        "kernel": KERNELS,
        "grid": tuple(itertools.product(LEVELS, LEVELS)),
        "own": OWN,
        "solver": SOLVERS,
        "scheme": get_args(Scheme),
        "seed": tuple(range(6)),
    }


def covering_sample(factors: Mapping[str, Sequence[Any]], size: int, random_state: int) -> list[dict[str, Any]]:
    """Return at least ``size`` combinations that cover every pair of levels, chosen greedily for the triples as well.

    Each row starts from a pair not yet covered and is completed, among random completions, by the one that covers most
    that is new: pairs first, then triples.

    Examples
    --------
    >>> rows = covering_sample({"a": "xy", "b": (1, 2, 3), "c": (True, False)}, 6, random_state=0)
    >>> len(rows), len({(row["a"], row["b"]) for row in rows})
    (6, 6)
    """
    rng = np.random.default_rng(random_state)
    names = list(factors)
    counts = [len(factors[name]) for name in names]
    every = list(_tuples(counts, 2))
    pairs = dict.fromkeys(every[i] for i in rng.permutation(len(every)))
    triples = set(_tuples(counts, 3))
    rows: list[tuple[int, ...]] = []
    while pairs or len(rows) < size:
        candidates = np.column_stack([rng.integers(n, size=24) for n in counts])
        if pairs:
            for at, level in next(iter(pairs)):
                candidates[:, at] = level
        best = max((tuple(map(int, row)) for row in candidates), key=lambda row: _new(row, pairs, triples))
        rows.append(best)
        for pair in _parts(best, 2):
            pairs.pop(pair, None)
        triples.difference_update(_parts(best, 3))
    return [{name: factors[name][level] for name, level in zip(names, row, strict=True)} for row in rows]


Part = tuple[tuple[int, int], ...]


def _tuples(counts: Sequence[int], order: int) -> Iterator[Part]:
    for chosen in itertools.combinations(range(len(counts)), order):
        for levels in itertools.product(*(range(counts[at]) for at in chosen)):
            yield tuple(zip(chosen, levels, strict=True))


def _parts(row: tuple[int, ...], order: int) -> list[Part]:
    return list(itertools.combinations(enumerate(row), order))


def _new(row: tuple[int, ...], pairs: Mapping[Part, None], triples: set[Part]) -> tuple[int, int]:
    return sum(p in pairs for p in _parts(row, 2)), sum(t in triples for t in _parts(row, 3))


def coverage(done: Sequence[Task], order: int) -> float:
    """Return the share of all combinations of levels, ``order`` factors at a time, that the tasks contain."""
    factors = _factors()
    where = {name: {level: i for i, level in enumerate(levels)} for name, levels in factors.items()}
    seen: set[Part] = set()
    for task in done:
        row = {**task.__dict__, "grid": (task.ridge, task.C2)}
        seen.update(_parts(tuple(where[name][row[name]] for name in factors), order))
    return len(seen) / sum(1 for _ in _tuples([len(levels) for levels in factors.values()], order))


def run(task: Task) -> list[dict[str, Any]]:
    """Verify one original; return one row: how many checks had which status, and what an alarm says."""
    begin = time.perf_counter()
    with threadpool_limits(1):
        answer = verify(
            set_at(catalog.load(task.formulation), task.ridge, task.C2, task.own),
            task.dataset,
            solvers=(task.solver,),
            kernel=task.kernel,
            scheme=task.scheme,
            max_rows=MAX_ROWS,
            max_planes=MAX_PLANES,
            random_state=task.seed,
        )
    alarm = answer.counts["fail"] > 0
    outcome = "alarm" if alarm else "verified" if answer.passed else "undecided"
    n = answer.counts
    return [
        {
            **task.__dict__,
            "passed": n["pass"],
            "failed": n["fail"],
            "fell short": n["solver"],
            "skipped": n["skip"],
            "outcome": outcome,
            "meaning": answer.diagnosis if alarm else "",
            "seconds": round(time.perf_counter() - begin, 3),
        }
    ]


def set_at(cls: type[Formulation], ridge: float, C2: float, own: str) -> Formulation:
    """Return the formulation with its ridge and C2 there and what else it has at an end of its interval.

    Examples
    --------
    >>> set_at(catalog.load("nppc"), 4.0, 0.5, "high")
    NPPC(C1=4.0, C2=0.5, d=0.98)
    """
    made = cls()
    values = {name: value for name, value in ((cls.ridge, ridge), ("C2", C2)) if name in made.get_params()}
    for name in made.get_params():
        if name not in values and name in cls.domain and own != "default":
            values[name] = _end(cls.domain[name], own)
    return made.set_params(**values)


def _end(interval: str, which: str) -> float:
    """The low or high end of an interval such as ``(0, 1]``: near it where it is open, 2^-8 or 2^8 where infinite."""
    text = interval.strip()
    low, high = (float(part) for part in text[1:-1].split(","))
    width = high - low
    if which == "low":
        return low if text[0] == "[" else low + (0.02 * width if np.isfinite(width) else LEVELS[0])
    return high if text[-1] == "]" else (high - 0.02 * width if np.isfinite(width) else LEVELS[-1])


COLUMNS = [field.name for field in fields(Task)]
