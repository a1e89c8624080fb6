"""Imports go one way, the solver knows no model, the toolkit names no variant, and importing it compiles nothing."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import oracle
import pytest

import npsvm_cvx

PACKAGE = Path(npsvm_cvx.__file__).parent
MODULES = {path.stem: path for path in sorted(PACKAGE.glob("*.py")) if path.stem != "__init__"}
REPORTS = sorted((PACKAGE / "report").rglob("*.py"))
COMMANDS = sorted((PACKAGE / "commands").glob("*.py"))

# from the bottom to the top: a module may import those of earlier lines, and none of its own line or below, but for
# what stands together in one line by design
ORDER = [
    ("errors",), ("syntax",), ("terms",), ("problem",), ("linalg",), ("formulas",), ("derivation",), ("modeling",),
    ("framework",), ("catalog",), ("planes",), ("readers",), ("datasets",), ("conic",), ("solvers",), ("settings",),
    ("certificate", "newton", "kernels"), ("sor",), ("steps",), ("working_set",), ("interior",), ("proximal",),
    ("forms",), ("reading",), ("compile",), ("solution",), ("lagrangian",), ("probe",), ("bench",),
    ("multipliers",), ("diagnosis",),
    ("instance",), ("evidence",), ("fenchel", "claims"), ("checks",), ("verification",), ("mutation",), ("location",),
    ("defects",), ("classes",), ("path",), ("plane_classifier",), ("estimator",), ("selection", "baselines"),
    ("plotting",), ("store",), ("scaffold",), ("report",), ("housekeeping",), ("collection",), ("testing",),
    ("display",), ("commands",), ("cli",), ("__main__",),
]  # fmt: skip
RANK = {name: rank for rank, line in enumerate(ORDER) for name in line}


def imported(path, package_of="npsvm_cvx"):
    """Return the package's own modules that a file imports, anywhere in it, lazily or for types as well."""
    found = set()
    depth = len(path.relative_to(PACKAGE).parts) - 1  # 0 in the package, 1 in report/ and commands/
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {
                name.name.split(".")[1] for name in node.names if name.name.startswith(f"{package_of}.")
            }  # fmt: skip
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level == 0 and module.split(".")[0] == package_of:
                parts = module.split(".")[1:]
                found |= {parts[0]} if parts else {n.name for n in node.names}
            if node.level == depth + 1:  # from . in the package, from .. in report/
                found |= {module.split(".")[0]} if module else {n.name for n in node.names}
            if node.level and node.level <= depth:
                found.add(path.relative_to(PACKAGE).parts[0])
    return found


def test_every_module_has_its_place():
    assert set(MODULES) <= set(RANK), "place the new module in ORDER above, and import only from earlier lines"
    assert len(MODULES) >= 20


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_one_way(name):
    for other in imported(MODULES[name]) & (set(RANK) | set(MODULES)):
        assert RANK[other] < RANK[name], f"{name} imports {other}, which stands above it"


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_reports_import_from_below(path):
    for other in (imported(path) & set(RANK)) - {"report"}:
        assert RANK[other] < RANK["report"]


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_commands_import_from_below(path):
    for other in (imported(path) & set(RANK)) - {"commands"}:
        assert RANK[other] < RANK["commands"]


ARRAYS = ["terms", "problem", "certificate", "newton", "kernels", "sor", "steps", "working_set", "interior",
          "proximal"]  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_in_arrays_out(name):
    assert imported(MODULES[name]) <= {"linalg", *ARRAYS}
    text = MODULES[name].read_text(encoding="utf-8")
    assert not re.search(r"^\s*(import|from) (cvxpy|sklearn)", text, re.MULTILINE)


def test_the_bottom_knows_no_solver():
    for name in ("errors", "linalg", "planes", "readers", "datasets", "store"):
        assert "cvxpy" not in modules_of(MODULES[name])


