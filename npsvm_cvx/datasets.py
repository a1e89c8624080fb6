"""Data to classify: the paper's UCI sets, its two toy sets, and your own files.

Reads tables and prepares them for a fold. It knows nothing of planes, formulations or solvers, and never
uses the network. Labels stay text from the file to the caller: nothing here computes with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils import Bunch, check_random_state

from .errors import NPSVMError
from .readers import as_bunch, is_number, load_file, nearest, to_float

__all__ = [
    "DATASETS",
    "VARIANTS",
    "as_arrays",
    "load_dataset",
    "load_file",
    "make_cross_planes",
    "make_three_lines",
    "preprocessor",
    "stratified_subsample",
]

#: The paper's eighteen sets (Table 2): nine for two classes, then nine for several.
DATASETS: tuple[str, ...] = (
    *("hepatitis", "wpbc", "heart_statlog", "pima_indian", "australian", "votes", "sonar", "bupa", "cmc"),
    *("iris", "wine", "ecoli", "vowel", "glass", "vehicle", "car", "segment", "satimage"),
)

#: Other forms of some of them: two-class CMC, columns the eighteen leave out, UCI's test parts.
VARIANTS: tuple[str, ...] = (
    *("wpbc_with_id", "wpbc_without_time", "cmc2_nouse", "cmc2_longterm", "cmc2_shortterm"),
    *("iris_fisher", "vowel_test462", "vowel_990_context", "glass_with_id", "satimage_test2000"),
)

KINDS = {"n": "numeric", "b": "two-valued", "c": "nominal", "o": "ordered"}


# --- the sets that ship with the package ---------------------------------------------------------------


def load_dataset(name: str) -> Bunch:
    """Load one of the sets that ship with the package.

    Parameters
    ----------
    name : str
        One of ``DATASETS`` or ``VARIANTS``.

    Returns
    -------
    Bunch
        ``data`` (DataFrame, n x d: numeric columns float, text columns as they are, NaN where a value is
        missing), ``target`` (Series of n text labels), ``feature_names``, ``target_names`` (the classes,
        sorted as text), ``kinds`` (column to "n" numeric, "b" two-valued, "c" nominal or "o" ordered),
        ``DESCR`` (source, licence, notes) and ``name``.

    Raises
    ------
    ValueError
        If there is no set of that name; the nearest names are given.

    Examples
    --------
    >>> votes = load_dataset("votes")
    >>> votes.data.shape, votes.target_names
    ((435, 16), ['democrat', 'republican'])
    >>> load_dataset("ionosfere")
    Traceback (most recent call last):
        ...
    npsvm_cvx.errors.NPSVMError: name: there is no data set 'ionosfere'; ...
    """
    if name not in DATASETS and name not in VARIANTS:
        raise NPSVMError(f"name: there is no data set {name!r}; {nearest(name, DATASETS + VARIANTS)}")
    entry = _schema()[f"{name}.csv.gz"]
    kinds: dict[str, str] = entry["kinds"]
    with (resources.files("npsvm_cvx.data") / f"{name}.csv.gz").open("rb") as file:
        frame = pd.read_csv(file, compression="gzip", dtype=str)
    # from text, since what read_csv makes of the last digit depends on the version of pandas
    frame = frame.astype(dict.fromkeys([c for c in kinds if c not in entry["text_columns"]], "float64"))
    return as_bunch(frame, "target", dict(kinds), name, _describe(name, entry))


@cache
def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(_data_text("schema.json"))
    return schema


def _data_text(file: str) -> str:
    return (resources.files("npsvm_cvx.data") / file).read_text(encoding="utf-8")


def _describe(name: str, entry: Mapping[str, Any]) -> str:
    provenance = _data_text("PROVENANCE.md")
    original = entry.get("variant_of", name)
    section = re.split(r"^#+ ", provenance.partition(f"\n### {original}\n")[2], maxsplit=1, flags=re.M)[0]
    lines = [
        f"{name}: {entry['rows']} rows, {entry['features']} features, {len(entry['classes'])} classes, "
        f"{entry['missing']} values missing."
    ]
    if original != name:
        lines.append(f"A variant of {original}, of which the following is said:")
    lines += re.findall(r"^- ((?:source|licence|notes): .*)$", section, flags=re.M)
    return "\n".join(lines)


# --- your own files ------------------------------------------------------------------------------------


def preprocessor(data: Bunch | pd.DataFrame, kinds: Mapping[str, str] | None = None) -> ColumnTransformer:
    """Return the unfitted steps from a table to a dense float array, to be fitted inside each fold.

    Numeric columns get the median for missing values and are standardised; nominal and text columns get the
    most frequent value and become one 0/1 column per category (all 0 for a category not seen in training).

    Parameters
    ----------
    data : Bunch or DataFrame
        The table, of which only the column names and types are looked at.
    kinds : mapping of column to kind, optional
        "n" numeric, "b" two-valued, "c" nominal, "o" ordered. By default what the Bunch says; columns without
        a kind are numeric if their type is, and nominal otherwise.

    Returns
    -------
    ColumnTransformer
        Unfitted. Constant columns are kept, as is a column without any value in training (it becomes
        constant), so that only the categories make the width depend on the fold.

    Raises
    ------
    ValueError
        If `kinds` names a column that is not there, has an unknown kind, or calls a text column numeric.

    Notes
    -----
    Numeric codes of kind "b" and "o" are taken as numbers. Text columns of kind "o" (all of Car) are one-hot
    like nominal ones: the paper does not say how it coded them, names such as "low" and "high" carry no
    distances, and one-hot is the plain reading of what UCI publishes.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> from sklearn.model_selection import cross_val_score
    >>> heart = load_dataset("heart_statlog")
    >>> model = make_pipeline(preprocessor(heart), SVC(kernel="linear", C=2**-6))
    >>> bool(cross_val_score(model, heart.data, heart.target, cv=5).mean() > 0.8)
    True
    """
    if isinstance(data, Bunch):
        kinds = data.get("kinds") if kinds is None else kinds
        data = data["data"]
    frame = pd.DataFrame(data)
    kinds = kinds or {}
    for column, kind in kinds.items():
        if column not in frame.columns:
            names = [str(name) for name in frame.columns]
            raise NPSVMError(f"kinds: the table has no column {column!r}; {nearest(column, names)}")
        if kind not in KINDS:
            known = ", ".join(f"{letter!r} ({word})" for letter, word in KINDS.items())
            raise NPSVMError(f"kinds: column {column!r} has kind {kind!r}; a kind is one of {known}")
        if kind == "n" and not is_number(frame[column]):
            found = f"column {column!r} has kind 'n' and type {frame[column].dtype}"
            raise NPSVMError(f"kinds: {found}; give it kind 'c', or turn it into numbers")
    # scikit-learn reads whole numbers as places, so columns that have no text names go by place
    named = all(isinstance(column, str) for column in frame.columns)
    places: list[Any] = list(frame.columns) if named else list(range(frame.shape[1]))
    number = [is_number(frame[c]) and kinds.get(c) != "c" for c in frame.columns]
    numeric = make_pipeline(
        FunctionTransformer(to_float, feature_names_out="one-to-one"),
        SimpleImputer(strategy="median", keep_empty_features=True),
        StandardScaler(),
    )
    nominal = make_pipeline(
        FunctionTransformer(_to_text, feature_names_out="one-to-one"),
        SimpleImputer(strategy="most_frequent", keep_empty_features=True),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    return ColumnTransformer(
        [
            ("numeric", numeric, [place for place, yes in zip(places, number, strict=True) if yes]),
            ("nominal", nominal, [place for place, yes in zip(places, number, strict=True) if not yes]),
        ],
        sparse_threshold=0.0,
    )


def as_arrays(bunch: Bunch) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return the whole set as arrays, preprocessed in one piece.

    For verifying formulations and solvers, where only the numbers matter. Not for estimating accuracy:
    medians, scales and categories are those of all rows, test rows included. For that put `preprocessor` in
    a Pipeline.

    Parameters
    ----------
    bunch : Bunch
        From `load_dataset` or `load_file`, or any with ``data`` and ``target``.

    Returns
    -------
    X : ndarray of float64, shape (n, p)
    y : ndarray, shape (n,)
        The labels; text stays text.

    Examples
    --------
    >>> X, y = as_arrays(load_dataset("car"))
    >>> X.shape, str(y[0])
    ((1728, 21), 'unacc')
    """
    X = preprocessor(bunch).fit_transform(pd.DataFrame(bunch["data"]))
    y = np.asarray(bunch["target"])
    return np.ascontiguousarray(X), y.astype(str) if pd.api.types.infer_dtype(y) == "string" else y


