r"""CVXPY's standard form of a program, its dual, and the distances that say how well a point solves it.

The only module that touches CVXPY's internals: the data a program is compiled to for one solver, that solver's raw
answer, and the map between them.  Must not know formulations.

Every program is compiled to

.. math::
    \min_x\; \tfrac12 x^\top P x + q^\top x + c \quad\text{s.t.}\quad b - A x \in K

whose dual is :math:`\max_{x,y} -\tfrac12 x^\top P x - b^\top y + c` s.t. :math:`P x + q + A^\top y = 0,\; y \in K^*`.
A maximisation is compiled as the minimisation of its negative; ``sign`` remembers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import clarabel
import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.reductions.solution import Solution as CvxpySolution

from .linalg import Array


@dataclass(frozen=True)
class Cones:
    """The cone K, a product in this order: zero, nonnegative, second order, exponential."""

    zero: int
    nonneg: int
    soc: tuple[int, ...] = ()
    exp: int = 0

    def distance(self, s: Array, *, dual: bool = False) -> float:
        """Return the largest violation of ``s in K``, or of ``s in K*``."""
        worst = 0.0 if dual else float(np.abs(s[: self.zero]).max(initial=0.0))
        at = self.zero + self.nonneg
        worst = max(worst, float((-s[self.zero : at]).max(initial=0.0)))
        for size in self.soc:
            worst = max(worst, float(np.linalg.norm(s[at + 1 : at + size]) - s[at]))
            at += size
        for _ in range(self.exp):
            x, y, z = s[at : at + 3]
            worst = max(worst, _exp_dual_violation(x, y, z) if dual else _exp_violation(x, y, z))
            at += 3
        return worst

    def complementarity(self, s: Array, y: Array) -> float:
        """Return the sum of ``|s_k' y_k|`` over the cones of the product: violations must not cancel against slacks."""
        at = self.zero + self.nonneg
        total = float(np.abs(s[:at] * y[:at]).sum())
        for size in (*self.soc, *(3,) * self.exp):
            total += abs(float(s[at : at + size] @ y[at : at + size]))
            at += size
        return total


def _exp_violation(x: float, y: float, z: float) -> float:
    if y > 0:
        return float(max(y * np.exp(min(x / y, 700.0)) - z, 0.0))
    return float(max(-y, 0.0, x, -z))


def _exp_dual_violation(u: float, v: float, w: float) -> float:
    if u < 0:
        return float(max(-u * np.exp(min(v / u - 1.0, 700.0)) - w, 0.0))
    return float(max(u, 0.0, -v, -w))


@dataclass(frozen=True)
class Residuals:
    """How well a pair (x, y) solves a standard form; the slack is recomputed from x, never the solver's.

    Each is relative: ``primal`` to the largest of |A||x|, |b|; ``stationarity`` to the largest of |P||x|, |q|, |A'||y|;
    ``cone`` to the largest |y|; ``complementarity``, summed in absolute value, and ``gap`` to the larger of the two
    objective values.
    """

    primal: float
    cone: float
    stationarity: float
    complementarity: float
    gap: float
    primal_value: float
    dual_value: float

    @property
    def worst(self) -> float:
        """The largest of the five."""
        return max(self.primal, self.cone, self.stationarity, self.complementarity, self.gap)


