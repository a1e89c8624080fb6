"""A declared primal at many settings of its hyperparameters, compiled once where CVXPY can take them as parameters.

Knows formulations and general solvers.  Must not know any formulation by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from .modeling import Formulation, Program
from .solvers import ProgramSolution, solve_program


def solve_settings(
    formulation: Formulation,
    S: ArrayLike,
    R: ArrayLike,
    settings: Sequence[Mapping[str, float]],
    solver: str = "clarabel",
    options: Mapping[str, Any] | None = None,
) -> Iterator[ProgramSolution]:
    """Yield the primal's solution at each setting.

    Parameters
    ----------
    formulation : Formulation
    S, R : (m, d) and (l, d) arrays
    settings : sequence of dict
        Hyperparameters' values, ``{"C1": 0.5, "C2": 4.0}``; those left out keep their own.
    solver, options
        As :func:`~npsvm_cvx.solvers.solve_program`.

    Raises
    ------
    NPSVMError
        A value outside its hyperparameter's domain, or another bad argument, named.

    Examples
    --------
    >>> from npsvm_cvx import load
    >>> S, R = [[1.0, 1.0], [2.0, 1.0]], [[0.0, 1.0]]
    >>> found = solve_settings(load("hnpsvm")(), S, R, [{"C2": 0.5}, {"C2": 1.0}, {"C2": 2.0}])
    >>> [round(solution.value, 6) for solution in found]
    [0.416667, 0.666667, 0.75]
    """
    near, margin = np.asarray(S, dtype=float), np.asarray(R, dtype=float)
    each = [clone(formulation).set_params(**setting) for setting in settings]
    for one in each:
        one.check_hyperparameters()
    shared = parametric(formulation, near, margin, settings) if len(settings) > 1 else None
    for one, setting in zip(each, settings, strict=True):
        if shared is None:
            program = one.program("primal", near, margin)
            assert program is not None
        else:
            program, parameters = shared
            for name, value in setting.items():
                parameters[name].value = float(value)
        yield solve_program(program, solver, options)


def parametric(
    formulation: Formulation, S: np.ndarray[Any, Any], R: np.ndarray[Any, Any], settings: Sequence[Mapping[str, float]]
) -> tuple[Program, dict[str, cp.Parameter]] | None:
    """Return the primal with its hyperparameters as CVXPY parameters; None where it does not depend on them affinely.

    >>> from npsvm_cvx import load
    >>> rows, settings = np.ones((2, 2)), [{"C1": 1.0, "C2": 2.0}]
    >>> program, parameters = parametric(load("tbsvm")(), rows, rows, settings)
    >>> sorted(parameters), parametric(load("huber_hinge")(), rows, rows, [{"delta": 0.5}]) is None
    (['C1', 'C2'], True)
    """
    names = set(settings[0])
    if any(set(setting) != names for setting in settings):
        return None
    lifted, parameters = clone(formulation), {}
    for name in sorted(names):
        values = [float(setting[name]) for setting in settings]
        signs = {"pos": True} if min(values) > 0 else {"nonneg": True} if min(values) >= 0 else {}
        parameters[name] = cp.Parameter(name=name, value=values[0], **signs)
    try:
        program = lifted.set_params(**parameters).primal(S, R)
    except Exception:  # written for numbers: they are put in one setting at a time
        return None
    known = {parameter.id for parameter in parameters.values()}
    lifts = isinstance(program, Program) and {p.id for p in program.problem.parameters()} == known
    return (program, parameters) if lifts and program.problem.is_dcp(dpp=True) else None
