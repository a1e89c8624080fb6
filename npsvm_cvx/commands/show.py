"""``npsvm list`` and ``npsvm show``: what formulations and data there are, and what a formulation says of itself."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from ..display import emit, plain_table, verbatim
from ..errors import NPSVMError

if TYPE_CHECKING:
    from ..forms import BoxLP, BoxQP, Coefficients
    from ..modeling import Formulation


def list_(data: Annotated[bool, typer.Option("--data", help="List the data sets instead.")] = False) -> None:
    """List the formulations, or the data sets."""
    if data:
        _list_data()
        return
    from ..catalog import available, load

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name in available():
        formulation = load(name)()
        title = _statement(formulation).partition("\n")[0].strip()
        values = ", ".join(f"{k}={v:g}" for k, v in hyperparameters(formulation).items())
        grid.add_row(name, Text(title))
        grid.add_row("", Text(f"{formulation.scheme}; {values}; SOR: {_sor(formulation)}", "dim"))
    emit(grid)


def _list_data() -> None:
    from ..datasets import DATASETS, VARIANTS, load_dataset

    table = plain_table(
        "name", "rows", "columns", "classes", "missing", right=("rows", "columns", "classes", "missing")
    )
    for name in (*DATASETS, *VARIANTS):
        if name == VARIANTS[0]:
            table.add_section()
        bunch = load_dataset(name)
        missing = int(bunch.data.isna().to_numpy().sum())
        table.add_row(Text(name, "bold"), *map(str, (*bunch.data.shape, len(bunch.target_names), missing or "")))
    emit(table, Text(f"{len(DATASETS)} sets, and below the line {len(VARIANTS)} other forms of some of them."))


def _statement(formulation: Formulation) -> str:
    """The docstring of the file a formulation was loaded from."""
    return (sys.modules[type(formulation).__module__].__doc__ or "(the file has no docstring)").strip("\n")


def hyperparameters(formulation: Formulation) -> dict[str, float]:
    """Return a formulation's hyperparameters and their values."""
    return dict(formulation.get_params(deep=False))


def _sor(formulation: Formulation) -> str:
    from ..compile import compile

    try:
        return compile(formulation).shape.partition(":")[0]
    except NPSVMError as reason:
        return f"not used: {reason}"


def show(
    formulation: Annotated[str, typer.Argument(metavar="NAME|FILE.py", help="A formulation's name or file.")],
) -> None:
    """Show a formulation: its statement and its numbers.

    The statement is the file's own; then hyperparameters, scheme, and what the fast solver reads off the dual.
    """
    found = read(formulation)
    verbatim(_statement(found))
    verbatim("")
    table = plain_table("hyperparameter", "default", "domain")
    domain = {"C1": "(0, inf)", "C2": "(0, inf)", **type(found).domain}
    for name, value in hyperparameters(found).items():
        table.add_row(name, f"{value:g}", domain.get(name, "any real number"))
    near, far = (
        ("the other classes", "class k") if found.scheme == "farthest" else ("class k", "minus the other classes")
    )
    where = {"farthest": "farthest", "nearest": "nearest"}[found.scheme]
    emit(
        table,
        Text(""),
        _paragraph("scheme", f"{found.scheme}: S holds {near}, R {far}; a sample goes to the {where} plane"),
        *_derived(found),
        _paragraph("SOR", _read_off(found)),
        _paragraph("equals", "\n".join(claim.claim for claim in found.reductions()) or "nothing declared"),
        _paragraph("unchanged by", ", ".join(found.invariances) or "nothing declared"),
    )


def _derived(formulation: Formulation) -> list[Table]:
    """The conjugate that follows from a loss's values, where the file declares none."""
    from ..fenchel import as_written
    from ..framework import Framework

    if not isinstance(formulation, Framework) or formulation.loss.conjugate is not None:
        return []
    found = as_written(formulation.loss)
    return [] if found is None else [_paragraph("conjugate", f"derived: L*(v) = {found[0]}\n{found[1]}")]


def _paragraph(label: str, text: str) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=13, no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    grid.add_row(label, Text(text))
    return grid


def _read_off(formulation: Formulation) -> str:
    """What compile read off the declared dual, in words."""
    from ..compile import compile
    from ..forms import BoxQP, Steps

    try:
        compiled = compile(formulation)
    except NPSVMError as reason:
        return f"not used: {reason} The estimator then uses a general solver."
    at = ", ".join(f"{k} = {v:g}" for k, v in hyperparameters(formulation).items())
    if isinstance(compiled, Steps):
        return compiled.shape
    words = _box_qp(compiled) if isinstance(compiled, BoxQP) else _box_lp(compiled)
    return "\n".join([compiled.shape, *words, f"read off the declared dual at {at}"])


def _box_qp(compiled: BoxQP) -> list[str]:
    on_w, on_b = compiled.ridge
    near = "S'S" if compiled.near == 1 else f"{compiled.near:g} S'S"
    ridge = ("I" if on_w == 1 else f"{on_w:g} I") if on_w == on_b else f"{on_w:g} on w and {on_b:g} on b"
    return [
        f"minimises 1/2 a' R M^-1 R' a + sum_i h(a_i), M = {near} + {ridge}",
        f"h(a) = {_polynomial(compiled.samples)}",
        f"each multiplier {_interval(compiled.samples)}",
        "the plane is M^-1 R' a",
    ]


def _box_lp(compiled: BoxLP) -> list[str]:
    terms = []
    for block in compiled.blocks:
        factor = {1.0: "+ ", -1.0: "- "}.get(block.scale, f"{block.scale:+g} ")
        terms.append(factor + {"R": f"R'{block.name}", "S": f"S'{block.name}"}.get(block.rows, block.name))
    equation = " ".join(terms).removeprefix("+ ")
    lines = [f"multipliers tied by one equation, {equation} = 0, whose own multiplier is the plane"]
    rows = {"R": "a row of R", "S": "a row of S", "I": "an entry of the plane"}
    for block in compiled.blocks:
        cost = _polynomial(block.samples)
        weight = f"costs {cost}" if cost != "0" else "costs nothing"
        lines.append(f"{block.name}, one {rows[block.rows]}: each {_interval(block.samples)} and {weight}")
    return [line.replace("costs -a", "gains a") for line in lines]


def _polynomial(c: Coefficients) -> str:
    text = ""
    for factor, power in ((c.linear, " a"), (c.curvature / 2, " a^2"), (c.constant, "")):
        if factor:
            size = f"{abs(factor):g}{power}"
            text += (" - " if factor < 0 else " + ") + (size.removeprefix("1 ") if power else size)
    return (
        text.removeprefix(" + ").replace(" - ", "-", 1) if text.startswith(" - ") else text.removeprefix(" + ") or "0"
    )


def _interval(c: Coefficients) -> str:
    low, high = math.isfinite(c.lower), math.isfinite(c.upper)
    if low and high:
        return f"lies between {c.lower:g} and {c.upper:g}"
    return f"is at least {c.lower:g}" if low else f"is at most {c.upper:g}" if high else "is free"


def read(source: str) -> Formulation:
    """Return the formulation of a name or a file, or the error that says which of the two was meant."""
    from ..catalog import available, resolve

    if source not in available():
        path = Path(source).expanduser()
        if path.suffix != ".py":
            if Path(f"{source}.py").is_file():
                raise NPSVMError(f"formulation={source!r} is not known; for the file write {source}.py.")
            if path.exists() or "/" in source:
                raise NPSVMError(f"formulation={source!r} is neither a formulation's name nor a .py file.")
    return resolve(source)
