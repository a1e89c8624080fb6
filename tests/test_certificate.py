"""The certificate against exact rational arithmetic: never below the true bound, and seldom far above it."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from npsvm_cvx import certificate, load, solve
from npsvm_cvx.certificate import Certificate, Proof, certify, certify_linear_program
from npsvm_cvx.compile import compile
from npsvm_cvx.problem import Problem, Stack
from npsvm_cvx.terms import Terms
from npsvm_cvx.working_set import minimise

QUADRATIC = ("hnpsvm", "ls_twsvm", "smooth_twsvm", "nppc", "pinball", "absolute", "huber_hinge")


def exactly(matrix):
    return [[Fraction(float(x)) for x in row] for row in np.atleast_2d(matrix)]


def exact_bound(S, R, z, a, terms, ridge, near=1.0):
    """The bracket sum and |r|^2 / (2 ridge), over the rationals: the formula of the module, with no rounding."""
    s, r, (zq,), (aq,), c = exactly(S), exactly(R), exactly(z), exactly(a), Fraction(ridge)
    d = len(zq)
    prices = [Fraction(float(x)) for x in np.broadcast_to(near, len(s))]
    near = [p * sum(x * y for x, y in zip(row, zq, strict=True)) for row, p in zip(s, prices, strict=True)]
    residual = [
        sum(row[j] * m for row, m in zip(r, aq, strict=True))
        - sum(row[j] * y for row, y in zip(s, near, strict=True))
        - c * zq[j]
        for j in range(d)
    ]
    total = sum(x * x for x in residual) / (2 * c)
    for i, row in enumerate(r):
        slope = -(sum(x * y for x, y in zip(row, zq, strict=True)) + Fraction(float(terms.linear[i])))
        curvature = Fraction(float(terms.curvature[i]))
        low, high = terms.lower[i], terms.upper[i]
        best = slope / curvature if curvature else (0 if slope == 0 else Fraction(float(high if slope > 0 else low)))
        best = min(best, Fraction(float(high))) if np.isfinite(high) else best
        best = max(best, Fraction(float(low))) if np.isfinite(low) else best
        step = best - aq[i]
        total += step * (slope - curvature * aq[i]) - curvature * step * step / 2
    return total


def instances(count, seed):
    rng = np.random.default_rng(seed)
    for trial in range(count):
        m, n, d = rng.integers(1, 7, 3)
        scale = 10.0 ** rng.integers(-3, 4)
        C1, C2 = 2.0 ** rng.integers(-8, 9, 2)
        yield trial, rng, scale * rng.normal(size=(m, d)), scale * rng.normal(size=(n, d)), float(C1), float(C2)


def test_it_is_never_below_the_exact_bound():
    ratios = []
    for trial, rng, S, R, C1, C2 in instances(150, seed=0):
        compiled = compile(load(QUADRATIC[trial % len(QUADRATIC)])(C1, C2))
        result, z = compiled.solve(S, R, tol=1e-12)
        if trial % 3 == 1:  # a plane that is off
            z = z * (1 + 1e-6 * rng.normal())
        if trial % 3 == 2:  # multipliers that are off, inside their domain
            a = np.clip(result.a * (1 + 1e-4 * rng.normal(size=len(R))), *compiled.samples.terms(len(R))[2:4])
        else:
            a = result.a
        terms = compiled.samples.terms(len(R))
        proved = certify(S, R, z, a, terms, ridge=C1)
        exact = exact_bound(S, R, z, a, terms, C1)
        assert Fraction(proved.gap) >= exact, (trial, float(exact), proved.gap)
        # the rounding of evaluating the bound in floating point, beside which its size is judged
        floor = 1e-16 * abs(proved.value)
        ratios.append(proved.gap / max(float(exact), floor))
    assert np.quantile(ratios, 0.95) < 100


@pytest.mark.parametrize("sharp", [True, False], ids=["exact products", "plain products"])
def test_both_ways_to_bound_are_never_below_the_exact_bound(sharp, monkeypatch):
    monkeypatch.setattr(certificate, "_FINE", np.inf)
    ratios = []
    for trial, rng, S, R, C1, C2 in instances(120, seed=5):
        # rows that cancel, weights, rows in two blocks, and a constant offset: what rounding is worst at
        S, R = S + 1e4 * (trial % 2), R + 1e4 * (trial % 2)
        near = rng.exponential(size=len(S)) if trial % 3 == 0 else np.full(len(S), 0.7)
        terms = compile(load(QUADRATIC[trial % len(QUADRATIC)])(C1, C2)).samples.terms(len(R))
        stacks = [Stack(rows[: len(rows) // 2], rows[len(rows) // 2 :]) for rows in (S, R)]
        result, z = minimise(Problem(*stacks, terms, np.full(S.shape[1], C1), near), tol=1e-12)
        proved = certify(*stacks, z, result.a, terms, ridge=C1, near=near)
        gap = certificate._sharp_gap(S, R, z, result.a, terms, np.full(len(z), C1), near) if sharp else proved.gap
        exact = exact_bound(S, R, z, result.a, terms, C1, near)
        assert Fraction(gap) >= exact, (trial, float(exact), gap)
        ratios.append(gap / max(float(exact), 1e-16 * abs(proved.value)))
    if sharp:
        assert np.quantile(ratios, 0.95) < 10


def test_a_bound_that_rounding_spoils_is_sharpened():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 2))
    K = np.column_stack([np.exp(-((X[:, None] - X) ** 2).sum(axis=2)), np.ones(60)])
    terms = Terms.of(30, -1.0, 0.0, 0.0, 2.0**12)
    problem = Problem(Stack(K[:30]), Stack(K[30:]), terms, np.full(61, 2.0**-8))
    result, z = minimise(problem, tol=1e-12)
    sharpened = Proof.of(problem, z, result.a).check()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificate, "_FINE", np.inf)
        plain = Proof.of(problem, z, result.a).check()
    assert sharpened.gap < 0.1 * plain.gap
    assert Fraction(sharpened.gap) >= exact_bound(K[:30], K[30:], z, result.a, terms, 2.0**-8)


def test_exact_products_hold_to_the_ends_of_the_range():
    rng = np.random.default_rng(6)
    for exponent in (-200, -150, 0, 140, 160, 308):
        S, R, z = rng.normal(size=(3, 2)), rng.normal(size=(2, 2)), rng.normal(size=2) * 10.0**-exponent
        a, terms = rng.uniform(size=2), Terms.of(2, -1.0, 0.0, 0.0, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            S, R = S * 10.0**exponent, R * 10.0**exponent
            if not (np.isfinite(S).all() and np.isfinite(z).all()):
                continue
            proved = certify(S, R, z, a, terms, ridge=1.0)
        exact = exact_bound(S, R, z, a, terms, 1.0)
        assert not math.isfinite(proved.gap) or Fraction(proved.gap) >= exact


def exact_linear_program(G, z, a, terms, free):
    """Primal minus dual at the repaired multipliers, over the rationals."""
    g, (zq,), (aq,) = exactly(G), exactly(z), exactly(np.clip(a, terms.lower, terms.upper))
    scale, inside = g[free.start][0], range(free.start, free.stop)
    rest = [i for i in range(len(aq)) if i not in inside]
    repaired = dict(zip(rest, (aq[i] for i in rest), strict=True))
    for j, i in enumerate(inside):
        repaired[i] = -sum(g[k][j] * aq[k] for k in rest) / scale
    upper, lower = (([Fraction(float(x)) for x in side]) for side in (terms.upper, terms.lower))
    shrink = max([1, *(v / (upper[i] if v > 0 else lower[i]) for i, v in repaired.items() if v != 0)])
    dual = -sum(Fraction(float(terms.linear[i])) * v for i, v in repaired.items()) / shrink
    primal = 0
    for i, row in enumerate(g):
        slope = -(sum(x * y for x, y in zip(row, zq, strict=True)) + Fraction(float(terms.linear[i])))
        primal += max(slope * upper[i], slope * lower[i])
    return primal - dual


@pytest.mark.parametrize("fine", [0.0, 1e-10, np.inf])
def test_a_linear_program_is_never_below_the_exact_gap(fine, monkeypatch):
    monkeypatch.setattr(certificate, "_FINE", fine)
    for trial, rng, S, R, C1, C2 in instances(60, seed=1):
        compiled = compile(load("l1_ls_twsvm")(C1, C2))
        result, z = compiled.solve(S, R, tol=1e-10, max_sweeps=2000, time_limit=2.0)
        proof = compiled.proof(S, R, z, result.a * (1 + (trial % 2) * 1e-3 * rng.normal(size=len(result.a))))
        proved = certify_linear_program(proof.R, proof.z, proof.a, proof.terms, slice(*proof.free))
        exact = exact_linear_program(proof.R, proof.z, proof.a, proof.terms, slice(*proof.free))
        assert Fraction(proved.gap) >= exact, (trial, float(exact), proved.gap)
        # the repair is rounded by about eps |G'||a|, and shrinking into a box of C1 magnifies that by 1 / C1
        rest = np.delete(np.arange(len(proof.a)), np.arange(*proof.free))
        reach = float((np.abs(proof.R[rest]).T @ np.abs(proof.a[rest])).max()) / C1
        assert proved.gap <= 100 * float(exact) + 1e-15 * len(proof.a) * (1 + reach) * abs(proved.value)


def test_a_solution_carries_a_proof_that_survives_its_file():
    rng = np.random.default_rng(2)
    S, R = (
        np.column_stack([rng.normal(size=(9, 2)), np.ones(9)]),
        np.column_stack([rng.normal(size=(7, 2)), np.ones(7)]),
    )
    for name in (*QUADRATIC, "l1_ls_twsvm", "twsvm"):
        solution = solve(name, S, R, tol=1e-10)
        read = Proof.from_json(solution.proof.to_json())
        assert read.check() == solution.certificate
        assert solution.certificate.relative_gap < 1e-9
        assert solution.certificate.value == pytest.approx(solution.primal, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "its format is 'other'"),
        ({"z": {"shape": [2], "values": [1, 2, 3]}}, "reshape"),
        ({"a": None}, "not a certificate"),
        ({"curvature": {"shape": [1], "values": [-4]}}, "curvature must be nonnegative"),
        ({"lower": {"shape": [1], "values": [2]}}, "lower must not exceed upper"),
        ({"linear": {"shape": [1], "values": [float("nan")]}}, "must not be NaN"),
        ({"linear": {"shape": [2], "values": [1, 1]}}, r"linear has shape \(2,\), not \(1,\)"),
        ({"S": {"shape": [2], "values": [1, 1]}}, "are no matrices"),
        ({"S": {"shape": [1, 2], "values": [1, float("inf")]}}, "S is not finite"),
        ({"near": -1.0}, "must not be negative"),
        ({"near": [1.0, 2.0]}, "near has shape"),
        ({"ridge": {"shape": [2], "values": [-1, 1]}}, "must not be negative"),
        ({"constant": float("nan")}, "must not be NaN"),
        ({"constant": 10**400}, "too large"),
        ({"free": [0, 7]}, "is no range"),
        ({"free": {}}, "another shape"),
        ({"claim": {"gap": 1.0}}, "its claim has no gap and value"),
        ({"claim": {"gap": float("nan"), "value": 1.0}}, "it claims a gap of nan"),
    ],
)
def test_a_file_that_is_no_proof_is_refused(change, message):
    proof = solve("hnpsvm", [[1.0, 1.0]], [[0.0, 1.0]]).proof
    text = json.dumps({**json.loads(proof.to_json()), **change})
    with pytest.raises(ValueError, match=message):
        Proof.from_json(text)
    for text in ("no json", "[" * 100_000, "[]", "3"):
        with pytest.raises(ValueError, match="not a certificate"):
            Proof.from_json(text)
    without = {name: part for name, part in json.loads(proof.to_json()).items() if name != "R"}
    with pytest.raises(ValueError, match="it has no R"):
        Proof.from_json(json.dumps(without))


def test_a_proof_does_not_change_with_the_callers_arrays():
    S, R = np.array([[1.0, 1.0], [2.0, 1.0]]), np.array([[0.0, 1.0]])
    solution = solve("hnpsvm", S, R)
    before = solution.certificate
    S *= 5
    assert solution.certificate == before


def test_the_numbers_proved_are_the_numbers_declared():
    # thirteen digits, thirds, and sizes at the ends of the range: to the last digit, or the proof is of another problem
    for C1, C2 in ((0.3333333333334, 0.583333333333), (1 / 3, 1 / 3), (1e-12, 8.84363e-9), (3e10, 6.54637e14)):
        for name, expected in {
            "hnpsvm": (-1.0, 0.0, 0.0, C2),
            "ls_twsvm": (-1.0, 1 / (2 * C2), -np.inf, np.inf),
            "smooth_twsvm": (-1.0, 1 / (2 * C2), 0.0, np.inf),
            "pinball": (-1.0, 0.0, -0.5 * C2, C2),
            "absolute": (-1.0, 0.0, -C2, C2),
        }.items():
            compiled = compile(load(name)(C1=C1, C2=C2))
            read = compiled.samples
            assert (read.linear, read.curvature, read.lower, read.upper) == expected, (name, C1, C2)
            assert (compiled.near, compiled.ridge) == (1.0, (C1, C1))


def test_without_a_bound_nothing_is_claimed():
    one = np.ones(1)
    hard = Terms.of(1, -1.0, 0.0, 0.0, np.inf)  # a hard margin, and a plane that misses it: the primal is infinite
    assert certify(np.zeros((1, 1)), np.ones((1, 1)), 0.5 * one, one, hard, ridge=1.0).gap == np.inf
    soft = Terms.of(1, -1.0, 0.0, 0.0, 1.0)  # no ridge, and a residual that only a ridge could pay for
    assert certify(np.zeros((1, 1)), np.ones((1, 1)), one, one, soft, ridge=0.0).gap == np.inf
    assert Certificate(np.inf, 1.0).relative_gap == np.inf
    assert Certificate(0.0, 0.0).relative_gap == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_numbers_are_refused(bad):
    one = np.ones(1)
    with pytest.raises(ValueError, match="must be finite"):
        certify(np.zeros((1, 1)), np.full((1, 1), bad), one, one, Terms.of(1, -1.0, 0.0, 0.0, 1.0), ridge=1.0)
