"""Where a derivation is wrong and what stands there if it is right, in a sentence.

What :class:`~npsvm_cvx.probe.Probe` measures at several settings of the hyperparameters is compared, as declared and
as the Lagrangian has it, and what differs is said as an author would write it.  Concludes nothing on whether a
formulation is right: it is asked once a check has failed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import cvxpy as cp
import numpy as np

from .errors import NPSVMError
from .formulas import Formula, Term, fit, fraction, plain
from .linalg import Array
from .modeling import Formulation, Framework
from .probe import Change, Interval, Metric, Multipliers, Objective, Probe

_SETTINGS = 6
_BOUNDS = 1e-5  # relative; where a problem becomes unbounded is told by an interior-point solver


@dataclass(frozen=True)
class Quantity:
    """A number measured at the present setting, and the formula that it is at all of them, where one was found."""

    now: float
    formula: Formula | None

    def __str__(self) -> str:
        return plain(self.now, _BOUNDS)

    @property
    def general(self) -> str:
        """The formula where there is one, the present number otherwise."""
        return str(self) if self.formula is None else str(self.formula)

    @property
    def names(self) -> set[str]:
        """The hyperparameters it depends on."""
        powers = [] if self.formula is None else [p for term in self.formula.terms for p, _ in term.powers]
        return {p.removeprefix("1 - ") for p in powers}


class Bench:
    """A formulation at several settings of its hyperparameters, the present one first, each probed once."""

    def __init__(self, formulation: Formulation, near: int = 4, margin: int = 5) -> None:
        self.params: list[dict[str, float]] = []
        self.probes: list[Probe] = []
        for each in formulation.variations(_SETTINGS):
            try:
                self.probes.append(Probe(each, near, margin))
            except NPSVMError:
                if not self.probes:
                    raise
                continue
            values = each.get_params(deep=True)
            self.params.append({n: float(x) for n, x in values.items() if isinstance(x, Real)})

    @property
    def here(self) -> Probe:
        """The probe at the present setting."""
        return self.probes[0]

    def quantity(self, values: list[float | None]) -> Quantity:
        """Return a number and its formula, from its values at the settings (None where it was not found)."""
        now = values[0]
        assert now is not None
        pairs = [(p, x) for p, x in zip(self.params, values, strict=True) if x is not None and np.isfinite(x)]
        formula = fit([p for p, _ in pairs], [x for _, x in pairs], _BOUNDS) if len(pairs) > 3 else None
        return Quantity(_snapped(now), formula)

    def number(self, value: float) -> Quantity:
        """Return a number that does not depend on the setting, or is known at the present one only."""
        exact = _snapped(value)
        return Quantity(exact, Formula((Term(exact),) if exact else ()) if np.isfinite(value) else None)

    def where(self, *quantities: Quantity) -> str:
        """Return the present values of the hyperparameters that quantities depend on, in brackets."""
        names = sorted(set().union(*(q.names for q in quantities)))
        return f" ({', '.join(f'{n} = {self.params[0][n]:.4g}' for n in names)})" if names else ""

    def contrast(self, what: str, declared: Quantity, true: Quantity) -> str:
        """Return the sentence that a coefficient is one thing and the Lagrangian gives another."""
        text = f"{what} is {declared}; the Lagrangian gives {true}{self.where(declared, true)}"
        if (declared.names or true.names) and declared.formula is not None and true.formula is not None:
            text += f", in general {declared.general} against {true.general}"
        return text


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
    reversed_sign = _reversed(bench.here)
    if reversed_sign is not None:
        return reversed_sign
    read = [probe.objectives() for probe in bench.probes]
    if read[0] is None:
        return _single_term(bench)
    found = _quadratic_part(bench, read)
    for what, name, per in (("|a|^2", "square", ""), ("e'a", "linear", ""), ("constant", "constant", " a sample")):
        pairs = [None if r is None else (getattr(r[0], name), getattr(r[1], name)) for r in read]
        assert pairs[0] is not None
        if abs(pairs[0][0] - pairs[0][1]) <= 1e-6 * max(abs(pairs[0][0]), abs(pairs[0][1]), 1e-9):
            continue
        one, two = (bench.quantity([None if p is None else p[k] for p in pairs]) for k in (0, 1))
        label = f"the {what}{per}" if what == "constant" else f"the coefficient of {what}"
        found.append(bench.contrast(label, one, two))
    return f"dual objective: {'; '.join(found)}" if found else None


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
            one, two = bench.number(declared), bench.number(_near(declared + factor))
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


def _snapped(x: float) -> float:
    near = fraction(x, _BOUNDS)
    return x if near is None else float(near)


def _near(x: float) -> float:
    return 0.0 if abs(x) < 1e-6 else x


# --- the domain and the constraints ------------------------------------------------------------------------


def explain_domain(formulation: Formulation) -> str | None:
    """Return which bound, sign, side or equation of a declared dual or its primal is wrong; None where unknown."""
    bench = Bench(formulation, near=2, margin=2)
    probe = bench.here
    true = {block: probe.true_interval(block) for block in probe.blocks}
    if all(interval is not None for interval in true.values()):
        found = [text for block in probe.blocks for text in _bounds(bench, block)]
        if found:
            return f"dual domain: {'; '.join(found)}"
        return _equations(bench)
    changed = _changed_sign(formulation, bench)
    return changed if changed is not None else _unbalanced(bench)


def _bounds(bench: Bench, block: str) -> list[str]:
    """Return a sentence for each end of a block's interval that is not where it should be."""
    pairs = [(probe.declared_interval(block), probe.true_interval(block)) for probe in bench.probes]
    declared, true = pairs[0]
    assert true is not None
    if declared is None:
        return [f"the declared constraints leave {block} no interval; {_interval_text(bench, block, pairs)}"]
    found = []
    for side in ("lower", "upper"):
        sign = 1.0 if side == "upper" else -1.0
        one, two = getattr(declared, side), getattr(true, side)
        if _alike(one, two):
            continue
        said, right = (bench.quantity([None if p[k] is None else getattr(p[k], side) for p in pairs]) for k in (0, 1))
        reason = getattr(true, "above" if side == "upper" else "below")
        named = getattr(declared, "above" if side == "upper" else "below")
        where = bench.where(said, right)
        if sign * one > sign * two:
            what = f"declared {said.general} by {named}" if np.isfinite(one) else "none is declared"
            if reason.startswith("["):
                found.append(
                    f"{side} bound of {block}: {what}, beyond {right.general}{where} the multiplier of {reason} is "
                    "negative"
                )
            else:
                found.append(
                    f"{side} bound of {block}: {what}, the Lagrangian is bounded only "
                    f"{'up' if side == 'upper' else 'down'} to {right.general}{where}"
                    f"{', beyond it unbounded below ' + reason if reason.startswith('along') else ''}"
                )
        else:
            limit = f"{'down' if side == 'lower' else 'up'} to {right.general}{where}"
            found.append(
                f"{side} bound of {block}: declared {said.general} by {named}, too narrow: the Lagrangian is bounded, "
                f"and no multiplier negative, {limit if np.isfinite(two) else 'without it'}"
            )
    return found


