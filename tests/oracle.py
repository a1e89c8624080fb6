"""An oracle that never reads a formulation file: the variants typed a second time, in plain NumPy and SciPy.

It imports nothing from the package.  What stands here was typed from the paper (and, for the three losses
that are not in it, from their definitions): the losses as functions of the margin, the dual's numbers of a
sample, and a reference optimiser whose answer comes with its own duality gap.  A formulation file whose two
problems share a misreading passes every duality check; only a comparison with this file can see it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog, lsq_linear, minimize


class Typed(NamedTuple):
    """``h(a) = linear a + 1/2 curvature a^2 + constant`` on [lower, upper], and the ridge on the plane."""

    linear: float
    curvature: float
    lower: float
    upper: float
    constant: float
    ridge: float


INF = float("inf")

# the dual of each variant, sample by sample; hyperparameters in, numbers out
TABLE: dict[str, Callable[[dict], Typed]] = {
    # eqs. (20), (31): 0 <= a <= C2
    "hnpsvm": lambda p: Typed(-1, 0, 0, p["C2"], 0, p["C1"]),
    # eq. (9)
    "tbsvm": lambda p: Typed(-1, 0, 0, p["C2"], 0, p["C1"]),
    # eqs. (4), (5), the ridge eps in both problems
    "twsvm": lambda p: Typed(-1, 0, 0, p["C2"], 0, p["eps"]),
    # section 2 of the paper
    "mbsvm": lambda p: Typed(-1, 0, 0, p["C2"], 0, p["eps"]),
    # eq. (39): C2 u^2 has the conjugate -a + a^2 / (4 C2), second derivative 1 / (2 C2)
    "ls_twsvm": lambda p: Typed(-1, 1 / (2 * p["C2"]), -INF, INF, 0, p["C1"]),
    # eq. (42)
    "smooth_twsvm": lambda p: Typed(-1, 1 / (2 * p["C2"]), 0, INF, 0, p["C1"]),
    # eq. (41): -a + (a - C2 d)^2 / (4 C2 (1 - d)), multiplied out
    "nppc": lambda p: Typed(
        -1 - p["d"] / (2 * (1 - p["d"])),
        1 / (2 * p["C2"] * (1 - p["d"])),
        -INF,
        INF,
        p["C2"] * p["d"] ** 2 / (4 * (1 - p["d"])),
        p["C1"],
    ),
    # L(t) = max(u, -tau u): slopes between -1 and tau
    "pinball": lambda p: Typed(-1, 0, -p["tau"] * p["C2"], p["C2"], 0, p["C1"]),
    "absolute": lambda p: Typed(-1, 0, -p["C2"], p["C2"], 0, p["C1"]),
    # L*(v) = v + delta v^2 / 2 on [-1, 0], so C2 L*(-a / C2) = -a + delta a^2 / (2 C2)
    "huber_hinge": lambda p: Typed(-1, p["delta"] / p["C2"], 0, p["C2"], 0, p["C1"]),
}

# eq. (40): the three blocks of the linear program, (rows, scale, linear, lower, upper)
LP_BLOCKS = {
    "l1_ls_twsvm": lambda p: {
        "a": ("R", 1.0, -1.0, -p["C2"], p["C2"]),
        "b": ("S", -1.0, 0.0, -1.0, 1.0),
        "n": ("I", -1.0, 0.0, -p["C1"], p["C1"]),
    }
}

PAPER = ("hnpsvm", "l1_ls_twsvm", "ls_twsvm", "mbsvm", "nppc", "smooth_twsvm", "tbsvm", "twsvm")
LOSSES = ("absolute", "huber_hinge", "pinball")
NAMES = tuple(sorted((*PAPER, *LOSSES)))
SCHEME = {name: "nearest" if name in ("tbsvm", "twsvm") else "farthest" for name in NAMES}

# the hyperparameter of each variant that weighs the plane's norm, and those of its own with values to try
RIDGE = {name: "eps" if name in ("twsvm", "mbsvm") else "C1" for name in NAMES}
OWN: dict[str, dict[str, tuple[float, ...]]] = {
    "nppc": {"d": (0.5, 0.1, 0.9)},
    "pinball": {"tau": (0.5, 0.0, 1.0)},
    "huber_hinge": {"delta": (0.5, 0.05, 2.0)},
}


def params(name: str, C1: float = 1.0, C2: float = 1.0, **own: float) -> dict[str, float]:
    """Return the hyperparameters of a variant for given weights; its own at their first values by default."""
    rest = {key: own.get(key, values[0]) for key, values in OWN.get(name, {}).items()}
    return {RIDGE[name]: C1, "C2": C2, **rest}


def settings(name: str) -> list[dict[str, float]]:
    """Return hyperparameters worth trying: corners of (C1, C2), each with every value of its own."""
    corners = [(1.0, 1.0), (0.3, 5.0), (2**-8, 2**8), (2**8, 2**-8)]
    own = OWN.get(name, {})
    return [
        params(name, C1, C2, **dict(zip(own, values, strict=True)))
        for C1, C2 in corners
        for values in itertools.product(*own.values())
    ]


def loss(name: str, p: dict[str, float], t: np.ndarray) -> np.ndarray:
    """Return the loss of each margin, without C2."""
    u = 1.0 - np.asarray(t, dtype=float)
    if name in ("hnpsvm", "tbsvm", "twsvm", "mbsvm"):
        return np.maximum(u, 0.0)
    if name == "ls_twsvm":
        return u**2
    if name == "smooth_twsvm":
        return np.maximum(u, 0.0) ** 2
    if name == "nppc":
        return p["d"] * u + (1 - p["d"]) * u**2
    if name == "pinball":
        return np.where(u >= 0, u, -p["tau"] * u)
    if name in ("absolute", "l1_ls_twsvm"):
        return np.abs(u)
    if name == "huber_hinge":
        inner = np.clip(u, 0.0, p["delta"])
        return inner**2 / (2 * p["delta"]) + np.maximum(u - p["delta"], 0.0)
    raise KeyError(name)


def primal_value(name: str, p: dict[str, float], S: np.ndarray, R: np.ndarray, z: np.ndarray) -> float:
    """Return the primal objective at a plane, its slacks the best for it."""
    losses = p["C2"] * float(loss(name, p, R @ z).sum())
    ridge = p[RIDGE[name]]
    if name == "l1_ls_twsvm":
        return float(np.abs(S @ z).sum() + ridge * np.abs(z).sum()) + losses
    return float((S @ z) @ (S @ z) + ridge * (z @ z)) / 2 + losses


def dual_value(name: str, p: dict[str, float], S: np.ndarray, R: np.ndarray, a: np.ndarray) -> float:
    """Return the dual objective of the framework, the metric inverted outright."""
    h = TABLE[name](p)
    M = S.T @ S + h.ridge * np.eye(S.shape[1])
    g = R.T @ a
    return -float(g @ np.linalg.solve(M, g)) / 2 - float((h.linear * a + h.curvature * a**2 / 2 + h.constant).sum())


class Optimum(NamedTuple):
    """The best plane found, and an interval that holds the optimal value."""

    lower: float
    upper: float
    plane: np.ndarray

    @property
    def value(self) -> float:
        return (self.lower + self.upper) / 2

    @property
    def width(self) -> float:
        return (self.upper - self.lower) / max(abs(self.upper), abs(self.lower), 1e-300)


def optimum(name: str, p: dict[str, float], S: np.ndarray, R: np.ndarray) -> Optimum:
    """Return the optimum of a small instance: HiGHS for the linear program, else L-BFGS-B on the box dual.

    The dual's answer is refined by proximal steps of SciPy's bounded least squares; the interval is its gap.
    """
    if name == "l1_ls_twsvm":
        return _linear_program(p, S, R)
    h = TABLE[name](p)
    M = S.T @ S + h.ridge * np.eye(S.shape[1])
    Q = R @ np.linalg.solve(M, R.T)
    Q = (Q + Q.T) / 2
    n = len(R)
    H, c = Q + h.curvature * np.eye(n), np.full(n, h.linear)
    bounds = [(None if h.lower == -INF else h.lower, None if h.upper == INF else h.upper)] * n
    a = np.clip(np.zeros(n), h.lower, h.upper)
    found = minimize(
        lambda a: (a @ (H @ a) / 2 + c @ a, H @ a + c), a, jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-12, "maxcor": 50},
    )  # fmt: skip
    a = np.clip(found.x, h.lower, h.upper)
    best = _interval(name, p, S, R, M, a)
    delta = 1e-3 * float(np.trace(H)) / n
    for _ in range(200):
        if best.width < 1e-12:
            break
        a = _proximal_step(H, c, a, delta, h.lower, h.upper)
        now = _interval(name, p, S, R, M, a)
        if now.width < best.width:
            best = now
    return best


def _proximal_step(H: np.ndarray, c: np.ndarray, a: np.ndarray, delta: float, lower: float, upper: float) -> np.ndarray:
    """Minimise the dual plus delta/2 |new - a|^2 over the box, as bounded least squares by an active set."""
    root = np.linalg.cholesky(H + delta * np.eye(len(a))).T
    target = np.linalg.solve(root.T, delta * a - c)
    step = lsq_linear(root, target, bounds=(lower, upper), method="bvls", tol=1e-15)
    return np.clip(step.x, lower, upper)


def _interval(name: str, p: dict, S: np.ndarray, R: np.ndarray, M: np.ndarray, a: np.ndarray) -> Optimum:
    z = np.linalg.solve(M, R.T @ a)
    return Optimum(dual_value(name, p, S, R, a), primal_value(name, p, S, R, z), z)


def _linear_program(p: dict[str, float], S: np.ndarray, R: np.ndarray) -> Optimum:
    """Solve min |S z|_1 + C1 |z|_1 + C2 |e - R z|_1 as a linear program over z and bounds."""
    (m, d), n = S.shape, len(R)
    eye, zero = np.eye, np.zeros
    A = np.block(
        [
            [S, -eye(m), zero((m, d + n))],
            [-S, -eye(m), zero((m, d + n))],
            [eye(d), zero((d, m)), -eye(d), zero((d, n))],
            [-eye(d), zero((d, m)), -eye(d), zero((d, n))],
            [R, zero((n, m + d)), -eye(n)],
            [-R, zero((n, m + d)), -eye(n)],
        ]
    )
    b = np.r_[zero(2 * m + 2 * d), np.ones(n), -np.ones(n)]
    cost = np.r_[zero(d), np.ones(m), np.full(d, p["C1"]), np.full(n, p["C2"])]
    found = linprog(cost, A_ub=A, b_ub=b, bounds=[(None, None)] * d + [(0, None)] * (m + d + n), method="highs")
    assert found.status == 0, found.message
    z = found.x[:d]
    return Optimum(float(found.fun), primal_value("l1_ls_twsvm", p, S, R, z), z)


def matrices(seed: int = 0, m: int = 7, n: int = 5, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return near rows (m x d+1) and margin rows (n x d+1) that overlap."""
    rng = np.random.default_rng(seed)
    S = np.column_stack([rng.normal(size=(m, d)), np.ones(m)])
    R = np.column_stack([rng.normal(0.7, 1.0, size=(n, d)), np.ones(n)])
    return S, R
