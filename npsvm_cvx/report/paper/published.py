"""The paper's own figures, typed in as data.

``published.csv`` has a line for every cell of Tables 3 to 6; an empty accuracy is a cell that was not available to
whoever typed them, and is never filled with anything else.  What is there comes from the data's provenance file
(``npsvm_cvx/data/PROVENANCE.md``): the columns of the ordinary SVM (1-v-1 in Tables 5 and 6) and what it says of single
cells.  ``table2.csv`` is Table 2 as printed.  Fill in an empty cell with the paper at hand, and the report uses it.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import pandas as pd

REFERENCE = (
    "Yang, Shao, Jiang (2015), A learning framework of nonparallel hyperplanes classifier, The Scientific World "
    "Journal 2015, article 497617"
)
KERNELS = {3: "linear", 4: "rbf", 5: "linear", 6: "rbf"}
"""The tables of accuracies, and the kernel of each."""


@cache
def accuracies() -> pd.DataFrame:
    """Return Tables 3 to 6: table, row, column, accuracy and std in percent, seconds; NaN where not available.

    >>> table = accuracies()
    >>> len(table), int(table["accuracy"].notna().sum())
    (144, 39)
    """
    return _read("published.csv")


@cache
def sets() -> pd.DataFrame:
    """Return Table 2 as printed, its misprints included: row, samples, features, classes.

    >>> sets().set_index("row").loc["glass"].tolist()
    [214, 6, 13]
    """
    return _read("table2.csv")


def _read(name: str) -> pd.DataFrame:
    with (resources.files("npsvm_cvx.report.paper") / name).open("rb") as file:
        return pd.read_csv(file)
