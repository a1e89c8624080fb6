"""The checker is checked: planted mistakes are caught and placed, other words for the same are recognised."""

import tempfile
from pathlib import Path

import npsvm_cvx.formulations
import numpy as np
import pytest

from npsvm_cvx import available, load
from npsvm_cvx.defects import judge, same_mathematics
from npsvm_cvx.location import names_the_place
from npsvm_cvx.mutation import Mutant, mutants

FOLDER = Path(npsvm_cvx.formulations.__file__).parent


def of(name, **wanted):
    found = mutants((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    return [m for m in found if all(getattr(m, key) == value for key, value in wanted.items())]


def fate(name, mutant, tmp_path):
    original = load(name)()
    judged = judge(original, mutant, tmp_path, solvers=["clarabel"], max_planes=1)
    return judged, names_the_place(mutant, judged.line, original)


def test_a_seeded_sample_is_caught_and_four_fifths_are_placed():
    # three mutants a file; 80 % is what is promised of all, here of the sample's own 33
    rng = np.random.default_rng(7)
    outcomes, named = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in available():
            every = of(name)
            for at in rng.choice(len(every), 3, replace=False):
                judged, placed = fate(name, every[at], Path(folder))
                assert judged.outcome in ("caught", "equivalent"), f"{name}: {every[at]}: {judged.line}"
                assert "\n" not in judged.line
                outcomes.append(judged.outcome)
                if judged.outcome == "caught":
                    named.append(placed)
    assert outcomes.count("caught") >= 25
    assert np.mean(named) >= 0.8


@pytest.mark.parametrize(
    ("name", "wanted", "words"),
    [
        # the same function of the plane, by other words: -F has the square of F
        ("hnpsvm", {"operator": "sign", "before": "whiten(S, R, self.C1)"}, "agree with the original's at 4 settings"),
        # a multiplier that is not given stays a constraint of the infimum, and gives the same dual function
        ("l1_ls_twsvm", {"operator": "multiplier left out", "place": "multipliers [ridge]"}, "[ridge] stays"),
        # the squared hinge never uses the sign of its slack
        ("smooth_twsvm", {"operator": "factor 2", "place": "primal [slack]"}, "agree"),
    ],
)
def test_other_words_for_the_same_are_equivalent(name, wanted, words, tmp_path):
    (mutant,) = of(name, **wanted)
    judged, _ = fate(name, mutant, tmp_path)
    assert judged.outcome == "equivalent"
    assert words in judged.line
    assert judged.first == ""


def test_the_comparison_asks_no_check_and_sees_every_part(tmp_path):
    path = tmp_path / "mutant.py"
    for place in ("primal objective", "dual objective", "dual [upper]", "recovery", "multipliers [slack]", "reduction"):
        changed = next(m for m in of("hnpsvm", place=place, operator="factor 2"))
        path.write_text(changed.source, encoding="utf-8")
        assert same_mathematics(load("hnpsvm")(), path) is None, place
    path.write_text((FOLDER / "hnpsvm.py").read_text(encoding="utf-8"), encoding="utf-8")
    assert same_mathematics(load("hnpsvm")(), path) is not None


def test_a_reduction_that_holds_at_one_setting_only_is_caught(tmp_path):
    # C1 = C2 = 1 hides it
    (mutant,) = [m for m in of("hnpsvm", operator="hyperparameter squared", place="reduction") if "C1 ** 2" in m.after]
    judged, placed = fate("hnpsvm", mutant, tmp_path)
    assert (judged.outcome, judged.first, placed) == ("caught", "reductions", True)


def test_a_dual_that_is_no_number_is_no_traceback(tmp_path):
    mutant = next(m for m in of("nppc", operator="hyperparameter left out") if "/ (4 * self.C2 * (1 - 1.0))" in m.after)
    assert fate("nppc", mutant, tmp_path)[0].outcome == "caught"


def test_an_error_of_the_toolkit_is_not_a_catch(tmp_path, monkeypatch):
    def broken(*args, **options):
        raise RuntimeError("no sentence")

    monkeypatch.setattr("npsvm_cvx.defects.verify", broken)
    judged, _ = fate("hnpsvm", of("hnpsvm")[0], tmp_path)
    assert (judged.outcome, judged.line) == ("crashed", "RuntimeError: no sentence")


# --- the rule -------------------------------------------------------------------------------------

RULE = [
    # place, variables of the term, the line, whether it names the place
    ("dual objective", (), "dual objective: declared 1, infimum 2", True),
    ("dual objective", (), "recovery: the declared plane is 2 times it", False),
    ("dual [upper]", ("a",), "dual domain: beyond the declared [upper] it is finite", True),
    ("dual [upper]", ("a",), "dual domain: beyond the declared [lower] it is finite", False),
    ("dual [upper]", ("a",), "dual domain: let the multiplier of [slack] be -1", True),
    ("dual [upper]", ("a",), "primal optimum 1 is not the dual optimum 2 (and so dual domain disagree)", False),
    ("primal objective", ("xi",), "dual domain: unbounded below along xi, whose coefficients do not cancel", True),
    ("primal objective", ("z",), "dual domain: unbounded below along xi, whose coefficients do not cancel", False),
    ("primal objective", ("xi",), "dual domain: beyond the declared [upper] it is finite", True),
    ("primal objective", ("z",), "dual domain: beyond the declared [upper] it is finite", False),
    ("primal objective", ("z",), "dual objective: declared 1, infimum 2", True),
    ("primal [margin]", ("z",), "dual objective: the coefficient of a'Qa is -1/2; the Lagrangian gives -2", True),
    ("primal [margin]", ("z",), "dual objective: the coefficient of e'a is 1; the Lagrangian gives -1", False),
    ("primal [margin]", (), "dual objective: the coefficient of e'a is 1; the Lagrangian gives -1", True),
    ("primal [margin]", ("z",), "recovery: the declared plane is -1 times it", True),
    ("primal [slack]", ("xi",), "dual domain: the multiplier of [slack] is negative", True),
    ("primal [slack]", ("xi",), "primal optimum 1 is not the dual optimum 2", False),
    ("recovery", ("a",), "recovery: the declared plane is -1 times it", True),
    ("recovery", ("a",), "dual objective: declared 1, infimum 2", False),
    ("multipliers [slack]", ("a",), "dual domain: unbounded below along xi", True),
    ("multipliers [slack]", ("a",), "dual domain: unbounded below along z", False),
    ("conjugate domain", (), "conjugate domain: v = 2 is declared inside", True),
    ("conjugate domain", (), "conjugate value: at v = 1 declared 2", False),
    ("loss value", (), "conjugate value: at v = 1 declared 2", True),
    ("reduction", (), "not for two classes, TBSVM with the planes swapped and their signs flipped: 1", True),
    ("reduction", (), "dual objective: declared 1, infimum 2", False),
    ("primal [margin]", ("z",), "HNPSVM.primal raised ValueError: shapes", True),
    ("primal [margin]", ("z",), "HNPSVM.dual raised ValueError: shapes", False),
    ("recovery", ("a",), "HNPSVM.dual raised ValueError: shapes", True),
]


@pytest.mark.parametrize(("place", "touched", "line", "named"), RULE)
def test_the_rule_of_the_right_place(place, touched, line, named):
    assert names_the_place(Mutant("sign", place, touched, 1, "", "", ""), line, load("hnpsvm")()) is named