def _interval_text(bench: Bench, block: str, pairs: list[tuple[Interval | None, Interval | None]]) -> str:
    low, high = (
        bench.quantity([None if p[1] is None else getattr(p[1], side) for p in pairs]) for side in ("lower", "upper")
    )
    return f"the Lagrangian is bounded, and no multiplier negative, from {low.general} to {high.general}"


def _equations(bench: Bench) -> str | None:
    """Return which block enters the declared equation with the wrong factor, by the stationarity of the plane."""
    found = bench.here.equations()
    if not found:
        return None
    factors = [factor for factor, _ in found.values()]
    usual = max(factors, key=lambda x: sum(abs(x - y) <= 1e-9 * max(abs(x), 1e-12) for y in factors))
    for block, (factor, _) in found.items():
        if usual and abs(factor - usual) > 1e-9 * abs(usual):
            times = "is missing" if factor == 0 else f"enters with {plain(factor / usual)} times its right factor"
            return (
                f"dual domain: {block} {times} in the equation that stationarity in the plane gives, or the multiplier "
                "that it stands for has the wrong sign"
            )
    return None


def _negated(name: str) -> Change:
    def change(multipliers: Multipliers) -> Multipliers:
        return {**multipliers, name: -np.asarray(multipliers[name])}

    return change


