r"""Planes over a grid of C1 and C2: one decomposition serves every C1, and each C2 starts from the one before.

With :math:`S^\top S = V \mathrm{diag}(s) V^\top`, the margin rows in whitened coordinates are
:math:`R V \mathrm{diag}(s + C_1)^{-1/2}` for every C1.  Along C2 the dual's boxes and curvatures scale; a sample at
the end of its box most often stays there.

Knows compiled duals and the solver.  Must not know classifiers or any formulation by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .classes import Classes, solve_classes
from .compile import compile, same
from .errors import NPSVMError
from .forms import BoxQP, Coefficients
from .kernels import compiled, descend, gap_at, image
from .linalg import Array
from .modeling import Formulation
from .problem import Problem, Stack, is_sparse
from .sor import compress, sor
from .terms import Terms
from .working_set import minimise

_PROBES = ((1.0, 1.0), (0.125, 32.0), (4.0, 0.5))
_ALIKE = 1e-9  # relative difference of what three probes say of a family
_LARGE = 2**19  # entries of a class's margin rows from which the working set of one setting beats sweeps over all,
_TALL = 20  # where they are so many times more rows than columns: of fewer the decomposition is what costs


@dataclass(frozen=True)
class Grid:
    """The planes of every class at every setting.

    Attributes
    ----------
    C1, C2 : arrays
        C1 holds one NaN where the formulation has no such hyperparameter.
    planes : (len(C1), len(C2), classes, d) array
    relative_gap : (len(C1), len(C2), classes) array
        ``gap / max(|primal|, |dual|)`` at each plane.
    sweeps : (len(C1), len(C2), classes) array of int
    """

    C1: Array
    C2: Array
    planes: Array
    relative_gap: Array
    sweeps: NDArray[np.intp]


@dataclass(frozen=True)
class Family(BoxQP):
    """A dual at C1 = C2 = 1, where its ridge goes with C1 and its ``h(a)`` is ``C2 h_1(a / C2)``."""

    has_C1: bool = True


def grid(
    formulation: Formulation,
    classes: Classes,
    C1: Sequence[float] | Array | None,
    C2: Sequence[float] | Array,
    *,
    tol: float = 1e-8,
    random_state: int = 0,
) -> Grid:
    """Return the planes of all classes at every (C1, C2).

    Parameters
    ----------
    formulation : Formulation
        Its other hyperparameters are kept.
    classes : Classes
    C1, C2 : sequences of positive numbers
        C1 is None for a formulation that has no such hyperparameter.
    tol : float
        Relative duality gap of each plane.
    random_state : int

    Raises
    ------
    NPSVMError
        Values that are not positive, or hyperparameters the formulation does not have.
    NotCompilable
        A dual that SOR does not solve.
    """
    own = formulation.get_params(deep=False)
    if "C2" not in own or (C1 is not None and "C1" not in own):
        missing = "C2" if "C2" not in own else "C1"
        raise NPSVMError(f"{type(formulation).__name__} has no hyperparameter {missing}; it has {', '.join(own)}.")
    first = np.array([np.nan]) if C1 is None else np.asarray(C1, dtype=float).ravel()
    second = np.asarray(C2, dtype=float).ravel()
    for name, values in (("C1", first if C1 is not None else np.ones(1)), ("C2", second)):
        if not values.size or not (np.isfinite(values).all() and (values > 0).all()):
            raise NPSVMError(f"{name} must hold positive, finite numbers.")
    found = Grid(
        first,
        second,
        np.empty((len(first), len(second), len(classes.ends), classes.rows.shape[1])),
        np.empty((len(first), len(second), len(classes.ends))),
        np.zeros((len(first), len(second), len(classes.ends)), dtype=np.intp),
    )
    family = family_of(formulation) if C1 is None or "C1" in own else None
    ordered = np.argsort(second)
    for k in range(len(classes.ends)):
        l = sum(part.stop - part.start for part in classes.margin(k))
        n, d = classes.rows.shape
        if is_sparse(classes.rows):
            shared = family is not None and n * d < _LARGE
        else:
            shared = family is not None and (l * d < _LARGE or l < _TALL * d)
        if not (shared and family and _shared(family, classes, k, found, ordered, tol, random_state)):
            _one_by_one(formulation, classes, k, found, tol, random_state)
    return found


def family_of(formulation: Formulation) -> Family | None:
    """Return the family that a formulation's dual is of, or None where C1 and C2 enter it otherwise."""
    names = [name for name in ("C1", "C2") if name in formulation.get_params(deep=False)]
    read = []
    for c1, c2 in _PROBES:
        setting = {name: value for name, value in (("C1", c1), ("C2", c2)) if name in names}
        one = compile(clone(formulation).set_params(**setting))
        if not isinstance(one, BoxQP):
            return None
        scale = c1 if "C1" in names else 1.0
        own = one.samples
        at_one = Coefficients(own.linear, own.curvature * c2, own.lower / c2, own.upper / c2, own.constant / c2)
        read.append(Family(one.near, (one.ridge[0] / scale, one.ridge[1] / scale), at_one, "C1" in names))
    return read[0] if all(same(read[0], other, _ALIKE) for other in read[1:]) else None


def _one_by_one(formulation: Formulation, classes: Classes, k: int, found: Grid, tol: float, random_state: int) -> None:
    """Solve every setting by itself; what the classes share of the rows they still share."""
    for (i, c1), (j, c2) in product(enumerate(found.C1), enumerate(found.C2)):
        setting = {"C2": float(c2)} if np.isnan(c1) else {"C1": float(c1), "C2": float(c2)}
        one = compile(clone(formulation).set_params(**setting))
        (plane,) = solve_classes(one, classes, which=[k], tol=tol, random_state=random_state)
        found.planes[i, j, k] = plane.plane
        found.relative_gap[i, j, k] = plane.result.relative_gap
        found.sweeps[i, j, k] = plane.result.sweeps


