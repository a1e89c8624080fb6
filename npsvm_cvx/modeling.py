"""The vocabulary a formulation file is written in: Formulation, Program, Reduction, and the pieces of both problems.

Knows CVXPY expressions and the matrices S and R of one plane.  Must not know solvers, data sets, or any variant
by name.

Throughout, ``S`` (m x d) holds the near rows and ``R`` (l x d) the margin rows of one class; the last column of
both is ones, and a plane is ``z = [w; b]`` (d,).
"""

from __future__ import annotations

import inspect
import math
import numbers
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from .errors import CurvatureError, FormulationError, NPSVMError
from .linalg import Array, Factor

Scheme = Literal["farthest", "nearest"]
SIDED = (cp.constraints.nonpos.Inequality, cp.constraints.zero.Equality)
"""The constraints with a left and a right side, whose difference a multiplier multiplies."""


def plane_variable(S: Array) -> cp.Variable:
    """The plane ``z = [w; b]``, one entry a column of S."""
    return cp.Variable(S.shape[1], name="z")


def slack_variable(R: Array, name: str = "xi") -> cp.Variable:
    """One slack a row of R (or of S)."""
    return cp.Variable(R.shape[0], name=name)


def multiplier_variable(R: Array, name: str = "a") -> cp.Variable:
    """One multiplier a row of R (or of S).  Its sign is a named constraint, never an attribute."""
    return cp.Variable(R.shape[0], name=name)


def whiten(S: Array, R: Array, C1: float) -> Array:
    """``F`` (l x d) with ``F F' = R (S'S + C1 I)^-1 R'``, positive semidefinite by construction.

    Use it as ``cp.sum_squares(F.T @ a)``; a product matrix handed to ``quad_form`` is indefinite by rounding.
    """
    return Factor(S, C1).whiten(R)


def plane_from_dual(S: Array, R: Array, C1: float, a: cp.Expression) -> cp.Expression:
    """``z = (S'S + C1 I)^-1 R' a``, eq. (30)."""
    return Factor(S, C1).solve(R.T) @ a


class Program:
    r"""One optimisation problem whose solution is a plane.

    Parameters
    ----------
    objective : cp.Minimize or cp.Maximize
    constraints : dict of str to cp.Constraint
        Named, so that multipliers and messages can name them.
    plane : cp.Expression of shape (d,), or str
        The plane as an expression of the variables; or the name of the equality constraint whose multiplier it is
        (the dual of a linear program).
    multipliers : dict of str to cp.Expression, optional
        In a dual: for each named constraint of the primal, its multiplier as an expression of the dual's variables.
        A constraint left out stays a constraint of the Lagrangian's minimisation.

    Notes
    -----
    Signs.  A constraint ``lhs <= rhs`` or ``lhs == rhs`` adds ``multiplier' (lhs - rhs)`` to the Lagrangian of a
    minimisation, and ``rhs >= lhs`` is ``lhs <= rhs``; a multiplier of an inequality is nonnegative.
    """

    def __init__(
        self,
        objective: cp.Minimize | cp.Maximize,
        constraints: Mapping[str, cp.Constraint],
        plane: cp.Expression | str,
        multipliers: Mapping[str, cp.Expression] | None = None,
    ) -> None:
        if not isinstance(objective, cp.Minimize | cp.Maximize):
            raise FormulationError(f"objective must be cp.Minimize or cp.Maximize; found {_kind(objective)}.")
        if not isinstance(constraints, Mapping):
            raise FormulationError(f"constraints must be a dict of name to constraint; found {_kind(constraints)}.")
        for name, constraint in constraints.items():
            if not isinstance(constraint, cp.constraints.constraint.Constraint):
                raise FormulationError(f"constraint [{name}] is {_kind(constraint)}, not a CVXPY constraint.")
        if not isinstance(plane, str | cp.Expression):
            raise FormulationError(f"the plane is {_kind(plane)}, not an expression or the name of a constraint.")
        self.objective = objective
        self.constraints = dict(constraints)
        self.plane = plane
        self.multipliers = {
            k: cp.Constant(v) if not isinstance(v, cp.Expression) else v for k, v in (multipliers or {}).items()
        }
        self.problem = cp.Problem(objective, list(self.constraints.values()))

    @property
    def variables(self) -> list[cp.Variable]:
        """The variables, in CVXPY's order; the plane's too, where it is an expression."""
        found = list(self.problem.variables())
        known = {v.id for v in found}
        expressions = [*self.multipliers.values(), *([] if isinstance(self.plane, str) else [self.plane])]
        for expression in expressions:
            for variable in expression.variables():
                if variable.id not in known:
                    known.add(variable.id)
                    found.append(variable)
        return found

    @property
    def is_convex(self) -> bool:
        """Whether CVXPY's rules prove the program convex (a minimisation) or concave (a maximisation)."""
        return bool(self.problem.is_dcp())

    def plane_value(self) -> Array:
        """The plane at the variables' present values (or at the multiplier's, where the plane is one)."""
        if isinstance(self.plane, str):
            value = self.constraints[self.plane].dual_value
        else:
            value = self.plane.value
        if value is None:
            raise FormulationError("the plane has no value: solve the program first.")
        return np.asarray(value, dtype=float)


