"""The sets the report is about: the paper's, and the other forms of them that its experiments ask about.

Knows where rows come from and which of them are tested together.  Must not know of methods or tables.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import Bunch

from ... import datasets

TWO_CLASS = ("hepatitis", "wpbc", "heart_statlog", "pima_indian", "australian", "votes", "sonar", "bupa", "cmc2_nouse")
"""The rows of Tables 3 and 4; of CMC the two-class form that the paper's figures fit."""
SEVERAL = ("iris", "wine", "ecoli", "vowel", "glass", "vehicle", "car", "segment", "satimage")
"""The rows of Tables 5 and 6."""

LABELS = {
    "hepatitis": "Hepatitis",
    "wpbc": "WPBC",
    "heart_statlog": "Heart-statlog",
    "pima_indian": "Pima-Indian",
    "australian": "Australian",
    "votes": "Votes",
    "sonar": "Sonar",
    "bupa": "BUPA",
    "cmc": "CMC",
    "cmc2_nouse": "CMC",
    "iris": "Iris",
    "wine": "Wine",
    "ecoli": "Ecoli",
    "vowel": "Vowel",
    "glass": "Glass",
    "vehicle": "Vehicle",
    "car": "Car",
    "segment": "Segment",
    "satimage": "Satimage",
}
"""As the paper prints them."""

_LEVELS = {
    "buying": ("low", "med", "high", "vhigh"),
    "maint": ("low", "med", "high", "vhigh"),
    "doors": ("2", "3", "4", "5more"),
    "persons": ("2", "4", "more"),
    "lug_boot": ("small", "med", "big"),
    "safety": ("low", "med", "high"),
}
_DERIVED = {
    "car_ordered": ("car",),
    "glass_id_only": ("glass_with_id",),
    "vowel_speakers": ("vowel_990_context",),
    "vowel_split": ("vowel", "vowel_test462"),
}


@dataclass(frozen=True)
class Set:
    """Rows to preprocess inside the fold, and the fold in which each is tested (-1: never)."""

    name: str
    data: pd.DataFrame
    target: NDArray[Any]
    codes: NDArray[np.intp]
    kinds: dict[str, str]
    fold: NDArray[np.intp]

    @property
    def folds(self) -> int:
        """How many folds there are."""
        return int(self.fold.max()) + 1

    @property
    def bunch(self) -> Bunch:
        """What the preprocessor reads column types from."""
        return Bunch(data=self.data, kinds=self.kinds)


@cache
def load(name: str, folds: int, seed: int, max_rows: int | None = None) -> Set:
    """Return a set with its folds: stratified, unless what is asked of it is another split.

    Parameters
    ----------
    name : str
        A set of the package, or one of the forms made here.
    folds, seed : int
    max_rows : int, optional
        A stratified subsample of so many.
    """
    data, target, kinds, fold = _rows(name)
    if max_rows is not None and len(target) > max_rows and fold is None:
        data, target = datasets.stratified_subsample(data, target, max_rows)
        data = data.reset_index(drop=True)
    codes = np.unique(target, return_inverse=True)[1].astype(np.intp)
    if fold is None:
        fold = np.full(len(target), -1, dtype=np.intp)
        splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
        with warnings.catch_warnings():
            # Ecoli has classes of two rows: what ten folds cannot hold of them is simply got wrong
            warnings.filterwarnings("ignore", "The least populated class")
            for k, (_, test) in enumerate(splitter.split(np.zeros((len(target), 1)), codes)):
                fold[test] = k
    return Set(name, data, target, codes, kinds, fold)


def _rows(name: str) -> tuple[pd.DataFrame, NDArray[Any], dict[str, str], NDArray[np.intp] | None]:
    parts = [datasets.load_dataset(source) for source in sources(name)]
    bunch = parts[0]
    data, target, kinds = bunch.data, np.asarray(bunch.target), dict(bunch.kinds)
    if name == "car_ordered":
        data = pd.DataFrame({c: data[c].map({v: float(i) for i, v in enumerate(_LEVELS[c])}) for c in data.columns})
        return data, target, dict.fromkeys(data.columns, "o"), None
    if name == "glass_id_only":
        identity = data.columns[0]
        return data[[identity]], target, {identity: "n"}, None
    if name == "vowel_speakers":
        speaker = np.unique(data.iloc[:, 1].to_numpy(), return_inverse=True)[1].astype(np.intp)
        kept = list(data.columns[3:])
        return data[kept], target, {c: kinds[c] for c in kept}, speaker
    if name == "vowel_split":
        train, test = parts
        data = pd.concat([train.data, test.data.set_axis(train.data.columns, axis=1)], ignore_index=True)
        fold = np.repeat(np.array([-1, 0], dtype=np.intp), [len(train.data), len(test.data)])
        return data, np.concatenate([target, np.asarray(test.target)]), kinds, fold
    return data, target, kinds, None


def sources(name: str) -> tuple[str, ...]:
    """Return the package's sets that a set is made from."""
    return _DERIVED.get(name, (name,))


@cache
def digest(name: str) -> str:
    """Return a digest of the files a set comes from."""
    folder = resources.files("npsvm_cvx.data")
    return hashlib.sha256(b"".join((folder / f"{s}.csv.gz").read_bytes() for s in sources(name))).hexdigest()
