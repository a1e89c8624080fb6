"""The contract of a formulation file, held to every file, and the oracle that never read one."""

import ast
import inspect
import itertools
import pickle
import re
from pathlib import Path

import cvxpy as cp
import npsvm_cvx.formulations
import numpy as np
import oracle
import pytest
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from npsvm_cvx import available, load, solve
from npsvm_cvx.catalog import resolve
from npsvm_cvx.compile import compile
from npsvm_cvx.forms import BoxLP, BoxQP
from npsvm_cvx.framework import Framework, Loss
from npsvm_cvx.modeling import Formulation
from npsvm_cvx.planes import class_matrices
from npsvm_cvx.solvers import solve_program

FOLDER = Path(npsvm_cvx.formulations.__file__).parent
FILES = sorted(path for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))
SETTINGS = [(name, p) for name in oracle.NAMES for p in oracle.settings(name)]


def label(value):
    return value if isinstance(value, str) else ",".join(f"{k}={v:g}" for k, v in value.items())


def test_the_folder_holds_the_papers_eight_variants_and_three_losses():
    assert len(FILES) == 11
    assert [path.stem for path in FILES] == list(oracle.NAMES) == available()
    losses = [name for name in available() if issubclass(load(name), Framework)]
    assert tuple(losses) == oracle.LOSSES
    assert len(oracle.PAPER) == 8


# --- the oracle itself ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(oracle.TABLE))
def test_the_typed_duals_are_the_conjugates_of_the_typed_losses(name):
    # h(a) = sup_t (-a t - C2 L(t)): the definition, maximised by SciPy on an interval that holds the best t
    for p in oracle.settings(name):
        h = oracle.TABLE[name](p)
        left = h.lower if np.isfinite(h.lower) else -3 * p["C2"]
        right = h.upper if np.isfinite(h.upper) else 3 * p["C2"]
        for share in (0.1, 0.4, 0.8):
            a = left + share * (right - left)

            def below(t, a=a, p=p):
                return a * t + p["C2"] * float(oracle.loss(name, p, t))

            # pieces on which the function is smooth: the kinks and ends of the losses lie at these margins
            ends = [-40.0, 1 - p.get("delta", 0.5), 1.0, 40.0]
            found = min(
                min(below(lo), below(hi), minimize_scalar(below, bounds=(lo, hi), method="bounded",
                                                          options={"xatol": 1e-10}).fun)
                for lo, hi in itertools.pairwise(ends)
            )  # fmt: skip
            typed = h.linear * a + h.curvature * a**2 / 2 + h.constant
            assert -found == pytest.approx(typed, rel=1e-7, abs=1e-7 * p["C2"])


def test_the_reference_optimiser_closes_its_own_gap():
    for name, p in SETTINGS:
        for seed in (0, 1):
            best = oracle.optimum(name, p, *oracle.matrices(seed))
            assert -1e-13 <= best.width <= 1e-9, (name, p)


# --- what a file says -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_docstring_states_the_problems(path):
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if path.stem in oracle.LOSSES:
        assert "not in the paper" in text
        assert re.search(r"^\s*L\(t\)\s+=", text, re.MULTILINE)
        assert re.search(r"^\s*L\*\(v\) = ", text, re.MULTILINE)
        return
    for word in ("primal", "dual", "plane"):
        assert re.search(rf"^\s+{word}\s+\S", text, re.MULTILINE), f"{path.name} does not state its {word}"
    assert "Yang, Shao, Jiang (2015)" in text
    assert "Conventions:" in text


# where the paper states each variant (its equation numbers; MBSVM is described in section 2)
NUMBERS = {
    "hnpsvm": ("(20)", "(31)"), "tbsvm": ("(9)",), "twsvm": ("(4)", "(5)"), "ls_twsvm": ("(39)",),
    "l1_ls_twsvm": ("(40)",), "nppc": ("(41)",), "smooth_twsvm": ("(42)",), "mbsvm": ("section 2",),
}  # fmt: skip


@pytest.mark.parametrize("name", oracle.PAPER)
def test_the_docstring_gives_the_papers_equation_numbers(name):
    text = inspect.getmodule(load(name)).__doc__
    assert set(NUMBERS) == set(oracle.PAPER)
    for number in NUMBERS[name]:
        assert number in text
    # every named constraint of the primal that the statement tags stands in the code, and the other way round
    S, R = oracle.matrices()
    tagged = set(re.findall(r"\[(\w+)\]", text.split("dual ")[0]))
    assert tagged == set(load(name)().program("primal", S, R).constraints)


