"""The planes of all classes at once: what they share is computed once, and each comes with its proof.

Knows compiled duals, the solver and certificates.  Must not know classifiers, kernels or any formulation by name.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import ThreadpoolController

from .certificate import Certificate, Proof
from .errors import NPSVMError
from .forms import BoxLP, BoxQP, Compiled, Steps
from .linalg import Array, ClassFactor, Factor, RowInverse
from .modeling import Scheme
from .problem import Problem, Stack, densified, is_sparse, joined, span_of
from .sor import SORResult
from .working_set import factor_of, minimise

_MANY_SAMPLES = 400  # from here on, rows as wide as they are many share one factorisation
_TALL = 2**17  # entries of the rows from which the classes share their Gram matrices


@dataclass(frozen=True)
class Classes:
    """Rows grouped by class, with what their squares and coefficients cost.

    Attributes
    ----------
    rows : (n, d) array
        Class after class, last column ones; plain or CSR.
    ends : (K,) array of int
        Where each class's rows end.
    scheme : str
    weights : (n,) array
        What each sample counts for; positive.
    columns : (d,) array
        What each coefficient's ridge is divided by; positive.
    """

    rows: Any
    ends: NDArray[np.intp]
    scheme: Scheme
    weights: Array
    columns: Array

    def own(self, k: int) -> slice:
        """Where the rows of class k are."""
        return slice(0 if k == 0 else int(self.ends[k - 1]), int(self.ends[k]))

    def others(self, k: int) -> list[slice]:
        """Where the rows of all other classes are."""
        own = self.own(k)
        parts = [slice(0, own.start), slice(own.stop, self.rows.shape[0])]
        return [part for part in parts if part.stop > part.start]

    def near(self, k: int) -> list[slice]:
        """Where the near rows of class k are."""
        return self.others(k) if self.scheme == "farthest" else [self.own(k)]

    def margin(self, k: int) -> list[slice]:
        """Where the margin rows of class k are, without the sign that ``nearest`` gives them."""
        return [self.own(k)] if self.scheme == "farthest" else self.others(k)

    @property
    def sign(self) -> float:
        """The sign of the margin rows: a plane of rows of the other sign is the same plane, turned round."""
        return 1.0 if self.scheme == "farthest" else -1.0

    def stack(self, parts: list[slice]) -> Stack:
        """Return the rows of these places, not copied."""
        return Stack(*(span_of(self.rows, part) for part in parts))

    def weigh(self, parts: list[slice]) -> Array:
        """Return the weights of these places."""
        return np.concatenate([self.weights[part] for part in parts])

    def problem(self, compiled: BoxQP, k: int) -> Problem:
        """Return class k's problem, for margin rows without their sign."""
        near, margin = self.near(k), self.margin(k)
        even = bool((self.weights == 1.0).all())
        found = compiled.problem(
            self.stack(near),
            self.stack(margin),
            near=None if even else self.weigh(near),
            margin=1.0 if even else self.weigh(margin),
            columns=self.columns,
        )
        return replace(found, gram=compiled.near * self._near_gram(k)) if self.tall else found

    def _near_gram(self, k: int) -> Array:
        # a sum, never a difference: what is near a plane may be a thousandth of all
        near = [j for j in range(len(self.ends)) if (j == k) == (self.scheme == "nearest")]
        return np.asarray(sum(self.grams[j] for j in near))

    @cached_property
    def grams(self) -> list[Array]:
        """Each class's ``rows' diag(weights) rows``, (d, d)."""
        even = bool((self.weights == 1.0).all())
        spans = [self.own(k) for k in range(len(self.ends))]
        return [self.stack([span]).gram(1.0 if even else self.weights[span]) for span in spans]

    @property
    def tall(self) -> bool:
        """Whether a product of the rows with themselves is worth what it loses in digits."""
        n, d = self.rows.shape
        return n * d >= _TALL and n >= 4 * d


@dataclass(frozen=True)
class ClassPlane:
    """One class's plane.

    Attributes
    ----------
    plane : (d,) array
    result : SORResult
    proof : Proof or None
        For margin rows without the sign that ``nearest`` gives them, hence of the plane turned round.
    certificate : Certificate or None
    margins : (l,) array or None
        The multipliers of the margin rows.
    seconds : float
    """

    plane: Array
    result: SORResult
    proof: Proof | None
    certificate: Certificate | None
    margins: Array | None
    seconds: float


