"""``npsvm store``: what a report saved, for people to see, tidy and take elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ..display import emit, plain_table
from .ending import note

if TYPE_CHECKING:
    from ..store import Store

stores = typer.Typer(
    help="See, tidy and export the results that a report saved.",
    invoke_without_command=True,
    rich_markup_mode=None,
    add_completion=False,
)
_Where = Annotated[Path, typer.Argument(metavar="WHERE", help="A report's folder, or its results.sqlite.")]


@stores.callback()
def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


def _store(where: Path) -> Store:
    from ..housekeeping import store_path
    from ..store import Store

    return Store(store_path(where.expanduser()), create=False)


@stores.command()
def ls(where: _Where) -> None:
    """List what a store holds, by kind."""
    from ..housekeeping import overview

    with _store(where) as store:
        groups, damaged = overview(store), store.damaged()
    table = plain_table("results of", "how many", "kB", "last saved", right=("how many", "kB"))
    for group in groups:
        table.add_row(group.what, f"{group.results:,}", f"{group.size / 1000:,.1f}", group.last)
    emit(table if groups else Text("nothing"))
    if damaged:
        note(f"{damaged:,} results are damaged, and count as missing; gc drops them.")


@stores.command()
def gc(
    where: _Where,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many there are.")] = False,
) -> None:
    """Drop results that no report of this version would look for."""
    from ..housekeeping import unused

    with _store(where) as store:
        keys, damaged = unused(store), store.damaged()
        rest = len(store.keys()) - len(keys)
        if not dry_run:
            store.drop(keys)
    also = f" and {damaged:,} damaged ones" if damaged else ""
    emit(Text(f"{'would drop' if dry_run else 'dropped'} {len(keys):,} results{also}, kept {rest:,}"))


@stores.command()
def export(
    where: _Where,
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .csv or .json file to write.")],
) -> None:
    """Write all results as CSV or JSON."""
    from ..housekeeping import export as write

    with _store(where) as store:
        count = write(store, out.expanduser())
    emit(Text(f"wrote {count:,} results to {out}"))
