"""The tables of a report as LaTeX, with booktabs.  Formats; computes nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .analysis import Cell, Table
from .render import text

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "χ": r"$\chi$",
    "²": r"$^2$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "–": "--",
    "“": "``",
    "”": "''",
    "\n": " ",
}


def escape(value: str) -> str:
    r"""Return a text that LaTeX prints as it is; every cell passes here once, after formatting.

    >>> print(escape("50% of a_b & 2^-8"))
    50\% of a\_b \& 2\textasciicircum{}-8
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in value)


def document(title: str, tables: Sequence[Table]) -> str:
    """Return a document of its own with all tables, each a ``longtable`` that may be copied into a paper."""
    parts = [
        r"\documentclass{article}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage[utf8]{inputenc}",
        r"\usepackage[a4paper,landscape,margin=15mm]{geometry}",
        r"\usepackage{booktabs}",
        r"\usepackage{longtable}",
        rf"\title{{{escape(title)}}}",
        r"\date{}",
        r"\begin{document}",
        r"\maketitle",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{3pt}",
        *(longtable(table) for table in tables if table.rows),
        r"\end{document}",
    ]
    return "\n".join(parts) + "\n"


def longtable(table: Table) -> str:
    """Return one table."""
    kinds = ["l" if _is_text(table, i) else "r" for i in range(len(table.columns))]
    # a column of sentences is broken into lines
    wide = [i for i in range(len(table.columns)) if max(len(_shown(table, row[i])) for row in table.rows) > _WIDE]
    for i in wide:
        kinds[i] = f"p{{{round(0.5 / len(wide), 2)}\\textwidth}}"
    head = " & ".join(escape(column) for column in table.columns) + r" \\"
    lines = [
        rf"\begin{{longtable}}{{@{{}}{''.join(kinds)}@{{}}}}",
        rf"\caption{{{escape(table.title)}}}\label{{tab:{_slug(table.title)}}} \\",
        r"\toprule",
        head,
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
    ]
    lines += [" & ".join(escape(_shown(table, cell)) for cell in row) + r" \\" for row in table.rows]
    lines.append(r"\end{longtable}")
    return "\n".join(lines) + "\n"


_WIDE = 45  # letters


def _shown(table: Table, cell: Cell) -> str:
    return text(cell, table.decimals)


def _is_text(table: Table, i: int) -> bool:
    return any(
        isinstance(row[i], str) and not re.match(r"^[-+]?[\d.,]+( ms| s)?$|^--$", str(row[i])) for row in table.rows
    )


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
