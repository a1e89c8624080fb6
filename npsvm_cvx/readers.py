"""Tables in files, read as classification data: CSV, Parquet, ARFF and LIBSVM's text.

Knows formats and what a usable table is; must not know the package's own sets.  Labels stay text from the file to the
caller.
"""

from __future__ import annotations

import gzip
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.io import arff
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from .errors import NPSVMError


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
    kinds = {name: "n" if is_number(frame[name]) else "c" for name in names if name != target}
    for column, kind in kinds.items():
        if kind == "n" and np.isinf(frame[column]).any():
            found = f"has an infinite value in column {column!r}"
            raise _bad(path, found, "correct it, or leave it empty to have it imputed")
    frame = frame.reset_index(drop=True)
    return as_bunch(frame, target, kinds, inner.stem, f"Read from {path.name}.")


def _bad(path: Path, found: str, todo: str) -> NPSVMError:
    return NPSVMError(f"path: {str(path)!r} {found}; {todo}")


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
        raise NPSVMError(f"target: {target!r} was named, but a LIBSVM file has its labels in front; leave it out")
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
        raise NPSVMError(f"target: {str(path)!r} has no column {target!r}; {nearest(target, names)}")
    return target


def _check_target(path: Path, labels: pd.Series[Any]) -> None:
    def refuse(found: str, todo: str) -> NPSVMError:
        return NPSVMError(f"target: column {labels.name!r} of {str(path)!r} {found}; {todo}")

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
    if is_number(column) or pd.api.types.infer_dtype(column, skipna=True) in numbers:
        return pd.Series(to_float(column.to_frame())[:, 0], column.index)
    return column


def _labels(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the labels as text, missing ones as NaN."""

    def text(label: Any) -> str:
        if isinstance(label, float):
            return f"{label:.0f}" if label.is_integer() else repr(float(label))
        return str(label).strip()

    return column.astype(object).map(text, na_action="ignore")


def as_bunch(frame: pd.DataFrame, target: str, kinds: dict[str, str], name: str, description: str) -> Bunch:
    """Return a table as the Bunch that `load_dataset` and `load_file` give."""
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


def nearest(name: object, names: Iterable[str]) -> str:
    """Return the end of an error's sentence: the names nearest to a wrong one, or all there are."""
    known = list(names)
    key = str(name).lower()
    near = [k for k in known if key in k.lower()] or get_close_matches(key, known, n=3, cutoff=0.4)
    return f"did you mean {' or '.join(map(repr, near[:3]))}?" if near else f"there are {', '.join(known)}"


# --- from a table to arrays ----------------------------------------------------------------------------


def is_number(column: pd.Series[Any]) -> bool:
    """Whether a column holds numbers or truth values."""
    return pd.api.types.is_numeric_dtype(column.dtype)


def to_float(block: Any) -> NDArray[np.float64]:
    """Return a block of numbers as float64, missing values as NaN."""
    return pd.DataFrame(block).to_numpy(dtype="float64", na_value=np.nan)
