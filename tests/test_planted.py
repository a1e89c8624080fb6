"""The checker is checked: mistakes planted in copies of the formulation files, and no alarm at the originals.

Each mistake is a textual replacement that must change the file; the broken copy is verified by its path, as a user's
file would be, and the diagnosis must name the place.
"""

import re
from pathlib import Path

import npsvm_cvx.formulations
import numpy as np
import oracle
import pytest

from npsvm_cvx import load, solve
from npsvm_cvx.compile import compile
from npsvm_cvx.verification import VerificationError, verify

FORMULATIONS = Path(npsvm_cvx.formulations.__file__).parent
HINGES = {"hnpsvm": "C1", "tbsvm": "C1", "twsvm": "eps", "mbsvm": "eps"}
QUADRATIC = "cp.sum_squares(F.T @ a) / 2"


def plant(tmp_path, name, *replacements):
    """Write a copy of a file with the replacements made in its code (its docstring is left alone); return its path."""
    statement, imports, code = (FORMULATIONS / f"{name}.py").read_text(encoding="utf-8").partition("\nimport cvxpy")
    for old, new in replacements:
        assert old in code, f"{name}.py does not hold {old!r}"
        code = code.replace(old, new)
    path = tmp_path / f"{name}_planted.py"
    path.write_text(statement + imports + code, encoding="utf-8")
    return path


def quick(formulation, **options):
    return verify(formulation, **{"solvers": ["clarabel"], "max_planes": 1, **options})


# (what, old, new, words the diagnosis must hold); {r} is the name of the hyperparameter on the plane's norm
HINGE_MISTAKES = [
    ("factor 1/2 lost in the dual", QUADRATIC, "cp.sum_squares(F.T @ a)", "dual objective.*coefficient of a'Qa is -1"),
    ("upper bound missing", ', "upper": a <= self.C2}', "}",
     r"dual domain: upper bound of a: none is declared, beyond C2 .*multiplier of \[slack\]"),
    ("lower bound too narrow", "a >= 0", "a >= self.C2 / 4",
     r"dual domain: lower bound of a: declared C2/4 by \[lower\], too narrow"),
    ("upper bound too narrow", "a <= self.C2", "a <= self.C2 / 2",
     r"dual domain: upper bound of a: declared C2/2 by \[upper\], too narrow.*up to C2"),
    ("upper bound too wide", "a <= self.C2", "a <= 2 * self.C2",
     r"dual domain: upper bound of a: declared 2 C2 by \[upper\], beyond C2 .*multiplier of \[slack\]"),
    ("lower bound missing", '"lower": a >= 0, ', "", r"dual domain.*multiplier of \[margin\]"),
    ("lower bound flipped", '"lower": a >= 0', '"lower": a <= 0', r"dual domain.*multiplier of \[margin\]"),
    ("margin flipped", "R @ z + xi >= 1", "R @ z + xi <= 1",
     r"^primal: constraint \[margin\] has the wrong side: its multiplier is negative"),
    ("slack of the wrong sign", "R @ z + xi >= 1", "R @ z - xi >= 1",
     r"^primal: xi enters constraint \[margin\] with the wrong sign.*C2 \+ \[margin\] - \[slack\] = 0"),
    ("recovery sign", "plane=plane_from_dual(", "plane=-plane_from_dual(", "recovery.*is -1 times"),
    ("recovery factor", "plane=plane_from_dual(S, R, self.{r}, a)", "plane=plane_from_dual(S, R, self.{r}, a) / 2",
     "recovery: declared plane is 1/2 times"),
    ("ridge of the recovery", "plane_from_dual(S, R, self.{r}", "plane_from_dual(S, R, 2 * self.{r}",
     r"recovery: declared plane is \(S'S \+ 2 {r} I\)\^-1 R'a; .* is \(S'S \+ {r} I\)"),
    ("ridge missing from the dual", "whiten(S, R, self.{r})", "whiten(S, R, 1e-9)", r"dual objective.*\+ {r} I"),
    ("ridge twice in the dual", "whiten(S, R, self.{r})", "whiten(S, R, 2 * self.{r})",
     r"dual objective.*M = S'S \+ 2 {r} I; the Lagrangian gives M = S'S \+ {r} I"),
    ("ridge without its half in the primal", "self.{r} * cp.sum_squares(z) / 2", "self.{r} * cp.sum_squares(z)",
     r"dual objective.*M = S'S \+ {r} I; the Lagrangian gives M = S'S \+ 2 {r} I"),
    ("S and R swapped in the dual", "F = whiten(S, R", "S, R = R, S\n        F = whiten(S, R", "dual.*shape"),
    ("S and R swapped in the factor", "F = whiten(S, R", "F = whiten(R, R",
     r"dual objective.*M = R'R \+ .*; the Lagrangian gives M = S'S"),
    ("S and R swapped in the primal", "cp.sum_squares(S @ z)", "cp.sum_squares(R @ z)",
     r"dual objective.*M = S'S \+ .*; the Lagrangian gives M = R'R"),
    ("linear term dropped", "cp.sum(a) - cp.sum_squares", "-cp.sum_squares", "dual objective.*coefficient of e'a is"),
    ("linear term doubled", "cp.sum(a) - cp.sum_squares", "2 * cp.sum(a) - cp.sum_squares",
     "dual objective.*coefficient of e'a is 2; the Lagrangian gives 1"),
    ("slack constraint dropped", ', "slack": xi >= 0}', "}", r"multiplier for \[slack\].*constraints are \[margin\]"),
    ("multiplier sign", '"margin": a,', '"margin": -a,', r"dual domain.*multiplier of \[margin\]"),
    ("multiplier of the slack, sign", "self.C2 - a}", "self.C2 + a}",
     r"dual domain.*unbounded below along xi.*multiplier of \[slack\] C2 - a; declared is C2 \+ a"),
    ("multiplier of the slack, another's", "self.C2 - a}", "a}",
     r"dual domain.*unbounded below along xi.*multiplier of \[slack\] C2 - a; declared is a"),
    ("slack halved in the primal", "self.C2 * cp.sum(xi)", "self.C2 * cp.sum(xi) / 2",
     "^primal: the weight of xi is C2/2; these multipliers are right for C2"),
    ("slack squared in the primal", "self.C2 * cp.sum(xi)", "self.C2 * cp.sum_squares(xi)",
     "dual objective.*the constant a sample is 0; the Lagrangian gives -1/4.*against -C2/4"),
]  # fmt: skip

