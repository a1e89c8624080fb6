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

import contextlib
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from .certificate import Proof
from .derivation import evaluate
from .errors import FormulationError
from .linalg import Array, Factor
from .modeling import Formulation, Framework, Program
from .problem import Problem, Stack, is_sparse, joined
from .proximal import proximal_point
from .solvers import value_with_plane_fixed
from .sor import SORResult
from .steps import coordinate_steps
from .terms import Terms
from .working_set import minimise

_EXACT = 1e-9  # relative error allowed in a reading; evaluations are exact to rounding


class NotCompilable(FormulationError):
    """The dual has a shape SOR does not solve; the message says which feature stands in the way."""


@dataclass(frozen=True)
class Coefficients:
    """``h(a) = linear a + 1/2 curvature a^2 + constant`` on ``[lower, upper]``, the same for every sample."""

    linear: float
    curvature: float
    lower: float
    upper: float
    constant: float = 0.0

    def terms(self, n: int, weights: float | Array = 1.0) -> Terms:
        """Return the terms of n samples, whose losses are ``weights`` times this one's: their h is ``s h(a / s)``."""
        s = np.broadcast_to(np.asarray(weights, dtype=float), (n,))
        return Terms.of(n, self.linear, self.curvature / s, s * self.lower, s * self.upper, self.constant * s.sum())

    def __str__(self) -> str:
        return (
            f"h(a) = {self.linear:g} a + {self.curvature / 2:g} a^2 + {self.constant:g} "
            f"on [{self.lower:g}, {self.upper:g}]"
        )


@dataclass(frozen=True)
class BoxQP:
    """The first shape: ``near`` multiplies S'S, ``ridge`` is (on w, on b)."""

    near: float
    ridge: tuple[float, float]
    samples: Coefficients

    shape = "box and separable quadratic: SOR on whitened rows"

    def problem(
        self,
        S: Array | Stack,
        R: Array | Stack,
        *,
        near: Array | None = None,
        margin: float | Array = 1.0,
        columns: Array | None = None,
    ) -> Problem:
        """Return the arrays of one plane's problem.

        Parameters
        ----------
        S, R : (m, d) and (l, d) arrays, or Stack
        near : (m,) array, optional
        margin : float or (l,) array
            Weights of the samples.
        columns : (d,) array, optional
            What each coefficient's ridge is divided by.
        """
        S, R = Stack.of(S), Stack.of(R)
        ridge = self.ridges(S.shape[1])
        return Problem(
            S,
            R,
            self.samples.terms(len(R), margin),
            ridge if columns is None else ridge / columns,
            self.near if near is None else self.near * near,
        )

    def ridges(self, d: int) -> Array:
        """Return the ridge of each of d coefficients, (d,)."""
        return np.append(np.full(d - 1, self.ridge[0]), self.ridge[1])

    def primal_value(self, S: Array, R: Array, z: Array) -> float:
        """Return the primal objective at the plane z, its slacks the best for it."""
        problem = self.problem(S, R)
        return problem.smooth(z) + float(problem.terms.phi(R @ z).sum()) - problem.terms.constant

    def solve(self, S: Array | Stack, R: Array | Stack, **options: Any) -> tuple[SORResult, Array]:
        """Return SOR's result and the plane."""
        return minimise(self.problem(S, R), **options)

    def proof(self, S: Array, R: Array, plane: Array, a: Array) -> Proof:
        """Return what a rigorous bound on the plane's gap follows from."""
        return Proof.of(self.problem(S, R), plane, a)

    def multipliers(self, result: SORResult) -> dict[str, Array]:
        """Return the dual variables by name."""
        return {"a": result.a}


