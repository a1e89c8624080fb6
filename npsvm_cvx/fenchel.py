"""The check of a conjugate, declared or derived: Fenchel and Young's inequality with its equality.

By values of the loss alone, no solver: the loss is evaluated on grids, its slopes at infinity give the conjugate's
domain, and its supremum is found by shrinking the grid.  What it should be is said as its author would write it.
"""

from __future__ import annotations

from collections.abc import Iterator

import cvxpy as cp
import numpy as np

from .derivation import NotDerivable, written
from .evidence import Row, judged, skipped
from .formulas import Formula, Term, fit
from .instance import Instance
from .linalg import Array
from .modeling import Framework, Loss, conjugate_of


def conjugate(instance: Instance) -> Iterator[Row]:
    """Fenchel-Young: the declared L* is ``sup_t (v t - L(t))``, inside, outside and on the edge of its domain."""
    formulation = instance.formulation
    if not isinstance(formulation, Framework):
        yield skipped("conjugate", "not declared by a loss: the dual function is checked instead")
        return
    loss = formulation.loss
    if loss.conjugate is None and formulation.why_no_dual():
        yield skipped("conjugate", f"the loss {formulation.why_no_dual()}; the conic dual stands in")
        return
    low, high = _slopes(loss)
    probes = _probes(low, high)
    declared = [_declared_conjugate(loss, v) for v in probes]
    worst, sentence = 0.0, ""
    for v, (value, feasible) in zip(probes, declared, strict=True):
        inside = low - 1e-9 <= v <= high + 1e-9
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
        error = abs(value - supremum) / max(1.0, abs(supremum), abs(value))
        if error > worst:
            worst = error
            sentence = f"conjugate value: at v = {v:.6g} declared {value:.8g}, sup_t (v t - L(t)) is {supremum:.8g}"
    good = f"L* is the supremum on [{low:.4g}, {high:.4g}] and infinite outside"
    if loss.conjugate is None and (found := as_written(loss)) is not None:
        good = f"derived: L*(v) = {found[0]}; write `def conjugate(self, v): {found[1]}`"
    yield judged("conjugate", worst, 1e-7, good, sentence + (_advice(loss) if worst > 1e-7 else ""))


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
            tried.append({n: float(x) for n, x in each.get_params().items()})
            numbers.append(pieces[0].numbers)
        elif not tried:
            return None
    found: list[Formula | None] = []
    for column, now in zip(zip(*numbers, strict=True), numbers[0], strict=True):
        if np.isinf(column).all():
            found.append(None)
        else:
            here = Formula((Term(now),) if now else ()) if np.isfinite(now) else None
            formula = fit(tried, column) if tried[0] else None
            found.append(here if formula is None else formula)
    return written(*found)


def _advice(loss: Loss) -> str:
    found = as_written(loss)
    return f"; from the values of the loss, L*(v) = {found[0]}: `{found[1]}`" if found is not None else ""


def _loss_at(loss: object, t: Array) -> Array:
    value = loss.value(cp.Constant(t)).value  # type: ignore[attr-defined]
    return np.asarray(value, dtype=float).reshape(t.shape)


def _slopes(loss: object) -> tuple[float, float]:
    """The slopes of L at minus and plus infinity: the ends of the conjugate's domain."""
    ends = []
    for sign in (-1.0, 1.0):
        t = sign * np.array([1e4, 2e4, 2e6, 4e6])
        value = _loss_at(loss, t)
        near, far = (value[1] - value[0]) / (t[1] - t[0]), (value[3] - value[2]) / (t[3] - t[2])
        steady = np.isfinite(far) and abs(far - near) <= 1e-3 * max(1.0, abs(near))
        ends.append(float(far) if steady else sign * np.inf)
    snapped = [float(f"{e:.7g}") + 0.0 if np.isfinite(e) else e for e in ends]
    return snapped[0], snapped[1]


def _probes(low: float, high: float) -> list[float]:
    left = low if np.isfinite(low) else -8.0
    right = high if np.isfinite(high) else 8.0
    width = max(right - left, 1.0)
    inside = [left + share * (right - left) for share in (0.01, 0.13, 0.37, 0.5, 0.71, 0.99)]
    edges = [e for e in (low, high) if np.isfinite(e)]
    outside = [left - share * width for share in (0.01, 0.3, 2.0) if np.isfinite(low)]
    outside += [right + share * width for share in (0.01, 0.3, 2.0) if np.isfinite(high)]
    return [*inside, *edges, *outside]


def _declared_conjugate(loss: object, v: float) -> tuple[float, bool]:
    point = cp.Constant(np.array([v]))
    value, domain = conjugate_of(loss, point)  # type: ignore[arg-type]
    feasible = all(float(np.max(c.violation(), initial=0.0)) <= 1e-9 for c in domain)
    got = value.value
    return float("inf") if got is None else float(np.asarray(got).ravel()[0]), feasible


def _supremum(loss: object, v: float) -> float:
    """``sup_t (v t - L(t))`` by shrinking grids: the function is concave, so the best of a grid brackets it."""
    low, high = -1e6, 1e6
    best = -np.inf
    for _ in range(60):
        grid = np.linspace(low, high, 401)
        value = v * grid - _loss_at(loss, grid)
        at = int(np.nanargmax(value))
        best = max(best, float(value[at]))
        low, high = grid[max(at - 1, 0)], grid[min(at + 1, 400)]
        if high - low < 1e-10:
            break
    return best
