"""Data to classify: the paper's UCI sets, its two toy sets, and your own files.

Reads tables and prepares them for a fold. It knows nothing of planes, formulations or solvers, and never
uses the network. Labels stay text from the file to the caller: nothing here computes with them.
"""

from __future__ import annotations

import gzip
import json
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache, partial
from importlib import resources
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.io import arff
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_svmlight_file
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils import Bunch, check_random_state

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
    ValueError: name: there is no data set 'ionosfere'; ...
    """
    if name not in DATASETS and name not in VARIANTS:
        raise ValueError(f"name: there is no data set {name!r}; {_nearest(name, DATASETS + VARIANTS)}")
    entry = _schema()[f"{name}.csv.gz"]
    kinds: dict[str, str] = entry["kinds"]
    with (resources.files("npsvm_cvx.data") / f"{name}.csv.gz").open("rb") as file:
        frame = pd.read_csv(file, compression="gzip", dtype=str)
    # from text, since what read_csv makes of the last digit depends on the version of pandas
    frame = frame.astype(dict.fromkeys([c for c in kinds if c not in entry["text_columns"]], "float64"))
    return _bunch(frame, "target", dict(kinds), name, _describe(name, entry))


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


def load_file(path: str | PathLike[str], target: str | None = None) -> Bunch:
    r"""Load a classification table from a file.

    Parameters
    ----------
    path : str or path
        The ending says what it is: ``.csv`` or ``.tsv`` (UTF-8, a header line with every column named;
        empty, NA and ? are missing), ``.parquet``, ``.arff``, or ``.libsvm``, ``.svm``, ``.svmlight``,
        ``.txt`` for LIBSVM's sparse text. A further ``.gz`` is unpacked, except from Parquet.
    target : str, optional
        The column that holds the labels; in CSV and every other table the last one unless named. A LIBSVM
        file has its labels in front, and takes no name here.

    Returns
    -------
    Bunch
        As `load_dataset` gives it. Columns of numbers or truth values are float and of kind "n", all
        others are left as they are and of kind "c". Labels are text: in CSV as written, elsewhere whole
        numbers lose their decimal point. An index stored with a Parquet table is dropped.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ImportError
        If the file is Parquet and pyarrow is not installed.
    ValueError
        If the file is empty, malformed or of unknown format; if column names repeat or are blank; if there
        is no such target or no other column; if labels are missing, all the same, or look like
        measurements; or if a value is infinite.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "tiny.csv")
    ...     _ = path.write_text("height,colour,kind\n1.5,red,a\n?,blue,b\n")
    ...     tiny = load_file(path)
    >>> tiny.kinds, list(tiny.target), int(tiny.data["height"].isna().sum())
    ({'height': 'n', 'colour': 'c'}, ['a', 'b'], 1)
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"path: there is no file {str(path)!r}; check the name and the folder")
    if not path.is_file():
        raise _bad(path, "is not a file", "give the path of one file")
    inner = Path(path.name.removesuffix(".gz"))
    reader = _READERS.get(inner.suffix.lower())
    if reader is None:
        raise _bad(path, "has an ending no reader knows", f"known are {', '.join(_READERS)}")
    if path.stat().st_size == 0:
        raise _bad(path, "is empty (0 bytes)", "it must hold at least two rows")
    frame = reader(path, target)
    frame.columns = pd.Index([str(column) for column in frame.columns], dtype=object)
    names: list[str] = list(frame.columns)
    _check_names(path, names)
    if len(names) < 2:
        raise _bad(path, f"has only the columns {names}", "it needs features too; is the separator right?")
    target = _target_name(path, names, target)
    if frame.empty:
        raise _bad(path, "has column names and no rows", "it must hold at least two rows")
    frame = pd.DataFrame({name: (_labels if name == target else _typed)(frame[name]) for name in names})
    _check_target(path, frame[target])
    kinds = {name: "n" if _is_number(frame[name]) else "c" for name in names if name != target}
    for column, kind in kinds.items():
        if kind == "n" and np.isinf(frame[column]).any():
            found = f"has an infinite value in column {column!r}"
            raise _bad(path, found, "correct it, or leave it empty to have it imputed")
    frame = frame.reset_index(drop=True)
    return _bunch(frame, target, kinds, inner.stem, f"Read from {path.name}.")


def _bad(path: Path, found: str, todo: str) -> ValueError:
    return ValueError(f"path: {str(path)!r} {found}; {todo}")


