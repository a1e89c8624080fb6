"""Which bound, sign or equation of a dual's multipliers is wrong, or which side or weight of its primal.

Concludes nothing on whether a formulation is right: it is asked once a check has failed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .bench import Bench, alike, negated, without_rounding
from .formulas import Formula, Term, plain
from .modeling import Formulation
from .probe import Change, Interval, Multipliers, Probe


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
    return changed if changed is not None else _unbalanced(formulation, bench)


def _bounds(bench: Bench, block: str) -> list[str]:
    """Return a sentence for each end of a block's interval that is not where it should be."""
    declared, true = bench.here.declared_interval(block), bench.here.true_interval(block)
    assert true is not None
    if declared is not None and alike(declared.lower, true.lower) and alike(declared.upper, true.upper):
        return []
    pairs = [(probe.declared_interval(block), probe.true_interval(block)) for probe in bench.probes]
    if declared is None:
        return [f"the declared constraints leave {block} no interval; {_interval_text(bench, block, pairs)}"]
    found = []
    for side in ("lower", "upper"):
        sign = 1.0 if side == "upper" else -1.0
        one, two = getattr(declared, side), getattr(true, side)
        if alike(one, two):
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
            probe = bench.here
            equations = [n for n in probe.dual.constraints if n not in probe.domain.inequalities]
            where = f"the equation [{equations[0]}]" if len(equations) == 1 else "the equations"
            named = [n for n, e in probe.dual.multipliers.items() if block in {v.name() for v in e.variables()}]
            of = f"the multiplier of {' or '.join(f'[{n}]' for n in named)}" if named else "a multiplier"
            how = f"with {plain(factor / usual)} times its right factor" if factor else "not at all"
            return (
                f"dual domain: {block} enters {where} {how}, by stationarity in the plane; or {of} has the wrong sign "
                "for the way its constraint is written"
            )
    return None


def _changed_sign(formulation: Formulation, bench: Bench) -> str | None:
    """Return the constraint of the primal, or the multiplier, that is right once it is turned round or replaced."""
    large = Probe(formulation)
    for name in large.names:
        change = negated(name)
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
        if not (alike(declared.lower, true.lower) and alike(declared.upper, true.upper)):
            return False
    return True


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


def _unbalanced(formulation: Formulation, bench: Bench) -> str | None:
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
            other = _balance(Probe(formulation, 2, 3), variable)
            moves = other is not None and not alike(other[0], balance[0])
            rows = f" for {len(bench.here.R)} margin rows, and changes with their number" if moves else ""
            wanted = _combined(bench, variable, balance[1], -1.0, constant=False)
            return (
                f"primal: the weight of {name} is {weight.general}{rows}; these multipliers are right for {wanted}, "
                f"and the Lagrangian is unbounded below along {name}: {equation}"
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
        read.append(
            (without_rounding(times * whole + (balance[0] if constant else 0.0)), without_rounding(times * slope))
        )
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
        read.append((without_rounding(float(zero[0])), without_rounding(float(one[0] - zero[0]))))
    return _affine_text(bench, read)
