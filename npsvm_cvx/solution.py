"""A formulation, its matrices and a solver's name in; a plane and how near the optimum it is out.

The one call behind the estimator, the checks and the reports.  ``"sor"`` is the hand-written solver; any other name
is a general solver of :mod:`npsvm_cvx.solvers` on the declared primal.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .catalog import resolve
from .certificate import Certificate, Proof
from .compile import compile_agreeing
from .errors import NPSVMError, unknown
from .framework import Loss
from .linalg import Array
from .modeling import Formulation
from .reading import NotCompilable
from .solvers import SOLVERS, solution_or_raise, solve_program, value_with_plane_fixed
from .sor import SORResult


@dataclass(frozen=True)
class Solution:
    """One plane, with the numbers that say how good it is.

    Attributes
    ----------
    plane : (d,) array
        ``z = [w; b]``.
    primal, dual : float
        Objective values; the dual's is a lower bound up to the solver's feasibility.
    gap, relative_gap : float
        ``primal - dual``, and over ``max(|primal|, |dual|)``.  Of general solvers, the primal's value is that of the
        plane they return, its slacks the best for it, and the relative gap no less than the largest residual.
    converged : bool
    status : str
        Of SOR: "converged", "iteration limit", "time limit", "stalled".  Of others: the solver's claim.
    iterations : int
        SOR sweeps; 0 for general solvers.
    seconds : float
    solver : str
    multipliers : dict of str to array
    proof : Proof or None
        Of SOR: what a bound on the gap that includes rounding follows from.
    """

    plane: Array
    primal: float
    dual: float
    gap: float
    relative_gap: float
    converged: bool
    status: str
    iterations: int
    seconds: float
    solver: str
    multipliers: Mapping[str, Array] = field(default_factory=dict)
    proof: Proof | None = None

    @classmethod
    def of(cls, result: SORResult, plane: Array, seconds: float, **more: Any) -> Solution:
        """Return what SOR found as a solution; ``more`` are its multipliers and its proof."""
        return cls(
            plane,
            result.primal,
            result.dual,
            result.gap,
            result.relative_gap,
            result.converged,
            result.status,
            result.sweeps,
            seconds,
            "sor",
            **more,
        )

    @property
    def certificate(self) -> Certificate | None:
        """The proved gap, rounding included; None where there is no proof."""
        return self.proof.check() if self.proof is not None else None


GENERAL = 1e-6
"""Relative gap at which a general solver's plane counts as converged, where ``tol`` asks for less."""