OTHER_MISTAKES = [
    ("hnpsvm", "multipliers interchanged", '"margin": a, "slack": self.C2 - a', '"margin": self.C2 - a, "slack": a',
     r"multipliers of \[margin\] and \[slack\] are declared for each other"),
    ("hnpsvm", "a constant too many", "cp.sum(a) - ", "3 + cp.sum(a) - ",
     "dual objective: the constant is 3; the Lagrangian gives 0"),
    ("hnpsvm", "a square too many", "cp.sum(a) - ", "cp.sum(a) - self.C2 * cp.sum_squares(a) / 3 - ",
     r"dual objective: the coefficient of \|a\|\^2 is -1/3; .* gives 0 .* in general -C2/3 against 0"),
    ("hnpsvm", "mean for sum", "self.C2 * cp.sum(xi)", "self.C2 * cp.sum(xi) / len(R)",
     "^primal: the weight of xi is C2/2 for 2 margin rows, and changes with their number"),
    ("hnpsvm", "another margin", "R @ z + xi >= 1", "R @ z + xi >= 2",
     "coefficient of e'a is 1; the Lagrangian gives 2"),
    ("ls_twsvm", "factor 1/2 lost", QUADRATIC, "cp.sum_squares(F.T @ a)", "dual objective.*a'Qa is -1;"),
    ("ls_twsvm", "curvature doubled", "/ (4 * self.C2)", "/ (2 * self.C2)",
     r"dual objective: the coefficient of \|a\|\^2 is -1/2; the Lagrangian gives -1/4 \(C2 = 1\), in general "
     r"-1/\(2 C2\) against -1/\(4 C2\)"),
    ("ls_twsvm", "curvature dropped", " - cp.sum_squares(a) / (4 * self.C2)", "", r"dual objective.*\|a\|\^2"),
    ("ls_twsvm", "a bound too many", "{},\n            multipliers", '{"lower": a >= 0},\n            multipliers',
     r"dual domain.*\[lower\].*too narrow"),
    ("ls_twsvm", "margin's plane negated", "1 - R @ z == xi", "1 + R @ z == xi", "recovery.*is -1 times"),
    ("ls_twsvm", "margin equation negated", "1 - R @ z == xi", "R @ z - 1 == xi", "dual objective.*coefficient of e'a"),
    ("ls_twsvm", "multiplier sign", '"margin": a', '"margin": -a', "dual objective.*coefficient of e'a"),
    ("ls_twsvm", "recovery sign", "plane=plane_from_dual", "plane=-plane_from_dual", "recovery"),
    ("ls_twsvm", "S and R swapped", "whiten(S, R", "whiten(R, S", "dual"),
    ("smooth_twsvm", "lower bound missing", '{"lower": a >= 0}', "{}", r"dual domain.*multiplier of \[margin\]"),
    ("smooth_twsvm", "an upper bound too many", '{"lower": a >= 0}', '{"lower": a >= 0, "upper": a <= self.C2}',
     r"dual domain.*\[upper\].*too narrow"),
    ("smooth_twsvm", "curvature dropped", " - cp.sum_squares(a) / (4 * self.C2)", "", r"dual objective.*\|a\|\^2"),
    ("smooth_twsvm", "ridge missing from the dual", "whiten(S, R, self.C1)", "whiten(S, R, 1e-9)", "dual objective"),
    ("nppc", "shift lost", "a - self.C2 * self.d", "a", "dual objective.*coefficient of e'a is 1; .* gives 3/2"),
    ("nppc", "factor of the square", "(4 * self.C2", "(2 * self.C2", r"dual objective.*\|a\|\^2"),
    ("nppc", "a bound too many", "{},\n            multipliers", '{"lower": a >= 0},\n            multipliers',
     r"dual domain.*\[lower\].*too narrow"),
    ("l1_ls_twsvm", "bound too wide", "cp.abs(a) <= self.C2", "cp.abs(a) <= 2 * self.C2",
     "dual domain.*upper bound of a: declared 2 C2 by .* the Lagrangian is bounded only up to C2"),
    ("l1_ls_twsvm", "bound too narrow", "cp.abs(a) <= self.C2", "cp.abs(a) <= self.C2 / 2", "dual domain.*too narrow"),
    ("l1_ls_twsvm", "bound missing", '"near bound": cp.abs(b) <= 1,', "", "dual domain.*bound of b: none"),
    ("l1_ls_twsvm", "ridge missing", '"ridge bound": cp.abs(n) <= self.C1,', "", "dual domain.*up to C1"),
    ("l1_ls_twsvm", "sign in the equation", "S.T @ b + n", "S.T @ b - n",
     r"dual domain: n enters the equation \[plane\] with -1 times"),
    ("l1_ls_twsvm", "term dropped", "S.T @ b + n", "S.T @ b",
     r"dual domain: n enters the equation \[plane\] not at all"),
    ("l1_ls_twsvm", "multiplier sign", '"near": b', '"near": -b',
     r"dual domain: b enters .* with -1 times .*multiplier of \[near\]"),
    ("l1_ls_twsvm", "a term too many", "cp.Maximize(cp.sum(a))", "cp.Maximize(cp.sum(a) - cp.norm1(b))",
     r"dual objective: the coefficient of \|b\|_1 is -1; the Lagrangian gives 0"),
    ("l1_ls_twsvm", "margin's plane negated", "1 - R @ z == xi", "1 + R @ z == xi",
     r"dual domain: a enters .* with -1 times .*multiplier of \[margin\]"),
    ("l1_ls_twsvm", "objective halved", "cp.Maximize(cp.sum(a))", "cp.Maximize(cp.sum(a) / 2)",
     "dual objective.*coefficient of e'a is 1/2; the Lagrangian gives 1"),
    ("pinball", "conjugate domain too wide", "v <= self.tau", "v <= 1", r"conjugate domain.*finite on \[-1, 0\.5\]"),
    ("pinball", "conjugate domain too narrow", "v >= -1", "v >= -0.5", "conjugate domain.*declared outside"),
    ("pinball", "conjugate bound missing", "[v >= -1, v <= self.tau]", "[v >= -1]", "conjugate domain.*inside"),
    ("pinball", "conjugate bound flipped", "v <= self.tau", "v >= self.tau", "conjugate domain"),
    ("pinball", "conjugate value", "return v,", "return 2 * v,", "conjugate value"),
    ("pinball", "conjugate sign", "return v,", "return -v,", "conjugate value"),
    ("pinball", "slope of the loss", "-self.tau * (1 - t)", "-self.tau * (1 - t) / 2", "conjugate domain"),
    ("absolute", "conjugate domain too wide", "v <= 1", "v <= 2", r"conjugate domain.*finite on \[-1, 1\]"),
    ("absolute", "conjugate domain too narrow", "v <= 1", "v <= 0", "conjugate domain"),
    ("absolute", "conjugate constant", "return v,", "return v + 1,", "conjugate value"),
    ("huber_hinge", "conjugate factor", "cp.square(v) / 2", "cp.square(v)", "conjugate value"),
    ("huber_hinge", "conjugate term dropped", " + self.delta * cp.square(v) / 2", "", "conjugate value"),
    ("huber_hinge", "conjugate domain too wide", "v <= 0", "v <= 1", "conjugate domain"),
    ("huber_hinge", "conjugate bound missing", "[v >= -1, v <= 0]", "[v <= 0]", "conjugate domain"),
    ("huber_hinge", "factor of the loss", "/ (2 * self.delta)", "/ self.delta", "conjugate domain"),
]  # fmt: skip


