r"""From a declared dual to the arrays the SOR solver wants, by asking the dual itself.

Nothing is declared twice: on a small random instance the dual's objective, constraints and plane are evaluated at
chosen points, the numbers are read off, and the reading is checked at random points.  A dual of another shape is
refused with the reason.  Knows the vocabulary and the solver's arrays; must not know any formulation by name.

Two shapes are read.

**Box and separable quadratic** (every framework dual): with ``M = near S'S + diag(ridge)``

.. math::
    \max_a -\tfrac12 a^\top R M^{-1} R^\top a - \sum_i h(a_i), \quad lower \le a_i \le upper, \qquad z = M^{-1} R^\top a

**Box linear program** (the 1-norm program): blocks of multipliers tied by one equation whose multiplier is z

.. math::
    \max_\theta -c^\top \theta \quad\text{s.t.}\quad G^\top \theta = 0,\; lower \le \theta \le upper, \qquad
    G = [\,s_j B_j\,],\; B_j \in \{R, S, I\}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from .errors import FormulationError
from .forms import BoxLP, BoxQP, Coefficients, Compiled, Steps
from .framework import Framework
from .modeling import Formulation
from .reading import EXACT, NotCompilable, read
from .solvers import value_with_plane_fixed

_T = TypeVar("_T")


def compile(formulation: Formulation) -> Compiled:
    """Read off the formulation's declared dual the numbers SOR needs.

    Raises
    ------
    NotCompilable
        No dual is declared, or its shape is neither of the two, and no loss with a proximal map stands behind it; the
        message says why.

    Examples
    --------
    >>> from npsvm_cvx import load
    >>> compile(load("hnpsvm")(C1=2.0, C2=4.0))
    BoxQP(near=1.0, ridge=(2.0, 2.0), samples=Coefficients(linear=-1.0, curvature=0.0, lower=0.0, upper=4.0,
    constant=0.0))
    """
    return _remembered(_READ, formulation, _compiled)


_READ: dict[Any, Compiled] = {}
_REMEMBERED = 1024  # readings kept, so that the classes, folds and repetitions of a setting read its dual once


def _remembered(kept: dict[Any, _T], formulation: Formulation, find: Callable[[Formulation], _T]) -> _T:
    """Return what is found of a formulation and its hyperparameters, found once."""
    key = _key(formulation)
    try:
        if key in kept:
            return kept[key]
    except TypeError:  # a hyperparameter that cannot be looked up, an array say
        return find(formulation)
    found = find(formulation)
    if len(kept) >= _REMEMBERED:
        kept.pop(next(iter(kept)), None)
    kept[key] = found
    return found


def _key(part: Any) -> Any:
    if isinstance(part, BaseEstimator):  # a formulation, or a loss inside one: its class and all that it holds
        return type(part), tuple((name, _key(value)) for name, value in sorted(vars(part).items()))
    return part


def disagreement(formulation: Formulation, compiled: Compiled) -> str | None:
    """Return how the primal that a dual was read to belong to differs from the declared one; None where it does not.

    Their values are compared at two planes on a small instance, the slacks the best for each.  It is no verification,
    and enough for not training on a wrong dual.
    """
    return _remembered(_COMPARED, formulation, lambda each: _disagreement(each, compiled))


def compile_agreeing(formulation: Formulation) -> Compiled:
    """Return the compiled dual of a formulation whose primal it belongs to, as :func:`disagreement` tells.

    Raises
    ------
    NotCompilable
        As :func:`compile`.
    FormulationError
        The dual is another primal's.
    """
    compiled = compile(formulation)
    wrong = disagreement(formulation, compiled)
    if wrong is not None:
        raise FormulationError(
            f"{type(formulation).__name__}: its dual is not that of its primal: {wrong}. See what is wrong by npsvm "
            "verify, or solve the primal with solver='clarabel'."
        )
    return compiled


_COMPARED: dict[Any, str | None] = {}


def _disagreement(formulation: Formulation, compiled: Compiled) -> str | None:
    rng = np.random.default_rng(0)
    S, R = (np.column_stack([rng.normal(size=(n, 2)), np.ones(n)]) for n in (5, 40))
    program = formulation.program("primal", S, R)
    if program is None or isinstance(program.plane, str):
        return None
    for z in 2 * rng.normal(size=(2, 3)):  # margins on both sides of one
        declared, read = value_with_plane_fixed(program, z), compiled.primal_value(S, R, z)
        if np.isfinite(declared) and abs(declared - read) > _APART * max(abs(declared), abs(read)):
            return f"at a plane the declared primal is {declared:.6g}, and by the declared dual it is {read:.6g}"
    return None


_APART = 1e-4  # relative: a solver is accurate to better than that, and a wrong factor is not as near
_RANGE = 1e-15, 1e15  # of hyperparameters, zero apart, at which a dual is read to its last digit


def _compiled(formulation: Formulation) -> Compiled:
    for name, value in formulation.get_params(deep=True).items():
        if isinstance(value, Real) and value and not _RANGE[0] <= abs(float(value)) <= _RANGE[1]:
            raise NotCompilable(
                f"{name}={float(value):g} is beyond {_RANGE[0]:g} to {_RANGE[1]:g}, where a dual's numbers can be told."
            )
    if isinstance(formulation, Framework) and formulation.loss.prox is not None:
        try:
            return _compiled_dual(formulation)
        except NotCompilable:
            formulation.program("primal", np.ones((2, 2)), np.ones((2, 2)))  # convex, and a function of one margin
            return Steps(formulation)
    return _compiled_dual(formulation)


def _compiled_dual(formulation: Formulation) -> BoxQP | BoxLP:
    first = read(formulation, rows=5, margins=4, seed=1)
    size = 1.0
    if isinstance(first, BoxQP):
        # beside rows of size one a small or large ridge is read with few digits; beside rows of its own size, with all
        if max(first.ridge) == 0:
            first = read(formulation, rows=5, margins=4, seed=1, size=_TINY_ROWS)
        if isinstance(first, BoxQP) and max(first.ridge) > 0:
            size = float(np.sqrt(max(first.ridge)))
        first = read(formulation, rows=5, margins=4, seed=1, size=size)
    second = read(formulation, rows=8, margins=6, seed=2, size=size)
    if not same(first, second):
        raise NotCompilable("the dual's numbers change with the number of rows.")
    return _as_declared(first, formulation)


_TINY_ROWS = 1e-4  # their squares show a ridge of 1e-18


def _as_declared(read: BoxQP | BoxLP, formulation: Formulation) -> BoxQP | BoxLP:
    """Return the reading with each number the one that was declared, where it is a product of hyperparameters.

    A reading is good to nine digits or more.  A certificate is of the numbers themselves, to the last one.
    """
    values = [float(v) for v in formulation.get_params(deep=True).values() if isinstance(v, Real) and v and v == v]
    bases = sorted({abs(v) for v in values} | {1 - v for v in values if 0 < v < 1})
    simple = [x for p in bases for x in (p, 1 / p)]
    double = [x for p in bases for q in bases for x in (p * q, p / q, 1 / (p * q))]
    # the simplest first: what is as near as rounding tells is taken to be that
    known = np.array([k * x for x in (1.0, *simple, *double) if np.isfinite(x) for k in (1.0, 0.5, 2.0, 0.25, 4.0)])

    def declared(x: float) -> float:
        if x == 0 or not np.isfinite(x):
            return x
        apart = np.abs(known - abs(x))
        nearest = float(known[np.argmax(apart <= apart.min() + 1e-15 * abs(x))])
        if abs(nearest - abs(x)) <= EXACT * abs(x):
            return float(np.copysign(nearest, x))
        plain = float(f"{x:.12g}")
        return plain if abs(plain - x) <= 1e-14 * abs(x) else x

    def of(c: Coefficients) -> Coefficients:
        return Coefficients(*(declared(x) for x in (c.linear, c.curvature, c.lower, c.upper, c.constant)))

    if isinstance(read, BoxQP):
        on_w, on_b = (declared(x) for x in read.ridge)
        return BoxQP(declared(read.near), (on_w, on_b), of(read.samples))
    return BoxLP(tuple(replace(block, scale=declared(block.scale), samples=of(block.samples)) for block in read.blocks))


def same(one: Compiled, two: Compiled, tolerance: float = 1e-8) -> bool:
    """Whether two readings have the same numbers."""
    if isinstance(one, Steps) or isinstance(two, Steps):
        return one == two
    if type(one) is not type(two):
        return False
    pairs = zip(_numbers(one), _numbers(two), strict=True)
    return all(
        a == b or (np.isfinite(a) and np.isfinite(b) and abs(a - b) <= tolerance * max(abs(a), abs(b), 1e-12))
        for a, b in pairs
    )


def _numbers(compiled: BoxQP | BoxLP) -> list[float]:
    def of(c: Coefficients) -> list[float]:
        return [c.linear, c.curvature, c.lower, c.upper, c.constant]

    if isinstance(compiled, BoxQP):
        return [compiled.near, *compiled.ridge, *of(compiled.samples)]
    return [x for block in compiled.blocks for x in (block.scale, *of(block.samples))]