def solve(
    formulation: str | Formulation | Loss | type[Formulation],
    S: ArrayLike,
    R: ArrayLike,
    *,
    solver: str = "sor",
    tol: float = 1e-8,
    max_iter: int | None = None,
    time_limit: float | None = None,
    relaxation: float = 1.0,
    random_state: int = 0,
    verbose: bool = False,
) -> Solution:
    r"""Find the plane of one class.

    Parameters
    ----------
    formulation : name, path, class or object
    S : (m, d) array
        Near rows, last column ones.
    R : (l, d) array
        Margin rows.
    solver : str
        "sor", or a general solver: clarabel, osqp, ecos, scs, highs.
    tol : float
        Relative duality gap asked for; a general solver's plane is called converged from 1e-6 on all the same.
    max_iter : int, optional
        Sweeps of SOR, or the general solver's iterations.
    time_limit : float, optional
        Seconds.
    relaxation : float in (0, 2)
        SOR's.
    random_state : int
        Seed of SOR's order of samples.

    Returns
    -------
    Solution

    Raises
    ------
    NPSVMError
        Bad argument, named.  With ``solver="sor"``, NotCompilable where the dual has a shape SOR does not solve.
    SolverError
        A general solver that returned no point.

    Examples
    --------
    The exact plane is (3, 3, -13)/19 (two classes of three points, TWSVM without ridge).

    >>> S = [[1, 2, 1], [2, 1, 1], [3, 3, 1]]
    >>> R = [[1, 1, -1], [2, 0, -1], [0, 2, -1]]
    >>> from npsvm_cvx import load
    >>> (19 * solve(load("twsvm")(C2=1.0, eps=0.0), S, R).plane).round(6)
    array([  3.,   3., -13.])
    """
    chosen = resolve(formulation)
    # copies, for the proof must not change with the caller's arrays
    near, margin = _matrix("S", S), _matrix("R", R)
    _check_numbers(tol=tol, max_iter=max_iter, time_limit=time_limit, relaxation=relaxation, random_state=random_state)
    if near.shape[1] != margin.shape[1]:
        raise NPSVMError(f"S and R must be matrices with as many columns; found {near.shape} and {margin.shape}.")
    if not isinstance(solver, str):
        raise unknown("solver", repr(solver), ("sor", *SOLVERS))
    name = solver.lower()
    if name == "sor":
        begin = time.perf_counter()
        try:
            compiled = compile_agreeing(chosen)
        except NotCompilable as reason:
            raise NotCompilable(f"SOR does not apply: {reason} Use solver='clarabel' or another general one.") from None
        limits: dict[str, Any] = {} if max_iter is None else {"max_sweeps": max_iter}
        result, plane = compiled.solve(
            near, margin, tol=tol, time_limit=time_limit, relaxation=relaxation, random_state=random_state, **limits
        )
        seconds = time.perf_counter() - begin
        proof = compiled.proof(near, margin, plane, result.a)
        return Solution.of(result, plane, seconds, multipliers=compiled.multipliers(result), proof=proof)
    if name not in SOLVERS:
        raise unknown("solver", solver, ("sor", *SOLVERS))
    program = chosen.program("primal", near, margin)
    assert program is not None
    options = {"max_iter": max_iter, "time_limit": time_limit, "tol": min(tol, 1e-8)}
    found = solution_or_raise(solve_program(program, name, options, verbose=verbose), type(chosen).__name__)
    assert found.plane is not None
    assert found.residuals is not None
    # the primal's value at the plane itself: the solver's own is that of slacks which may not be feasible
    primal = found.value if isinstance(program.plane, str) else value_with_plane_fixed(program, found.plane)
    primal = primal if np.isfinite(primal) else found.value
    dual = found.residuals.dual_value
    scale = max(abs(primal), abs(dual), 1e-300)
    # a dual value bounds the optimum as far as its point is feasible: the residuals count as gap
    relative = max((primal - dual) / scale, found.error)
    return Solution(
        found.plane,
        primal,
        primal - relative * scale,
        relative * scale,
        relative,
        found.status == "solved" and relative <= max(tol, GENERAL),
        found.status,
        0,
        found.seconds,
        name,
        found.multipliers,
    )


def _matrix(name: str, rows: ArrayLike) -> Array:
    """Return a matrix of finite numbers, copied, or say what it is instead."""
    try:
        found = np.asarray(rows)
        if np.iscomplexobj(found):
            raise TypeError
        found = np.array(found, dtype=float)
    except (TypeError, ValueError):
        raise NPSVMError(f"{name} must be a matrix of numbers.") from None
    if found.ndim != 2 or not found.size:
        raise NPSVMError(f"{name} must be a matrix with a row and a column at least; found shape {found.shape}.")
    if not np.isfinite(found).all():
        raise NPSVMError(f"{name} must be finite; found NaN or infinity.")
    return found


def _check_numbers(**given: Any) -> None:
    rules = {
        "tol": lambda x: x >= 0,
        "max_iter": lambda x: x is None or (not isinstance(x, bool) and float(x) == int(x) and x >= 1),
        "random_state": lambda x: not isinstance(x, bool) and int(x) == x >= 0,
        "time_limit": lambda x: x is None or x > 0,
        "relaxation": lambda x: 0 < x < 2,
    }
    says = {
        "tol": "a nonnegative number",
        "max_iter": "a positive whole number",
        "random_state": "a nonnegative whole number",
        "time_limit": "a positive number of seconds",
        "relaxation": "a number in (0, 2)",
    }
    for name, value in given.items():
        try:
            fine = bool(rules[name](value))
        except (TypeError, ValueError, OverflowError):
            fine = False
        if not fine:
            raise NPSVMError(f"{name}={value!r} must be {says[name]}.")


__all__ = ["NotCompilable", "Solution", "solve"]
