"""Reading a declared dual: what is read, what is refused and why, and that nothing is believed unread."""

import cvxpy as cp
import numpy as np
import oracle
import pytest

from npsvm_cvx import Formulation, Framework, Loss, Program, load
from npsvm_cvx.catalog import resolve
from npsvm_cvx.compile import compile
from npsvm_cvx.forms import BoxLP, BoxQP, Coefficients
from npsvm_cvx.modeling import multiplier_variable, plane_from_dual, plane_variable, slack_variable, whiten
from npsvm_cvx.reading import NotCompilable
from npsvm_cvx.verification import verify


class Hinge(Formulation):
    """The hinge with the pieces of its dual replaceable, one at a time."""

    def __init__(self, C1=1.0, C2=1.0):
        self.C1 = C1
        self.C2 = C2

    def primal(self, S, R):
        z, xi = plane_variable(S), slack_variable(R)
        objective = cp.sum_squares(S @ z) / 2 + self.C1 * cp.sum_squares(z) / 2 + self.C2 * cp.sum(xi)
        return Program(cp.Minimize(objective), {"margin": R @ z + xi >= 1, "slack": xi >= 0}, plane=z)

    def objective(self, a, F):
        return cp.sum(a) - cp.sum_squares(F.T @ a) / 2

    def box(self, a):
        return {"lower": a >= 0, "upper": a <= self.C2}

    def recovery(self, S, R, a):
        return plane_from_dual(S, R, self.C1, a)

    def dual(self, S, R):
        F, a = whiten(S, R, self.C1), multiplier_variable(R)
        return Program(cp.Maximize(self.objective(a, F)), self.box(a), plane=self.recovery(S, R, a))


def variant(**methods):
    """Return the hinge with these pieces of its dual: objective(self, a, F), box(self, a), recovery(self, S, R, a)."""
    return type("Variant", (Hinge,), methods)()


def test_the_pieces_as_they_are():
    read = compile(variant())
    assert read == BoxQP(1.0, (1.0, 1.0), Coefficients(-1.0, 0.0, 0.0, 1.0, 0.0))
    assert "SOR" in read.shape
    assert str(read.samples) == "h(a) = -1 a + 0 a^2 + 0 on [0, 1]"


