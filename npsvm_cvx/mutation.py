"""Mistakes made on purpose: from the source of a formulation or loss file, copies that each differ in one place.

Works on the syntax tree and edits the text, so that a mutant is the author's file with one thing wrong.  Imports no
file, knows no formulation by name, and judges nothing.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from .errors import FormulationError
from .syntax import (
    Parents,
    build_sum,
    called,
    contains,
    divided,
    flatten,
    is_zero,
    negated,
    positional,
    replaced,
    scaled,
    splice,
    unparse,
)

METHODS = ("primal", "dual", "value", "conjugate", "reductions")
"""What is mutated: everything a file computes.  Its defaults, intervals and scheme are choices, right or wrong for
nobody but their author."""

ANOTHER = {
    "sum_squares": ("norm1",),
    "norm1": ("sum_squares",),
    "sum": ("sum_squares",),
    "abs": ("pos",),
    "pos": ("abs",),
    "square": ("abs",),
    "maximum": ("minimum",),
    "minimum": ("maximum",),
    "Minimize": ("Maximize",),
    "Maximize": ("Minimize",),
}
"""An atom, and what may be written for it by mistake."""


@dataclass(frozen=True)
class Mutant:
    """A file with one mistake in it.

    Attributes
    ----------
    operator : str
        What kind of mistake: ``"sign"``, ``"bound dropped"``, ...
    place : str
        Where: ``"dual objective"``, ``"primal [margin]"``, ``"recovery"``, ``"conjugate domain"``, ...
    touched : tuple of str
        The variables in the term that was changed, by their names.
    line : int
        Of the original.
    before, after : str
        The term, constraint or entry.
    source : str
        The whole mutated file.
    """

    operator: str
    place: str
    touched: tuple[str, ...]
    line: int
    before: str
    after: str
    source: str = field(repr=False)

    def __str__(self) -> str:
        return f"line {self.line}, {self.place}: {self.before}  ->  {self.after}"


@dataclass(frozen=True)
class _Edit:
    """One node to be written differently; ``terms`` are the parts of it that change, where that is not all of it."""

    operator: str
    old: ast.expr
    new: ast.expr
    terms: tuple[ast.AST, ...] = ()


@dataclass(frozen=True)
class _Root:
    """An expression with a place of its own."""

    place: str
    node: ast.expr
    kind: str  # "sum", "constraint", "constraints", "multipliers", "name" (a declared variable) or "map"


def mutants(source: str) -> list[Mutant]:
    """Return every mutant of a formulation or loss file, all distinct and none the original.

    Raises
    ------
    FormulationError
        The source does not parse, or holds no method that can be mutated.

    Examples
    --------
    >>> text = '''
    ... class Hinge(Loss):
    ...     def value(self, t):
    ...         return cp.pos(1 - t)
    ...     def conjugate(self, v):
    ...         return v, [v >= -1, v <= 0]
    ... '''
    >>> found = mutants(text)
    >>> print(found[0])
    line 4, loss value: cp.pos(1 - t)  ->  -cp.pos(1 - t)
    >>> sorted({m.place for m in found})
    ['conjugate domain', 'conjugate value', 'loss value']
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise FormulationError(f"the source does not parse: line {error.lineno}: {error.msg}.") from error
    found: dict[str, Mutant] = {}
    original = ast.dump(tree)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    methods = [
        (cls, method)
        for cls in classes
        for method in cls.body
        if isinstance(method, ast.FunctionDef) and method.name in METHODS
    ]
    if not methods:
        raise FormulationError(f"the source declares none of {', '.join(METHODS)} in a class.")
    for cls, function in methods:
        for mutant in _Method(source, function, _hyperparameters(cls)).mutants():
            key = ast.dump(ast.parse(mutant.source))
            if key != original:
                found.setdefault(key, mutant)
    return list(found.values())


def _hyperparameters(cls: ast.ClassDef) -> list[str]:
    for method in cls.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            return [argument.arg for argument in method.args.args[1:]]
    return []