@contextmanager
def _reading(path: Path, todo: str) -> Iterator[None]:
    """Turn whatever a reading library raises about the content of a file into one kind of error."""
    malformed = (OSError, EOFError, zlib.error, ValueError, IndexError, NotImplementedError, StopIteration)
    try:
        yield
    except (*malformed, pd.errors.ParserWarning) as error:
        reason = f"{type(error).__name__}: {error}".rstrip(": \n")
        raise _bad(path, f"cannot be read ({reason})", todo) from error


def _read_csv(path: Path, target: str | None, sep: str) -> pd.DataFrame:
    read: Callable[..., Any] = partial(
        pd.read_csv, path, sep=sep, encoding="utf-8-sig", skipinitialspace=True, low_memory=False
    )
    todo = "check that it is UTF-8 text, with as many fields in each row as in the header"
    with _reading(path, todo):
        header = read(header=None, nrows=1, dtype=str, keep_default_na=False)
    names = [str(name).strip() for name in header.iloc[0]]
    _check_names(path, names)
    if any(re.fullmatch(r"[-+]?\d*\.\d*([eE][-+]?\d+)?", name) for name in names):
        raise _bad(path, f"has numbers for column names ({', '.join(names[:4])})", "add a header line")
    label = _target_name(path, names, target)
    with _reading(path, todo), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # fields beyond the header would be dropped
        frame: pd.DataFrame = read(header=0, names=names, index_col=False, dtype={label: str}, na_values=["?"])
    return frame


def _read_parquet(path: Path, target: str | None) -> pd.DataFrame:
    try:
        with _reading(path, "check that it is a Parquet table"):
            return pd.read_parquet(path, engine="pyarrow")
    except ImportError:
        raise ImportError(
            f"path: {str(path)!r} is Parquet and pyarrow is not installed; "
            "pip install 'npsvm-cvx[parquet]', or save the table as CSV"
        ) from None


def _read_arff(path: Path, target: str | None) -> pd.DataFrame:
    unpack: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    todo = "check that it is ARFF with numbers and unquoted ASCII categories only, or save it as CSV"
    with _reading(path, todo), unpack(path, "rt", encoding="utf-8") as file:
        values, meta = arff.loadarff(file)
    columns = {}
    for name, kind in zip(meta.names(), meta.types(), strict=True):
        nominal = kind == "nominal"
        columns[name] = [np.nan if v == b"?" else v.decode() for v in values[name]] if nominal else values[name]
    return pd.DataFrame(columns)


def _read_libsvm(path: Path, target: str | None) -> pd.DataFrame:
    if target is not None:
        raise ValueError(f"target: {target!r} was named, but a LIBSVM file has its labels in front; leave it out")
    with _reading(path, "check that each row is: label index:value index:value ..., indices rising"):
        rows, labels = load_svmlight_file(str(path))
    if rows.shape[0] * rows.shape[1] > 10**8:
        found = f"would fill a dense table of {rows.shape[0]} x {rows.shape[1]}"
        raise _bad(path, found, "read it with sklearn.datasets.load_svmlight_file and keep it sparse")
    frame = pd.DataFrame(rows.toarray(), columns=[f"x{j}" for j in range(1, rows.shape[1] + 1)])
    return frame.assign(target=labels)


_READERS: dict[str, Callable[[Path, str | None], pd.DataFrame]] = {
    ".csv": partial(_read_csv, sep=","),
    ".tsv": partial(_read_csv, sep="\t"),
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".arff": _read_arff,
    **dict.fromkeys((".libsvm", ".svm", ".svmlight", ".txt"), _read_libsvm),
}


def _check_names(path: Path, names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1 and name})
    if repeated:
        raise _bad(path, f"has more than one column named {repeated[0]!r}", "rename them; or has it no header line?")
    if "" in names:  # an index written beside the data, which must not become a feature
        found = f"has no name for column {names.index('') + 1}"
        raise _bad(path, found, "name it, or write the file without its index")


def _target_name(path: Path, names: Sequence[str], target: str | None) -> str:
    if target is None:
        return names[-1]
    if target not in names:
        raise ValueError(f"target: {str(path)!r} has no column {target!r}; {_nearest(target, names)}")
    return target


def _check_target(path: Path, labels: pd.Series[Any]) -> None:
    def refuse(found: str, todo: str) -> ValueError:
        return ValueError(f"target: column {labels.name!r} of {str(path)!r} {found}; {todo}")

    missing = int((labels.isna() | (labels == "")).sum())
    if missing:
        raise refuse(f"has {missing} missing labels", "remove those rows or label them")
    classes = labels.unique()
    if len(classes) < 2:
        raise refuse(f"holds the one class {classes[0]!r}", "classification needs two; is it the right column?")
    numbers = pd.to_numeric(labels, errors="coerce")
    if len(classes) > max(20, len(labels) / 2) and numbers.notna().all():
        found = f"has {len(classes)} different numbers in {len(labels)} rows, so it looks continuous"
        raise refuse(found, "name the column that holds the classes")