@dataclass(frozen=True)
class Reduction:
    """A claim that a formulation is another one: same plane, up to the maps given.

    Parameters
    ----------
    claim : str
        The sentence, as the paper would put it.
    to : Formulation, or callable (S, R) -> z
        What it equals: another formulation, or a closed form.
    rows : callable (S, R) -> (S, R), optional
        The matrices the other side is given.
    plane : callable z -> z, optional
        What the other side's plane becomes here.
    of : Formulation, optional
        What stands on this side of the claim, where that is not the formulation itself: a limit's last member.
    """

    claim: str
    to: Any
    rows: Callable[[Array, Array], tuple[Array, Array]] = lambda S, R: (S, R)
    plane: Callable[[Array], Array] = lambda z: z
    of: Any = None


class _Hyperparameters(BaseEstimator):
    """Hyperparameters are the ``__init__`` arguments; ``domain`` gives each its interval."""

    domain: ClassVar[Mapping[str, str]] = {}

    def check_hyperparameters(self) -> None:
        """Raise NPSVMError, naming the hyperparameter, for a value outside its domain.

        One whose default is a text, a truth value or None is an option, and may be anything.
        """
        name = type(self).__name__
        try:
            values = self.get_params(deep=False)
        except AttributeError as error:
            raise FormulationError(
                f"{name}.__init__ must store its arguments under their own names: {_one_line(error)}."
            ) from None
        for key in self.domain:
            if key not in {"C1", "C2", *values}:
                raise FormulationError(f"{name}: domain names {key!r}; its hyperparameters are {', '.join(values)}.")
        for key, value in values.items():
            if isinstance(value, _Hyperparameters):
                value.check_hyperparameters()
            elif not self._is_option(key):
                _check_number(key, value, {"C1": "(0, inf)", "C2": "(0, inf)", **self.domain}.get(key))

    def _is_option(self, key: str) -> bool:
        parameter = inspect.signature(type(self)).parameters.get(key)
        default = parameter.default if parameter is not None else 0.0
        return default is None or isinstance(default, bool | str)

    def variations(self, count: int = 8, random_state: int = 0) -> list[Self]:
        """Return copies at other hyperparameter values with nothing in common, each inside its interval.

        The first is at the present values.  A hyperparameter that can take no other value near keeps its own.
        """
        rng = np.random.default_rng(random_state)
        found = [clone(self)]
        for _ in range(count - 1):
            moved = clone(self)
            for name, value in moved.get_params(deep=True).items():
                if not isinstance(value, numbers.Real) or isinstance(value, bool):
                    continue
                for spread in np.linspace(1.0, 0.05, 12):
                    trial = float(value) * float(np.exp(spread * rng.uniform(-1, 1))) or spread * rng.uniform(0.1, 1.0)
                    moved.set_params(**{name: moved_to(name, value, float(f"{trial:.3g}"))})
                    try:
                        moved.check_hyperparameters()
                    except NPSVMError:
                        moved.set_params(**{name: value})
                        continue
                    break
            found.append(moved)
        return found


