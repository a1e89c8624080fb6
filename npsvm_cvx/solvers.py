"""A declared program and a CVXPY solver's name in, a solution with its residuals out.

Knows how each general solver is called and what its words mean.  Must not know formulations.  A solver's own
"optimal" is reported and never believed: what counts is the residuals recomputed on the standard form.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from .conic import Compiled, Residuals
from .errors import NPSVMError, SolverError, unknown
from .linalg import Array
from .modeling import SIDED, Program

# the neutral options, and what each solver calls them; "tol" may set several
_OPTIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "clarabel": {
        "tol": ("tol_gap_abs", "tol_gap_rel", "tol_feas"),
        "max_iter": ("max_iter",),
        "time_limit": ("time_limit",),
    },
    "osqp": {"tol": ("eps_abs", "eps_rel"), "max_iter": ("max_iter",), "time_limit": ("time_limit",)},
    "ecos": {"tol": ("abstol", "reltol", "feastol"), "max_iter": ("max_iters",)},
    "scs": {"tol": ("eps_abs", "eps_rel"), "max_iter": ("max_iters",), "time_limit": ("time_limit_secs",)},
    "highs": {
        "tol": ("primal_feasibility_tolerance", "dual_feasibility_tolerance"),
        "max_iter": ("simplex_iteration_limit", "ipm_iteration_limit", "qp_iteration_limit"),
        "time_limit": ("time_limit",),
    },
}
# every solve sends the full set: some CVXPY interfaces keep the options of the solve before
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "clarabel": {"tol": 1e-10, "max_iter": 200},
    "osqp": {"tol": 1e-8, "max_iter": 10_000},
    "ecos": {"tol": 1e-10, "max_iter": 200},
    "scs": {"tol": 1e-8, "max_iter": 20_000},
    "highs": {"tol": 1e-9, "max_iter": 100_000},
}
_FIXED: Mapping[str, Mapping[str, Any]] = {"osqp": {"polishing": True}, "highs": {"output_flag": False}}
_MODULE = {"clarabel": "clarabel", "osqp": "osqp", "ecos": "ecos", "scs": "scs", "highs": "highspy"}

SOLVERS: tuple[str, ...] = tuple(_OPTIONS)
Status = Literal["solved", "stopped early", "infeasible", "unbounded", "failed"]
_STATUS: Mapping[str, Status] = {
    "optimal": "solved",
    "optimal_inaccurate": "stopped early",
    "user_limit": "stopped early",
    "infeasible": "infeasible",
    "infeasible_inaccurate": "infeasible",
    "unbounded": "unbounded",
    "unbounded_inaccurate": "unbounded",
}


@dataclass(frozen=True)
class ProgramSolution:
    """What one solver returned for one program, and how good that is.

    Attributes
    ----------
    solver : str
    status : str
        The solver's claim: "solved", "stopped early", "infeasible", "unbounded" or "failed".
    detail : str
        The status or error in the solver's own words.
    value : float
        The program's objective, evaluated at the variables (NaN without a point).
    plane : (d,) array or None
    multipliers : dict of str to array
        Of a dual: the declared multiplier expressions.  Of a primal: the solver's, by constraint.
    sides : dict of str to array
        ``lhs - rhs`` of each named constraint (cones have none).
    residuals : Residuals or None
        On the standard form.
    seconds : float
        The solver's call alone, without CVXPY's compilation.
    doubt : float
        The value's relative distance from an optimum proved by other means, where there is one.
    """

    solver: str
    status: Status
    detail: str
    value: float = float("nan")
    plane: Array | None = None
    multipliers: Mapping[str, Array] = field(default_factory=dict)
    sides: Mapping[str, Array] = field(default_factory=dict)
    residuals: Residuals | None = None
    seconds: float = float("nan")
    doubt: float = 0.0

    @property
    def error(self) -> float:
        """The largest relative residual, or how far the value lies from the dual's or from what is proved.

        Infinite without a point.
        """
        if self.residuals is None or not np.isfinite(self.value):
            return float("inf")
        bound = self.residuals.dual_value
        spread = abs(self.value - bound) / max(abs(self.value), abs(bound), 1e-300)
        return max(self.residuals.worst, spread, self.doubt)


def installed(solver: str) -> bool:
    """Return whether the solver can be imported; raise NPSVMError for a name that is none.

    >>> installed("clarabel")
    True
    """
    name = solver.lower()
    if name not in SOLVERS:
        raise unknown("solver", solver, SOLVERS)
    return importlib.util.find_spec(_MODULE[name]) is not None


def require(solver: str) -> str:
    """Return the solver's lower-case name, or raise NPSVMError saying what to install."""
    name = solver.lower()
    if not installed(name):
        raise NPSVMError(f"solver={solver!r} is not installed: pip install {_MODULE[name]}.")
    return name