# --- how a file is written ------------------------------------------------------------------------


def forbidden(source):
    """Return what a formulation file must not hold: array products by *, quad_form, sign attributes."""
    tree, found = ast.parse(source), []

    def scalar(node):
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int | float)
        if isinstance(node, ast.Attribute):  # a hyperparameter
            return isinstance(node.value, ast.Name) and node.value.id == "self"
        if isinstance(node, ast.UnaryOp):
            return scalar(node.operand)
        if isinstance(node, ast.BinOp):
            return scalar(node.left) and scalar(node.right)
        if isinstance(node, ast.Call):
            return bool(node.args) and all(scalar(arg) for arg in node.args)
        return False

    for node in ast.walk(tree):
        product = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Mult)
        if product and isinstance(node, ast.BinOp) and not (scalar(node.left) or scalar(node.right)):
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
        if product and isinstance(node, ast.AugAssign) and not scalar(node.value):
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
        if isinstance(node, ast.Attribute | ast.Name):
            word = node.attr if isinstance(node, ast.Attribute) else node.id
            if word in ("quad_form", "QuadForm", "inv", "multiply"):
                found.append(f"line {node.lineno}: {word}")
        if isinstance(node, ast.keyword) and node.arg in (
            "nonneg", "nonpos", "pos", "neg", "bounds", "PSD", "NSD", "symmetric", "boolean", "integer",
        ):  # fmt: skip
            found.append(f"line {node.value.lineno}: {node.arg}=")
    return found


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("cp.sum(R * z)", "R * z"),
        ("a *= R", "a *= R"),
        ("2 * self.C * cp.sum(y * t)", "y * t"),
        ("cp.quad_form(a, Q)", "quad_form"),
        ("cp.Variable(3, nonneg=True)", "nonneg="),
        ("np.linalg.inv(M)", "inv"),
    ],
)
def test_the_scanner_sees_what_it_is_for(source, why):
    assert any(why in line for line in forbidden(source))


def test_the_scanner_lets_scalars_through():
    assert forbidden("self.C1 * cp.sum_squares(z) / 2 + 2 * xi - np.sqrt(2 * self.C2) * R + -self.tau * (1 - t)") == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_that_cvxpy_takes_for_something_else(path):
    assert forbidden(path.read_text(encoding="utf-8")) == []


def test_the_toolkit_builds_no_quad_form_and_no_sign_attribute_either():
    package = Path(inspect.getfile(npsvm_cvx)).parent
    for path in sorted(package.glob("*.py")):
        bad = [line for line in forbidden(path.read_text(encoding="utf-8")) if re.search(r"quad_form|nonneg=", line)]
        assert bad == [], path.name


@pytest.mark.parametrize("name", oracle.NAMES)
def test_at_most_four_named_vectorised_constraints(name):
    small, large = oracle.matrices(0, 6, 4), oracle.matrices(0, 60, 50)
    for form in ("primal", "dual"):
        few, many = (load(name)().program(form, S, R) for S, R in (small, large))
        assert len(few.constraints) <= 4
        # one per row would grow with the rows
        assert list(few.constraints) == list(many.constraints)
        assert len(few.variables) == len(many.variables)


@pytest.mark.parametrize("name", oracle.NAMES)
def test_no_attribute_hides_a_constraint(name):
    for form in ("primal", "dual"):
        for variable in load(name)().program(form, *oracle.matrices()).variables:
            assert not any(v for v in variable.attributes.values() if v is not None), variable


# --- the scikit-learn contract --------------------------------------------------------------------


@pytest.mark.parametrize("name", oracle.NAMES)
def test_hyperparameters_are_the_constructors_arguments(name):
    cls = load(name)
    declared = list(inspect.signature(cls).parameters)
    assert sorted(declared) == sorted(oracle.params(name))
    assert sorted(cls().get_params()) == sorted(declared)
    p = oracle.params(name, 0.25, 4.0)
    one = cls(**p)
    assert one.get_params() == p
    twin = clone(one)
    assert twin is not one
    assert twin.get_params() == p
    assert clone(one).set_params(C2=7.0).C2 == 7.0
    assert one.C2 == 4.0
    assert repr(one).startswith(cls.__name__)


