"""The paper's two toy sets as sets of the report, after its section 4.1.  Must not know of methods or tables."""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold

from ... import datasets
from .sets import Set

NAMES = {"cross_planes": datasets.make_cross_planes, "three_lines": datasets.make_three_lines}
"""The two-class and the three-class set, and what draws them."""


@cache
def load(name: str, folds: int, seed: int) -> Set:
    """Return a toy set with its folds, points drawn from seed 0."""
    X, y = NAMES[name](random_state=0)
    fold = np.empty(len(y), dtype=np.intp)
    for k, (_, test) in enumerate(StratifiedKFold(folds, shuffle=True, random_state=seed).split(X, y)):
        fold[test] = k
    codes = np.unique(y, return_inverse=True)[1].astype(np.intp)
    frame = pd.DataFrame(X, columns=["x1", "x2"])
    return Set(name, frame, y, codes, {"x1": "n", "x2": "n"}, fold)


@cache
def digest(name: str) -> str:
    """Return a digest of a toy set's points."""
    X, y = NAMES[name](random_state=0)
    return hashlib.sha256(X.tobytes() + y.tobytes()).hexdigest()