def options_for(solver: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Translate the neutral options (tol, max_iter, time_limit) to one solver's names, defaults filled in.

    >>> options_for("ecos", {"max_iter": 7})["max_iters"]
    7
    """
    table = _OPTIONS[solver]
    given = dict(options or {})
    for name in given:
        if name not in {"tol", "max_iter", "time_limit"}:
            raise unknown("option", name, ("tol", "max_iter", "time_limit"))
    merged = {**_DEFAULTS[solver], **{k: v for k, v in given.items() if v is not None}}
    translated = {theirs: value for ours, value in merged.items() for theirs in table.get(ours, ())}
    if solver == "highs":
        for key in table["tol"]:
            translated[key] = max(translated[key], 1e-10)  # HiGHS refuses less
    return {**translated, **_FIXED.get(solver, {})}


def solve_program(
    program: Program, solver: str, options: Mapping[str, Any] | None = None, *, verbose: bool = False
) -> ProgramSolution:
    """Solve a program with one CVXPY solver.

    Parameters
    ----------
    program : Program
    solver : str
        One of :data:`SOLVERS`.
    options : mapping, optional
        ``tol``, ``max_iter``, ``time_limit`` (seconds).

    Returns
    -------
    ProgramSolution
        Also when the solver failed: its status says so.

    Raises
    ------
    NPSVMError
        Unknown or missing solver, unknown option.
    """
    name = require(solver)
    settings = options_for(name, options)
    for variable in program.problem.variables():
        variable.value = None  # a value left by another solver may lie outside what this one's presolve infers
    try:
        with warnings.catch_warnings(), quiet(not verbose):
            warnings.simplefilter("ignore")  # "may be inaccurate" is what the residuals are for
            compiled = Compiled(program.problem, name.upper(), settings)
            begin = time.perf_counter()
            solution, x, y = compiled.run(settings, verbose=verbose)
            seconds = time.perf_counter() - begin
    except KeyboardInterrupt:
        raise
    except Exception as error:
        return ProgramSolution(name, "failed", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    status = _STATUS.get(solution.status, "failed")
    if not len(x) or any(v.value is None for v in program.problem.variables()):
        return ProgramSolution(name, status, solution.status, seconds=seconds)
    for variable in program.variables:
        if variable.value is None:  # a variable the problem does not constrain: any value is optimal
            variable.value = np.zeros(variable.shape)
    declared = program.multipliers or {k: c.dual_variables[0] for k, c in program.constraints.items()}
    return ProgramSolution(
        solver=name,
        status=status,
        detail=solution.status,
        value=float(program.objective.value),
        plane=program.plane_value(),
        multipliers={k: np.array(e.value) for k, e in declared.items() if e.value is not None},
        sides={k: np.array(c.expr.value, dtype=float) for k, c in program.constraints.items() if isinstance(c, SIDED)},
        residuals=compiled.form.residuals(x, y),
        seconds=seconds,
    )


def solution_or_raise(solution: ProgramSolution, what: str) -> ProgramSolution:
    """Return the solution, or raise SolverError naming what was solved, the solver and its status."""
    if solution.plane is None:
        raise SolverError(f"{solution.solver} returned no point for {what}: {solution.detail}.")
    return solution


_STDOUT = threading.Lock()


@contextlib.contextmanager
def quiet(active: bool = True) -> Iterator[None]:
    """Keep what a solver's C code prints off standard output, so that reports and JSON stay clean."""
    if not active:
        yield
        return
    with _STDOUT:
        sys.stdout.flush()
        try:
            saved = os.dup(1)
        except OSError:  # standard output is closed
            yield
            return
        try:
            with tempfile.TemporaryFile() as sink:
                os.dup2(sink.fileno(), 1)
                yield
        finally:
            os.dup2(saved, 1)
            os.close(saved)


def value_with_plane_fixed(program: Program, plane: Array, solver: str = "clarabel") -> float:
    """Return the primal's value when its plane is held at ``plane``: infinite where nothing is feasible."""
    if isinstance(program.plane, str):
        raise NPSVMError("the plane of this program is a multiplier and cannot be held.")
    held = Program(program.objective, {**program.constraints, "held": program.plane == plane}, program.plane)
    solution = solve_program(held, solver)
    return solution.value if solution.plane is not None else float("inf")


def check_solvers(solvers: object) -> tuple[str, ...]:
    """Return the solvers' names, checked, as a tuple; raise NPSVMError naming the argument."""
    if isinstance(solvers, str):
        solvers = (solvers,)
    if not isinstance(solvers, tuple | list) or not solvers:
        raise NPSVMError(f"solvers={solvers!r} must be one or more of {', '.join(SOLVERS)}.")
    return tuple(dict.fromkeys(require(str(name)) for name in solvers))
