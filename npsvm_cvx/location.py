"""Whether the first line of a diagnosis names the place of a mistake that is known: one rule, applied to text alone."""

from __future__ import annotations

import re
from typing import Any

import cvxpy as cp
import numpy as np

from .modeling import Formulation, Framework
from .mutation import Mutant


def names_the_place(mutant: Mutant, line: str, original: Formulation) -> bool:
    """Whether the first line of a diagnosis names where the mutant differs from the original.

    A duality check sees a primal and a dual that disagree, never which of them is wrong; so a place and its mirror
    image, the part of the other problem that the same edit would have to change, count alike.  The line, up to its
    consequences in brackets, must hold, for a mistake in

    ============================  ====================================================================================
    the primal's objective        the word objective, or a variable of the term touched (``along xi``)
    a primal constraint [c]       ``[c]``; or a variable of the term touched; or the mirror of that term: ``a'Qa`` or
                                  the recovery, of one in the plane; ``e'a`` or the constant, of a number; a bound, of one in a slack
    the primal's plane            the plane or its recovery
    the dual's objective          the dual objective
    a dual constraint [c]         ``[c]``; or the dual's domain or bounds, without naming another of its constraints
    the multiplier of [c]         ``[c]``, or a variable of that constraint
    the recovery                  the recovery, or the plane declared by the dual
    a loss or its conjugate       the loss or the conjugate; of the conjugate, its value or its domain as the case is
    a claimed reduction           that claim
    what makes a file unusable    the method
    ============================  ====================================================================================
    """
    text = line.split(" (and so ")[0]
    place, named = mutant.place, set(re.findall(r"\[([^\]]+)\]", line.split(" (and so ")[0]))
    form = place.split()[0]
    own = set(re.findall(r"\[([^\]]+)\]", place))
    program = _program(original, "primal")
    dual = _program(original, "dual")
    method = {"recovery": "dual", "multipliers": "dual", "loss": "value"}.get(form, form)
    if re.search(rf"\b\w+\.{method}\b", text) and not re.search(r"\b(objective|domain|recovery):", text):
        return True  # unusable, and the sentence names the method
    if own & named:
        return True
    if form == "reduction":
        return any(claim.claim in text for claim in original.reductions())
    if form in ("loss", "conjugate"):
        wanted = r"\b(loss|conjugate)\b" if form == "loss" else rf"\b{place}\b"
        return re.search(wanted, text) is not None
    if place == "recovery" or place == "primal plane":
        return re.search(r"\brecovery\b|\bplane\b", text) is not None
    if place == "dual objective":
        return "dual objective" in text
    if form == "dual":
        others = named & (set(dual.constraints) if dual is not None else set())
        return re.search(r"\bdual domain\b|\bbound\b", text) is not None and not others
    if form == "multipliers":
        inside = {v.name() for c in own if c in program.constraints for v in program.constraints[c].variables()}
        return any(_mentions(text, name) for name in inside)
    if any(_mentions(text, name) for name in mutant.touched):
        return True
    if place == "primal objective":
        return re.search(r"\bobjective\b", text) is not None
    plane = {v.name() for v in program.plane.variables()} if isinstance(program.plane, cp.Expression) else set()
    if not mutant.touched:
        return re.search(r"e'a|\bconstant\b", text) is not None
    if plane & set(mutant.touched):
        return "a'Qa" in text or re.search(r"\brecovery\b", text) is not None
    return re.search(r"\bbound\b", text) is not None


def _mentions(text: str, variable: str) -> bool:
    return re.search(rf"\b(along|variable|of) \[?{re.escape(variable)}\b", text) is not None


def _program(formulation: Formulation, form: Any) -> Any:
    S = np.column_stack([np.eye(3), np.ones(3)])
    if isinstance(formulation, Framework) and form == "dual" and formulation.loss.conjugate is None:
        return None
    return formulation.program(form, S, S)