@pytest.mark.parametrize("name", oracle.NAMES)
def test_pickle_round_trip(name):
    one = load(name)(**oracle.params(name, 0.25, 4.0))
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        twin = pickle.loads(pickle.dumps(one, protocol))
        assert type(twin) is type(one)
        assert twin.get_params() == one.get_params()


def test_a_grid_of_settings_goes_through_set_params():
    formulation = load("pinball")()
    for setting in ParameterGrid({"C1": [0.5, 1.0], "tau": [0.0, 0.5]}):
        formulation.set_params(**setting)
        assert {**formulation.get_params(), **setting} == formulation.get_params()


@pytest.mark.parametrize("name", oracle.NAMES)
def test_the_default_scheme_is_the_papers(name):
    assert load(name).scheme == oracle.SCHEME[name]


@pytest.mark.parametrize("name", oracle.NAMES)
def test_a_hyperparameter_outside_its_interval_is_named(name):
    S, R = oracle.matrices()
    for bad in (-1.0, float("nan"), float("inf"), "1", None, True):
        with pytest.raises(ValueError, match="C2="):
            load(name)(**{**oracle.params(name), "C2": bad}).program("primal", S, R)
    with pytest.raises(ValueError, match=oracle.RIDGE[name]):
        load(name)(**{**oracle.params(name), oracle.RIDGE[name]: -1e-9}).program("dual", S, R)
    outside = {"d": (0.0, 1.0), "tau": (-0.1, 1.1), "delta": (0.0,)}
    for key in oracle.OWN.get(name, {}):
        for value in outside[key]:
            with pytest.raises(ValueError, match=f"{key}="):
                load(name)(**{**oracle.params(name), key: value}).program("primal", S, R)


# --- against the oracle ---------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "p"), SETTINGS, ids=label)
def test_compile_reads_the_numbers_the_oracle_typed(name, p):
    read = compile(load(name)(**p))
    if name in oracle.LP_BLOCKS:
        assert isinstance(read, BoxLP)
        typed = oracle.LP_BLOCKS[name](p)
        got = {
            block.name: (
                block.rows,
                block.scale,
                block.samples.linear,
                block.samples.lower,
                block.samples.upper,
            )
            for block in read.blocks
        }
        assert list(got) == list(typed)
        for key, (rows, *numbers) in typed.items():
            assert got[key][0] == rows
            # twelve significant digits: what the reading keeps
            np.testing.assert_allclose(got[key][1:], numbers, rtol=1e-11, atol=0)
        assert all(block.samples.curvature == block.samples.constant == 0 for block in read.blocks)
        return
    assert isinstance(read, BoxQP)
    typed = oracle.TABLE[name](p)
    assert read.near == 1.0
    found = (*read.samples.__dict__.values(), *read.ridge)
    wanted = (*typed, typed.ridge)
    assert list(read.samples.__dict__) == ["linear", "curvature", "lower", "upper", "constant"]
    # a second difference of the objective gives the curvature: it keeps fewer digits than the rest
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found[2:4], wanted[2:4], rtol=1e-11, atol=0)