@pytest.mark.parametrize(
    ("change", "samples"),
    [
        ({"objective": lambda s, a, F: 3 * cp.sum(a) - cp.sum_squares(F.T @ a) / 2}, (-3.0, 0.0, 0.0, 1.0, 0.0)),
        ({"box": lambda s, a: {"low": a >= -2.5, "up": a <= 0.125}}, (-1.0, 0.0, -2.5, 0.125, 0.0)),
        ({"box": lambda s, a: {"two-sided": cp.abs(a) <= 3}}, (-1.0, 0.0, -3.0, 3.0, 0.0)),
        ({"box": lambda s, a: {"norm": cp.norm_inf(a) <= 3}}, (-1.0, 0.0, -3.0, 3.0, 0.0)),
        ({"box": lambda s, a: {"scaled": 1000 * a <= 1, "low": -a <= 0}}, (-1.0, 0.0, 0.0, 1e-3, 0.0)),
        ({"box": lambda s, a: {"twice": a >= -1, "again": a >= 0, "up": a <= 1e6}}, (-1.0, 0.0, 0.0, 1e6, 0.0)),
        ({"objective": lambda s, a, F: cp.sum(a) - cp.sum_squares(F.T @ a) / 2 - cp.sum_squares(a - 2),
          "box": lambda s, a: {}}, (-5.0, 2.0, -np.inf, np.inf, 4.0)),  # (a - 2)^2 = a^2 - 4 a + 4
        ({"objective": lambda s, a, F: cp.sum(a) - cp.sum_squares(F.T @ a) / 2 + 12.0}, None),
    ],
)  # fmt: skip
def test_what_is_read(change, samples):
    if samples is None:  # a constant for the whole problem, not one a sample: it changes with the number of rows
        with pytest.raises(NotCompilable, match="number of rows"):
            compile(variant(**change))
        return
    read = compile(variant(**change))
    np.testing.assert_allclose(list(read.samples.__dict__.values()), samples, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("recovery", "near", "ridge"),
    [
        # z = (4 S'S + 2 I)^-1 R'a, and one that leaves the intercept free of the ridge
        (lambda s, S, R, a: np.linalg.solve(4 * S.T @ S + 2 * np.eye(S.shape[1]), R.T) @ a, 4.0, (2.0, 2.0)),
        (lambda s, S, R, a: np.linalg.solve(S.T @ S + np.diag([2.0] * (S.shape[1] - 1) + [0.0]), R.T) @ a,
         1.0, (2.0, 0.0)),
    ],
)  # fmt: skip
def test_the_metric_is_read_off_the_recovery(recovery, near, ridge):
    def dual(self, S, R):
        a = multiplier_variable(R)
        M = near * S.T @ S + np.diag([ridge[0]] * (S.shape[1] - 1) + [ridge[1]])
        F = np.linalg.solve(np.linalg.cholesky(M), R.T).T
        return Program(cp.Maximize(self.objective(a, F)), self.box(a), plane=recovery(self, S, R, a))

    read = compile(type("Metric", (Hinge,), {"dual": dual})())
    assert read.near == pytest.approx(near, rel=1e-8)
    np.testing.assert_allclose(read.ridge, ridge, rtol=1e-8, atol=1e-10)
    S, R = oracle.matrices()
    M = near * S.T @ S + np.diag([ridge[0]] * 3 + [ridge[1]])
    result, z = read.solve(S, R, tol=1e-12)
    np.testing.assert_allclose(z, np.linalg.solve(M, R.T @ result.a), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"box": lambda s, a: {"simplex": cp.sum(a) <= 1, "low": a >= 0}}, "not a box"),
        ({"box": lambda s, a: {"ball": cp.norm(a) <= 1}}, "not a box"),
        ({"box": lambda s, a: {"equation": cp.sum(a) == 1}}, "couples its multipliers or is not an inequality"),
        ({"box": lambda s, a: {"cone": cp.SOC(1.0, a)}}, "couples its multipliers or is not an inequality"),
        ({"box": lambda s, a: {"low": a >= 1, "up": a <= 0}}, "no interior"),
        ({"box": lambda s, a: {"point": a <= 0, "again": a >= 0}}, "no interior"),
        ({"objective": lambda s, a, F: cp.sum(a) - cp.sum_squares(F.T @ a)}, "objective is not"),
        ({"objective": lambda s, a, F: cp.sum(cp.sqrt(a + 1)) - cp.sum_squares(F.T @ a) / 2}, "objective is not"),
        ({"objective": lambda s, a, F: cp.sum(cp.entr(a + 1)) - cp.sum_squares(F.T @ a) / 2}, "objective is not"),
        ({"objective": lambda s, a, F: cp.sum(a) - cp.sum_squares(F.T @ a) / 2 - cp.max(a)}, "objective is not"),
        ({"objective": lambda s, a, F: a[0] - cp.sum_squares(F.T @ a) / 2}, "objective is not|number of rows"),
        ({"recovery": lambda s, S, R, a: plane_from_dual(S, R, s.C1, a) + 1}, "plane is not linear"),
        ({"recovery": lambda s, S, R, a: -plane_from_dual(S, R, s.C1, a)}, "plane is not"),
        ({"recovery": lambda s, S, R, a: np.ones((S.shape[1], len(R))) @ a}, "plane is not"),
    ],
)  # fmt: skip
def test_another_shape_is_refused_with_the_reason(change, reason):
    with pytest.raises(NotCompilable, match=reason) as caught:
        compile(variant(**change))
    assert "\n" not in str(caught.value)


def test_two_variables_are_refused():
    def dual(self, S, R):
        F, a, b = whiten(S, R, self.C1), multiplier_variable(R), multiplier_variable(R, "b")
        objective = cp.sum(a - b) - cp.sum_squares(F.T @ (a - b)) / 2
        box = {"a": a >= 0, "b": b >= 0, "A": a <= 1, "B": b <= 1}
        return Program(cp.Maximize(objective), box, plane=plane_from_dual(S, R, self.C1, a - b))

    with pytest.raises(NotCompilable, match="more than one multiplier a margin row"):
        compile(type("Two", (Hinge,), {"dual": dual})())


def test_a_bound_that_depends_on_the_number_of_rows_is_refused():
    with pytest.raises(NotCompilable, match="change with the number of rows"):
        compile(variant(box=lambda s, a: {"low": a >= 0, "up": a <= 1 / a.size}))


def test_no_dual_is_a_reason_too():
    class Bare(Hinge):
        def dual(self, S, R):
            return None

    with pytest.raises(NotCompilable, match="Bare declares no dual"):
        compile(Bare())


class Squared(Loss):
    """u^2 without its conjugate."""

    def value(self, t):
        return cp.square(1 - t)


def test_a_loss_without_conjugate_is_read_off_the_one_derived():
    # u^2 has the conjugate v + v^2 / 4, hence h(a) = -a + a^2 / (4 C2): curvature 1 / (2 C2) = 1/8 for C2 = 4
    read = compile(Framework(Squared(), C1=2.0, C2=4.0))
    assert isinstance(read, BoxQP)
    assert (read.near, read.ridge) == (1.0, (2.0, 2.0))
    assert tuple(read.samples.__dict__.values()) == (-1.0, 0.125, -np.inf, np.inf, 0.0)


