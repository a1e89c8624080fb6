"""The paper's framework with any loss: Loss, Framework, and what follows from the values of a loss alone.

Knows the vocabulary of a formulation file.  Must not know solvers, nor any formulation by name.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np

from .derivation import NotDerivable, Quadratic, coupled, derive, evaluate, witness
from .errors import CurvatureError, FormulationError
from .linalg import Array
from .modeling import (
    Formulation,
    Program,
    _Hyperparameters,
    _kind,
    _one_line,
    multiplier_variable,
    plane_from_dual,
    plane_variable,
    slack_variable,
    whiten,
)


class Loss(_Hyperparameters):
    """A loss L(t) of the margin t (wanted: t >= 1), convex, applied to each sample.

    Write ``value(t)``.  Its conjugate ``L*(v) = sup_t (v t - L(t))``, from which the dual and the fast solver follow,
    is derived where the loss is piecewise linear-quadratic with a conjugate of one piece; otherwise, or to have your
    own derivation checked, write ``conjugate(v)`` returning ``(L*(v), [constraints on v])``, elementwise.

    For the fast solver on any other convex loss, write its proximal map ``prox(t, s)``, which returns
    ``argmin_x L(x) + (x - t)^2 / (2 s)`` of arrays t and s > 0, elementwise: the exact step of one multiplier.
    """

    def value(self, t: cp.Expression) -> cp.Expression:
        """Return L(t), elementwise."""
        raise FormulationError(f"{type(self).__name__} declares no value(self, t).")

    def values(self, t: Array) -> Array:
        """Return the loss at numbers, infinite outside the domain of CVXPY's functions."""
        x = cp.Variable(np.shape(t))
        x.save_value(np.asarray(t, dtype=float))  # unchecked: NaN has the loss NaN
        expression = self.value(x)
        found = np.array(np.broadcast_to(np.asarray(expression.value, dtype=float), np.shape(t)))
        for constraint in getattr(expression, "domain", []):
            side = getattr(constraint, "expr", None)  # what must not be positive
            if side is not None and side.shape == found.shape and side.value is not None:
                found[np.asarray(side.value) > 0] = np.inf
        return found

    def pieces(self) -> tuple[Quadratic, ...]:
        """Return the pieces of the conjugate, derived from the loss's values alone.

        Raises
        ------
        NotDerivable
            The loss is not piecewise linear-quadratic, or not convex.

        Examples
        --------
        >>> from npsvm_cvx import load
        >>> load("pinball")(tau=0.25).loss.pieces()
        (Quadratic(constant=0.0, linear=1.0, curvature=0.0, lower=-1.0, upper=0.25),)
        """
        key = type(self), tuple(sorted((name, repr(value)) for name, value in self.get_params().items()))
        if key not in _DERIVED:
            if len(_DERIVED) >= 256:
                _DERIVED.pop(next(iter(_DERIVED)), None)
            try:
                _DERIVED[key] = derive(self.values)
            except NotDerivable as reason:
                _DERIVED[key] = reason
            except (Exception, SystemExit) as error:
                _DERIVED[key] = NotDerivable(
                    f"its value cannot be computed: {type(error).__name__}: {_one_line(error)}"
                )
        found = _DERIVED[key]
        if isinstance(found, NotDerivable):
            raise found
        return found

    conjugate: ClassVar[Any] = None
    prox: ClassVar[Any] = None


_DERIVED: dict[Any, tuple[Quadratic, ...] | NotDerivable] = {}