@dataclass(frozen=True)
class Block:
    """One multiplier variable of a box linear program: its rows are ``scale`` times R, S or the identity."""

    name: str
    rows: str
    scale: float
    samples: Coefficients

    def matrix(self, S: Any, R: Any) -> Any:
        """Return the block's rows of G, sparse where S and R are."""
        d = S.shape[1]
        base = {"R": R, "S": S, "I": sparse.eye_array(d, format="csr") if is_sparse(S) else np.eye(d)}[self.rows]
        return base if self.scale == 1 else -base if self.scale == -1 else self.scale * base


@dataclass(frozen=True)
class BoxLP:
    """The second shape; ``sign`` turns the equation's multiplier into the plane."""

    blocks: tuple[Block, ...]

    shape = "box linear program: interior points, ended on a vertex"

    def assembled(
        self, S: Any, R: Any, *, near: float | Array = 1.0, margin: float | Array = 1.0
    ) -> tuple[Any, Terms, list[int]]:
        """Return G, its terms, and where each block ends; ``near`` and ``margin`` are the samples' weights."""
        weights = {"S": near, "R": margin, "I": 1.0}
        parts = [block.matrix(S, R) for block in self.blocks]
        each = [
            block.samples.terms(G.shape[0], weights[block.rows]) for block, G in zip(self.blocks, parts, strict=True)
        ]
        columns = [np.concatenate(column) for column in list(zip(*each, strict=True))[:4]]
        ends = list(np.cumsum([G.shape[0] for G in parts]))
        linear, curvature, lower, upper = columns
        return joined(parts), Terms(linear, curvature, lower, upper, sum(t.constant for t in each)), ends

    def primal_value(self, S: Any, R: Any, z: Array) -> float:
        """Return the primal objective at the plane z."""
        G, terms, _ = self.assembled(S, R)
        return float(terms.phi(G @ z).sum()) - terms.constant

    def solve(
        self, S: Any, R: Any, *, near: float | Array = 1.0, margin: float | Array = 1.0, **options: Any
    ) -> tuple[SORResult, Array]:
        """Return the loop's result and the plane; ``near`` and ``margin`` are the samples' weights."""
        G, terms, _ = self.assembled(S, R, near=near, margin=margin)
        result = proximal_point(G, terms, **{k: v for k, v in options.items() if k not in ("start", "finish")})
        return result, result.w

    def proof(
        self, S: Any, R: Any, plane: Array, a: Array, *, near: float | Array = 1.0, margin: float | Array = 1.0
    ) -> Proof | None:
        """Return what a rigorous bound on the plane's gap follows from; None without an identity block to repair by."""
        G, terms, ends = self.assembled(S, R, near=near, margin=margin)
        for block, end in zip(self.blocks, ends, strict=True):
            if block.rows == "I" and block.samples.linear == 0:
                free = (int(end) - S.shape[1], int(end))
                return Proof(np.zeros((0, S.shape[1])), G, plane, a, terms, np.zeros(S.shape[1]), free=free)
        return None

    def multipliers(self, result: SORResult) -> dict[str, Array]:
        """Return the dual variables, all blocks in one vector named ``theta``."""
        return {"theta": result.a}

    def margins(self, result: SORResult, S: Any, R: Any) -> Array | None:
        """Return the multipliers of the margin rows; None where they have none of their own, or several."""
        lengths = {"R": R.shape[0], "S": S.shape[0], "I": S.shape[1]}
        ends = np.cumsum([lengths[block.rows] for block in self.blocks])
        pieces = zip(self.blocks, np.split(result.a, ends[:-1]), strict=True)
        found = [piece for block, piece in pieces if block.rows == "R"]
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class Steps:
    """The third shape: the framework with a loss that is not such a quadratic but comes with its proximal map."""

    formulation: Framework

    shape = "any loss with its proximal map: exact steps of one multiplier on whitened rows"

    def primal_value(self, S: Array, R: Array, z: Array) -> float:
        """Return the primal objective at the plane z."""
        f = self.formulation
        losses = evaluate(f.loss.values, R @ z)
        return float(S @ z @ (S @ z) + f.C1 * (z @ z)) / 2 + f.C2 * float(losses.sum())

    def solve(
        self,
        S: Array,
        R: Array,
        *,
        near: float | Array = 1.0,
        margin: float | Array = 1.0,
        columns: Array | None = None,
        **options: Any,
    ) -> tuple[SORResult, Array]:
        """Return the steps' result and the plane; ``near``, ``margin`` and ``columns`` as :meth:`BoxQP.problem`."""
        f = self.formulation
        ridge = np.full(S.shape[1], float(f.C1))
        factor = Factor(S, ridge if columns is None else ridge / columns, near=near)
        loss = f.loss
        known = {k: v for k, v in options.items() if k in ("tol", "max_sweeps", "time_limit", "random_state")}
        weights = f.C2 * np.broadcast_to(np.asarray(margin, dtype=float), (len(R),))
        result = coordinate_steps(
            factor.whiten(R), lambda t: evaluate(loss.values, t), loss.prox, np.array(weights), **known
        )
        return result, factor.solve(R.T @ result.a)

    def proof(self, S: Array, R: Array, plane: Array, a: Array, **weights: Any) -> None:
        """Return None: a bound that includes rounding needs the conjugate's own numbers."""

    def multipliers(self, result: SORResult) -> dict[str, Array]:
        """Return the dual variables by name."""
        return {"a": result.a}

    def margins(self, result: SORResult, S: Array, R: Array) -> Array:
        """Return the multipliers of the margin rows."""
        return result.a


