"""A report as Markdown and as one self-contained HTML file.  Formats; computes nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import jinja2
import pandas as pd

from ..errors import NPSVMError
from .analysis import Cell, Report, Table
from .figures import Picture


def write(report: Report, pictures: Sequence[Picture], out: Path) -> Path:
    """Write ``index.html`` and ``README.md`` into ``out``; return the HTML file's path."""
    page = out / "index.html"
    try:
        (out / "README.md").write_text(markdown(report, pictures), encoding="utf-8")
        page.write_text(html(report, pictures), encoding="utf-8")
    except OSError as error:
        raise NPSVMError(f"{out} cannot be written: {error.strerror or error}.") from error
    return page


def csv(frame: pd.DataFrame, path: Path, digits: str) -> None:
    """Write a tidy table, figures in the given format."""
    try:
        frame.to_csv(path, index=False, float_format=digits, lineterminator="\n")
    except OSError as error:
        raise NPSVMError(f"{path.parent} cannot be written: {error.strerror or error}.") from error


def text(cell: Cell, decimals: int = 1) -> str:
    """Return a cell as text: a figure with so many decimals, a missing one as two dashes.

    >>> text(9.26), text(9.26, 2), text(None), text(float("nan")), text(1234), text("--")
    ('9.3', '9.26', '--', '--', '1,234', '--')
    """
    if cell is None:
        return "--"
    if isinstance(cell, float):
        return "--" if math.isnan(cell) else f"{cell:.{decimals}f}"
    if isinstance(cell, int):
        return f"{cell:,}"
    return cell


def markdown(report: Report, pictures: Sequence[Picture]) -> str:
    """Return the report as Markdown, the answer first."""
    parts = [f"# {report.title}", report.answer]
    parts.append("\n".join(f"- {label}: {value}" for label, value in report.facts))
    parts += [_markdown_picture(picture) for picture in pictures if not picture.before]
    for table in report.tables:
        parts.append(f"## {table.title}")
        parts += [_markdown_picture(picture) for picture in pictures if picture.before == table.title]
        if table.intro:
            parts.append(table.intro)
        parts.append(_markdown_table(table))
    parts.append("## How to read this\n\n" + "\n".join(f"- {note}" for note in report.notes))
    parts.append("## How it was made\n\n" + "\n".join(f"- {label}: {value}" for label, value in report.setup))
    return "\n\n".join(parts) + "\n"


def _markdown_picture(picture: Picture) -> str:
    caption = _markdown_escape(picture.caption)
    return f"![{caption}]({picture.name}.png)\n\n*{caption}*"


def _markdown_table(table: Table) -> str:
    right = [
        all(not isinstance(row[i], str) or _numeric(row[i]) for row in table.rows) for i in range(len(table.columns))
    ]
    lines = [
        "| " + " | ".join(_markdown_escape(c) for c in table.columns) + " |",
        "|" + "|".join("---:" if r else "---" for r in right) + "|",
    ]
    lines += ["| " + " | ".join(_markdown_escape(text(c, table.decimals)) for c in row) + " |" for row in table.rows]
    return "\n".join(lines)


def _numeric(cell: Cell) -> bool:
    return bool(re.match(r"^[-+]?[\d.,]+( ms| s|%)?$|^--$", str(cell)))


def _markdown_escape(value: str) -> str:
    return re.sub(r"([\\|*_<>`])", r"\\\1", value.replace("\n", " "))


def html(report: Report, pictures: Sequence[Picture]) -> str:
    """Return the report as one HTML page with nothing to load."""
    source = files("npsvm_cvx.report").joinpath("templates/report.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["cell"] = text
    environment.tests["digit_column"] = lambda column, table: column in table.digits
    environment.filters["shade"] = _shade
    return environment.from_string(source).render(report=report, pictures=pictures)


def _shade(cell: Cell) -> str:
    """Return how many digits out of 16 a bar shows, as a percentage; nothing for a cell that is no figure."""
    return f"{min(float(cell), 16.0) / 16.0:.0%}" if isinstance(cell, int | float) else "0%"
