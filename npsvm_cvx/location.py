"""Whether the first line of a diagnosis names the place of a mistake that is known: one rule, applied to text alone."""

from __future__ import annotations

import re
from typing import Any

import cvxpy as cp
import numpy as np

from .modeling import Formulation, Program
from .mutation import Mutant


def names_the_place(mutant: Mutant, line: str, original: Formulation) -> bool:
    """Whether the first line of a diagnosis names where the mutant differs from the original.

    A duality check sees a primal and a dual that disagree, never which of them is wrong; so a place and its mirror
    image, the part of the other problem that would have to change with it, count alike.  What the line says, up to its
    consequences in brackets, must name, for a mistake in

    ==========================  ======================================================================================
    the primal's objective      the objective; a variable of the term touched (``along xi``); of a term in a slack, a
                                bound on the multiplier of a constraint that holds that slack
    a primal constraint [c]     ``[c]``; a variable of the term touched; or that term's mirror image: ``a'Qa`` or the
                                recovery, of a term in the plane; ``e'a`` or the constant, of a number; a bound as
                                above, of a term in a slack
    the primal's plane          the plane or its recovery
    the dual's objective        the dual objective
    a dual constraint [c]       ``[c]``; or the dual's domain, and no other of its constraints
    the multiplier of [c]       ``[c]``, or a variable of that constraint
    the recovery                the recovery, or the plane declared by the dual
    a loss                      the loss or its conjugate
    a conjugate                 its value or its domain, as the case is
    a claimed reduction         that claim
    a file made unusable        the method
    ==========================  ======================================================================================

    Parameters
    ----------
    mutant : Mutant
    line : str
        The diagnosis's first line.
    original : Formulation
        What the mutant was made from.
    """
    text = line.split(" (and so ")[0]
    named, own = _brackets(text), _brackets(mutant.place)
    form = mutant.place.split()[0]
    method = {"recovery": "dual", "multipliers": "dual", "loss": "value"}.get(form, form)
    if own & named or re.match(rf"\w+\.{method}\b", text):
        return True
    if form == "reduction":
        return any(claim.claim in text for claim in original.reductions())
    if form == "loss":
        return _has(text, "loss", "conjugate")
    if form == "conjugate":
        return _has(text, mutant.place)
    if mutant.place in ("recovery", "primal plane"):
        return _has(text, "recovery", "plane")
    if mutant.place == "dual objective":
        return _has(text, "dual objective")
    primal, dual = _program(original, "primal"), _program(original, "dual")
    assert primal is not None
    if form == "dual":
        return _has(text, "dual domain", "bound") and not named & set(dual.constraints if dual else ())
    if form == "multipliers":
        inside = {v.name() for c in own & set(primal.constraints) for v in primal.constraints[c].variables()}
        return _along(text, inside)
    return _in_primal(mutant, text, named, primal, dual)


def _in_primal(mutant: Mutant, text: str, named: set[str], primal: Program, dual: Program | None) -> bool:
    touched = set(mutant.touched)
    if _along(text, touched) or _bounds(touched, primal, dual) & named:
        return True
    if mutant.place == "primal objective":
        return _has(text, "objective")
    if not touched:
        return _has(text, "e'a", "constant")
    plane = {v.name() for v in primal.plane.variables()} if isinstance(primal.plane, cp.Expression) else set()
    return bool(plane & touched) and _has(text, "a'Qa", "recovery")


def _bounds(slacks: set[str], primal: Program, dual: Program | None) -> set[str]:
    """Return the dual's constraints on the multipliers of constraints that hold one of these slacks."""
    if dual is None or isinstance(primal.plane, str):
        return set()
    slacks = slacks - {v.name() for v in primal.plane.variables()}
    holding = [name for name, c in primal.constraints.items() if slacks & {v.name() for v in c.variables()}]
    multipliers = {v.id for name in holding if name in dual.multipliers for v in dual.multipliers[name].variables()}
    return {
        name
        for name, c in dual.constraints.items()
        if isinstance(c, cp.constraints.nonpos.Inequality) and multipliers & {v.id for v in c.variables()}
    }


def _brackets(text: str) -> set[str]:
    return set(re.findall(r"\[([^\]]+)\]", text))


def _has(text: str, *phrases: str) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) for phrase in phrases)


def _along(text: str, variables: set[str]) -> bool:
    return any(re.search(rf"\b(along|variable|of) \[?{re.escape(name)}\b", text) for name in variables)


def _program(formulation: Formulation, form: Any) -> Program | None:
    rows = np.column_stack([np.eye(3), np.ones(3)])
    return formulation.program(form, rows, rows)