Compiled = BoxQP | BoxLP | Steps


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
    key = _key(formulation)
    try:
        if key in _READ:
            return _READ[key]
    except TypeError:  # a hyperparameter that cannot be looked up, an array say
        return _compiled(formulation)
    found = _compiled(formulation)
    if len(_READ) >= _REMEMBERED:
        _READ.pop(next(iter(_READ)), None)
    _READ[key] = found
    return found


_READ: dict[Any, Compiled] = {}
_REMEMBERED = 1024  # readings kept, so that the classes, folds and repetitions of a setting read its dual once


def _key(part: Any) -> Any:
    if isinstance(part, BaseEstimator):  # a formulation, or a loss inside one: its class and all that it holds
        return type(part), tuple((name, _key(value)) for name, value in sorted(vars(part).items()))
    return part


def disagreement(formulation: Formulation, compiled: Compiled) -> str | None:
    """Return how the primal that a dual was read to belong to differs from the declared one; None where it does not.

    Their values are compared at two planes on a small instance, the slacks the best for each.  It is no verification,
    and enough for not training on a wrong dual.
    """
    key = _key(formulation)
    try:
        if key in _COMPARED:
            return _COMPARED[key]
    except TypeError:
        return _disagreement(formulation, compiled)
    if len(_COMPARED) >= _REMEMBERED:
        _COMPARED.pop(next(iter(_COMPARED)), None)
    _COMPARED[key] = found = _disagreement(formulation, compiled)
    return found


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
    first = _read(formulation, rows=5, margins=4, seed=1)
    size = 1.0
    if isinstance(first, BoxQP):
        # beside rows of size one a small or large ridge is read with few digits; beside rows of its own size, with all
        if max(first.ridge) == 0:
            first = _read(formulation, rows=5, margins=4, seed=1, size=_TINY_ROWS)
        if isinstance(first, BoxQP) and max(first.ridge) > 0:
            size = float(np.sqrt(max(first.ridge)))
        first = _read(formulation, rows=5, margins=4, seed=1, size=size)
    second = _read(formulation, rows=8, margins=6, seed=2, size=size)
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
        if abs(nearest - abs(x)) <= _EXACT * abs(x):
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


