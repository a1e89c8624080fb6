"""Where a derivation is wrong and what stands there if it is right, in a sentence.

What :class:`~npsvm_cvx.probe.Probe` measures at several settings of the hyperparameters is compared, as declared and
as the Lagrangian has it, and what differs is said as an author would write it: here the objective and the recovery of
the plane; bounds, signs and sides in :mod:`~npsvm_cvx.multipliers`.  Concludes nothing on whether a formulation is
right: it is asked once a check has failed.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np

from .bench import Bench, Quantity, negated, without_rounding
from .formulas import Formula, Term, plain
from .framework import Framework
from .linalg import Array
from .modeling import Formulation
from .multipliers import explain_domain
from .probe import Metric, Multipliers, Objective, Probe


def explained(formulation: Formulation, what: Explanation) -> str | None:
    """Return an explanation, sought once for a formulation and its hyperparameters; None where there is none."""
    if isinstance(formulation, Framework) and type(formulation).dual is Framework.dual:
        return None  # its dual follows from the loss's conjugate, whose own check says what is wrong
    key = what, type(formulation), tuple((n, repr(x)) for n, x in sorted(formulation.get_params(deep=True).items()))
    if key not in _EXPLAINED:
        if len(_EXPLAINED) >= 256:
            _EXPLAINED.pop(next(iter(_EXPLAINED)), None)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _EXPLAINED[key] = what(formulation)
        except Exception:  # an explanation that fails must not hide the failure it was to explain
            _EXPLAINED[key] = None
    return _EXPLAINED[key]


Explanation = Callable[[Formulation], str | None]
_EXPLAINED: dict[Any, str | None] = {}


# --- the objective and the recovery ------------------------------------------------------------------------


def explain_objective(formulation: Formulation) -> str | None:
    """Return which terms of the declared dual objective differ from the Lagrangian's infimum; None where unknown."""
    bench = Bench(formulation)
    otherwise = _reversed(bench.here) or _interchanged(bench.here)
    if otherwise is not None:
        return otherwise
    read = [probe.objectives() for probe in bench.probes]
    if read[0] is None:
        return _single_term(bench)
    found = _quadratic_part(bench, read)
    for what, name in (("|a|^2", "square"), ("e'a", "linear"), ("constant", "constant")):
        pairs = [None if r is None else (getattr(r[0], name), getattr(r[1], name)) for r in read]
        assert pairs[0] is not None
        if abs(pairs[0][0] - pairs[0][1]) <= 1e-6 * max(abs(pairs[0][0]), abs(pairs[0][1]), 1e-9):
            continue
        label, factor = f"the coefficient of {what}", 1.0
        if what == "constant":
            label, factor = ("the constant", len(bench.here.R)) if _shared(formulation, pairs[0]) else (
                "the constant a sample", 1.0)  # fmt: skip
        one, two = (bench.quantity([None if p is None else factor * p[k] for p in pairs]) for k in (0, 1))
        found.append(bench.contrast(label, one, two))
    return f"dual objective: {'; '.join(found)}" if found else None


def _shared(formulation: Formulation, constants: tuple[float, float]) -> bool:
    """Whether the difference of the constants is one for the whole problem: with more rows it is less a sample."""
    more = Probe(formulation, margin=6).objectives()
    if more is None:
        return False
    apart = more[0].constant - more[1].constant
    return abs(6 * apart - 5 * (constants[0] - constants[1])) <= 1e-5 * abs(5 * apart)


def _reversed(probe: Probe) -> str | None:
    """Return which equation of the primal is written the other way round from the multiplier declared for it."""
    for name in probe.names:
        equation = isinstance(probe.primal.constraints[name], cp.constraints.zero.Equality)
        if equation and probe.one_block and probe.agrees(negated(name)):
            return (
                f"dual objective: the coefficient of e'a has the wrong sign, as has the multiplier of [{name}] for the "
                "way round its equation is written: lhs == rhs adds multiplier'(lhs - rhs) to the Lagrangian; turn the "
                "equation or the multiplier round"
            )
    return None


def _interchanged(probe: Probe) -> str | None:
    """Return which two constraints have each other's multipliers."""
    for one, two in itertools.combinations(probe.names, 2):
        if probe.dual.multipliers[one].shape == probe.dual.multipliers[two].shape:

            def change(m: Multipliers, one: str = one, two: str = two) -> Multipliers:
                return {**m, one: m[two], two: m[one]}

            if probe.agrees(change):
                return (
                    f"dual objective: the multipliers of [{one}] and [{two}] are declared for each other's constraint"
                )
    return None


def _quadratic_part(bench: Bench, read: list[tuple[Objective, Objective] | None]) -> list[str]:
    """Return how the quadratic form differs: by a factor, or by the matrix M in ``a' R M^-1 R' a``."""
    assert read[0] is not None
    declared, true = read[0][0].inverse, read[0][1].inverse
    size = float(np.abs(true).max())
    if np.abs(declared - true).max() <= 1e-5 * size:
        return []
    ratio = float((declared * true).sum() / (true * true).sum())
    if np.abs(declared - ratio * true).max() <= 1e-5 * size:
        ratios = [None if r is None else float((r[0].inverse * r[1].inverse).sum() / (r[1].inverse**2).sum())
                  for r in read]  # fmt: skip
        halves = bench.quantity([None if x is None else -x / 2 for x in ratios])
        return [bench.contrast("the coefficient of a'Qa", halves, bench.number(-0.5))]
    one, two = (_metric_text(bench, [None if r is None else r[k].inverse for r in read]) for k in (0, 1))
    if one is None or two is None:
        return ["the quadratic form in a is not the Lagrangian's"]
    return [f"the coefficient of a'Qa is -1/2 with Q = R M^-1 R', M = {one}; the Lagrangian gives M = {two}"]