def for_hinge(name, mistakes):
    r = HINGES[name]
    return [(name, *(part.replace("{r}", r) for part in mistake)) for mistake in mistakes]


# every mistake in one of the four files that share a text; a third of them in each of the others
PLANTED = [
    *for_hinge("hnpsvm", HINGE_MISTAKES),
    *for_hinge("tbsvm", HINGE_MISTAKES[0::3]),
    *for_hinge("twsvm", HINGE_MISTAKES[1::3]),
    *for_hinge("mbsvm", HINGE_MISTAKES[2::3]),
    *OTHER_MISTAKES,
]


@pytest.mark.parametrize(
    ("name", "what", "old", "new", "words"), PLANTED, ids=[f"{p[0]}: {p[1]}".replace(" ", "_") for p in PLANTED]
)
def test_a_planted_mistake_fails_and_the_diagnosis_names_it(tmp_path, name, what, old, new, words):
    answer = quick(plant(tmp_path, name, (old, new)))
    assert not answer.passed
    assert answer.counts["fail"] >= 1
    assert re.search(words, answer.diagnosis), answer.diagnosis
    with pytest.raises(VerificationError, match="on a seeded instance"):
        answer.raise_for_failures()


def test_enough_is_planted():
    assert len(PLANTED) >= 80
    assert {name for name, *_ in PLANTED} == set(oracle.NAMES)