def _reversed(probe: Probe) -> str | None:
    """Return which equation of the primal is written the other way round from the multiplier declared for it."""
    for name in probe.names:
        equation = isinstance(probe.primal.constraints[name], cp.constraints.zero.Equality)
        if equation and probe.one_block and probe.agrees(_negated(name)):
            return (
                f"dual objective: the coefficient of e'a has the wrong sign, as has the multiplier of [{name}] for the "
                "way round its equation is written: lhs == rhs adds multiplier'(lhs - rhs) to the Lagrangian; turn the "
                "equation or the multiplier round"
            )
    return None


def _changed_sign(formulation: Formulation, bench: Bench) -> str | None:
    """Return the constraint of the primal, or the multiplier, that is right once it is turned round or replaced."""
    large = Probe(formulation)
    for name in large.names:
        change = _negated(name)
        if not large.agrees(change):
            continue
        if _same_intervals(bench.here, change):
            return (
                f"dual domain: the multiplier of [{name}] is declared with the wrong sign: with the other, the "
                "declared objective is the infimum of the Lagrangian on the declared domain"
            )
        if _same_intervals(bench.here, change, signs=False):
            return (
                f"primal: constraint [{name}] has the wrong side: its multiplier is negative; with the other side the "
                "declared dual is right, as written the Lagrangian is unbounded below"
            )
    return _other_multiplier(large, bench)


def _same_intervals(probe: Probe, change: Change, *, signs: bool = True) -> bool:
    for block in probe.blocks:
        declared, true = probe.declared_interval(block), probe.true_interval(block, change, signs=signs)
        if declared is None or true is None:
            return False
        if not (_alike(declared.lower, true.lower) and _alike(declared.upper, true.upper)):
            return False
    return True


def _alike(one: float, two: float) -> bool:
    return one == two or bool(np.isfinite(one - two) and abs(one - two) <= _BOUNDS * max(abs(one), abs(two), 1e-6))


def _other_multiplier(large: Probe, bench: Bench) -> str | None:
    """Return the multiplier that is right once it is what stationarity makes it."""
    for variable in _linear_variables(bench.here):
        balance = _balance(bench.here, variable)
        assert balance is not None
        for name in balance[1]:
            change = _completed(balance, name)
            if large.agrees(change) and _same_intervals(bench.here, change):
                needed, declared = _needed(bench, variable, name), bench.here.declared_multiplier(name)
                if needed is None or declared is None:
                    continue
                return (
                    f"dual domain: the Lagrangian is unbounded below along {_name(bench, variable)} unless "
                    f"{_balance_text(bench, variable)} = 0, which makes the multiplier of [{name}] {needed}; "
                    f"declared is {_affine(bench, name)}"
                )
    return None


def _linear_variables(probe: Probe) -> list[int]:
    """Return the places, among the primal's variables, of those that the Lagrangian is linear in, sample by sample."""
    return [i for i in range(len(probe.primal.problem.variables())) if _balance(probe, i) is not None]


def _balance(probe: Probe, at: int) -> tuple[float, dict[str, float]] | None:
    return probe.balance(probe.primal.problem.variables()[at])


def _name(bench: Bench, at: int) -> str:
    return str(bench.here.primal.problem.variables()[at].name())


def _completed(balance: tuple[float, Mapping[str, float]], name: str) -> Change:
    constant, factors = balance

    def change(multipliers: Multipliers) -> Multipliers:
        rest = np.full(np.shape(multipliers[name]), constant)
        for other, factor in factors.items():
            if other != name:
                rest = rest + factor * multipliers[other]
        return {**multipliers, name: -rest / factors[name]}

    return change