class Framework(Formulation):
    r"""The paper's framework (17), (18) with any loss.

    .. math::
        \min_z \tfrac12 |S z|^2 + \tfrac{C_1}{2}|z|^2 + C_2 \sum_i L(t_i), \qquad t = R z

        \max_a -\tfrac12 a^\top R M^{-1} R^\top a - C_2 \sum_i L^*(-a_i / C_2), \qquad M = S^\top S + C_1 I

    with the plane :math:`z = M^{-1} R^\top a`.
    """

    invariances: ClassVar[tuple[str, ...]] = ("row order", "repetition", "rotation")

    def __init__(self, loss: Loss, C1: float = 1.0, C2: float = 1.0) -> None:
        self.loss = loss
        self.C1 = C1
        self.C2 = C2

    def primal(self, S: Array, R: Array) -> Program:
        """Return the framework's primal with the margins t as variables, tied to the plane by [margin]."""
        z, t = plane_variable(S), slack_variable(R, "t")
        try:
            losses = self.loss.value(t)
        except (Exception, SystemExit) as error:
            raise FormulationError(
                f"{type(self.loss).__name__}.value raised {type(error).__name__}: {_one_line(error)}"
            ) from error
        if not isinstance(losses, cp.Expression) or losses.shape != t.shape:
            raise FormulationError(
                f"{type(self.loss).__name__}.value(t) must return one loss a sample, shape {t.shape}; "
                f"found {getattr(losses, 'shape', _kind(losses))}."
            )
        if not losses.is_convex():
            raise CurvatureError(_why_not_convex(self.loss, losses))
        if coupled(self.loss.values):
            raise FormulationError(
                f"{type(self.loss).__name__}.value: the loss of a sample depends on the margins of others; a Loss is a "
                "function of one margin, so write this as a Formulation."
            )
        objective = cp.sum_squares(S @ z) / 2 + self.C1 * cp.sum_squares(z) / 2 + self.C2 * cp.sum(losses)
        return Program(cp.Minimize(objective), {"margin": t == R @ z}, plane=z)

    def dual(self, S: Array, R: Array) -> Program | None:
        """Return the Fenchel dual, or None where the loss's conjugate is neither declared nor derived."""
        if self.loss.conjugate is None and self.why_no_dual():
            return None
        F = whiten(S, R, self.C1)
        a = multiplier_variable(R)
        value, domain = conjugate_of(self.loss, -a / self.C2)
        objective = -cp.sum_squares(F.T @ a) / 2 - self.C2 * cp.sum(value)
        return Program(
            cp.Maximize(objective),
            {f"domain {i}": constraint for i, constraint in enumerate(domain, start=1)},
            multipliers={"margin": a},
            plane=plane_from_dual(S, R, self.C1, a),
        )

    def why_no_dual(self) -> str:
        """Return why no conjugate could be derived from the loss's values; empty where one was."""
        try:
            pieces = self.loss.pieces()
        except NotDerivable as reason:
            return f"declares no conjugate, and none follows from its values: {str(reason).rstrip('.')}"
        if len(pieces) > 1:
            return (
                f"declares no conjugate, and the one that follows from its values has {len(pieces)} pieces, where SOR "
                f"takes one: {'; '.join(str(piece) for piece in pieces[:4])}{'; ...' if len(pieces) > 4 else ''}"
            )
        return ""


def _why_not_convex(loss: Loss, losses: cp.Expression) -> str:
    """Say at which points a loss is not convex; or, where none are found, that it is CVXPY that cannot see it."""
    name = f"{type(loss).__name__}.value"
    try:
        found, missing = witness(loss.values), np.isnan(evaluate(loss.values, np.array([1.0])))[0]
    except Exception:
        found, missing = None, False
    if missing:
        return f"{name} is not a number at t = 1."
    if found is not None:
        return f"{name} is not convex: {found}; a non-convex loss has no dual to verify."
    return (
        f"{name} is not convex by CVXPY's rules (its curvature is {losses.curvature.lower()}), although no three "
        "points were found at which it is not: write it with CVXPY's own convex functions, such as cp.square, "
        "cp.maximum, cp.pos, cp.abs, cp.huber, cp.logistic or cp.exp of affine expressions."
    )


def conjugate_of(loss: Loss, v: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
    """Return what ``loss.conjugate(v)`` declares, checked for type and shape; where it does not, what was derived."""
    if loss.conjugate is None:
        return _derived_conjugate(loss, v)
    name = f"{type(loss).__name__}.conjugate"
    try:
        declared = loss.conjugate(v)
    except (Exception, SystemExit) as error:
        raise FormulationError(f"{name} raised {type(error).__name__}: {_one_line(error)}") from error
    if not (isinstance(declared, tuple) and len(declared) == 2):
        raise FormulationError(f"{name}(v) must return (value, [constraints]); found {_kind(declared)}.")
    value, domain = declared
    if not isinstance(domain, list | tuple):
        raise FormulationError(f"{name}(v) must return its constraints in a list; found {_kind(domain)}.")
    value = value if isinstance(value, cp.Expression) else cp.Constant(value)
    if value.shape != v.shape and not (value.shape == () and value.is_constant()):
        raise FormulationError(f"{name}: the value has shape {value.shape}, one per sample is {v.shape}.")
    for constraint in domain:
        if not isinstance(constraint, cp.constraints.constraint.Constraint):
            raise FormulationError(f"{name}: the domain holds {_kind(constraint)}, not a CVXPY constraint.")
    if value.shape == ():
        value = value * np.ones(v.shape)
    return value, list(domain)


def _derived_conjugate(loss: Loss, v: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
    (piece,) = loss.pieces()
    value = piece.constant + piece.linear * v
    if piece.curvature:
        value = value + piece.curvature * cp.square(v) / 2
    lower = [v >= piece.lower] if math.isfinite(piece.lower) else []
    return value, [*lower, *([v <= piece.upper] if math.isfinite(piece.upper) else [])]