@pytest.mark.parametrize(("name", "p"), SETTINGS, ids=label)
def test_primal_dual_and_sor_reach_the_oracles_optimum(name, p):
    S, R = oracle.matrices(3)
    best = oracle.optimum(name, p, S, R)
    formulation = load(name)(**p)
    for form in ("primal", "dual"):
        found = solve_program(formulation.program(form, S, R), "clarabel")
        assert found.status == "solved"
        assert found.value == pytest.approx(best.value, rel=1e-7, abs=1e-12), form
    fast = solve(formulation, S, R, tol=1e-10)
    assert fast.converged
    assert fast.primal == pytest.approx(best.value, rel=1e-9, abs=1e-13)
    # the value of its plane, by plain NumPy: whatever the solver believes, this is what its plane is worth
    assert oracle.primal_value(name, p, S, R, fast.plane) == pytest.approx(best.value, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("name", oracle.NAMES)
def test_the_declared_primal_is_the_oracles_at_any_plane(name):
    # not only at the optimum: the primal held at random planes costs what NumPy says it does
    rng = np.random.default_rng(5)
    S, R = oracle.matrices(4)
    for p in oracle.settings(name)[:: max(1, len(oracle.settings(name)) // 3)]:
        program = load(name)(**p).program("primal", S, R)
        z = rng.normal(size=S.shape[1])
        held = cp.Problem(program.objective, [*program.problem.constraints, program.plane == z])
        held.solve(solver="CLARABEL")
        assert held.value == pytest.approx(oracle.primal_value(name, p, S, R, z), rel=1e-6)


@pytest.mark.parametrize("name", sorted(oracle.TABLE))
def test_the_declared_dual_is_the_oracles_at_any_multipliers(name):
    rng = np.random.default_rng(6)
    S, R = oracle.matrices(4)
    for p in oracle.settings(name):
        typed = oracle.TABLE[name](p)
        low, high = max(typed.lower, -2 * p["C2"]), min(typed.upper, 2 * p["C2"])
        program = load(name)(**p).program("dual", S, R)
        (a,) = program.variables
        a.value = rng.uniform(low, high, size=len(R))
        assert program.objective.value == pytest.approx(oracle.dual_value(name, p, S, R, a.value), rel=1e-9)
        assert all(c.violation().max() <= 1e-12 * p["C2"] for c in program.constraints.values())
        # and the declared plane is M^-1 R'a
        M = S.T @ S + typed.ridge * np.eye(S.shape[1])
        np.testing.assert_allclose(program.plane_value(), np.linalg.solve(M, R.T @ a.value), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("scheme", ["farthest", "nearest"])
@pytest.mark.parametrize("name", oracle.NAMES)
def test_both_schemes_run(name, scheme):
    rng = np.random.default_rng(11)
    y = np.repeat(["a", "b", "c"], 4)
    rows = np.column_stack([rng.normal(size=(12, 2)) + (y == "b")[:, None], np.ones(12)])
    p = oracle.params(name, 0.5, 2.0)
    for k in "abc":
        S, R = class_matrices(rows, y, k, scheme)
        best = oracle.optimum(name, p, S, R)
        fast, slow = (solve(load(name)(**p), S, R, solver=s, tol=1e-9) for s in ("sor", "clarabel"))
        assert fast.converged
        assert slow.converged
        assert fast.primal == pytest.approx(best.value, rel=1e-8)
        assert slow.primal == pytest.approx(best.value, rel=1e-7)


# --- losses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", oracle.LOSSES)
def test_a_loss_is_its_own_class_and_the_formulation_carries_it(name):
    cls = load(name)
    loss = cls.loss_class
    assert issubclass(loss, Loss)
    own = {key: values[0] for key, values in oracle.OWN.get(name, {}).items()}
    one = resolve(loss(**own))
    assert isinstance(one, Framework)
    S, R = oracle.matrices(2)
    by_class, by_object = (solve(f, S, R).primal for f in (cls(**oracle.params(name)), one))
    assert by_class == pytest.approx(by_object, rel=1e-10)


def test_limits_of_the_losses_are_the_losses_they_generalise():
    # tau = 0 is the hinge loss and tau = 1 the absolute one; delta -> 0 the hinge loss
    S, R = oracle.matrices(2)
    hinge = oracle.optimum("hnpsvm", oracle.params("hnpsvm", 0.5, 3.0), S, R).value
    absolute = oracle.optimum("absolute", oracle.params("absolute", 0.5, 3.0), S, R).value
    assert solve(load("pinball")(0.5, 3.0, tau=0.0), S, R).primal == pytest.approx(hinge, rel=1e-8)
    assert solve(load("pinball")(0.5, 3.0, tau=1.0), S, R).primal == pytest.approx(absolute, rel=1e-8)
    # the Huberised hinge lies below the hinge by at most delta / 2 a sample
    delta = 1e-6
    smooth = solve(load("huber_hinge")(0.5, 3.0, delta=delta), S, R).primal
    assert hinge - 3.0 * len(R) * delta / 2 <= smooth + 1e-9
    assert smooth <= hinge + 1e-9


def test_every_built_in_declares_a_primal_and_a_dual_of_the_right_sense():
    S, R = oracle.matrices()
    for name in oracle.NAMES:
        formulation = load(name)()
        assert isinstance(formulation, Formulation)
        assert isinstance(formulation.program("primal", S, R).objective, cp.Minimize)
        assert isinstance(formulation.program("dual", S, R).objective, cp.Maximize)
