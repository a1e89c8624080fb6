"""The check of a conjugate, declared or derived: Fenchel and Young's inequality with its equality.

By values of the loss alone, no solver: the loss is evaluated on grids, its slopes at infinity give the conjugate's
domain, and its supremum is found by shrinking the grid.  What it should be is said as its author would write it.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real

import cvxpy as cp
import numpy as np

from .derivation import NotDerivable, evaluate, written
from .evidence import Row, judged, skipped
from .formulas import Formula, Term, fit
from .framework import Framework, Loss, conjugate_of
from .instance import Instance
from .linalg import Array


def conjugate(instance: Instance) -> Iterator[Row]:
    """Fenchel-Young: the declared L* is ``sup_t (v t - L(t))``, inside, outside and on the edge of its domain."""
    formulation = instance.formulation
    if not isinstance(formulation, Framework):
        yield skipped("conjugate", "not declared by a loss: the dual function is checked instead")
        return
    loss = formulation.loss
    if loss.prox is not None:
        yield _proximal(loss)
    if loss.conjugate is None and formulation.why_no_dual():
        yield skipped("conjugate", f"the loss {formulation.why_no_dual()}; the conic dual stands in")
        return
    low, high = _slopes(loss)
    probes = _probes(loss, low, high)
    slack = 1e-9 * max(abs(x) for x in probes)
    declared = [_declared_conjugate(loss, v, slack) for v in probes]
    worst, sentence = 0.0, ""
    for v, (value, feasible) in zip(probes, declared, strict=True):
        inside = low - slack <= v <= high + slack
        if inside != feasible:
            where = "inside" if feasible else "outside"
            truth = f"finite on [{low:.6g}, {high:.6g}]"
            yield Row(
                "conjugate",
                abs(v),
                0.0,
                "fail",
                f"conjugate domain: v = {v:.6g} is declared {where} the domain, but sup_t (v t - L(t)) is {truth}"
                f"{_advice(loss)}",
            )
            return
        if not inside:
            continue
        supremum = _supremum(loss, v)
        # v times the margin of size one is what the two sides of Fenchel and Young's inequality are made of
        error = abs(value - supremum) / max(abs(v), abs(supremum), abs(value), 1e-300)
        if error > worst:
            worst = error
            sentence = f"conjugate value: at v = {v:.6g} declared {value:.8g}, sup_t (v t - L(t)) is {supremum:.8g}"
    good = f"L* is the supremum on [{low:.4g}, {high:.4g}] and infinite outside"
    if loss.conjugate is None and (found := as_written(loss)) is not None:
        good = f"derived: L*(v) = {found[0]}; write `def conjugate(self, v): {found[1]}`"
    yield judged("conjugate", worst, 1e-7, good, sentence + (_advice(loss) if worst > 1e-7 else ""))


def _proximal(loss: Loss) -> Row:
    """The declared proximal map minimises ``L(x) + (x - t)^2 / (2 s)``: no point near it, or far from it, is lower."""
    t, s = (x.ravel() for x in np.meshgrid([-30.0, -3.0, -0.5, 0.2, 1.0, 1.7, 4.0, 30.0], [1e-3, 0.1, 1.0, 7.0, 300.0]))
    try:
        found = np.array(np.broadcast_to(np.asarray(loss.prox(t, s), dtype=float), t.shape))
    except Exception as error:
        what = f"{type(loss).__name__}.prox raised {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return Row("conjugate", float("inf"), 0.0, "fail", what)

    def cost(x: Array) -> Array:
        return evaluate(loss.values, x) + (x - t) ** 2 / (2 * s)

    here = cost(found)
    worst, sentence = 0.0, ""
    for step in (1e-4, 1e-2, 1.0):
        for sign in (-1.0, 1.0):
            there = cost(found + sign * step)
            drop = np.where(
                np.isfinite(here), (here - there) / np.maximum(np.abs(here) + np.abs(there), 1e-300), np.inf
            )
            k = int(np.argmax(drop))
            if not drop[k] <= worst:
                worst = float(drop[k])
                sentence = (
                    f"prox({t[k]:g}, {s[k]:g}) is declared {found[k]:.8g}, where L(x) + (x - t)^2 / (2 s) is "
                    f"{here[k]:.8g}; at {found[k] + sign * step:.8g} it is {there[k]:.8g}"
                )
    good = f"the proximal map minimises L(x) + (x - t)^2 / (2 s) at {len(t)} places"
    return judged("conjugate", worst, 1e-10, good, f"proximal map: {sentence}")


def as_written(loss: Loss) -> tuple[str, str] | None:
    """Return the conjugate that follows from a loss's values as a statement and as the line that declares it.

    In terms of the loss's hyperparameters where simple formulas in them fit its numbers at several settings, and
    with the numbers of the present setting otherwise.  None where no conjugate of one piece can be derived.

    >>> from npsvm_cvx import load
    >>> as_written(load("huber_hinge")(delta=0.3).loss)
    ('v + delta v^2/2 on -1 <= v <= 0', 'return v + self.delta * cp.square(v) / 2, [v >= -1, v <= 0]')
    """
    tried, numbers = [], []
    for each in loss.variations():
        try:
            pieces = each.pieces()
        except NotDerivable:
            pieces = ()
        if len(pieces) == 1:
            tried.append({n: float(x) for n, x in each.get_params().items() if isinstance(x, Real)})
            numbers.append(pieces[0].numbers)
        elif not tried:
            return None
    found: list[Formula | None] = []
    general = len(tried) > 3 or not tried[0]
    for column, now in zip(zip(*numbers, strict=True), numbers[0], strict=True):
        formula = fit(tried, column) if general and np.isfinite(column).all() else None
        if formula is None and np.isfinite(now):
            formula, general = Formula((Term(now),) if now else ()), False
        found.append(formula)
    text, line = written(*found)
    here = ", ".join(f"{n} = {x:g}" for n, x in tried[0].items())
    return (text if general else f"{text}, at {here}" if here else text), line


def _advice(loss: Loss) -> str:
    found = as_written(loss)
    return f"; from the values of the loss, L*(v) = {found[0]}: `{found[1]}`" if found is not None else ""


def _slopes(loss: Loss) -> tuple[float, float]:
    """The slopes of L at minus and plus infinity: the ends of the conjugate's domain."""
    ends = []
    for sign in (-1.0, 1.0):
        found = sign * np.inf
        for reach in (1e4, 1e7, 1e9):  # beyond the last bend, wherever that is
            t = sign * np.array([reach, 2 * reach, 200 * reach, 400 * reach])
            value = evaluate(loss.values, t)
            with np.errstate(invalid="ignore"):
                near, far = (value[1] - value[0]) / (t[1] - t[0]), (value[3] - value[2]) / (t[3] - t[2])
            # what is left of a slope beside values a million times its size is rounding
            noise = 1e-12 * np.abs(value).max() / reach
            if np.isfinite(far) and abs(far - near) <= 1e-3 * abs(near) + noise:
                found = float(far)
                if abs(far - near) <= 1e-9 * abs(near) or reach == 1e4:
                    break
        ends.append(found)
    return _tidied(ends[0]), _tidied(ends[1])