def _typed(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return numbers and truth values of whatever storage as float64, everything else as it is."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.astype(object)
    numbers = ("boolean", "integer", "floating", "mixed-integer-float", "decimal")
    if _is_number(column) or pd.api.types.infer_dtype(column, skipna=True) in numbers:
        return pd.Series(_to_float(column.to_frame())[:, 0], column.index)
    return column


def _labels(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the labels as text, missing ones as NaN."""

    def text(label: Any) -> str:
        if isinstance(label, float):
            return f"{label:.0f}" if label.is_integer() else repr(float(label))
        return str(label).strip()

    return column.astype(object).map(text, na_action="ignore")


def _bunch(frame: pd.DataFrame, target: str, kinds: dict[str, str], name: str, description: str) -> Bunch:
    labels = frame[target]
    return Bunch(
        data=frame.drop(columns=target),
        target=labels,
        feature_names=list(kinds),
        target_names=sorted(labels.unique()),
        kinds=kinds,
        DESCR=description,
        name=name,
    )


def _nearest(name: object, names: Iterable[str]) -> str:
    known = list(names)
    key = str(name).lower()
    near = [k for k in known if key in k.lower()] or get_close_matches(key, known, n=3, cutoff=0.4)
    return f"did you mean {' or '.join(map(repr, near[:3]))}?" if near else f"there are {', '.join(known)}"


# --- from a table to arrays ----------------------------------------------------------------------------


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
            raise ValueError(f"kinds: the table has no column {column!r}; {_nearest(column, names)}")
        if kind not in KINDS:
            known = ", ".join(f"{letter!r} ({word})" for letter, word in KINDS.items())
            raise ValueError(f"kinds: column {column!r} has kind {kind!r}; a kind is one of {known}")
        if kind == "n" and not _is_number(frame[column]):
            found = f"column {column!r} has kind 'n' and type {frame[column].dtype}"
            raise ValueError(f"kinds: {found}; give it kind 'c', or turn it into numbers")
    # scikit-learn reads whole numbers as places, so columns that have no text names go by place
    named = all(isinstance(column, str) for column in frame.columns)
    places: list[Any] = list(frame.columns) if named else list(range(frame.shape[1]))
    number = [_is_number(frame[c]) and kinds.get(c) != "c" for c in frame.columns]
    numeric = make_pipeline(
        FunctionTransformer(_to_float, feature_names_out="one-to-one"),
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


def _is_number(column: pd.Series[Any]) -> bool:
    return pd.api.types.is_numeric_dtype(column.dtype)


def _to_float(block: Any) -> NDArray[np.float64]:
    return pd.DataFrame(block).to_numpy(dtype="float64", na_value=np.nan)


def _to_text(block: Any) -> NDArray[np.object_]:
    frame = pd.DataFrame(block)
    text = np.full(frame.shape, np.nan, dtype=object)
    for j in range(frame.shape[1]):
        column = frame.iloc[:, [j]]
        # a code is 1.0 in a fold with a missing value and 1 in one without: float first
        values = _to_float(column) if _is_number(column.iloc[:, 0]) else column.to_numpy(dtype=object)
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
        raise ValueError(f"y: found shape {y.shape} for the {X.shape[0]} rows of X; give one label a row")
    codes, _ = pd.factorize(np.asarray(y))
    if (codes < 0).any():
        raise ValueError(f"y: {int((codes < 0).sum())} labels are missing; remove those rows")
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
        raise ValueError(f"noise: found {noise!r}; it must be a finite number, 0 or more")
    random = check_random_state(random_state)
    y = np.sort(np.arange(n_samples) % len(lines))
    slope, intercept = np.array(lines).T[:, y]
    along = random.uniform(-1.0, 1.0, n_samples)
    across = noise * random.standard_normal(n_samples) / np.hypot(1.0, slope)  # along the normal (-slope, 1)
    X = np.column_stack([along - slope * across, slope * along + intercept + across])
    return X, y.astype(np.int64) + 1


def _check_count(argument: str, count: object, least: int) -> None:
    if not isinstance(count, Integral) or isinstance(count, bool) or count < least:
        raise ValueError(f"{argument}: found {count!r}; it must be a whole number, {least} or more")
