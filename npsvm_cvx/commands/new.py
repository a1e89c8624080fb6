"""``npsvm new``: a file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..display import verbatim


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new file's name, without the ending.")],
    formulation: Annotated[
        bool,
        typer.Option("--formulation/--loss", help="Primal, dual and recovery; or a loss and its conjugate."),
    ] = False,
    folder: Annotated[Path, typer.Option("--dir", metavar="D", help="Where to write it.")] = Path(),
) -> None:
    """Write a loss or a formulation to start from.

    NAME.py verifies as it stands, and its comments say what to change.
    """
    from ..scaffold import create

    path = create(name, "formulation" if formulation else "loss", folder)
    verbatim(f"wrote {path}\nverify it: npsvm verify {path}")