def modules_of(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    return found | {
        (node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        if not node.level
    }


INTERNALS = r"cvxpy\.reductions|get_problem_data|unpack_results|solve_via_data|param_prob|var_id_to_col"


def touches_internals(path):
    """Return the lines of code, not of prose, that use what CVXPY does not promise to keep."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    words = [
        (node.lineno, node.attr if isinstance(node, ast.Attribute) else node.module or "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.ImportFrom)
    ]
    words += [(n.lineno, n.value) for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
              and n.value in ("param_prob", "dims")]  # fmt: skip
    words += [(n.lineno, a.name) for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    return [f"line {line}: {word}" for line, word in words if re.search(INTERNALS, word)]


def test_the_scan_for_internals_sees_the_module_that_has_them():
    assert touches_internals(MODULES["conic"])


@pytest.mark.parametrize("name", [n for n in MODULES if n != "conic"])
def test_only_one_module_touches_cvxpys_internals(name):
    assert touches_internals(MODULES[name]) == []


# --- names of variants ----------------------------------------------------------------------------

# every stem and class name but "absolute", which is also a word and a distance
VARIANTS = [name for name in oracle.NAMES if name != "absolute"]
NAMED = re.compile(r"(?<![a-z])(" + "|".join(VARIANTS + [n.replace("_", "") for n in VARIANTS]) + r")(?![a-z])", re.I)


def names_variants(text):
    """Return identifiers and string literals, docstrings aside, that name a variant."""
    tree = ast.parse(text)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.add(id(first.value))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found.append(node.value)
        found += [getattr(node, field) for field in ("id", "attr", "arg", "name") if hasattr(node, field)]
    return [str(word) for word in found if word is not None and NAMED.search(str(word))]


def test_the_scan_for_names_sees_what_it_is_for():
    assert names_variants('x = "hnpsvm"') == ["hnpsvm"]
    assert names_variants("from a import LSTWSVM") == ["LSTWSVM"]
    assert names_variants("def f(twsvm): pass") == ["twsvm"]
    assert names_variants("def f():\n    'as HNPSVM'\n    return g  # twsvm") == []
    assert names_variants("x = 'npsvm_cvx', NPSVMError") == []


@pytest.mark.parametrize("name", MODULES)
def test_the_toolkit_names_no_variant(name):
    found = names_variants(MODULES[name].read_text(encoding="utf-8"))
    # the estimator has a default, once in its signature
    assert found == (["hnpsvm"] if name == "estimator" else [])


# the paper's tables have columns for its own methods
@pytest.mark.parametrize("path", [p for p in REPORTS if p.parent.name != "paper"], ids=lambda path: path.stem)
def test_the_reports_name_no_variant(path):
    assert names_variants(path.read_text(encoding="utf-8")) == []


# --- import time ----------------------------------------------------------------------------------


def test_importing_compiles_nothing_and_warns_of_nothing():
    code = (
        "import sys, npsvm_cvx; from npsvm_cvx import kernels; "
        "print(len(kernels.sweep.signatures), 'matplotlib.pyplot' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout.split() == ["0", "False"]
    assert run.stderr == ""


def test_the_public_names_are_there():
    for name in npsvm_cvx.__all__:
        assert getattr(npsvm_cvx, name) is not None
    wanted = {
        "load", "available", "Formulation", "Loss", "Program", "Framework", "verify", "solve", "NPSVMClassifier",
        "GEPSVM", "load_dataset", "make_cross_planes",
    }  # fmt: skip
    assert wanted <= set(npsvm_cvx.__all__)


def test_a_certificate_is_checked_with_numpy_alone(tmp_path):
    proof = npsvm_cvx.solve("hnpsvm", [[1.0, 1.0], [2.0, 1.0]], [[0.0, 1.0]]).proof
    (tmp_path / "plane.json").write_text(proof.to_json())
    code = (
        "import sys; sys.argv = ['npsvm', 'recheck', 'plane.json']\n"
        "from npsvm_cvx import cli\n"
        "try: cli.main()\n"
        "finally: print([m for m in ('cvxpy', 'scipy', 'numba', 'sklearn', 'clarabel') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert run.stdout.startswith("proved: ")
    assert run.stdout.splitlines()[-1] == "[]"
