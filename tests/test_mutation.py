"""The engine of planted mistakes: every mutant parses, differs in its tree, and leaves the rest of the file alone."""

import ast
from collections import Counter
from pathlib import Path

import npsvm_cvx.formulations
import pytest

from npsvm_cvx import available
from npsvm_cvx.errors import FormulationError
from npsvm_cvx.mutation import METHODS, mutants
from npsvm_cvx.syntax import build_sum, flatten, replaced, splice, unparse

FOLDER = Path(npsvm_cvx.formulations.__file__).parent

EXAMPLE = '''
class Example(Formulation):
    """Its docstring is left alone: a >= 0."""

    def __init__(self, C1=1.0, C2=1.0):
        self.C1 = C1
        self.C2 = C2

    def primal(self, S, R):
        z, xi = plane_variable(S), slack_variable(R)
        near = cp.sum_squares(S @ z) / 2  # each row near
        return Program(
            cp.Minimize(near + self.C2 * cp.sum(xi)),
            {"margin": R @ z + xi >= 1, "slack": xi >= 0},
            plane=z,
        )

    def dual(self, S, R):
        a = multiplier_variable(R)
        return Program(
            cp.Maximize(cp.sum(a) - cp.sum_squares(whiten(S, R, self.C1).T @ a) / 2),
            {"lower": a >= 0, "upper": a <= self.C2},
            multipliers={"margin": a, "slack": self.C2 - a},
            plane=plane_from_dual(S, R, self.C1, a),
        )
'''


@pytest.fixture(scope="module")
def every():
    return {name: mutants((FOLDER / f"{name}.py").read_text(encoding="utf-8")) for name in available()}


def of(source, **wanted):
    return [m for m in mutants(source) if all(getattr(m, key) == value for key, value in wanted.items())]


def edits(source, **wanted):
    return {(m.before, m.after) for m in of(source, **wanted)}


def test_there_are_enough_and_no_two_are_the_same(every):
    assert sum(map(len, every.values())) >= 300  # what was promised of the files of formulations/
    for found in every.values():
        assert len({ast.dump(ast.parse(m.source)) for m in found}) == len(found)


def test_every_mutant_parses_and_is_one_edit_of_a_method(every):
    for name, found in every.items():
        original = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        tree = ast.parse(original)
        lines = original.splitlines()
        bodies = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in METHODS]
        allowed = {line for n in bodies for line in range(n.lineno, n.end_lineno + 1)}
        for mutant in found:
            changed = ast.parse(mutant.source)
            assert ast.dump(changed) != ast.dump(tree)
            assert ast.get_docstring(changed) == ast.get_docstring(tree)
            assert mutant.line in allowed
            others = mutant.source.splitlines()
            head = next(i for i, (a, b) in enumerate(zip(lines, others, strict=False)) if a != b)
            tail = next(i for i, (a, b) in enumerate(zip(lines[::-1], others[::-1], strict=False)) if a != b)
            assert set(range(head + 1, len(lines) - tail + 1)) <= allowed, f"{name}: {mutant}"


def test_the_files_are_not_touched(every):
    before = {path: path.read_bytes() for path in FOLDER.glob("*.py")}
    mutants(before[FOLDER / f"{next(iter(every))}.py"].decode())
    assert {path: path.read_bytes() for path in FOLDER.glob("*.py")} == before


def test_every_kind_of_mistake_and_every_place_occurs(every):
    operators = Counter(m.operator for found in every.values() for m in found)
    assert set(operators) == {
        "sign", "factor 2", "factor 1/2", "term dropped", "another atom", "another variable", "wrong matrix",
        "matrices exchanged", "transpose dropped", "hyperparameter exchanged", "hyperparameter squared",
        "hyperparameter left out", "divided for multiplied", "condition negated", "inequality flipped",
        "inequality to equation", "equation to inequality", "bound moved", "bound dropped", "bound added",
        "constraint dropped", "multiplier left out", "multipliers exchanged",
    }  # fmt: skip
    places = {m.place.split(" [")[0] for found in every.values() for m in found}
    assert places == {
        "primal objective", "primal", "primal plane", "primal variables", "dual objective", "dual", "dual variables",
        "multipliers", "recovery", "loss value", "conjugate value", "conjugate domain", "reduction",
    }  # fmt: skip


