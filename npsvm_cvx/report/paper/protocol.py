"""How accuracies are estimated: folds, grids, and what one unit of work is.

The paper's protocol gives the best mean over ten folds, which is optimistic: the folds that choose the setting are the
folds that judge it.  Beside it stands nested cross-validation on the same folds: fold i is judged at the setting that
is best on its neighbours, by models that have seen neither those nor fold i.

Knows sets and methods.  Must not know of tables.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ... import catalog
from ...store import key_of
from . import methods, sets, toys


@dataclass(frozen=True)
class Protocol:
    """What a figure depends on besides the set and the method.

    Attributes
    ----------
    name : str
    folds : int
        Stratified, shuffled by ``seed``.
    exponents : tuple of int
        Every hyperparameter is 2 to one of these.
    gammas : tuple of int
        The Gaussian kernel's parameter is 2 to one of these.
    reach : tuple of int
        Settings for fold i are chosen on the folds up to so far from i on either side, with the linear and with the
        Gaussian kernel.
    max_rows : int or None
        A stratified subsample of larger sets.
    large : int
        With the Gaussian kernel, sets of more rows get a rectangular kernel of ``landmarks`` centres.
    landmarks : int
    tol : float
        Relative gap of every plane.
    seed : int
    """

    name: str
    folds: int
    exponents: tuple[int, ...]
    gammas: tuple[int, ...]
    reach: tuple[int, int]
    max_rows: int | None
    large: int
    landmarks: int
    tol: float = 1e-4
    seed: int = 0

    @property
    def values(self) -> tuple[float, ...]:
        """The values of each hyperparameter."""
        return tuple(2.0**e for e in self.exponents)


FULL = Protocol("full", 10, tuple(range(-8, 9)), tuple(range(-8, 9)), (2, 1), None, 2000, 200)
QUICK = Protocol("quick", 5, (-8, -4, 0, 4, 8), (-6, -4, -2), (1, 1), 200, 2000, 100)
PROTOCOLS = {FULL.name: FULL, QUICK.name: QUICK}


@dataclass(frozen=True)
class Slice:
    """A method on a set, with the linear kernel (``gamma`` None) or one Gaussian kernel: a row of the tidy table."""

    dataset: str
    method: str
    gamma: int | None
    protocol: Protocol

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return "linear" if self.gamma is None else "rbf"

    @property
    def name(self) -> str:
        """What the progress line says."""
        return f"{self.method} · {self.dataset} · {self.kernel}" + ("" if self.gamma is None else f" 2^{self.gamma}")

    @property
    def about(self) -> dict[str, Any]:
        """What the store says of it."""
        return {
            "report": "paper",
            "protocol": self.protocol.name,
            "kernel": self.kernel,
            "dataset": self.dataset,
            "method": self.method,
            "gamma": self.gamma,
        }

    @cached_property
    def key(self) -> str:
        """What the result depends on.

        The solver's source is not among it: whichever solver finds them, planes are within ``tol`` of the optimum.
        """
        method = methods.methods()[self.method]
        return key_of(
            what="slice",
            dataset=self.dataset,
            gamma=self.gamma,
            method=[method.name, method.formulation, method.kind],
            formulation=_source(method.formulation),
            protocol=self.protocol.__dict__,
            data=(toys if self.dataset in toys.NAMES else sets).digest(self.dataset),
            code=_code(),
            versions=_versions(),
        )

    def load(self) -> sets.Set:
        """Return the set, with its folds."""
        if self.dataset in toys.NAMES:
            return toys.load(self.dataset, self.protocol.folds, self.protocol.seed)
        return sets.load(self.dataset, self.protocol.folds, self.protocol.seed, self.protocol.max_rows)

    def units(self) -> list[Unit]:
        """Return its work, fold by fold."""
        key = self.key
        return [Unit(self, fold, key_of(slice=key, fold=fold)) for fold in range(self.load().folds)]


@dataclass(frozen=True)
class Unit:
    """One fold of a slice: what is lost, at most, if the machine stops."""

    slice: Slice
    fold: int
    key: str

    @property
    def name(self) -> str:
        """What the progress line says."""
        return self.slice.name

    @property
    def about(self) -> dict[str, Any]:
        """What the store says of it."""
        return {**self.slice.about, "fold": self.fold}


@cache
def _source(formulation: str) -> str:
    """Return a digest of a formulation's file; of none, the empty text."""
    if not formulation:
        return ""
    return hashlib.sha256((catalog._folder() / f"{formulation}.py").read_bytes()).hexdigest()


@cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")}


@cache
def _code() -> str:
    """Return a digest of the code that counts, comments and layout aside."""
    files = [Path(__file__).with_name(f"{name}.py") for name in ("folds", "methods", "sets")]
    trees = [ast.dump(ast.parse(path.read_text(encoding="utf-8"))) for path in files]
    return hashlib.sha256("".join(trees).encode()).hexdigest()
