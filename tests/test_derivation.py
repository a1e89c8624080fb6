"""Conjugates derived from the values of a loss alone: right numbers, right words, and refusals with the reason."""

import re
from pathlib import Path

import cvxpy as cp
import npsvm_cvx.formulations
import numpy as np
import pytest

from npsvm_cvx import Formulation, Framework, Loss, Program, load
from npsvm_cvx.compile import compile
from npsvm_cvx.derivation import NotDerivable, Quadratic, derive, witness
from npsvm_cvx.errors import CurvatureError
from npsvm_cvx.fenchel import as_written
from npsvm_cvx.forms import BoxQP
from npsvm_cvx.reading import NotCompilable
from npsvm_cvx.verification import verify

INF = float("inf")


def pos(x):
    return np.maximum(x, 0.0)


def huber(x, M):
    return np.where(np.abs(x) <= M, x**2, 2 * M * np.abs(x) - M**2)


# (what, loss of t, (constant, linear, curvature, lower, upper) of its conjugate), each from the definition by hand:
# a kink at t0 between slopes p and q gives v t0 - L(t0) on [p, q]; r (t - t0)^2 / 2 gives t0 v + v^2 / (2 r)
ONE_PIECE = [
    ("hinge", lambda t: pos(1 - t), (0, 1, 0, -1, 0)),
    ("absolute", lambda t: np.abs(1 - t), (0, 1, 0, -1, 1)),
    ("pinball", lambda t: np.maximum(1 - t, -0.37 * (1 - t)), (0, 1, 0, -1, 0.37)),
    ("square", lambda t: (1 - t) ** 2, (0, 1, 0.5, -INF, INF)),
    ("squared hinge", lambda t: pos(1 - t) ** 2, (0, 1, 0.5, -INF, 0)),
    # 0.3 u + 0.7 u^2: (v + 0.3)^2 / 2.8 + v, hence v^2 / 2.8 + (1 + 3/14) v + 0.09 / 2.8
    ("linear and square", lambda t: 0.3 * (1 - t) + 0.7 * (1 - t) ** 2, (0.09 / 2.8, 17 / 14, 1 / 1.4, -INF, INF)),
    ("Huber", lambda t: huber(1 - t, 0.7), (0, 1, 0.5, -1.4, 1.4)),
    ("Huberised hinge", lambda t: huber(pos(1 - t), 0.123456) / (2 * 0.123456), (0, 1, 0.123456, -1, 0)),
    ("Huberised on a millionth", lambda t: huber(pos(1 - t), 1e-6) / 2e-6, (0, 1, 1e-6, -1, 0)),
    ("Huberised on a thousand", lambda t: huber(pos(1 - t), 1e3) / 2e3, (0, 1, 1e3, -1, 0)),
    ("bend at 37.123", lambda t: 2.5 * pos(37.123 - t), (0, 37.123, 0, -2.5, 0)),
    ("bend at 1e5", lambda t: pos(1e5 - t), (0, 1e5, 0, -1, 0)),
    ("bend at -1e-8", lambda t: pos(-1e-8 - t), (0, -1e-8, 0, -1, 0)),
    ("slope 1e-8", lambda t: 1e-8 * pos(1 - t), (0, 1, 0, -1e-8, 0)),
    ("slope 1e8", lambda t: 1e8 * pos(1 - t), (0, 1, 0, -1e8, 0)),
    ("slopes 1e8 and 1e-8", lambda t: np.maximum(1e8 * (1 - t), 1e-8 * (t - 1)), (0, 1, 0, -1e8, 1e-8)),
    ("curvature 2e8", lambda t: 1e8 * pos(1 - t) ** 2, (0, 1, 5e-9, -INF, 0)),
    ("curvature 2e-8", lambda t: 1e-8 * (1 - t) ** 2, (0, 1, 5e7, -INF, INF)),
    ("thirds and sevenths", lambda t: np.maximum((1 - t) / 3, (t - 1) / 7), (0, 1, 0, -1 / 3, 1 / 7)),
    ("roots", lambda t: pos(2**0.5 - 3**0.5 * t), (0, (2 / 3) ** 0.5, 0, -(3**0.5), 0)),
    ("a constant above", lambda t: 3 + pos(1 - t), (-3, 1, 0, -1, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("what", "loss", "numbers"), ONE_PIECE, ids=[x[0].replace(" ", "_") for x in ONE_PIECE])
def test_a_conjugate_of_one_piece_is_found_with_all_its_digits(what, loss, numbers):
    (piece,) = derive(loss)
    found = (piece.constant, piece.linear, piece.curvature, piece.lower, piece.upper)
    np.testing.assert_allclose(found, numbers, rtol=1e-11, atol=0)


def test_a_conjugate_of_several_pieces_is_found_piece_by_piece():
    # max(|u| - 0.1, 0): kinks at t = 0.9 (slopes -1, 0) and t = 1.1 (slopes 0, 1), where the loss is zero
    assert derive(lambda t: pos(np.abs(1 - t) - 0.1)) == (
        Quadratic(0.0, 0.9, 0.0, -1.0, 0.0),
        Quadratic(0.0, 1.1, 0.0, 0.0, 1.0),
    )
    # u^2 before t = 1 and u^2 / 5 after it: v + v^2 / 4 and v + 5 v^2 / 4
    left, right = derive(lambda t: np.where(t < 1, 1.0, 0.2) * (1 - t) ** 2)
    assert (left.curvature, left.upper, right.curvature, right.lower) == (0.5, 0.0, 2.5, 0.0)
    assert len(derive(lambda t: sum(np.abs(t - k) for k in range(20)))) == 20  # a kink at each of 0, ..., 19


def test_the_conjugate_of_the_conjugate_is_the_loss():
    t = np.random.default_rng(0).normal(size=500) * 10
    for _, loss, _ in ONE_PIECE[:9]:
        (piece,) = derive(loss)
        np.testing.assert_allclose(piece.conjugate(t), loss(t), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (lambda t: np.logaddexp(0, -t), "curved otherwise"),
        (lambda t: np.exp(-t), "no finite number"),
        (lambda t: (1 - t) ** 4, "curved otherwise"),
        (lambda t: np.sqrt(1 + (1 - t) ** 2), "curved otherwise"),
        (lambda t: np.where(t < 0, np.nan, 1 - t), "no finite number"),
        (lambda t: np.minimum(pos(1 - t), 2), "not convex: at t = "),
        (lambda t: pos(1 - t + t.mean()), "depends on the other samples"),
        (lambda t: 0 * t, "affine, of slope 0"),
        (lambda t: 5 + 0 * t, "affine, of slope 0"),
        (lambda t: -2 * t, "affine, of slope -2"),
    ],
)
def test_what_cannot_be_derived_is_refused_with_the_reason(loss, reason):
    with pytest.raises(NotDerivable, match=reason) as caught:
        derive(loss)
    assert "\n" not in str(caught.value)


def test_a_witness_is_one():
    loss = lambda t: np.minimum(pos(1 - t), 2)  # noqa: E731 - the ramp loss
    words = witness(loss).replace(",", "").split()
    middle, left, right = (float(words[i + 2]) for i, w in enumerate(words) if w == "t" and words[i + 1] == "=")
    assert left < middle < right
    share = (middle - left) / (right - left)
    assert loss(middle) > (1 - share) * loss(left) + share * loss(right)
    assert witness(lambda t: 1e8 * pos(1 - t) + 1e-3 * t**2) is None


# --- in words -------------------------------------------------------------------------------------


FOLDER = Path(npsvm_cvx.formulations.__file__).parent


@pytest.mark.parametrize("name", ["pinball", "absolute", "huber_hinge"])
def test_the_line_written_is_the_one_of_the_file(name):
    # these files declare their conjugates; from the values of their losses the same line follows
    _, line = as_written(load(name)().loss)
    assert f"        {line}\n" in (FOLDER / f"{name}.py").read_text(encoding="utf-8")


class Odd(Loss):
    """A hyperparameter called v, one called self_, one that does nothing, and one that is negative."""

    domain = {"v": "(0, inf)", "slope": "(-inf, 0)"}

    def __init__(self, v=2.0, self_=0.25, unused=7.0, slope=-3.0):
        self.v = v
        self.self_ = self_
        self.unused = unused
        self.slope = slope

    def value(self, t):
        return cp.maximum(self.slope * (t - self.v), self.self_ * (t - self.v))


def test_hyperparameters_of_any_name_and_sign_are_found():
    # a kink at t = v between the slopes `slope` and `self_`
    text, line = as_written(Odd())
    assert line == "return self.v * v, [v >= self.slope, v <= self.self_]"
    assert text == "v v on slope <= v <= self_"


class Curved(Loss):
    def __init__(self, k=0.7):
        self.k = k

    def value(self, t):
        return cp.pos(1 - float(np.sin(self.k)) * t)


def test_where_no_simple_formula_fits_the_numbers_stand():
    # a kink at t = 1 / sin k between the slopes -sin k and 0
    text, line = as_written(Curved())
    assert text.endswith(", at k = 0.7")
    numbers = [float(x) for x in re.findall(r"-?\d+\.\d{6,}", line)]
    np.testing.assert_allclose(numbers, [1 / np.sin(0.7), -np.sin(0.7)], rtol=1e-12)


def test_a_hyperparameter_that_must_be_whole_stays_so():
    class Whole(Loss):
        def __init__(self, n=3):
            self.n = n

        def value(self, t):
            return sum(cp.pos(1 - t) for _ in range(self.n))

    assert as_written(Whole()) == ("v on -n <= v <= 0", "return v, [v >= -self.n, v <= 0]")
    assert verify(Whole, solvers=["clarabel"], max_planes=1).passed


@pytest.mark.parametrize("tau", [1 / np.pi, 2 / 3, np.sqrt(0.5), 0.12345678, 0.1234567890123])
def test_slopes_of_any_number_of_digits_are_their_own(tau):
    answer = verify(load("pinball")(tau=tau), solvers=["clarabel"], max_planes=1)
    assert answer.passed, answer.diagnosis

    class Alone(Loss):
        def value(self, t):
            return np.sqrt(tau) * cp.pos(1 - t)

    answer = verify(Alone, solvers=["clarabel"], max_planes=1)
    assert answer.passed, answer.diagnosis


def test_a_bend_far_away_is_not_overlooked():
    class Far(Loss):
        def value(self, t):
            return cp.pos(1 - t) + cp.pos(t - 1e7)

    with pytest.raises(NotDerivable, match=r"the loss bends beyond t = 3\.16e\+07"):
        Far().pieces()
    assert verify(Far, solvers=["clarabel"], max_planes=1).passed


def test_outside_the_domain_of_its_functions_a_loss_is_infinite():
    # q / t for t > 0; CVXPY's number for t < 0 is q / t too.  sup_t (v t - q / t) = -2 sqrt(-q v) for v <= 0
    class Inverse(Loss):
        def value(self, t):
            return 0.5 * cp.inv_pos(t)

        def conjugate(self, v):
            return -2 * cp.sqrt(-0.5 * v), [v <= 0]

    assert Inverse().values(np.array([-1.0, 2.0])).tolist() == [np.inf, 0.25]
    row = next(r for r in verify(Inverse, solvers=["clarabel"], max_planes=1).rows if r.check == "conjugate")
    assert row.status == "pass", row.meaning


@pytest.mark.parametrize("s", [1e5, 1e9])
def test_a_large_curvature_is_no_narrow_domain(s):
    class Sharp(Loss):
        def value(self, t):
            return s * cp.square(cp.pos(1 - t))

    rows = verify(Sharp, solvers=["clarabel"], max_planes=1).rows
    assert not [row.meaning for row in rows if row.status == "fail"]


class Bounded(Formulation):
    """The hinge, its dual's bound right for C2 up to ten."""

    def __init__(self, C1=1.0, C2=1.0):
        self.C1 = C1
        self.C2 = C2

    def primal(self, S, R):
        return load("hnpsvm")(self.C1, self.C2).primal(S, R)

    def dual(self, S, R):
        dual = load("hnpsvm")(self.C1, self.C2).dual(S, R)
        a = dual.variables[0]
        return Program(
            dual.objective,
            {"lower": a >= 0, "upper": a <= min(self.C2, 10)},
            multipliers={"margin": a, "slack": self.C2 - a},
            plane=dual.plane,
        )


def test_a_bound_that_is_wrong_far_from_the_defaults_only_is_found():
    answer = verify(Bounded, solvers=["clarabel"], max_planes=1)
    assert not answer.passed
    assert "upper bound of a: declared 10 by [upper], too narrow" in answer.diagnosis
    assert "C2 = 67" in answer.diagnosis


@pytest.mark.parametrize("declare", [as_written, lambda loss: None])
def test_the_line_can_be_typed_in(declare):
    class Smooth(Loss):
        domain = {"delta": "(0, inf)"}

        def __init__(self, delta=0.5):
            self.delta = delta

        def value(self, t):
            return cp.huber(1 - t, self.delta) / (2 * self.delta)

    written = declare(Smooth())
    if written is not None:
        scope = {"cp": cp}
        exec(f"def conjugate(self, v): {written[1]}", scope)
        Smooth.conjugate = scope["conjugate"]
    answer = verify(Smooth, solvers=["clarabel"], max_planes=1)
    assert answer.passed, answer.diagnosis
    (row,) = [row for row in answer.rows if row.check == "conjugate" and " at " not in row.meaning]
    assert row.meaning.startswith("L* is the supremum") if written else row.meaning.startswith("derived: ")


# --- in use ---------------------------------------------------------------------------------------


def test_the_solver_runs_on_what_was_derived():
    class Bare(Loss):
        def __init__(self, tau=0.5):
            self.tau = tau

        def value(self, t):
            return cp.maximum(1 - t, -self.tau * (1 - t))

    derived, declared = compile(Framework(Bare(0.2), C1=0.5, C2=4.0)), compile(load("pinball")(0.5, 4.0, tau=0.2))
    assert isinstance(derived, BoxQP)
    assert derived == declared


def test_a_loss_of_several_pieces_is_named_and_left_to_the_general_solvers():
    class Tube(Loss):
        def value(self, t):
            return cp.pos(cp.abs(1 - t) - 0.1)

    with pytest.raises(NotCompilable, match=r"has 2 pieces, where SOR takes one: 9 v/10 on -1 <= v <= 0; 11 v/10 on 0"):
        compile(Framework(Tube()))
    answer = verify(Tube, solvers=["clarabel"], max_planes=1)
    assert answer.passed, answer.diagnosis
    (row,) = [row for row in answer.rows if row.check == "conjugate"]
    assert row.status == "skip"
    assert "2 pieces" in row.meaning


def test_a_loss_that_is_not_convex_is_refused_with_three_points():
    class Ramp(Loss):
        def value(self, t):
            return cp.minimum(cp.pos(1 - t), 2)

    with pytest.raises(CurvatureError, match=r"Ramp.value is not convex: at t = -1 it is 2, above"):
        Framework(Ramp()).program("primal", np.ones((3, 2)), np.ones((3, 2)))


def test_a_convex_loss_that_cvxpy_cannot_see_is_told_so():
    class Hidden(Loss):
        def value(self, t):
            return cp.sqrt(1 + cp.square(1 - t))

    with pytest.raises(CurvatureError, match="although no three points were found"):
        Framework(Hidden()).program("primal", np.ones((3, 2)), np.ones((3, 2)))