@dataclass(frozen=True)
class StandardForm:
    """``min 1/2 x'Px + q'x + offset`` subject to ``b - Ax in K``."""

    P: sp.csc_array
    q: Array
    A: sp.csc_array
    b: Array
    offset: float
    cones: Cones
    sign: float = 1.0

    def residuals(self, x: Array, y: Array) -> Residuals:
        """Return the residuals of a primal-dual pair."""
        Ax, Px, Aty = self.A @ x, self.P @ x, self.A.T @ y
        slack = self.b - Ax
        quadratic = float(x @ Px)
        primal = quadratic / 2 + float(self.q @ x)
        dual = -quadratic / 2 - float(self.b @ y)
        # x'Px + q'x + b'y is the gap of the quadratic program, by the stable form
        gap = abs(quadratic + float(self.q @ x) + float(self.b @ y))
        value = max(abs(primal + self.offset), abs(dual + self.offset), 1e-300)
        return Residuals(
            primal=self.cones.distance(slack) / _largest(abs(self.A) @ abs(x), self.b),
            cone=self.cones.distance(y, dual=True) / _largest(y),
            stationarity=float(np.abs(Px + self.q + Aty).max(initial=0.0))
            / _largest(abs(self.P) @ abs(x), self.q, abs(self.A.T) @ abs(y)),
            complementarity=self.cones.complementarity(slack, y) / value,
            gap=gap / value,
            primal_value=self.sign * (primal + self.offset),
            dual_value=self.sign * (dual + self.offset),
        )

    def dual_problem(self) -> cp.Problem:
        """Return the conic dual as a CVXPY problem whose optimal value is that of the program it came from."""
        x, y = cp.Variable(len(self.q)), cp.Variable(len(self.b)) if len(self.b) else None
        root = _square_root(self.P)
        value: cp.Expression = self.offset - cp.sum_squares(root @ x) / 2
        gradient = root.T @ (root @ x) + self.q
        constraints: list[cp.Constraint] = []
        if y is not None:
            value = value - self.b @ y
            gradient = gradient + self.A.T @ y
            at = self.cones.zero + self.cones.nonneg
            if self.cones.nonneg:
                constraints.append(y[self.cones.zero : at] >= 0)
            for size in self.cones.soc:
                constraints.append(cp.SOC(y[at], y[at + 1 : at + size]))
                at += size
            for _ in range(self.cones.exp):  # dual exponential: -u exp(v / u - 1) <= w, u < 0
                u, v, w = y[at], y[at + 1], y[at + 2]
                constraints.append(cp.constraints.ExpCone(u - v, -u, w))
                at += 3
        constraints.append(gradient == 0)
        return cp.Problem(cp.Maximize(value), constraints)


def _largest(*vectors: Array) -> float:
    return max([float(np.abs(v).max(initial=0.0)) for v in vectors]) or 1.0


def _square_root(P: sp.csc_array) -> sp.csr_array:
    """Return G with ``G'G = P``; P is block diagonal with small or diagonal blocks, so blocks are factored alone."""
    count, label = sp.csgraph.connected_components(P, directed=False)
    sizes = np.bincount(label, minlength=count)
    rows: list[Any] = []
    n = P.shape[0]
    single = np.flatnonzero(sizes[label] == 1)
    diagonal = np.asarray(P.diagonal())
    keep = single[diagonal[single] > 0]
    rows.append(sp.csr_array((np.sqrt(diagonal[keep]), (np.arange(len(keep)), keep)), shape=(len(keep), n)))
    for block in np.flatnonzero(sizes > 1):
        index = np.flatnonzero(label == block)
        values, vectors = np.linalg.eigh(P[index][:, index].toarray())
        good = values > 1e-14 * max(values.max(), 0.0)
        part = np.sqrt(values[good])[:, None] * vectors[:, good].T
        at = np.repeat(np.arange(good.sum()), len(index))
        rows.append(sp.csr_array((part.ravel(), (at, np.tile(index, good.sum()))), shape=(good.sum(), n)))
    return sp.csr_array(sp.vstack(rows))


class Compiled:
    """A program compiled for one solver: its standard form, and what turns a raw answer back into values."""

    def __init__(self, problem: cp.Problem, solver: str, options: dict[str, Any] | None = None) -> None:
        self.problem = problem
        self.solver = solver
        self.data, self.chain, self.inverse = problem.get_problem_data(
            solver, enforce_dpp=False, solver_opts=dict(options or {})
        )
        self.form = _standard_form(self.data, -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0)

    def run(self, options: dict[str, Any], *, verbose: bool = False) -> tuple[CvxpySolution, Array, Array]:
        """Solve; put the values into the problem's variables; return CVXPY's solution and the raw (x, y).

        x and y are empty where the solver returned no point.
        """
        raw = self.chain.solve_via_data(self.problem, self.data, False, verbose, dict(options))
        if _interrupted(raw, self.solver):
            raise KeyboardInterrupt
        self.problem.unpack_results(raw, self.chain, self.inverse)
        x, y = _raw_point(raw, self.solver, self.form)
        return self.problem._solution, x, y


