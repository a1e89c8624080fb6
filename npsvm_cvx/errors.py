"""The errors this package raises, and the sentences they share.  Knows nothing of the rest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class NPSVMError(ValueError):
    """A mistake in what the caller gave; the message names the argument, what was found, and what to do."""


class FormulationError(NPSVMError):
    """A formulation or loss that cannot be used as it is written."""


class CurvatureError(FormulationError):
    """A primal that is not convex, or a dual that is not concave, by CVXPY's rules."""


class SolverError(RuntimeError):
    """A solver that returned no point at all; the message names the solver and its status."""


def unknown(argument: str, found: object, choices: Iterable[str]) -> NPSVMError:
    """Return the error for a name that is not one of ``choices``, with the nearest name.

    >>> str(unknown("solver", "clarable", ["clarabel", "osqp"]))
    "solver='clarable' is not known; did you mean 'clarabel'? Choices: clarabel, osqp."
    """
    names = sorted(choices)
    near = difflib.get_close_matches(str(found), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return NPSVMError(f"{argument}={found!r} is not known{hint} Choices: {', '.join(names)}.")