def _read(formulation: Formulation, rows: int, margins: int, seed: int, size: float = 1.0) -> BoxQP | BoxLP:
    rng = np.random.default_rng(seed)
    d = 3
    S = size * np.column_stack([rng.normal(size=(rows, d - 1)), np.ones(rows)])
    R = size * np.column_stack([rng.normal(size=(margins, d - 1)), np.ones(margins)])
    primal = formulation.program("primal", S, R)
    dual = formulation.program("dual", S, R, beside=primal)
    if dual is None:
        raise NotCompilable(f"{type(formulation).__name__} {formulation.why_no_dual()}.")
    if isinstance(dual.plane, str):
        return _read_lp(dual, S, R, rng)
    # its multipliers have been checked: names and shapes are those of the dual above
    bare = formulation.program(
        "dual", S, 0.0 * R, beside=primal
    )  # without margin rows the quadratic vanishes: what is left is h
    assert bare is not None
    return _read_qp(dual, bare, S, R, rng)


class _Point:
    """Evaluates a program's objective, plane and constraint violations at given values of its variables."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.variables = program.variables
        if any(v.ndim != 1 for v in self.variables):
            raise NotCompilable("a variable of the dual is not a vector.")
        self.ends = np.cumsum([v.size for v in self.variables])
        self.size = int(self.ends[-1])

    def set(self, theta: Array) -> None:
        for variable, part in zip(self.variables, np.split(theta, self.ends[:-1]), strict=True):
            variable.value = part

    def objective(self, theta: Array) -> float:
        self.set(theta)
        value = self.program.objective.value
        return float("nan") if value is None else float(np.real(value))

    def violation(self, constraint: cp.Constraint, theta: Array) -> Array:
        """Return ``lhs - rhs`` of a constraint, elementwise."""
        self.set(theta)
        return np.atleast_1d(np.asarray(constraint.expr.value, dtype=float)).ravel()


def _read_qp(dual: Program, bare: Program, S: Array, R: Array, rng: np.random.Generator) -> BoxQP:
    n, d = R.shape
    at = _Point(dual)
    if len(at.variables) != 1 or at.size != n:
        raise NotCompilable("the dual has more than one multiplier a margin row.")
    assert not isinstance(dual.plane, str)

    def plane(a: Any) -> Array:
        at.set(a)
        return np.array(dual.plane.value, dtype=np.float64)  # type: ignore[union-attr]

    base = plane(np.zeros(n))
    to_plane = np.column_stack([plane(unit) - base for unit in np.eye(n)])
    probe: Any = rng.normal(size=n)
    _agree(base, np.zeros(d), "the declared plane is not linear in the multipliers")
    _agree(plane(probe), to_plane @ probe, "the declared plane is not linear in the multipliers")
    near, ridge = _read_metric(to_plane, S, R)

    constraints = list(dual.constraints.values())
    lower, upper = _read_box(at, constraints, [slice(0, n)])[0]
    inside = _interior(lower, upper)
    bounded = bool(np.isfinite(upper - lower))
    alone = _Point(bare)
    centre = np.full(n, inside)
    steps = [0.25 * (upper - lower)] if bounded else [10.0**power for power in range(0, 17, 2)]
    balanced = 0
    while steps:
        # without bounds to give the scale, widen the step until the second difference stands out of the rounding, and
        # then take one at which the linear and the quadratic part are alike
        step = steps.pop(0)
        if np.isfinite(lower) and not bounded:
            centre = np.full(n, inside := lower + step)
        elif np.isfinite(upper) and not bounded:
            centre = np.full(n, inside := upper - step)
        below, middle, above = (-alone.objective(centre + move) / n for move in (-step, 0.0, step))
        second = above - 2 * middle + below
        size = max(abs(below), abs(middle), abs(above))
        curvature = 0.0 if abs(second) <= 1e-11 * size else _round(second / step**2)
        slope = (above - below) / (2 * step)
        linear = _round(slope - curvature * inside)
        if abs(second) > 1e-3 * size and not bounded:
            wanted = abs(linear / curvature) if linear else step
            steps = [wanted] if balanced < 3 and not 0.1 < wanted / step < 10 else []
            balanced += 1
    constant = middle - linear * inside - curvature * inside**2 / 2
    noise = abs(middle) + abs(linear * inside) + curvature * inside**2 / 2
    if not np.isfinite([linear, curvature, constant]).all():
        raise NotCompilable("the dual's objective is not a finite number at its multipliers.")
    read = Coefficients(linear, curvature, lower, upper, _round(constant, noise))
    for _ in range(4):
        a: Any = inside + step * rng.uniform(-1, 1, size=n)
        quadratic, rest = float((R @ (to_plane @ a)) @ a) / 2, read.terms(n).h(a)
        scale = abs(quadratic) + abs(rest)
        if not abs(-at.objective(a) - quadratic - rest) <= 1e-8 * scale:
            raise NotCompilable("the dual's objective is not -1/2 a'R M^-1 R'a minus one quadratic a sample.")
    if read.curvature < 0:
        raise NotCompilable("the dual has a positive coefficient of |a|^2.")
    return BoxQP(near, ridge, read)


def _read_metric(to_plane: Array, S: Array, R: Array) -> tuple[float, tuple[float, float]]:
    """Fit ``near S'S z + ridge z = R'a`` to the declared recovery z(a), exactly or not at all."""
    n = to_plane.shape[1]
    columns, right = [], []
    for a in np.eye(n):
        z = to_plane @ a
        weights, intercept = np.append(z[:-1], 0.0), np.zeros_like(z)
        intercept[-1] = z[-1]
        columns.append(np.column_stack([S.T @ (S @ z), weights, intercept]))
        right.append(R.T @ a)
    left, wanted = np.vstack(columns), np.concatenate(right)
    fit = np.linalg.lstsq(left, wanted, rcond=None)[0]
    reason = "the declared plane is not (near S'S + ridge)^-1 R'a"
    _agree(left @ fit, wanted, reason, 1e-8)
    unit = float(np.abs(S.T @ S).max())
    near = _round(float(fit[0]))
    on_w, on_b = (_round(float(x)) if abs(x) > 1e-12 * near * unit else 0.0 for x in fit[1:])
    if near <= 0 or on_w < 0 or on_b < 0:
        raise NotCompilable(f"{reason}: it needs near = {near:g}, ridge = {on_w:g} and {on_b:g}.")
    return near, (on_w, on_b)


def _read_lp(dual: Program, S: Array, R: Array, rng: np.random.Generator) -> BoxLP:
    at = _Point(dual)
    blocks = [slice(int(end - v.size), int(end)) for v, end in zip(at.variables, at.ends, strict=True)]
    balance = dual.constraints[str(dual.plane)]
    if not isinstance(balance, cp.constraints.zero.Equality):
        raise NotCompilable(f"[{dual.plane}] is not an equation.")
    zero = np.zeros(at.size)
    base = at.violation(balance, zero)
    _agree(base, np.zeros_like(base), f"[{dual.plane}] has a constant term")
    columns = np.column_stack([at.violation(balance, unit) for unit in np.eye(at.size)])
    value0 = at.objective(zero)
    gradient = np.array([at.objective(unit) - value0 for unit in np.eye(at.size)])
    probe = rng.normal(size=at.size)
    _agree(np.array([at.objective(probe)]), np.array([value0 + gradient @ probe]), "the objective is not linear")
    if abs(value0) > 1e-12:
        raise NotCompilable("the objective has a constant term.")
    boxes = _read_box(at, [c for c in dual.constraints.values() if c is not balance], blocks)
    found = []
    for variable, part, (lower, upper) in zip(at.variables, blocks, boxes, strict=True):
        if not (np.isfinite(lower) and np.isfinite(upper) and lower < 0 < upper):
            raise NotCompilable(f"the multiplier {variable.name()} has no finite box with zero inside.")
        linear = -gradient[part]
        if np.ptp(linear) > _EXACT * max(np.abs(linear).max(), 1e-12):
            raise NotCompilable(f"the objective weighs the entries of {variable.name()} differently.")
        rows, scale = _match(columns[:, part].T, S, R, variable.name())
        found.append(Block(variable.name(), rows, scale, Coefficients(_round(linear[0]), 0.0, lower, upper)))
    # the plane is the multiplier of the equation; the sign convention of the prox loop is G'theta = 0 with
    # phi evaluated at +G z, and CVXPY's multiplier of lhs == rhs in a maximisation has the same sign as that z
    return BoxLP(tuple(found))


def _match(rows: Array, S: Array, R: Array, name: str) -> tuple[str, float]:
    for label, base in (("R", R), ("S", S), ("I", np.eye(S.shape[1]))):
        if rows.shape == base.shape:
            scale = float((rows * base).sum() / (base * base).sum())
            if np.abs(rows - scale * base).max() <= _EXACT * np.abs(base).max() and scale != 0:
                return label, _round(scale)
    raise NotCompilable(f"the multiplier {name} does not enter the equation through R, S or the identity.")


def _read_box(at: _Point, constraints: list[cp.Constraint], blocks: list[slice]) -> list[tuple[float, float]]:
    """Return the interval of each block, read by walking all of its entries at once from a feasible point."""
    for constraint in constraints:
        if not isinstance(constraint, cp.constraints.nonpos.Inequality):
            raise NotCompilable("a constraint of the dual couples its multipliers or is not an inequality.")
    if all(constraint.expr.is_affine() for constraint in constraints):
        return _read_affine_box(at, constraints, blocks)
    centre = _feasible(at, constraints)
    read = []
    for block in blocks:
        low, high = (_walk(at, constraints, centre, block, sign) for sign in (-1.0, 1.0))
        unit = max((abs(x) for x in (low, high) if np.isfinite(x)), default=1.0)
        read.append((_round(low, unit), _round(high, unit)))
    _check_box(at, constraints, blocks, read)
    return read


def _read_affine_box(at: _Point, constraints: list[cp.Constraint], blocks: list[slice]) -> list[tuple[float, float]]:
    """Return the interval of each block from constraints that are affine: each bounds one multiplier."""
    low, high = np.full(at.size, -np.inf), np.full(at.size, np.inf)
    for constraint in constraints:
        base = at.violation(constraint, np.zeros(at.size))
        slopes = np.column_stack([_slope(at, constraint, base, unit) for unit in np.eye(at.size)])
        scale = np.abs(slopes).max(axis=1, initial=0.0)
        kept = np.abs(slopes) > 1e-12 * scale[:, None]
        if (kept.sum(axis=1) != 1).any():
            raise NotCompilable("the dual's domain is not a box: a constraint couples its multipliers, or holds none.")
        entry = kept.argmax(axis=1)
        slope = slopes[np.arange(len(base)), entry]
        for i, bound, up in zip(entry, -base / slope, slope > 0, strict=True):
            if up:
                high[i] = min(high[i], bound)
            else:
                low[i] = max(low[i], bound)
    if not (low < high).all():
        raise NotCompilable("the dual's domain has no interior.")
    found = []
    for block in blocks:
        if max(_spread(low[block]), _spread(high[block])) > _EXACT:
            raise NotCompilable("the dual bounds its multipliers differently.")
        unit = max((abs(x) for x in (low[block][0], high[block][0]) if np.isfinite(x)), default=1.0)
        found.append((_round(float(low[block][0]), unit), _round(float(high[block][0]), unit)))
    return found


def _slope(at: _Point, constraint: cp.Constraint, base: Array, unit: Array) -> Array:
    """Return how an affine constraint changes with one multiplier, from steps as long as what they lead to."""
    found = at.violation(constraint, unit) - base
    moved = found != 0
    if not moved.any():
        return found
    length = float(np.abs(base[moved] / found[moved]).max())
    return (at.violation(constraint, length * unit) - base) / length if length > 0 else found


def _spread(bounds: Array) -> float:
    if not np.isfinite(bounds).all():
        return 0.0 if (bounds == bounds[0]).all() else np.inf
    return float(np.ptp(bounds) / max(np.abs(bounds).max(), 1e-300))


def _feasible(at: _Point, constraints: list[cp.Constraint]) -> Array:
    """Return a point well inside the constraints."""
    slack = cp.Variable()
    tightened = [c.args[0] + slack <= c.args[1] for c in constraints]
    problem = cp.Problem(
        cp.Maximize(slack - 1e-3 * sum(cp.sum_squares(v) for v in at.variables)), [*tightened, slack <= 1e3]
    )
    with contextlib.suppress(cp.SolverError):
        problem.solve(solver="CLARABEL")
    if slack.value is None or not float(slack.value) > 0:
        raise NotCompilable("the dual's domain has no interior.")
    # every entry of a block shares its box, so their mean is inside too
    return np.concatenate([np.full(v.size, float(np.mean(v.value))) for v in at.variables])


def _walk(at: _Point, constraints: list[cp.Constraint], centre: Array, block: slice, sign: float) -> float:
    """Return the bound reached from the centre in one direction, to the last bit the constraints resolve."""

    def outside(length: float) -> bool:
        theta = centre.copy()
        theta[block] += sign * length
        return any((at.violation(c, theta) > 0).any() for c in constraints)

    length = 1.0
    while not outside(length):
        length *= 2
        if length > 1e15:
            return sign * np.inf
    low, high = 0.0, length
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if outside(middle) else (middle, high)
    return float(centre[block][0]) + sign * low


def _check_box(
    at: _Point, constraints: list[cp.Constraint], blocks: list[slice], boxes: list[tuple[float, float]]
) -> None:
    """Check that the constraints are those boxes, entry by entry: corners inside, one entry outside."""
    rng = np.random.default_rng(0)
    low, high = np.zeros(at.size), np.zeros(at.size)
    for block, (lower, upper) in zip(blocks, boxes, strict=True):
        low[block], high[block] = lower, upper
    width = np.where(
        np.isfinite(high - low),
        high - low,
        2.0 * np.maximum(1.0, np.abs(np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0)))),
    )
    left = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - width, -width / 2))
    right = left + width
    reason = "the dual's domain is not a box"
    margin = 1e-7 * width
    for _ in range(20):
        corner = np.where(rng.random(at.size) < 0.5, left + margin, right - margin)
        if any((at.violation(c, corner) > 0).any() for c in constraints):
            raise NotCompilable(reason)
        entry = int(rng.integers(at.size))
        for bound, sign in ((high[entry], 1.0), (low[entry], -1.0)):
            if np.isfinite(bound):
                beyond = corner.copy()
                beyond[entry] = bound + sign * margin[entry]
                if not any((at.violation(c, beyond) > 0).any() for c in constraints):
                    raise NotCompilable(reason)


def _interior(lower: float, upper: float) -> float:
    if np.isfinite(lower) and np.isfinite(upper):
        return (lower + upper) / 2
    if np.isfinite(lower):
        return lower + 1.0
    return upper - 1.0 if np.isfinite(upper) else 0.0


def _agree(found: Array, expected: Array, reason: str, tolerance: float = _EXACT) -> None:
    scale = max(np.abs(expected).max(initial=0.0), np.abs(found).max(initial=0.0), 1e-12)
    if not np.isfinite(found).all() or np.abs(found - expected).max(initial=0.0) > tolerance * scale:
        raise NotCompilable(f"{reason}.")


def _round(value: float, scale: float | None = None) -> float:
    """Drop what is only the rounding noise of a reading: a value that is nothing beside its scale is zero."""
    unit = abs(value) if scale is None else max(abs(value), scale)
    if not np.isfinite(value):
        return value
    if abs(value) <= 1e-12 * unit:
        return 0.0
    return float(value)