def _shared(
    family: Family,
    classes: Classes,
    k: int,
    found: Grid,
    ordered: NDArray[np.intp],
    tol: float,
    random_state: int,
) -> bool:
    """Fill in class k from one decomposition; False where the ridge does not allow it."""
    d = classes.rows.shape[1]
    ridge = family.ridges(d) / classes.columns
    if not (ridge > 0).all():
        return False
    root = np.sqrt(ridge)
    near, margin = classes.near(k), classes.margin(k)
    S, R, price = classes.stack(near).dense(), classes.stack(margin).dense(), family.near * classes.weigh(near)
    scaled = S * np.sqrt(price)[:, None] / root
    triangle = np.linalg.qr(scaled, mode="r") if len(S) > d else scaled
    _, s, Vt = np.linalg.svd(triangle, full_matrices=True)
    spectrum = np.zeros(d)
    spectrum[: len(s)] = s**2
    turned = (R / root) @ Vt.T
    unit = family.samples.terms(len(R), classes.weigh(margin))
    C2 = found.C2[ordered]
    A, warm = np.zeros((len(C2), len(R))), False
    for i, c1 in enumerate(found.C1):
        c1 = 1.0 if np.isnan(c1) else float(c1)
        shrink = 1 / np.sqrt(spectrum + c1)
        F, basis = compress(turned * shrink)
        W = np.empty((len(C2), F.shape[1]))
        gaps, sweeps = np.empty(len(C2)), np.zeros(len(C2), dtype=np.int64)
        _along(F, *unit[:4], unit.constant, C2, tol, random_state, warm, W, A, gaps, sweeps)
        warm = True
        for at in np.flatnonzero(~(gaps <= tol)):
            ended = sor(F, unit.times(float(C2[at])), tol=tol, start=A[at], random_state=random_state)
            W[at], A[at] = ended.w, ended.a
            sweeps[at] += ended.sweeps
        Z = (((W if basis is None else W @ basis.T) * shrink) @ Vt) / root
        gaps = _gaps(S, R, price, c1 * ridge, unit, C2, Z, A)
        for at in np.flatnonzero(~(gaps <= tol)):
            problem = Problem(Stack(S), Stack(R), unit.times(float(C2[at])), c1 * ridge, price)
            again, Z[at] = minimise(problem, tol=tol, start=A[at], random_state=random_state)
            A[at], gaps[at] = again.a, again.relative_gap
            sweeps[at] += again.sweeps
        found.planes[i, ordered, k] = classes.sign * Z
        found.relative_gap[i, ordered, k], found.sweeps[i, ordered, k] = gaps, sweeps
    return True


def _gaps(S: Array, R: Array, price: Array, ridge: Array, unit: Terms, C2: Array, Z: Array, A: Array) -> Array:
    """Return the relative gap of each plane, a row of Z, and its multipliers, from the data themselves."""
    Y, T = S @ Z.T, R @ Z.T
    terms = unit.at(np.s_[:, None]).times(C2)
    r = R.T @ A.T - S.T @ (price[:, None] * Y) - ridge[:, None] * Z.T
    gap = terms.brackets(A.T, T).sum(axis=0) + (r**2 / (2 * ridge[:, None])).sum(axis=0)
    smooth = (price[:, None] * Y**2).sum(axis=0) + (ridge * Z**2).sum(axis=1)
    primal = smooth / 2 + terms.phi(T).sum(axis=0) - unit.constant * C2
    size = np.maximum(np.abs(primal), np.abs(primal - gap))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(gap == 0, 0.0, gap / size))


# --- compiled ----------------------------------------------------------------------------------------------


@compiled
def _along(  # pragma: no cover - compiled
    F: Array,
    linear: Array,
    curvature1: Array,
    lower1: Array,
    upper1: Array,
    constant1: float,
    C2: Array,
    tol: float,
    seed: int,
    warm: bool,
    W: Array,
    A: Array,
    gaps: Array,
    sweeps: NDArray[np.int64],
) -> None:
    """SOR along ascending C2, each ended by a Newton step on the free multipliers.

    It begins from the last C2's multipliers, or, if ``warm``, from those that A has of another C1 where their gap is
    smaller.
    """
    n, d = F.shape
    norms = np.empty(n)
    for i in range(n):
        norms[i] = 0.0
        for j in range(d):
            norms[i] += F[i, j] * F[i, j]
    a, w = np.zeros(n), np.zeros(d)
    for p in range(C2.size):
        c = C2[p]
        lower, upper, curvature = lower1 * c, upper1 * c, curvature1 / c
        for i in range(n):
            if p > 0:
                before = C2[p - 1]
                if a[i] == lower1[i] * before:
                    a[i] = lower[i]
                elif a[i] == upper1[i] * before:
                    a[i] = upper[i]
                elif curvature[i] > 0.0:
                    a[i] *= c / before
            a[i] = min(max(a[i], lower[i]), upper[i])
        image(F, a, w)
        if warm:
            other = np.zeros(d)
            image(F, A[p], other)
            here = gap_at(F, linear, curvature, lower, upper, a, w)[0]
            if gap_at(F, linear, curvature, lower, upper, A[p], other)[0] < here:
                a[:], w[:] = A[p], other
        gaps[p], sweeps[p] = descend(
            F, norms, linear, curvature, lower, upper, constant1 * c, a, w, 1.0, seed + p, tol, -1.0, _MOST_SWEEPS
        )
        W[p], A[p] = w, a


_MOST_SWEEPS = 300