def test_a_loss_whose_conjugate_cannot_be_derived_is_refused_with_the_reason():
    class Quartic(Loss):
        def value(self, t):
            return cp.power(1 - t, 4)

    with pytest.raises(NotCompilable, match=r"no conjugate, and none follows.*curved otherwise"):
        compile(resolve(Quartic()))


@pytest.mark.parametrize("eps", [1e-2, 1e-4, 1e-6, 1e-8])
def test_a_small_ridge_is_read_with_all_its_digits(eps):
    assert compile(load("twsvm")(C2=1.0, eps=eps)).ridge == pytest.approx((eps, eps), rel=1e-9)


def test_a_ridge_of_zero_is_zero():
    assert compile(load("mbsvm")(C2=1.0, eps=0.0)).ridge == (0.0, 0.0)


@pytest.mark.parametrize("C2", [2.0**-20, 1e-3, 1.0, 1e3, 2.0**20])
@pytest.mark.parametrize("name", sorted(oracle.TABLE))
def test_weights_of_any_size_are_read(name, C2):
    p = oracle.params(name, 1.0, C2)
    read, typed = compile(load(name)(**p)).samples, oracle.TABLE[name](p)
    np.testing.assert_allclose(
        [read.linear, read.curvature, read.lower, read.upper], typed[:4], rtol=1e-7, atol=1e-9 / max(C2, 1.0)
    )
    assert read.constant == pytest.approx(typed.constant, rel=1e-6, abs=1e-9 * C2)


def test_the_primal_value_is_that_of_plain_numpy():
    rng = np.random.default_rng(0)
    S, R = oracle.matrices()
    for name in oracle.NAMES:
        for p in oracle.settings(name)[::5]:
            read = compile(load(name)(**p))
            for z in rng.normal(size=(5, 4)):
                assert read.primal_value(S, R, z) == pytest.approx(oracle.primal_value(name, p, S, R, z), rel=1e-8)


def test_the_linear_program_in_another_spelling():
    # R'a - S'b - n == 0 with b negated and the intercept's weight left out: other blocks, the same numbers
    class Spelled(Formulation):
        def __init__(self, C1=0.5, C2=2.0):
            self.C1 = C1
            self.C2 = C2

        def primal(self, S, R):
            return load("l1_ls_twsvm")(self.C1, self.C2).primal(S, R)

        def dual(self, S, R):
            n, a, b = multiplier_variable(S.T, "n"), multiplier_variable(R), multiplier_variable(S, "b")
            constraints = {
                "balance": n + R.T @ a + 2 * (S.T @ b) == 0,
                "a": cp.norm_inf(a) <= self.C2, "b": cp.abs(b) <= 0.5, "low": n >= -self.C1, "high": n <= self.C1,
            }  # fmt: skip
            return Program(cp.Maximize(cp.sum(a)), constraints, plane="balance")

    read = compile(Spelled())
    assert isinstance(read, BoxLP)
    found = {b.name: (b.rows, b.scale, b.samples.lower, b.samples.upper) for b in read.blocks}
    wanted = {"n": ("I", 1.0, -0.5, 0.5), "a": ("R", 1.0, -2.0, 2.0), "b": ("S", 2.0, -0.5, 0.5)}
    assert set(found) == set(wanted)
    for key, (rows, *numbers) in wanted.items():
        assert found[key][0] == rows
        np.testing.assert_allclose(found[key][1:], numbers, rtol=1e-9)
    S, R = oracle.matrices()
    result, z = read.solve(S, R, tol=1e-10)
    best = oracle.optimum("l1_ls_twsvm", {"C1": 0.5, "C2": 2.0}, S, R)
    assert result.primal == pytest.approx(best.value, rel=1e-8)
    assert oracle.primal_value("l1_ls_twsvm", {"C1": 0.5, "C2": 2.0}, S, R, z) == pytest.approx(best.value, rel=1e-8)


@pytest.mark.parametrize("d", [0.1, 0.5, 0.9])
def test_a_tiny_weight_keeps_its_constant(d):
    # C2 d^2 / (4 (1 - d)) = 2^-20 / 8 for d = 1/2 must be read beside a
    # curvature of 1e6: the primal's whole value is of its size
    p = oracle.params("nppc", 1.0, 2.0**-20, d=d)
    typed = oracle.TABLE["nppc"](p)
    assert compile(load("nppc")(**p)).samples.constant == pytest.approx(typed.constant, rel=1e-6)


def test_a_tiny_weight_raises_no_alarm():
    assert verify(load("nppc")(C2=2.0**-20), solvers=["clarabel"], max_planes=1).counts["fail"] == 0