def _interrupted(raw: Any, solver: str) -> bool:
    """Whether the solver caught the interrupt key itself: some install a handler of their own while they run."""
    if solver == "ECOS":
        return bool(raw["info"]["exitFlag"] == -4)
    if solver == "SCS":
        return bool(raw["info"]["status_val"] == -5)
    if solver == "OSQP":
        return "interrupt" in str(raw.info.status).lower()
    return False


def standard_form(problem: cp.Problem) -> StandardForm:
    """Return the standard form with a quadratic objective."""
    return Compiled(problem, "CLARABEL").form


def linear_system(equalities: list[cp.Constraint], variables: list[cp.Variable]) -> tuple[Array, Array]:
    """Return (A, b) with ``A x = b`` for affine equalities, x the variables one after the other."""
    data, _, _ = cp.Problem(cp.Minimize(0), equalities).get_problem_data("CLARABEL")
    form = _standard_form(data, 1.0)
    where, matrix = data["param_prob"].var_id_to_col, form.A.toarray()
    blocks = [
        matrix[:, where[v.id] : where[v.id] + v.size] if v.id in where else np.zeros((len(matrix), v.size))
        for v in variables
    ]
    return np.hstack(blocks), form.b


def _standard_form(data: dict[str, Any], sign: float) -> StandardForm:
    n = len(data["c"] if "c" in data else data["q"])
    dims = data["dims"]
    quadratic = data.get("P") is not None
    P = sp.csc_array(data["P"]) if quadratic else sp.csc_array((n, n))
    if quadratic and (sp.triu(P, 1).nnz == 0) != (sp.tril(P, -1).nnz == 0):  # one triangle stored: fill the other
        P = sp.csc_array(P + P.T - sp.diags_array(P.diagonal()))
    c, offset = _linear_term(data)
    if "F" in data:  # quadratic-program interface: Ax = b, Fx <= G
        A, b = sp.vstack([data["A"], data["F"]]), np.concatenate([data["b"], data["G"]])
        cones = Cones(data["A"].shape[0], data["F"].shape[0])
    elif "G" in data:  # ECOS: Ax = b, Gx + s = h
        parts = [(data["A"], data["b"]), (data["G"], data["h"])]
        parts = [(M, v) for M, v in parts if M is not None]
        A = sp.vstack([M for M, _ in parts]) if parts else sp.csc_array((0, n))
        b = np.concatenate([v for _, v in parts]) if parts else np.zeros(0)
        cones = Cones(dims.zero, dims.nonneg, tuple(dims.soc), dims.exp)
        if dims.exp:
            order = _ecos_order(len(b), dims.exp)
            A, b = sp.csr_array(A)[order], b[order]
    else:
        A, b = data["A"], data["b"]
        cones = Cones(dims.zero, dims.nonneg, tuple(dims.soc), dims.exp)
    return StandardForm(P, c, sp.csc_array(A), np.asarray(b, float), offset, cones, sign)


def _ecos_order(rows: int, exponentials: int) -> Any:
    """Return the rows with ECOS's exponential cones, stored as (x, z, y), put into the order (x, y, z)."""
    order = np.arange(rows)
    cones = order[rows - 3 * exponentials :].reshape(-1, 3)
    return np.concatenate([order[: rows - 3 * exponentials], cones[:, [0, 2, 1]].ravel()])


