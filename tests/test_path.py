"""The grid of planes against planes found one by one."""

import numpy as np
import pytest

from npsvm_cvx import available, load, path
from npsvm_cvx.classes import Classes, solve_classes
from npsvm_cvx.compile import compile
from npsvm_cvx.errors import NPSVMError

C1, C2 = np.array([2.0**-8, 1.0, 2.0**8]), np.array([2.0**8, 2.0**-8, 1.0])  # C2 out of order on purpose


def classes_of(scheme, n=60, weighted=False, kinds=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.sort(np.arange(n) % kinds)
    rows = np.column_stack([rng.normal(size=(n, 4)) + 0.7 * y[:, None], np.ones(n)])
    weights = rng.uniform(0.5, 2.0, size=n) if weighted else np.ones(n)
    columns = np.array([1.0, 2.0, 1.0, 0.5, 1.0]) if weighted else np.ones(5)
    return Classes(rows, np.cumsum(np.bincount(y)), scheme, weights, columns)


@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
@pytest.mark.parametrize("name", available())
def test_every_plane_of_the_grid_is_its_settings_own(name, weighted):
    cls = load(name)
    classes = classes_of(cls.scheme, weighted=weighted)
    first = C1 if "C1" in cls().get_params() else None
    found = path.grid(cls(), classes, first, C2, tol=1e-11)
    assert found.planes.shape == (1 if first is None else 3, 3, 3, 5)
    assert (found.relative_gap <= 1e-11).all()
    for i, c1 in enumerate(found.C1):
        for j, c2 in enumerate(C2):
            compiled = compile(cls(C2=c2) if first is None else cls(C1=c1, C2=c2))
            alone = solve_classes(compiled, classes, tol=1e-11)
            for k, each in enumerate(alone):
                # what the gap allows: the value of the grid's plane, and the distance that value allows
                if each.proof is not None and each.proof.free is None:
                    problem = classes.problem(compiled, k)
                    z = classes.sign * found.planes[i, j, k]
                    value = problem.smooth(z) + problem.terms.phi(problem.R.product(z)).sum() - problem.terms.constant
                    assert value == pytest.approx(each.result.primal, rel=1e-9, abs=1e-12)
                size = np.abs(each.plane).max()
                assert np.abs(found.planes[i, j, k] - each.plane).max() <= 1e-3 * size


def test_the_scaling_with_C1_and_C2_is_recognised_or_not():
    assert path.family_of(load("hnpsvm")()).ridge == (1.0, 1.0)
    assert path.family_of(load("pinball")(tau=0.25)).samples.lower == -0.25
    assert path.family_of(load("nppc")()) is not None
    assert not path.family_of(load("twsvm")(eps=0.5)).has_C1
    assert path.family_of(load("l1_ls_twsvm")()) is None  # a linear program

    class Squared(load("hnpsvm")):
        """C2 enters by its square."""

        def primal(self, S, R):
            return load("hnpsvm")(self.C1, self.C2**2).primal(S, R)

        def dual(self, S, R):
            return load("hnpsvm")(self.C1, self.C2**2).dual(S, R)

    assert path.family_of(Squared()) is None
    classes = classes_of("farthest", kinds=2)
    found = path.grid(Squared(), classes, [0.5], [1.0, 3.0], tol=1e-10)
    plain = path.grid(load("hnpsvm")(), classes, [0.5], [1.0, 9.0], tol=1e-10)
    assert found.planes == pytest.approx(plain.planes, abs=1e-4)


def test_kernel_rows_and_dependent_rows():
    rng = np.random.default_rng(3)
    X = np.repeat(rng.normal(size=(20, 2)), 2, axis=0)  # every sample twice
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    classes = Classes(np.column_stack([K, np.ones(40)]), np.array([18, 40]), "farthest", np.ones(40), np.ones(41))
    found = path.grid(load("hnpsvm")(), classes, C1, C2, tol=1e-9)
    assert (found.relative_gap <= 1e-9).all()


@pytest.mark.parametrize("name", ["hnpsvm", "twsvm", "pinball", "nppc"])
def test_many_columns_share_a_decomposition_however_large_and_few_do_not(name, monkeypatch):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(90, 2))
    y = np.sort(np.arange(90) % 2)
    X[:, 0] += y
    K = np.exp(-0.01 * ((X[:, None] - X) ** 2).sum(axis=2))  # nearly dependent: sweeps alone do not end
    rows = np.column_stack([K, np.ones(90)])
    classes = Classes(rows, np.cumsum(np.bincount(y)), load(name).scheme, np.ones(90), np.ones(91))
    first = C1 if "C1" in load(name)().get_params() else None
    asked = []
    monkeypatch.setattr(path, "_shared", lambda *a, own=path._shared: asked.append(1) or own(*a))
    monkeypatch.setattr(path, "_LARGE", 0)
    found = path.grid(load(name)(), classes, first, C2, tol=1e-8)
    assert len(asked) == 2
    assert (found.relative_gap <= 1e-8).all()
    monkeypatch.setattr(path, "_TALL", 0)
    alone = path.grid(load(name)(), classes, first, C2, tol=1e-8)
    assert len(asked) == 2
    values = rows @ found.planes.reshape(-1, 91).T, rows @ alone.planes.reshape(-1, 91).T
    assert np.abs(values[0] - values[1]).max() <= 1e-2 * np.abs(values[1]).max()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], [1.0]), "C1 must hold positive"),
        (([1.0], [np.inf]), "C2 must hold positive"),
        (([1.0], []), "C2 must hold positive"),
    ],
)
def test_bad_grids_are_named(arguments, message):
    with pytest.raises(NPSVMError, match=message):
        path.grid(load("hnpsvm")(), classes_of("farthest"), *arguments)
    with pytest.raises(NPSVMError, match="has no hyperparameter C1"):
        path.grid(load("twsvm")(), classes_of("nearest"), [1.0], [1.0])


def test_the_gap_is_that_of_the_plane_returned():
    # features far from the origin: what the whitened plane has, the plane itself may have lost
    rng = np.random.default_rng(9)
    y = np.sort(np.arange(60) % 2)
    rows = np.column_stack([rng.normal(size=(60, 80)) + 1e4, np.ones(60)])
    classes = Classes(rows, np.cumsum(np.bincount(y)), "farthest", np.ones(60), np.ones(81))
    for name in ("hnpsvm", "absolute"):
        found = path.grid(load(name)(), classes, [2.0**-8, 1.0], [1.0, 2.0**8], tol=1e-9)
        for i, c1 in enumerate(found.C1):
            for j, c2 in enumerate(found.C2):
                compiled = compile(load(name)(C1=c1, C2=c2))
                for k, best in enumerate(solve_classes(compiled, classes, tol=1e-10)):
                    problem, z = classes.problem(compiled, k), found.planes[i, j, k]
                    value = problem.smooth(z) + problem.terms.phi(problem.R.product(z)).sum() - problem.terms.constant
                    slack = best.certificate.relative_gap + 1e-12
                    assert value / best.result.primal - 1 <= found.relative_gap[i, j, k] * 1.01 + slack