def test_places_are_found_through_local_names():
    lines = {m.line for m in of(EXAMPLE, place="primal objective", operator="wrong matrix")}
    assert lines == {11}  # `near` is used in the objective
    (made,) = of(EXAMPLE, place="primal objective", operator="wrong matrix")
    assert (made.before, made.after) == ("cp.sum_squares(S @ z) / 2", "cp.sum_squares(R @ z) / 2")
    assert made.touched == ("z",)
    assert "/ 2  # each row near" in made.source  # the comment stays


def test_the_mistakes_of_a_derivation():
    assert ("a <= self.C2", "a <= 2 * self.C2") in edits(EXAMPLE, place="dual [upper]", operator="factor 2")
    assert ("a <= self.C2", "a <= self.C1") in edits(EXAMPLE, operator="hyperparameter exchanged")
    assert ("a >= 0", "a <= 0") in edits(EXAMPLE, place="dual [lower]", operator="inequality flipped")
    assert ("R @ z + xi >= 1", "R @ z + xi == 1") in edits(EXAMPLE, place="primal [margin]")
    assert ("R @ z + xi >= 1", "R @ z - xi >= 1") in edits(EXAMPLE, place="primal [margin]", operator="sign")
    assert len(of(EXAMPLE, operator="constraint dropped")) == 2
    assert {m.place for m in of(EXAMPLE, operator="bound dropped")} == {"dual [lower]", "dual [upper]"}
    assert {m.place for m in of(EXAMPLE, operator="bound added")} == {"dual [extra]"}  # a <= C1; the others are there
    assert len(of(EXAMPLE, operator="bound added")) == 1
    recoveries = {after for _, after in edits(EXAMPLE, place="recovery")}
    assert {
        "-plane_from_dual(S, R, self.C1, a)",
        "2 * plane_from_dual(S, R, self.C1, a)",
        "plane_from_dual(R, S, self.C1, a)",
        "plane_from_dual(S, R, 2 * self.C1, a)",
        "plane_from_dual(S, R, self.C2, a)",
    } <= recoveries
    swapped = {m.after for m in of(EXAMPLE, operator="multipliers exchanged")}
    assert swapped == {"{'margin': self.C2 - a, 'slack': a}"}
    assert {m.place for m in of(EXAMPLE, operator="multiplier left out")} == {
        "multipliers [margin]",
        "multipliers [slack]",
    }


def test_a_change_of_nothing_is_no_mutant():
    # a factor before a variable that is only compared with zero bounds the same set
    assert not [m for m in of(EXAMPLE, place="dual [lower]") if m.operator.startswith("factor")]
    # but in the primal it changes the multiplier
    assert [m for m in of(EXAMPLE, place="primal [slack]") if m.operator.startswith("factor")]


def test_what_cannot_be_mutated_is_said():
    with pytest.raises(FormulationError, match="does not parse: line 1"):
        mutants("class A(:")
    with pytest.raises(FormulationError, match="declares none of primal, dual"):
        mutants("x = 1")


def test_text_outside_ascii_is_spliced_where_it_stands():
    source = "class A(Loss):\n    def value(self, t):\n        return cp.pos('é' and 1 - t) + t  # ü\n"
    for mutant in mutants(source):
        assert mutant.source.endswith("  # ü\n")
        ast.parse(mutant.source)


# --- sums -----------------------------------------------------------------------------------------


def parsed(text):
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    "text", ["a", "-a", "a - b", "a - (b - c) + -d", "-(a + b) * c - d", "a @ b / 2 - (c + d) / 4"]
)
def test_a_sum_is_the_sum_of_its_terms(text):
    # checked by evaluation: the letters are numbers, @ is written as *
    values = {"a": 2.0, "b": 3.0, "c": 5.0, "d": 7.0}
    built = unparse(build_sum(flatten(parsed(text)))).replace("@", "*")
    assert eval(built, values.copy()) == eval(text.replace("@", "*"), values.copy())


def test_one_node_is_replaced_and_no_other():
    source = "f(a, a)"
    call = parsed(source)
    assert unparse(replaced(call, call.args[1], parsed("b"))) == "f(a, b)"
    assert unparse(call) == "f(a, a)"
    assert splice(source, call.args[1], parsed("b + c")) == "f(a, (b + c))"