def _tidied(end: float) -> float:
    """Return a slope without the digits that are rounding; one that has as many of its own keeps them."""
    short = float(f"{end:.7g}") + 0.0
    return short if abs(short - end) <= 1e-11 * abs(end) else end


def _probes(loss: Loss, low: float, high: float) -> list[float]:
    """Values of v inside the domain, on its edges, and outside; where it has no end, as far as slopes near t = 1 go."""
    around = evaluate(loss.values, np.array([-8.0, -7.0, 9.0, 10.0]))
    with np.errstate(invalid="ignore"):
        left = low if np.isfinite(low) else float(around[1] - around[0])
        right = high if np.isfinite(high) else float(around[3] - around[2])
    left = left if np.isfinite(left) else min(-1.0, right - 1.0)
    right = right if np.isfinite(right) else max(1.0, left + 1.0)
    width = right - left or max(abs(left), 1.0)
    inside = [left + share * (right - left) for share in (0.01, 0.13, 0.37, 0.5, 0.71, 0.99)]
    edges = [e for e in (low, high) if np.isfinite(e)]
    outside = [left - share * width for share in (0.01, 0.3, 2.0) if np.isfinite(low)]
    outside += [right + share * width for share in (0.01, 0.3, 2.0) if np.isfinite(high)]
    return [*inside, *edges, *outside]


def _declared_conjugate(loss: Loss, v: float, slack: float) -> tuple[float, bool]:
    point = cp.Constant(np.array([v]))
    value, domain = conjugate_of(loss, point)
    feasible = all(float(np.max(c.violation(), initial=0.0)) <= slack for c in domain)
    got = value.value
    return float("inf") if got is None else float(np.asarray(got).ravel()[0]), feasible


def _supremum(loss: Loss, v: float) -> float:
    """``sup_t (v t - L(t))`` by shrinking grids: the function is concave, so the best of a grid brackets it."""
    best = -np.inf
    for reach in (1e6, 1e9):
        here, inside = _supremum_within(loss, v, reach)
        # further out only where the supremum is there: else what grows is rounding
        best = here if here > best + 1e-12 * reach * abs(v) or not np.isfinite(best) else best
        if inside:
            break
    return best


def _supremum_within(loss: Loss, v: float, reach: float) -> tuple[float, bool]:
    """Return the supremum for t up to some size, and whether it is attained inside."""
    low, high = -reach, reach
    best, inside = -np.inf, True
    for step in range(60):
        grid = np.linspace(low, high, 401)
        with np.errstate(invalid="ignore", over="ignore"):
            value = v * grid - evaluate(loss.values, grid)
        at = int(np.nanargmax(value))
        best = max(best, float(value[at]))
        inside = inside and (step > 0 or 0 < at < 400)
        low, high = grid[max(at - 1, 0)], grid[min(at + 1, 400)]
        if high - low < 1e-10:
            break
    return best, inside
