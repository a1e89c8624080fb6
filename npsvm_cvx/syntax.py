"""Small operations on Python's syntax tree: sums and their terms, and a node's text written anew.

Knows the grammar alone; nothing of formulations.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript, ast.Dict, ast.List, ast.Tuple, ast.Compare)


class Parents:
    """The parent of every node below one."""

    def __init__(self, top: ast.AST) -> None:
        self._above = {id(child): node for node in ast.walk(top) for child in ast.iter_child_nodes(node)}

    def of(self, node: ast.AST) -> ast.AST | None:
        """Return the parent; None of the topmost."""
        return self._above.get(id(node))


def unparse(node: ast.AST) -> str:
    """Return a node's text, on one line."""
    return " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split())


def called(node: ast.AST) -> str:
    """Return the last name of what a call calls.

    >>> called(ast.parse("cp.sum(x)", mode="eval").body)
    'sum'
    """
    func = node.func if isinstance(node, ast.Call) else None
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def positional(call: ast.Call, at: int, name: str) -> ast.expr | None:
    """Return a call's argument, given by position or by name."""
    by_name = [keyword.value for keyword in call.keywords if keyword.arg == name]
    return call.args[at] if at < len(call.args) else by_name[0] if by_name else None


def contains(node: ast.AST, part: ast.AST) -> bool:
    """Whether the part is the node or below it."""
    return any(found is part for found in ast.walk(node))


def replaced(node: ast.expr, old: ast.AST, new: ast.AST) -> ast.expr:
    """Return a copy of a node in which one below it is another."""

    class Replace(ast.NodeTransformer):
        def visit(self, at: ast.AST) -> ast.AST:
            return new if at is old else copy.copy(self.generic_visit(_shallow(at)))

    found = Replace().visit(node)
    assert isinstance(found, ast.expr)
    return found


def _shallow(node: ast.AST) -> ast.AST:
    twin = copy.copy(node)
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            setattr(twin, name, list(value))
    return twin


def is_zero(node: ast.expr) -> bool:
    """Whether a node is the number zero."""
    return isinstance(node, ast.Constant) and not isinstance(node.value, str) and node.value == 0


def negated(node: ast.expr) -> ast.expr | None:
    """Return what a leading minus stands before, or None."""
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else None


def flatten(node: ast.expr, sign: int = 1) -> list[tuple[int, ast.expr]]:
    """Return the terms of a sum with their signs; anything else is one term.

    >>> [(s, unparse(t)) for s, t in flatten(ast.parse("a - (b - 2 * c)", mode="eval").body)]
    [(1, 'a'), (-1, 'b'), (1, '2 * c')]
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        right = sign if isinstance(node.op, ast.Add) else -sign
        return flatten(node.left, sign) + flatten(node.right, right)
    inner = negated(node)
    return flatten(inner, -sign) if inner is not None else [(sign, node)]


def build_sum(terms: Sequence[tuple[int, ast.expr]]) -> ast.expr:
    """Return the sum of terms with signs."""
    (sign, total), *rest = terms
    if sign < 0:
        total = ast.UnaryOp(ast.USub(), total)
    for each, term in rest:
        total = ast.BinOp(total, ast.Add() if each > 0 else ast.Sub(), term)
    return total


def scaled(node: ast.expr) -> ast.expr:
    """Return twice the node."""
    return ast.BinOp(ast.Constant(2), ast.Mult(), node)


def divided(node: ast.expr) -> ast.expr:
    """Return half the node."""
    return ast.BinOp(node, ast.Div(), ast.Constant(2))


def splice(source: str, old: ast.expr, new: ast.expr) -> str:
    """Return the source with the text of one node of its tree replaced; all else stays as it was typed."""
    assert old.end_lineno is not None
    assert old.end_col_offset is not None
    lines = source.encode().splitlines(keepends=True)
    text = unparse(new) if isinstance(new, _ATOMS) else f"({unparse(new)})"
    before = b"".join(lines[: old.lineno - 1]) + lines[old.lineno - 1][: old.col_offset]
    after = lines[old.end_lineno - 1][old.end_col_offset :] + b"".join(lines[old.end_lineno :])
    return (before + text.encode() + after).decode()