def solve_classes(
    compiled: Compiled,
    classes: Classes,
    *,
    n_jobs: int | None = None,
    verbose: int = 0,
    which: list[int] | None = None,
    **options: Any,
) -> list[ClassPlane]:
    """Return the plane of each class.

    Parameters
    ----------
    compiled : BoxQP, BoxLP or Steps
    classes : Classes
    n_jobs : int, optional
        Classes solved at a time, in threads: the solver and LAPACK release the interpreter's lock.
    which : list of int, optional
        Of these classes only.
    **options
        Of :func:`~npsvm_cvx.working_set.minimise`.
    """
    chosen = list(range(len(classes.ends))) if which is None else which
    work: Callable[[int], ClassPlane]
    if isinstance(compiled, BoxQP):
        factors = _factors(compiled, classes)

        def work(k: int) -> ClassPlane:
            return _quadratic(compiled, classes, k, factors, options)
    else:

        def work(k: int) -> ClassPlane:
            return _other(compiled, classes, k, options)

    # many rows and few columns: products too small for threads of their own, which on a busy machine wait for each
    # other; the classes are what to run side by side
    if classes.tall and isinstance(compiled, BoxQP):
        _ = classes.grams  # before the threads, which would each compute them
    limit = _blas().limit(limits=1, user_api="blas") if classes.tall else contextlib.nullcontext()
    with limit:
        return list(Parallel(n_jobs=n_jobs, verbose=verbose, prefer="threads")(delayed(work)(k) for k in chosen))


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def shares_inverse(rows: Any, scheme: Scheme, classes: int) -> bool:
    """Whether the classes' metrics come from one inverse of the samples' size, not from matrices of the features'."""
    n, d = rows.shape
    return bool((n >= _MANY_SAMPLES or is_sparse(rows)) and 2 * d > n and (scheme == "farthest" or classes == 2))


def _factors(compiled: BoxQP, classes: Classes) -> Callable[[int, Problem], Factor | ClassFactor]:
    """Return how to get a class's factor, from what the classes share where that pays."""
    if shares_inverse(classes.rows, classes.scheme, len(classes.ends)):
        d = classes.rows.shape[1]
        try:
            shared = RowInverse(classes.rows, compiled.ridges(d) / classes.columns, compiled.near * classes.weights)
        except NPSVMError:
            return lambda k, problem: _own_factor(problem)
        return lambda k, problem: shared.of(classes.margin(k)[0])
    return lambda k, problem: factor_of(problem)


_WRITTEN_OUT = 2**20  # entries of a linear program so small that it is solved by every means, which take plain rows
_WIDEST = 2**13  # features of sparse rows for which a matrix of their number squared is built all the same


def _has_own_factor(problem: Problem) -> bool:
    return not problem.R.sparse or problem.R.shape[1] <= _WIDEST


def _own_factor(problem: Problem) -> Factor:
    """Return the factor of a problem's own metric, where sparse rows have not so many features that it is too large."""
    if not _has_own_factor(problem):
        raise NPSVMError(
            f"X is too ill-conditioned at this C1, and its {problem.R.shape[1] - 1} features are too many for a "
            "factorisation of their own: scale them, raise C1, or reduce them (sklearn's TruncatedSVD, SelectKBest)."
        )
    return factor_of(problem)


def _quadratic(
    compiled: BoxQP,
    classes: Classes,
    k: int,
    factors: Callable[[int, Problem], Factor | ClassFactor],
    options: dict[str, Any],
) -> ClassPlane:
    begin = time.perf_counter()
    problem = classes.problem(compiled, k)
    try:
        factor = factors(k, problem)
    except NPSVMError:  # too ill-conditioned for what the classes share
        factor = _own_factor(problem)
    result, z = minimise(problem, factor, **options)
    if isinstance(factor, ClassFactor) and result.status == "stalled" and _has_own_factor(problem):
        again, other = minimise(problem, **options)
        if again.gap < result.gap:
            result, z = again, other
    proof = Proof.of(problem, z, result.a)
    certificate = proof.check()
    return ClassPlane(classes.sign * z, result, proof, certificate, result.a, time.perf_counter() - begin)


def _other(compiled: BoxLP | Steps, classes: Classes, k: int, options: dict[str, Any]) -> ClassPlane:
    begin = time.perf_counter()
    near, margin = classes.near(k), classes.margin(k)
    S, R = joined(classes.stack(near).blocks), classes.sign * joined(classes.stack(margin).blocks)
    n, d = classes.rows.shape
    if is_sparse(S) and (isinstance(compiled, Steps) or (n + d) * d <= _WRITTEN_OUT):
        S, R = densified(S), densified(R)
    weights = {"near": classes.weigh(near), "margin": classes.weigh(margin)}
    shape = {"columns": classes.columns} if isinstance(compiled, Steps) else {}
    result, plane = compiled.solve(S, R, **weights, **shape, **options)
    proof = compiled.proof(S, R, plane, result.a, **weights)
    margins = compiled.margins(result, S, R)
    return ClassPlane(
        plane,
        result,
        proof,
        proof.check() if proof is not None else None,
        margins,
        time.perf_counter() - begin,
    )