# where C1 = C2 = 1, or d = 1/2, hides the mistake: at other values of the hyperparameters it shows
HIDDEN = [
    (
        "hnpsvm",
        "self.C2 * cp.sum(xi)",
        "cp.sum(xi)",
        {"C1": 0.5, "C2": 2.0},
        "primal: the weight of xi is 1; these multipliers are right for C2",
    ),
    ("hnpsvm", "a <= self.C2", "a <= self.C2**2", {"C1": 0.5, "C2": 2.0}, "declared C2^2 by [upper], beyond C2"),
    ("hnpsvm", "a <= self.C2", "a <= self.C1", {"C1": 0.5, "C2": 2.0}, "dual domain"),
    ("tbsvm", "whiten(S, R, self.C1)", "whiten(S, R, self.C2)", {"C1": 0.5, "C2": 2.0}, "dual objective"),
    ("ls_twsvm", "/ (4 * self.C2)", "* self.C2 / 4", {"C1": 0.5, "C2": 2.0}, "dual objective"),
    ("nppc", "(4 * self.C2 * (1 - self.d))", "(4 * self.C2 * self.d)", {"d": 0.3}, "dual objective"),
    ("pinball", "v <= self.tau", "v <= 1 - self.tau", {"tau": 0.2}, "conjugate domain"),
]


@pytest.mark.parametrize(("name", "old", "new", "setting", "words"), HIDDEN, ids=[f"{h[0]}: {h[2]}" for h in HIDDEN])
def test_a_mistake_that_the_defaults_hide_shows_all_the_same(tmp_path, name, old, new, setting, words):
    path = plant(tmp_path, name, (old, new))
    answer = quick(load(path)(**setting))
    assert not answer.passed
    assert words in answer.diagnosis
    assert not quick(path).passed  # verification tries a second setting by itself


# --- what no duality check can see ----------------------------------------------------------------