def explain_recovery(formulation: Formulation) -> str | None:
    """Return how the declared plane differs from the one that minimises the Lagrangian; None where unknown."""
    bench = Bench(formulation)
    read = [probe.recoveries() for probe in bench.probes]
    if read[0] is None:
        return None
    declared, true = read[0]
    size = float(np.abs(true).max())
    ratio = float((declared * true).sum() / (true * true).sum())
    if np.abs(declared - ratio * true).max() <= 1e-5 * size:
        if abs(ratio - 1) <= 1e-6:
            return None
        ratios = [None if r is None else float((r[0] * r[1]).sum() / (r[1] ** 2).sum()) for r in read]
        factor = bench.quantity(ratios)
        general = f", in general {factor.general} times" if factor.names else ""
        return (
            f"recovery: declared plane is {factor} times the plane that minimises the Lagrangian"
            f"{bench.where(factor)}{general}"
        )
    one, two = (_metric_text(bench, [None if r is None else r[k] for r in read]) for k in (0, 1))
    if one is None or two is None:
        return None
    return f"recovery: declared plane is ({one})^-1 R'a; the plane that minimises the Lagrangian is ({two})^-1 R'a"


def _metric_text(bench: Bench, inverses: list[Array | None]) -> str | None:
    """Return M as it would be written, from its inverses at the settings."""
    found = [None if W is None else probe.metric(W) for probe, W in zip(bench.probes, inverses, strict=True)]
    if found[0] is None:
        return None

    def column(read: Callable[[Metric], float]) -> Quantity:
        return bench.quantity([None if m is None else read(m) for m in found])

    near, margin = column(lambda m: m.near), column(lambda m: m.margin)
    on_w, on_b = column(lambda m: m.on_w), column(lambda m: m.on_b)
    even = abs(on_w.now - on_b.now) <= 1e-6 * max(abs(on_w.now), abs(on_b.now))
    ridges = [(on_w, "I")] if even else [(on_w, "I on w"), (on_b, "on b")]
    parts = []
    for quantity, name in ((near, "S'S"), (margin, "R'R"), *ridges):
        if quantity.now:
            formula = quantity.formula or Formula((Term(quantity.now),))
            parts.append(formula.text(name) if len(formula.terms) == 1 else f"({formula}) {name}")
    return " + ".join(parts).replace("+ -", "- ") or "0"


def _single_term(bench: Bench) -> str | None:
    """Fit the discrepancy by one term of one block: its sum, its squares, its absolute values, or a constant."""
    probe = bench.here
    if not probe.points:
        return None
    apart = np.array([probe.infimum(theta) - probe.domain.objective(theta) for theta in probe.points])
    if not np.isfinite(apart).all():
        return None
    for name, part in probe.blocks.items():
        terms: list[tuple[str, Callable[[Array], float]]] = [
            (f"e'{name}", lambda x: float(x.sum())),
            (f"|{name}|^2", lambda x: float(x @ x)),
            (f"|{name}|_1", lambda x: float(np.abs(x).sum())),
        ]
        for label, term in terms:
            column = np.array([term(theta[part]) for theta in probe.points])
            factor = float(column @ apart) / max(float(column @ column), 1e-300)
            if np.abs(apart - factor * column).max() > 1e-5 * np.abs(apart).max():
                continue
            # the declared objective can be asked outside its domain too: what it says of this block alone
            declared = _declared_factor(probe, name, label)
            if declared is None:
                return f"dual objective: {plain(factor, 1e-5)} {label} is missing from it"
            one, two = bench.number(declared), bench.number(without_rounding(declared + factor))
            return f"dual objective: {bench.contrast(f'the coefficient of {label}', one, two)}"
    if np.ptp(apart) <= 1e-6 * np.abs(apart).max():
        return f"dual objective: the constant {plain(float(apart.mean()), 1e-5)} is missing from it"
    return None


def _declared_factor(probe: Probe, block: str, label: str) -> float | None:
    """Return the declared objective's factor of a term of one block, from its values along that block alone."""
    base = np.zeros(probe.domain.size)
    there = probe.domain.objective(base)
    values = []
    for x in (1.0, -1.0, 2.0):
        theta = base.copy()
        theta[probe.blocks[block]] = x
        values.append(probe.domain.objective(theta) - there)
    n = probe.blocks[block].stop - probe.blocks[block].start
    up, down, double = (v / n for v in values)
    square = (double - 2 * up) / 2
    slope, bend = (up - down) / 2, (up + down) / 2 - square
    found = square if label.endswith("^2") else bend if label.endswith("_1") else slope
    return float(found) if np.isfinite(found) else None


__all__ = ["explain_domain", "explain_objective", "explain_recovery", "explained"]