def _to_text(block: Any) -> NDArray[np.object_]:
    frame = pd.DataFrame(block)
    text = np.full(frame.shape, np.nan, dtype=object)
    for j in range(frame.shape[1]):
        column = frame.iloc[:, [j]]
        # a code is 1.0 in a fold with a missing value and 1 in one without: float first
        values = to_float(column) if is_number(column.iloc[:, 0]) else column.to_numpy(dtype=object)
        present = column.notna().to_numpy()[:, 0]
        text[present, j] = [str(value) for value in values[present, 0]]
    return text


def stratified_subsample(X: Any, y: Any, n: int, random_state: Any = 0) -> tuple[Any, Any]:
    """Return at most `n` rows, classes in proportion, none lost.

    Every class keeps at least min(2, its count) rows; if those alone are more than `n`, they are what is
    returned. Rows stay in their order.

    Parameters
    ----------
    X : array, sparse matrix or DataFrame, shape (m, d)
        The rows.
    y : array or Series, shape (m,)
        Their labels.
    n : int
        The number of rows wanted.
    random_state : int, RandomState or None
        Which rows are drawn.

    Returns
    -------
    X, y
        Of the type that came in, lists as arrays.

    Raises
    ------
    ValueError
        If `n` is no positive whole number, or `y` is not one label for each row of `X`.

    Examples
    --------
    >>> X, y = stratified_subsample(*as_arrays(load_dataset("ecoli")), n=40)
    >>> {str(label): int((y == label).sum()) for label in sorted(set(y))}
    {'cp': 16, 'im': 8, 'imL': 2, 'imS': 2, 'imU': 3, 'om': 2, 'omL': 2, 'pp': 5}
    """
    _check_count("n", n, least=1)
    X = X if hasattr(X, "shape") else np.asarray(X)
    y = y if hasattr(y, "shape") else np.asarray(y)
    if y.ndim != 1 or X.shape[0] != len(y):
        raise NPSVMError(f"y: found shape {y.shape} for the {X.shape[0]} rows of X; give one label a row")
    codes, _ = pd.factorize(np.asarray(y))
    if (codes < 0).any():
        raise NPSVMError(f"y: {int((codes < 0).sum())} labels are missing; remove those rows")
    counts = np.bincount(codes)
    least = np.minimum(2, counts)
    share = min(n, len(y)) * counts / max(1, len(y))
    kept = np.maximum(least, np.floor(share).astype(int))
    while kept.sum() > n and (kept > least).any():  # the small classes' rows come from the most favoured
        kept[np.argmax(np.where(kept > least, kept - share, -np.inf))] -= 1
    while kept.sum() < min(n, len(y)):
        kept[np.argmax(np.where(kept < counts, share - kept, -np.inf))] += 1
    random = check_random_state(random_state)
    drawn = [random.permutation(np.flatnonzero(codes == k))[: kept[k]] for k in range(len(counts))]
    rows = np.sort(np.concatenate([np.empty(0, dtype=int), *drawn]))
    return tuple(table.iloc[rows] if hasattr(table, "iloc") else table[rows] for table in (X, y))