SHARED = [
    # the squared slack with a factor 1/2 in the primal, and the dual derived from that: C2 means half of what it should
    ("smooth_twsvm", [("self.C2 * cp.sum_squares(xi)", "self.C2 * cp.sum_squares(xi) / 2"),
                      ("/ (4 * self.C2)", "/ (2 * self.C2)")]),
    # the ridge without its 1/2, in the primal, the dual and the recovery
    ("smooth_twsvm", [("self.C1 * cp.sum_squares(z) / 2", "self.C1 * cp.sum_squares(z)"),
                      ("whiten(S, R, self.C1)", "whiten(S, R, 2 * self.C1)"),
                      ("plane_from_dual(S, R, self.C1", "plane_from_dual(S, R, 2 * self.C1")]),
    # the slope beyond the margin halved in the loss and in its conjugate
    ("pinball", [("-self.tau * (1 - t)", "-self.tau * (1 - t) / 2"), ("v <= self.tau", "v <= self.tau / 2")]),
    # slope and bound of the loss doubled
    ("absolute", [("cp.abs(1 - t)", "2 * cp.abs(1 - t)"), ("v >= -1, v <= 1", "v >= -2, v <= 2")]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "replacements"), SHARED, ids=["half", "ridge", "slope", "double"])
def test_a_factor_that_primal_and_dual_share_is_seen_by_the_oracle_alone(tmp_path, name, replacements):
    """Verification passes here, rightly: the two problems are each other's dual, only not the paper's problems.

    No check that compares a file with itself can see this.  The oracle, typed from the paper, can: by the arrays read
    off the dual, and by the optimum.
    """
    path = plant(tmp_path, name, *replacements)
    assert quick(path).passed
    p = oracle.params(name, 0.5, 2.0)
    formulation = load(path)(**p)
    typed, read = oracle.TABLE[name](p), compile(formulation)
    found = (*read.samples.__dict__.values(), *read.ridge)
    assert not np.allclose(found, (*typed, typed.ridge), rtol=1e-6)
    S, R = oracle.matrices(3)
    best, wrong = oracle.optimum(name, p, S, R).value, solve(formulation, S, R).primal
    assert abs(wrong - best) > 1e-3 * best


def test_a_shared_factor_is_seen_where_the_file_declares_what_it_reduces_to(tmp_path):
    # HNPSVM claims to be TBSVM with S and -R: a ridge doubled in both of its problems breaks that claim
    path = plant(
        tmp_path,
        "hnpsvm",
        ("self.C1 * cp.sum_squares(z) / 2", "self.C1 * cp.sum_squares(z)"),
        ("whiten(S, R, self.C1)", "whiten(S, R, 2 * self.C1)"),
        ("plane_from_dual(S, R, self.C1", "plane_from_dual(S, R, 2 * self.C1"),
    )
    answer = quick(path)
    assert not answer.passed
    assert {row.check for row in answer.rows if row.status == "fail"} == {"reductions"}
    assert answer.diagnosis.startswith("not for two classes, TBSVM")


# --- no false alarm -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", oracle.NAMES)
def test_an_unchanged_copy_passes(tmp_path, name):
    answer = verify(plant(tmp_path, name))
    assert answer.passed, answer.diagnosis
    assert answer.counts["fail"] == 0


@pytest.mark.parametrize("corner", [(2**-8, 2**8), (2**-8, 1.0)], ids=["C2=256", "C2=1"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("data", ["hepatitis", "wine", "sonar"])
@pytest.mark.parametrize("name", oracle.NAMES)
def test_the_originals_raise_no_alarm_on_real_data(name, data, kernel, corner):
    # two classes with categories and gaps, three classes, and more columns than a class has rows
    formulation = load(name)(**oracle.params(name, *corner))
    # one general solver here; the unchanged copies above meet all three
    answer = quick(formulation, data=data, kernel=kernel, max_rows=60)
    assert answer.passed, answer.diagnosis
    assert answer.counts["fail"] == 0
    assert answer.counts["pass"] >= 12


@pytest.mark.parametrize("name", HINGES)
def test_no_alarm_where_every_multiplier_is_at_its_bound(name):
    # a small C2: all a = C2, every slack multiplier C2 - a is zero, and its rounding is no sign
    answer = verify(load(name)(C2=2**-8), "wine", max_rows=60)
    assert answer.passed, answer.diagnosis
    assert answer.counts["fail"] == 0