def _unbalanced(bench: Bench) -> str | None:
    """Say which coefficient of the Lagrangian does not vanish at the declared multipliers, and what would make it."""
    for variable in _linear_variables(bench.here):
        balance = _balance(bench.here, variable)
        assert balance is not None
        left = _combined(bench, variable, balance[1])
        if left is None or not left.terms:
            continue
        name = _name(bench, variable)
        declared = ", ".join(f"[{n}] = {_affine(bench, n)}" for n in balance[1])
        equation = f"stationarity in {name} is {_balance_text(bench, variable)} = 0, and declared is {declared}"
        for n, s in balance[1].items():  # 2 s_k m_k is what turning the sign of one entry takes away
            if left == _combined(bench, variable, {n: s}, 2.0, constant=False):
                return (
                    f"primal: {name} enters constraint [{n}] with the wrong sign for these multipliers, and the "
                    f"Lagrangian is unbounded below along {name}: {equation}"
                )
        if not any(atom == "a" for term in left.terms for atom, _ in term.powers):
            weight = bench.quantity([None if (b := _balance(p, variable)) is None else b[0] for p in bench.probes])
            wanted = _combined(bench, variable, balance[1], -1.0, constant=False)
            return (
                f"primal: the weight of {name} is {weight.general}; these multipliers are right for {wanted}, and the "
                f"Lagrangian is unbounded below along {name}: {equation}"
            )
        options = [f"{needed} for [{n}]" for n in balance[1] if (needed := _needed(bench, variable, n)) is not None]
        cancel = f": {' or '.join(options)} would do" if options else ""
        return f"dual domain: the Lagrangian is unbounded below along {name}: {equation}{cancel}"
    return None


def _balance_text(bench: Bench, variable: int) -> str:
    """Return the coefficient of a variable in the Lagrangian: ``C2 - [margin] - [slack]``."""
    read = [_balance(probe, variable) for probe in bench.probes]
    assert read[0] is not None
    constant = bench.quantity([None if b is None else b[0] for b in read])
    text = constant.general if constant.now else ""
    for name in read[0][1]:
        factor = bench.quantity([None if b is None else b[1].get(name, 0.0) for b in read])
        formula = factor.formula or Formula((Term(factor.now),))
        text += " + " + formula.text(f"[{name}]") if text else formula.text(f"[{name}]")
    return text.replace("+ -", "- ")


def _affine(bench: Bench, name: str) -> str:
    """Return a declared multiplier as it was written: ``C2 - a``."""
    return _affine_text(bench, [probe.declared_multiplier(name) for probe in bench.probes]) or "as it stands"


def _affine_text(bench: Bench, read: list[tuple[float, float] | None]) -> str | None:
    if read[0] is None:
        return None
    formula = _affine_formula(bench, read)
    return str(formula)


def _affine_formula(bench: Bench, read: list[tuple[float, float] | None]) -> Formula:
    terms: list[Term] = []
    for k, times in ((0, ()), (1, (("a", 1),))):
        quantity = bench.quantity([None if r is None else r[k] for r in read])
        formula = quantity.formula or Formula((Term(quantity.now),) if quantity.now else ())
        terms += [Term(t.factor, (*t.powers, *times)) for t in formula.terms]
    return Formula(tuple(sorted(terms, key=lambda term: term.factor < 0)))


def _combined(
    bench: Bench, variable: int, names: Mapping[str, float], times: float = 1.0, *, constant: bool = True
) -> Formula | None:
    """Return a variable's coefficient at the declared multipliers, in a: all of it, or what some multipliers add."""
    read: list[tuple[float, float] | None] = []
    for probe in bench.probes:
        balance = _balance(probe, variable)
        parts = {n: probe.declared_multiplier(n) for n in names}
        if balance is None or any(p is None for p in parts.values()):
            read.append(None)
            continue
        whole, slope = (float(sum(balance[1][n] * p[k] for n, p in parts.items() if p is not None)) for k in (0, 1))
        read.append((_near(times * whole + (balance[0] if constant else 0.0)), _near(times * slope)))
    return None if read[0] is None else _affine_formula(bench, read)


def _needed(bench: Bench, variable: int, name: str) -> str | None:
    """Return what stationarity in a variable makes one multiplier, given the others as declared."""
    read: list[tuple[float, float] | None] = []
    for probe in bench.probes:
        balance = _balance(probe, variable)
        if balance is None or name not in balance[1]:
            read.append(None)
            continue
        change = _completed(balance, name)
        parts = {n: probe.declared_multiplier(n) for n in balance[1]}
        if any(p is None for p in parts.values()):
            read.append(None)
            continue
        zero = change({n: np.array([p[0]]) for n, p in parts.items()})[name]  # type: ignore[index]
        one = change({n: np.array([p[0] + p[1]]) for n, p in parts.items()})[name]  # type: ignore[index]
        read.append((_near(float(zero[0])), _near(float(one[0] - zero[0]))))
    return _affine_text(bench, read)