def moved_to(name: str, value: Any, trial: float) -> float | int:
    """Return another value for a hyperparameter: a whole number for one, C1 and C2 apart, since it may have to be."""
    if not isinstance(value, numbers.Integral) or name.rpartition("__")[2] in ("C1", "C2"):
        return trial
    return max(round(trial), 1) if round(trial) != value else int(value) + 1


def _check_number(name: str, value: Any, interval: str | None) -> None:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise NPSVMError(f"{name}={value!r} must be a real number.")
    if not math.isfinite(value):
        raise NPSVMError(f"{name}={value!r} must be finite.")
    if interval is not None and not _inside(float(value), interval):
        raise NPSVMError(f"{name}={value!r} must lie in {interval}.")


def _inside(value: float, interval: str) -> bool:
    match = re.fullmatch(r"\s*([\[(])\s*(\S+)\s*,\s*(\S+)\s*([\])])\s*", interval)
    if match is None:
        raise FormulationError(f"domain {interval!r} is not an interval such as '(0, inf)' or '[0, 1)'.")
    left, low, high, right = match.groups()
    above = value > float(low) or (left == "[" and value == float(low))
    below = value < float(high) or (right == "]" and value == float(high))
    return above and below


class Formulation(_Hyperparameters):
    """One variant: a primal, and as much of its dual as its author has derived.

    Subclasses write ``primal(S, R)`` and usually ``dual(S, R)``, both returning a :class:`Program`.  Their
    ``__init__`` arguments are the hyperparameters (scikit-learn's rules: stored as given, nothing else done).

    Attributes
    ----------
    scheme : {"farthest", "nearest"}
        Which rows are near and which at a distance, by default; any formulation runs under either.
    domain : dict
        Interval of each hyperparameter, as text: ``{"d": "(0, 1)"}``.  C1 and C2 are positive unless said otherwise.
    ridge : str
        The hyperparameter that multiplies the plane's own norm; doubling it and every row leaves the plane as it is.
    invariances : tuple of str
        What must not change the plane: "row order", "repetition" (every row twice and ``ridge`` doubled),
        "rotation" (of the features).  The last two hold for sums over rows with a Euclidean ridge, and are declared.
    """

    scheme: ClassVar[Scheme] = "farthest"
    source: ClassVar[str] = ""
    ridge: ClassVar[str] = "C1"
    invariances: ClassVar[tuple[str, ...]] = ("row order",)

    def primal(self, S: Array, R: Array) -> Program:
        """Return the primal, a minimisation, for near rows S (m x d) and margin rows R (l x d)."""
        raise FormulationError(f"{type(self).__name__} declares no primal(self, S, R).")

    def dual(self, S: Array, R: Array) -> Program | None:
        """Return the dual, a maximisation, or None where none has been derived (the conic dual then serves)."""
        return None

    def why_no_dual(self) -> str:
        """Return, where :meth:`dual` returns None, the reason as a clause."""
        return "declares no dual"

    def reductions(self) -> Sequence[Reduction]:
        """Return what this formulation equals, for the check of the same name."""
        return ()

    def program(
        self, form: Literal["primal", "dual"], S: ArrayLike, R: ArrayLike, beside: Program | None = None
    ) -> Program | None:
        """Return the declared primal or dual, checked: right type, sense, shapes and names.

        A dual's multipliers are checked against its primal: ``beside``, where that has been built already.

        Raises
        ------
        FormulationError
            Naming the method and what is wrong with what it returned.
        """
        near, margin = np.asarray(S, dtype=float), np.asarray(R, dtype=float)
        if near.ndim != 2 or margin.ndim != 2 or near.shape[1] != margin.shape[1]:
            raise NPSVMError(f"S and R must be matrices with as many columns; found {near.shape} and {margin.shape}.")
        if not (np.isfinite(near).all() and np.isfinite(margin).all()):
            raise NPSVMError("S and R must be finite; found NaN or infinity.")
        self.check_hyperparameters()
        where = f"{type(self).__name__}.{form}"
        try:
            program = getattr(self, form)(near, margin)
        except NPSVMError:
            raise
        except (Exception, SystemExit) as error:
            raise FormulationError(f"{where} raised {type(error).__name__}: {_one_line(error)}") from error
        if program is None and form == "dual":
            return None
        if not isinstance(program, Program):
            raise FormulationError(f"{where} returned {_kind(program)}, not a Program.")
        _check_program(program, where, form, near.shape[1])
        if form == "dual" and program.multipliers:
            primal = self.program("primal", near, margin) if beside is None else beside
            assert primal is not None
            self._check_multipliers(program, primal)
        return program

    def _check_multipliers(self, dual: Program, primal: Program) -> None:
        for name, expression in dual.multipliers.items():
            if name not in primal.constraints:
                have = ", ".join(f"[{c}]" for c in primal.constraints) or "none"
                raise FormulationError(
                    f"{type(self).__name__}.dual gives a multiplier for [{name}]; the primal's constraints are {have}."
                )
            if not isinstance(primal.constraints[name], SIDED):
                raise FormulationError(
                    f"{type(self).__name__}.dual gives a multiplier for [{name}], which is a cone; write it as an "
                    "inequality or equation, or leave its multiplier out."
                )
            shape = primal.constraints[name].shape
            if expression.shape != shape:
                raise FormulationError(
                    f"{type(self).__name__}.dual: the multiplier of [{name}] has shape {expression.shape}, "
                    f"the constraint has {shape}."
                )


