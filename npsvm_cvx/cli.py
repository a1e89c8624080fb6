"""The command line, ``npsvm``: its commands, and what is asked of it before any of them.

Computes nothing itself.  What needs CVXPY or the solvers is imported inside the command that needs it.

Exit codes: 0 done and all passed, 1 a check failed, 2 the command was wrong or could not be carried out,
130 interrupted, 141 the reader of the output went away.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Annotated, Any

import typer

from .commands import new, recheck, report, show, store, verify
from .commands.ending import Group, complain

app = typer.Typer(
    name="npsvm",
    cls=Group,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command in ``sys.argv``; the entry point of ``npsvm``."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]

    def say(message: Warning | str, *_: Any, **__: Any) -> None:
        complain(f"warning: {message}")

    warnings.showwarning = say
    app(prog_name="npsvm")


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    tracebacks: Annotated[
        bool, typer.Option("--traceback", help="Show the traceback of an error; may stand anywhere.")
    ] = False,
) -> None:
    """Write a nonparallel-hyperplane SVM once; know if its dual is right and if the fast solver agrees."""
    if version:
        from . import __version__

        typer.echo(f"npsvm {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


app.command("list")(show.list_)
app.command()(show.show)
app.command()(verify.verify)
app.command()(report.report)
app.add_typer(store.stores, name="store")
app.command()(recheck.recheck)
app.command()(new.new)


if __name__ == "__main__":
    main()