def _linear_term(data: dict[str, Any]) -> tuple[Array, float]:
    """Return the linear term and the constant of the objective at the parameters' present values."""
    quadratic = data.get("P") is not None
    applied = data["param_prob"].apply_parameters(quad_obj=quadratic)
    q, offset = applied[1:3] if quadratic else applied[:2]
    return np.asarray(q, dtype=float), float(offset)


def _raw_point(raw: Any, solver: str, form: StandardForm) -> tuple[Array, Array]:
    none = np.zeros(0), np.zeros(0)
    if solver == "CLARABEL":
        x, y = np.asarray(raw.x, float), np.asarray(raw.z, float)
    elif solver == "SCS":
        x, y = np.asarray(raw["x"], float), np.asarray(raw["y"], float)
    elif solver == "ECOS":
        if raw["x"] is None:
            return none
        parts = [raw["y"], raw["z"]]
        x, y = np.asarray(raw["x"], float), np.concatenate([p for p in parts if p is not None])
        if len(y) == len(form.b):
            y = y[_ecos_order(len(y), form.cones.exp)]
    elif solver == "OSQP":
        if raw.x is None:
            return none
        x, y = np.asarray(raw.x, float), np.asarray(raw.y, float)
    elif solver == "HIGHS":
        point = raw["solution"]
        # HiGHS's row dual is the sensitivity of the optimum to the row's bound: minus the multiplier of Ax <= b
        x, y = np.asarray(point.col_value, float), -np.asarray(point.row_dual, float)
    else:
        return none
    if x.shape != form.q.shape or y.shape != form.b.shape or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return none
    return x, y


@dataclass(frozen=True)
class Infimum:
    """The least value of a convex program, and where it is attained.

    ``value`` is minus infinity where the program is unbounded (``along`` names the variable where one is to blame), NaN
    where no solver could tell.  ``scale`` is the sum
    of the magnitudes it was added up from.  ``exact`` says that it came from linear algebra, to rounding; otherwise
    from an interior-point solver, to its tolerance.
    """

    value: float
    exact: bool
    scale: float = 0.0
    attained: bool = False
    along: str = ""