def _check_program(program: Program, where: str, form: str, d: int) -> None:
    sense = cp.Minimize if form == "primal" else cp.Maximize
    if not isinstance(program.objective, sense):
        raise FormulationError(f"{where} must be a cp.{sense.__name__}; found cp.{type(program.objective).__name__}.")
    for constant in program.problem.constants():
        data = constant.value.data if hasattr(constant.value, "tocsc") else constant.value
        if not np.isfinite(np.asarray(data, dtype=float)).all():
            raise FormulationError(f"{where} holds NaN or infinity among its numbers.")
    for variable in program.variables:
        for name, value in variable.attributes.items():
            if value not in (False, None):
                raise FormulationError(
                    f"{where}: the variable {variable.name()} is declared {name}={value!r}; write that as a named "
                    "constraint, which has a multiplier."
                )
    for name, constraint in program.constraints.items():
        if len(constraint.shape) > 1 and min(constraint.shape) > 1:
            raise FormulationError(
                f"{where}: constraint [{name}] has shape {constraint.shape}: a column and a row were broadcast "
                "against each other; keep vectors one-dimensional."
            )
    if isinstance(program.plane, str):
        if program.plane not in program.constraints:
            raise FormulationError(f"{where}: the plane is the multiplier of [{program.plane}], which is not there.")
        shape = program.constraints[program.plane].shape
    else:
        shape = program.plane.shape
    if shape != (d,):
        raise FormulationError(f"{where}: the plane has shape {shape}, not ({d},), the columns of S and R.")
    if not program.is_convex:
        parts = [name for name, c in program.constraints.items() if not c.is_dcp()]
        what = f"constraint [{parts[0]}]" if parts else f"its objective ({program.objective.expr.curvature.lower()})"
        need = "convex" if form == "primal" else "concave"
        raise CurvatureError(f"{where} is not {need} by CVXPY's rules: look at {what}.")


def _kind(thing: object) -> str:
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    return "None" if thing is None else f"a {type(thing).__name__}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