# --- the toy sets --------------------------------------------------------------------------------------

# (slope, intercept) of each class's line. The paper shows its points in a figure only; these lines are chosen
# here: no two parallel, none through the origin, all crossing within the range drawn.
_CROSS = ((0.8, 0.1), (-0.6, 0.3))
_THREE = ((0.9, 0.5), (-0.8, 0.4), (0.1, -0.4))


def make_cross_planes(
    n_samples: int = 202, *, noise: float = 0.05, random_state: Any = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Make two classes near two crossing lines, x2 = 0.8 x1 + 0.1 and x2 = -0.6 x1 + 0.3.

    After the paper's two-class toy set (section 4.1): 202 points in the plane, 101 a class. No single line
    separates them; a pair of nonparallel lines does, but for the points about the crossing.

    Parameters
    ----------
    n_samples : int
        The number of points, at least 2, shared evenly; the first class has the odd one.
    noise : float
        The standard deviation of a point's distance from its line.
    random_state : int, RandomState or None
        The seed.

    Returns
    -------
    X : ndarray of float64, shape (n_samples, 2)
    y : ndarray of int64, shape (n_samples,)
        1 and 2, in that order.

    Raises
    ------
    ValueError
        If there are too few points, or the noise is negative or not finite.

    Examples
    --------
    >>> X, y = make_cross_planes(noise=0.0)
    >>> X.shape, bool(np.allclose(X[y == 1, 1], 0.8 * X[y == 1, 0] + 0.1))
    ((202, 2), True)
    """
    return _near_lines(_CROSS, n_samples, noise, random_state)


def make_three_lines(
    n_samples: int = 330, *, noise: float = 0.05, random_state: Any = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Make three classes near the lines x2 = 0.9 x1 + 0.5, x2 = -0.8 x1 + 0.4 and x2 = 0.1 x1 - 0.4.

    After the paper's three-class toy set (section 4.1): 330 points in the plane, 110 a class.

    Parameters
    ----------
    n_samples : int
        The number of points, at least 3, shared evenly; the first classes have the odd ones.
    noise : float
        The standard deviation of a point's distance from its line.
    random_state : int, RandomState or None
        The seed.

    Returns
    -------
    X : ndarray of float64, shape (n_samples, 2)
    y : ndarray of int64, shape (n_samples,)
        1, 2 and 3, in that order.

    Raises
    ------
    ValueError
        If there are too few points, or the noise is negative or not finite.

    Examples
    --------
    >>> X, y = make_three_lines()
    >>> X.shape, np.bincount(y)[1:].tolist()
    ((330, 2), [110, 110, 110])
    """
    return _near_lines(_THREE, n_samples, noise, random_state)


def _near_lines(
    lines: Sequence[tuple[float, float]], n_samples: int, noise: float, random_state: Any
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    _check_count("n_samples", n_samples, least=len(lines))
    if not isinstance(noise, Real) or not np.isfinite(noise) or noise < 0:
        raise NPSVMError(f"noise: found {noise!r}; it must be a finite number, 0 or more")
    random = check_random_state(random_state)
    y = np.sort(np.arange(n_samples) % len(lines))
    slope, intercept = np.array(lines).T[:, y]
    along = random.uniform(-1.0, 1.0, n_samples)
    across = noise * random.standard_normal(n_samples) / np.hypot(1.0, slope)  # along the normal (-slope, 1)
    X = np.column_stack([along - slope * across, slope * along + intercept + across])
    return X, y.astype(np.int64) + 1


def _check_count(argument: str, count: object, least: int) -> None:
    if not isinstance(count, Integral) or isinstance(count, bool) or count < least:
        raise NPSVMError(f"{argument}: found {count!r}; it must be a whole number, {least} or more")