class ParametricMinimum:
    """A minimisation whose linear term depends on parameters, compiled once and minimised for many of their values.

    The standard form falls apart into independent parts (a slack and its sample, say).  Those with equations only
    are one linear system, factored once; each of the others is a problem of a few variables for Clarabel, where
    "unbounded" is a clear-cut answer.
    """

    def __init__(self, problem: cp.Problem) -> None:
        self.problem = problem
        for parameter in problem.parameters():
            if parameter.value is None:
                parameter.value = np.zeros(parameter.shape)
        self.compiled = Compiled(problem, "CLARABEL")
        form = self.compiled.form
        program = self.compiled.data["param_prob"]
        self.columns = dict(program.param_id_to_col)
        mapped = bool(problem.parameters()) and all(p.id in self.columns for p in problem.parameters())
        self.affine = sp.csr_array(program.q) if mapped and program.q.shape[0] == len(form.q) + 1 else None
        occupied = np.asarray(abs(form.P).sum(axis=0)).ravel() + np.asarray(abs(form.A).sum(axis=0)).ravel()
        self.loose = np.flatnonzero(occupied == 0)
        parts = _parts(form)
        smooth = [p for p in parts if not _has_cone(p.cones)]
        self.conic = [p for p in parts if _has_cone(p.cones)]
        self.linear = not self.conic
        self.settings = clarabel.DefaultSettings()
        self.settings.verbose = False
        self.settings.tol_gap_abs = self.settings.tol_gap_rel = self.settings.tol_feas = 1e-11
        columns = np.concatenate([p.columns for p in smooth]) if smooth else np.zeros(0, int)
        rows = np.concatenate([p.rows for p in smooth]) if smooth else np.zeros(0, int)
        self.smooth = _LinearSystem(form, columns.astype(int), rows.astype(int))

    def minimise(self, magnitude: float) -> Infimum:
        """Minimise at the parameters' present values and leave the minimiser in the problem's variables.

        ``magnitude`` is the size of the numbers whose sums are the linear term: below 1e-12 of it, a coefficient
        is rounding.
        """
        form = self.compiled.form
        q, offset = self._term()
        noise = 1e-12 * max(magnitude, float(np.abs(q).max(initial=0.0)))
        exact = self.linear
        pulled = self.loose[np.abs(q[self.loose]) > noise]
        if len(pulled):
            return Infimum(-np.inf, exact, along=self._name(int(pulled[0])))
        x = np.zeros(len(q))
        if not self.smooth.minimise(q, x):
            return Infimum(-np.inf, exact)
        for part in self.conic:
            found = part.minimise(np.where(np.abs(q[part.columns]) <= noise, 0.0, q[part.columns]), self.settings)
            if found is None:
                return Infimum(np.nan, exact)
            if not np.isfinite(found).all():
                return Infimum(-np.inf, exact, along=self._name(int(part.columns[0])))
            x[part.columns] = found
        self._give_back(x)
        curved, sloped = x * (form.P @ x) / 2, q * x
        scale = float(np.abs(curved).sum() + np.abs(sloped).sum() + abs(offset))
        return Infimum(float(curved.sum() + sloped.sum() + offset), exact, scale, attained=True)

    def _term(self) -> tuple[Array, float]:
        """Return the linear term and the constant at the parameters' present values.

        They are affine in the parameters, by a matrix CVXPY keeps; asking CVXPY would apply the parameters to every
        other part of the standard form too.
        """
        if self.affine is None:
            return _linear_term(self.compiled.data)
        vector = np.zeros(self.affine.shape[1])
        vector[-1] = 1.0
        for parameter in self.problem.parameters():
            start = self.columns[parameter.id]
            vector[start : start + parameter.size] = np.ravel(parameter.value, order="F")
        found = np.asarray(self.affine @ vector)
        return found[:-1], float(found[-1])

    def slope(self, variable: cp.Variable) -> Array | None:
        """Return the linear term of a variable, at the parameters' present values; None where it has other terms."""
        start = self.compiled.data["param_prob"].var_id_to_col.get(variable.id)
        if start is None:
            return None
        columns = np.arange(start, start + variable.size)
        return self._term()[0][columns] if np.isin(columns, self.loose).all() else None

    def _name(self, column: int) -> str:
        """Return the name of the variable a column belongs to; none for CVXPY's own."""
        starts = self.compiled.data["param_prob"].var_id_to_col
        for variable in self.problem.variables():
            if starts[variable.id] <= column < starts[variable.id] + variable.size:
                return str(variable.name())
        return ""

    def _give_back(self, x: Array) -> None:
        columns = self.compiled.data["param_prob"].var_id_to_col
        for variable in self.problem.variables():
            start = columns[variable.id]
            variable.value = x[start : start + variable.size].reshape(variable.shape, order="F")


class _Part:
    """Columns and rows of a standard form that share nothing with the rest."""

    def __init__(self, form: StandardForm, columns: Any, rows: Any, cones: Cones) -> None:
        self.columns, self.rows, self.cones = columns, rows, cones
        self.P = sp.csc_matrix(sp.triu(form.P[columns][:, columns]))
        self.A, self.b = sp.csc_matrix(form.A[rows][:, columns]), form.b[rows]
        self.kinds: list[Any] = []
        if cones.zero:
            self.kinds.append(clarabel.ZeroConeT(cones.zero))
        if cones.nonneg:
            self.kinds.append(clarabel.NonnegativeConeT(cones.nonneg))
        self.kinds += [clarabel.SecondOrderConeT(size) for size in cones.soc]
        self.kinds += [clarabel.ExponentialConeT() for _ in range(cones.exp)]

    def minimise(self, q: Array, settings: Any) -> Array | None:
        """Return the minimiser; infinite entries where there is none; None where Clarabel cannot tell."""
        # the solver's tolerances are absolute below one: a loss of size 1e-8 is to it as good as none
        size = min(max(float(np.abs(q).max(initial=0.0)), float(np.abs(self.P.data).max(initial=0.0))) or 1.0, 1.0)
        solution = clarabel.DefaultSolver(self.P / size, q / size, self.A, self.b, self.kinds, settings).solve()
        status = str(solution.status)
        if status in ("Solved", "AlmostSolved"):
            return np.asarray(solution.x)
        if status in ("DualInfeasible", "AlmostDualInfeasible"):
            return np.full(len(q), np.inf)
        return None