class _Method:
    """One method of a file: the expressions in it that have a place, and the edits of each."""

    def __init__(self, source: str, function: ast.FunctionDef, hyperparameters: list[str]) -> None:
        self.source = source
        self.function = function
        self.hyperparameters = hyperparameters
        self.assigned: dict[str, list[ast.expr]] = {}
        self.declared: dict[str, ast.Call] = {}
        self.parents = Parents(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                self._assign(node.targets[0], node.value)
            elif isinstance(node, ast.AugAssign):
                self._assign(node.target, node.value)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, other in zip(target.elts, value.elts, strict=True):
                self._assign(one, other)
        elif isinstance(target, ast.Name):
            if isinstance(value, ast.Call) and called(value).endswith(("_variable", "Variable")):
                self.declared[target.id] = value
            else:
                self.assigned.setdefault(target.id, []).append(value)

    # --- places -----------------------------------------------------------------------------------

    def roots(self) -> list[_Root]:
        """Return the expressions that have a place, those behind a local name after the one that uses it."""
        found: list[_Root] = []
        queue = [
            *self._returned(),
            *(_Root(f"{self.function.name} variables", c, "name") for c in self._declarations()),
        ]
        known: set[int] = set()
        while queue:
            root = queue.pop(0)
            if id(root.node) in known:
                continue
            known.add(id(root.node))
            found.append(root)
            if root.kind in ("sum", "constraint"):
                for node in ast.walk(root.node):
                    if isinstance(node, ast.Name):
                        queue += [_Root(root.place, value, "sum") for value in self.assigned.get(node.id, [])]
        return found

    def _declarations(self) -> list[ast.Call]:
        return list(self.declared.values())

    def _returned(self) -> Iterator[_Root]:
        name = self.function.name
        if name == "reductions":
            yield from self._claims()
            return
        for node in ast.walk(self.function):
            if not isinstance(node, ast.Return) or node.value is None:
                continue
            value = node.value
            if name == "value":
                yield _Root("loss value", value, "sum")
            elif name == "conjugate" and isinstance(value, ast.Tuple) and len(value.elts) == 2:
                yield _Root("conjugate value", value.elts[0], "sum")
                yield from self._constraints("conjugate domain", value.elts[1])
            elif isinstance(value, ast.Call) and called(value) == "Program":
                yield from self._program(name, value)

    def _program(self, form: str, call: ast.Call) -> Iterator[_Root]:
        objective, constraints = positional(call, 0, "objective"), positional(call, 1, "constraints")
        plane, multipliers = positional(call, 2, "plane"), positional(call, 3, "multipliers")
        if isinstance(objective, ast.Call):
            yield _Root(f"{form} objective", objective, "map")
            yield from (_Root(f"{form} objective", argument, "sum") for argument in objective.args)
        if constraints is not None:
            yield from self._constraints(form, constraints)
        if plane is not None and not isinstance(plane, ast.Constant):
            yield _Root("recovery" if form == "dual" else "primal plane", plane, "sum")
        if isinstance(multipliers, ast.Dict):
            yield _Root("multipliers", multipliers, "multipliers")
            for key, entry in zip(multipliers.keys, multipliers.values, strict=True):
                yield _Root(f"multipliers [{_text(key)}]", entry, "sum")

    def _constraints(self, place: str, node: ast.expr) -> Iterator[_Root]:
        yield _Root(place, node, "constraints")
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                yield _Root(f"{place} [{_text(key)}]", value, "constraint")
        if isinstance(node, ast.List):
            yield from (_Root(place, value, "constraint") for value in node.elts)

    def _claims(self) -> Iterator[_Root]:
        """What a claim compares with: another's hyperparameters, maps of matrices and planes, closed forms."""
        for node in ast.walk(self.function):
            if isinstance(node, ast.Call) and called(node) == "Reduction":
                yield from (_Root("reduction", a, "claim") for a in node.args[1:] if not isinstance(a, ast.Lambda))
                yield from (_Root("reduction", k.value, "claim") for k in node.keywords)
            elif isinstance(node, ast.Lambda):
                parts = node.body.elts if isinstance(node.body, ast.Tuple) else [node.body]
                yield from (_Root("reduction", part, "map") for part in parts)
            elif isinstance(node, ast.List) and isinstance(self.parents.of(node), ast.Call):
                yield from (_Root("reduction", part, "sum") for part in node.elts)
        for values in self.assigned.values():
            yield from (_Root("reduction", v, "claim") for v in values if not isinstance(v, ast.Constant))

    # --- edits ------------------------------------------------------------------------------------

    def mutants(self) -> Iterator[Mutant]:
        """Yield this method's mutants."""
        for root in self.roots():
            for edit in self._edits(root):
                yield self._made(root, edit)
        for node in ast.walk(self.function):
            if isinstance(node, ast.If) and self.function.name in ("primal", "dual"):
                opposite = ast.UnaryOp(ast.Not(), node.test)
                edit = _Edit("condition negated", node.test, opposite, tuple(node.body))
                yield self._made(_Root(f"{self.function.name} objective", node.test, "map"), edit)

    def _made(self, root: _Root, edit: _Edit) -> Mutant:
        shown = self._shown(root.node, edit.old)
        place = root.place
        if root.kind in ("constraints", "multipliers"):
            place = _entry_place(root.place, edit)
        terms = edit.terms or (shown,)
        return Mutant(
            edit.operator,
            place,
            tuple(sorted({name for term in terms for name in self._names(term)})),
            edit.old.lineno,
            unparse(shown),
            unparse(replaced(shown, edit.old, edit.new)),
            splice(self.source, edit.old, edit.new),
        )

    def _shown(self, root: ast.expr, old: ast.expr) -> ast.expr:
        """Return the term of the root's sum that holds the node, or the root."""
        if old is root or isinstance(root, ast.Dict | ast.List | ast.Compare):
            return root
        for _, term in flatten(root):
            if term is not root and contains(term, old):
                return term
        return root

    def _names(self, node: ast.AST, depth: int = 0) -> set[str]:
        """Return the variables in a node, local names followed, each as it is written and as it is called."""
        found: set[str] = set()
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                if part.id in self.declared:
                    found |= {part.id, *_given_names(self.declared[part.id])}
                elif depth < 8:
                    for value in self.assigned.get(part.id, []):
                        found |= self._names(value, depth + 1)
        return found

    def _edits(self, root: _Root) -> Iterator[_Edit]:
        if root.kind == "constraints":
            yield from self._entries(root.node, "bound" if root.place != "primal" else "constraint")
            return
        if root.kind == "multipliers":
            yield from _multiplier_entries(root.node)
            return
        if root.kind == "constraint":
            yield from self._constraint(root)
        elif root.kind == "sum" or (root.kind == "map" and self.function.name == "reductions"):
            yield from _terms(root.node, whole=True)
        if root.kind == "map" and isinstance(root.node, ast.Call) and self.function.name != "reductions":
            yield from _another_atom(root.node)
            return
        yield from self._inner(root)

    def _inner(self, root: _Root) -> Iterator[_Edit]:
        inside_sum = {id(node) for node in _sum_nodes(root.node)}
        if isinstance(root.node, ast.Compare):
            inside_sum |= {id(n) for side in _sides(root.node) for n in _sum_nodes(side)}
        for node in ast.walk(root.node):
            if isinstance(node, ast.BinOp | ast.UnaryOp) and id(node) not in inside_sum:
                inside_sum |= {id(part) for part in _sum_nodes(node)}
                yield from _terms(node, whole=False)
            if isinstance(node, ast.Call):
                yield from self._call(node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield from self._name(node, root)
            elif isinstance(node, ast.Attribute):
                yield from self._attribute(node)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _symbolic(node.right):
                yield _Edit("divided for multiplied", node, ast.BinOp(node.left, ast.Mult(), node.right))

    def _call(self, node: ast.Call) -> Iterator[_Edit]:
        yield from _another_atom(node)
        if called(node) in ("maximum", "minimum"):
            for argument in node.args:
                yield from _terms(argument, whole=True)
        near, margin = self._matrices(node)
        if len(node.args) >= 2 and [unparse(a) for a in node.args[:2]] == [near, margin]:
            swapped = copy.deepcopy(node)
            swapped.args[:2] = [node.args[1], node.args[0]]
            yield _Edit("matrices exchanged", node, swapped)
        for argument in node.args:
            if self._hyperparameter(argument) is not None:
                yield _Edit("factor 2", argument, scaled(argument))
                yield _Edit("factor 1/2", argument, divided(argument))

    def _name(self, node: ast.Name, root: _Root) -> Iterator[_Edit]:
        near, margin = self._matrices(node)
        other = {near: margin, margin: near}.get(node.id)
        if other:
            yield _Edit("wrong matrix", node, ast.Name(other, ast.Load()))
        if node.id in self.declared and root.kind != "name":
            for name in self.declared:
                if name != node.id:
                    yield _Edit("another variable", node, ast.Name(name, ast.Load()))

    def _matrices(self, node: ast.AST) -> tuple[str, str]:
        """Return the names of near and margin rows where the node stands: the nearest function's two arguments."""
        at: ast.AST | None = node
        while at is not None:
            if isinstance(at, ast.Lambda | ast.FunctionDef):
                names = [a.arg for a in at.args.args if a.arg != "self"]
                if len(names) == 2:
                    return names[0], names[1]
            at = None if at is self.function else self.parents.of(at)
        return "", ""

    def _hyperparameter(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return node.attr if node.attr in self.hyperparameters else None
        return None

    def _attribute(self, node: ast.Attribute) -> Iterator[_Edit]:
        name = self._hyperparameter(node)
        if name is not None:
            for other in self.hyperparameters:
                if other != name:
                    yield _Edit("hyperparameter exchanged", node, ast.Attribute(node.value, other, ast.Load()))
            yield _Edit("hyperparameter squared", node, ast.BinOp(node, ast.Pow(), ast.Constant(2)))
            yield _Edit("hyperparameter left out", node, ast.Constant(1.0))
        elif node.attr == "T":
            yield _Edit("transpose dropped", node, node.value)

    # --- constraints ------------------------------------------------------------------------------

    def _constraint(self, root: _Root) -> Iterator[_Edit]:
        node = root.node
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            return
        left, right = _sides(node)
        for operator, op in _other_relations(node.ops[0]):
            yield _Edit(operator, node, ast.Compare(left, [op], [right]))
        if is_zero(right):
            for shift in (0.1, -0.1):
                moved = ast.Compare(left, node.ops, [ast.Constant(shift)])
                yield _Edit("bound moved", node, moved, (right,))
        primal = root.place.startswith("primal")
        if primal or isinstance(node.ops[0], ast.Eq):
            # each side's terms; where the other side is zero, a change of all signs is another relation, found above
            yield from _terms(left, whole=True, signs=not is_zero(right))
            if not is_zero(right):
                yield from _terms(right, whole=True)
        elif not is_zero(right):
            yield from _terms(right, whole=True)  # a factor on the left is one on the right

    def _entries(self, node: ast.expr, what: str) -> Iterator[_Edit]:
        """Leave out each entry of a dict or list of constraints; add a bound to the variables of a dual."""
        if isinstance(node, ast.Dict):
            for at, value in enumerate(node.values):
                yield _Edit(f"{what} dropped", node, _without(node, at), (value,))
        elif isinstance(node, ast.List):
            for at, value in enumerate(node.elts):
                yield _Edit(
                    f"{what} dropped", node, ast.List([*node.elts[:at], *node.elts[at + 1 :]], ast.Load()), (value,)
                )
        if what == "bound":
            yield from self._extra(node)

    def _extra(self, node: ast.expr) -> Iterator[_Edit]:
        have = {unparse(part) for part in ast.walk(node) if isinstance(part, ast.Compare)}
        names = list(self.declared) if isinstance(node, ast.Dict) else [a.arg for a in self.function.args.args[1:2]]
        for name in names:
            bounds = [f"{name} >= 0", *(f"{name} <= self.{h}" for h in self.hyperparameters)]
            for text in bounds if isinstance(node, ast.Dict) else [f"{name} >= 0", f"{name} <= 0"]:
                if text in have:
                    continue
                bound = ast.parse(text, mode="eval").body
                if isinstance(node, ast.Dict):
                    new: ast.expr = ast.Dict([*node.keys, ast.Constant("extra")], [*node.values, bound])
                else:
                    assert isinstance(node, ast.List)
                    new = ast.List([*node.elts, bound], ast.Load())
                yield _Edit("bound added", node, new, (bound,))


def _entry_place(place: str, edit: _Edit) -> str:
    """Return the place with the name of the entry that was left out, added or exchanged."""
    if isinstance(edit.old, ast.Dict) and isinstance(edit.new, ast.Dict):
        old, new = (
            [(_text(k), unparse(v)) for k, v in zip(d.keys, d.values, strict=True)] for d in (edit.old, edit.new)
        )
        changed = [name for name, _ in set(old) ^ set(new)]
        return " ".join([place, *(f"[{name}]" for name in dict.fromkeys(sorted(changed)))])
    return place


def _multiplier_entries(node: ast.expr) -> Iterator[_Edit]:
    assert isinstance(node, ast.Dict)
    if len(node.keys) > 1:
        for at, value in enumerate(node.values):
            yield _Edit("multiplier left out", node, _without(node, at), (value,))
    for i, j in combinations(range(len(node.keys)), 2):
        values = list(node.values)
        values[i], values[j] = values[j], values[i]
        yield _Edit("multipliers exchanged", node, ast.Dict(node.keys, values))


def _without(node: ast.Dict, at: int) -> ast.Dict:
    return ast.Dict([*node.keys[:at], *node.keys[at + 1 :]], [*node.values[:at], *node.values[at + 1 :]])


def _terms(node: ast.expr, *, whole: bool, signs: bool = True) -> Iterator[_Edit]:
    """Change each term of a sum: sign, factor, absence.  A single term is a sum only where it stands for ``whole``."""
    terms = flatten(node)
    if (len(terms) == 1 and not whole) or isinstance(node, ast.Lambda | ast.Tuple | ast.Dict | ast.List):
        return
    if len(terms) == 1 and (is_zero(terms[0][1]) or (isinstance(node, ast.Call) and called(node) == "zeros")):
        return
    for at, (sign, term) in enumerate(terms):
        if signs or len(terms) > 1:
            yield _Edit("sign", node, build_sum(_with(terms, at, (-sign, term))), (term,))
        yield _Edit("factor 2", node, build_sum(_with(terms, at, (sign, scaled(term)))), (term,))
        yield _Edit("factor 1/2", node, build_sum(_with(terms, at, (sign, divided(term)))), (term,))
        if len(terms) > 1:
            yield _Edit("term dropped", node, build_sum([*terms[:at], *terms[at + 1 :]]), (term,))


def _with(terms: Sequence[tuple[int, ast.expr]], at: int, new: tuple[int, ast.expr]) -> list[tuple[int, ast.expr]]:
    return [*terms[:at], new, *terms[at + 1 :]]


def _sum_nodes(node: ast.expr) -> Iterator[ast.AST]:
    """Yield the nodes that only join the terms of a sum."""
    yield node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _sum_nodes(node.left)
        yield from _sum_nodes(node.right)
    elif negated(node) is not None:
        yield from _sum_nodes(negated(node))  # type: ignore[arg-type]


def _another_atom(node: ast.Call) -> Iterator[_Edit]:
    for other in ANOTHER.get(called(node), ()):
        if isinstance(node.func, ast.Attribute):
            func = ast.Attribute(node.func.value, other, ast.Load())
            yield _Edit("another atom", node, ast.Call(func, node.args, node.keywords))


def _sides(node: ast.Compare) -> tuple[ast.expr, ast.expr]:
    return node.left, node.comparators[0]


def _other_relations(op: ast.cmpop) -> Iterable[tuple[str, ast.cmpop]]:
    if isinstance(op, ast.Eq):
        return [("equation to inequality", ast.LtE()), ("equation to inequality", ast.GtE())]
    flipped = ast.LtE() if isinstance(op, ast.GtE) else ast.GtE()
    return [("inequality flipped", flipped), ("inequality to equation", ast.Eq())]


def _symbolic(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Attribute | ast.Name) for part in ast.walk(node))


def _text(key: ast.expr | None) -> str:
    return str(key.value) if isinstance(key, ast.Constant) else unparse(key) if key is not None else ""


def _given_names(call: ast.Call) -> list[str]:
    """Return the names that a declaration gives its variable."""
    values = [*call.args, *(k.value for k in call.keywords if k.arg == "name")]
    return [v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)]