class _LinearSystem:
    """The minimum of a quadratic under equations, over some columns of a standard form."""

    def __init__(self, form: StandardForm, columns: Any, rows: Any) -> None:
        self.columns, self.b = columns, form.b[rows]
        if not len(columns):
            return
        P, A = form.P[columns][:, columns], form.A[rows][:, columns]
        self.matrix = sp.csc_array(sp.block_array([[P, A.T], [A, None]]) if A.shape[0] else P)
        try:
            self.solve = sp.linalg.splu(self.matrix).solve
        except RuntimeError:  # singular: the minimiser is not unique, or there is none
            inverse = np.linalg.pinv(self.matrix.toarray(), rcond=1e-13)
            self.solve = lambda right: inverse @ right

    def minimise(self, q: Array, x: Array) -> bool:
        """Put the minimiser into x; return False where there is none."""
        if not len(self.columns):
            return True
        right = np.concatenate([-q[self.columns], self.b])
        point = self.solve(right)
        point = point + self.solve(right - self.matrix @ point)
        residual = float(np.abs(right - self.matrix @ point).max(initial=0.0))
        size = max(float(np.abs(right).max(initial=0.0)), float((abs(self.matrix) @ np.abs(point)).max(initial=0.0)))
        if not residual <= 1e-8 * size:
            return False
        x[self.columns] = point[: len(self.columns)]
        return True


def _has_cone(cones: Cones) -> bool:
    return bool(cones.nonneg or cones.soc or cones.exp)


def _parts(form: StandardForm) -> list[_Part]:
    """Return the connected components of the columns, linked by P, by rows of A, and by cones of several rows."""
    n, m = len(form.q), len(form.b)
    cones = form.cones
    kinds = [("zero", 1)] * cones.zero + [("nonneg", 1)] * cones.nonneg
    kinds += [("soc", size) for size in cones.soc] + [("exp", 3)] * cones.exp
    block = np.repeat(np.arange(len(kinds)), [size for _, size in kinds]) if kinds else np.zeros(0, int)
    gather = sp.csc_array((np.ones(m), (block, np.arange(m))), shape=(len(kinds), m))
    touched = gather @ abs(form.A)
    links = sp.block_array([[abs(form.P), touched.T], [touched, None]]) if len(kinds) else abs(form.P)
    count, label = sp.csgraph.connected_components(links, directed=False)
    columns_of: list[list[int]] = [[] for _ in range(count)]
    cones_of: list[list[int]] = [[] for _ in range(count)]
    for j in range(n):
        columns_of[label[j]].append(j)
    for k in range(len(kinds)):
        cones_of[label[n + k]].append(k)
    ends = np.concatenate([[0], np.cumsum([size for _, size in kinds])]).astype(int)
    parts = []
    for columns, members in zip(columns_of, cones_of, strict=True):
        if not columns or (len(columns) == 1 and not members and form.P[columns[0], columns[0]] == 0):
            continue
        rows = (
            np.concatenate([np.arange(ends[k], ends[k + 1]) for k in members]).astype(int)
            if members
            else np.zeros(0, int)
        )
        names = [kinds[k][0] for k in members]
        own = Cones(
            names.count("zero"),
            names.count("nonneg"),
            tuple(kinds[k][1] for k in members if kinds[k][0] == "soc"),
            names.count("exp"),
        )
        parts.append(_Part(form, np.array(columns), rows, own))
    return parts
