"""One unit of work, and what the units of a slice come to.

Beside a model that has not seen fold i, a unit trains one for each pair (i, j) that has seen neither: it serves twice,
to judge settings for i on j and for j on i.

Knows units and methods.  Must not know of the store or of tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ... import datasets
from ...linalg import Array
from . import methods, sets
from .methods import Kernel, Part
from .protocol import Slice, Unit


def run(unit: Unit) -> dict[str, Any]:
    """Do one fold: train without it and test on it, and train without it and each of its partners and test on both.

    Returns
    -------
    dict
        ``size`` of the fold, ``correct`` predictions on it at each setting, ``partners`` as
        ``[fold j, correct on j, correct on this]``, ``late`` settings of all these trainings not solved to
        tolerance, and ``seconds`` that training at all settings took.
    """
    slice_ = unit.slice
    protocol, data = slice_.protocol, slice_.load()
    with threadpool_limits(1):
        counts = _trained(slice_, data, [unit.fold])
        found: dict[str, Any] = {
            "size": int((data.fold == unit.fold).sum()),
            "correct": counts.correct[0].tolist(),
            "partners": [],
            "late": counts.late,
            "seconds": counts.seconds,
        }
        for other in partners(unit.fold, data.folds, protocol.reach[slice_.gamma is not None]):
            both = _trained(slice_, data, [other, unit.fold])
            found["partners"].append([other, both.correct[0].tolist(), both.correct[1].tolist()])
            found["late"] += both.late
    return found


def partners(fold: int, folds: int, reach: int) -> list[int]:
    """Return the folds left out together with this one; every pair comes up once.

    >>> [partners(fold, 5, 1) for fold in range(5)]
    [[1], [2], [3], [4], [0]]
    """
    if folds < 3:
        return []
    pairs = [(fold + step) % folds for step in range(1, min(reach, (folds - 1) // 2) + 1)]
    if folds % 2 == 0 and reach >= folds // 2 and fold < folds // 2:
        pairs.append(fold + folds // 2)
    return pairs


def _trained(slice_: Slice, data: sets.Set, out: Sequence[int]) -> methods.Counts:
    """Train without the folds ``out`` and count on each."""
    protocol = slice_.protocol
    inside = ~np.isin(data.fold, out)
    prepare = datasets.preprocessor(data.bunch)

    def part(where: NDArray[np.bool_], X: Array) -> Part:
        return Part(np.ascontiguousarray(X), data.codes[where])

    train = part(inside, prepare.fit_transform(data.data[inside]))
    tests = [part(data.fold == k, prepare.transform(data.data[data.fold == k])) for k in out]
    kernel = Kernel()
    if slice_.gamma is not None:
        centres = methods.landmarks(train.y, protocol.landmarks) if len(data.codes) > protocol.large else None
        kernel = Kernel(2.0**slice_.gamma, centres)
    method = methods.methods()[slice_.method]
    return method.count(train, tests, kernel, protocol.values, protocol.tol)


# --- what a slice comes to ---------------------------------------------------------------------------------


def reduce(slice_: Slice, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what the tables need of a slice, from the results of its units in the order of folds.

    Returns
    -------
    dict
        ``setting``: the best by mean accuracy over the folds, the first where several are; ``sizes`` and
        ``correct``: the folds' sizes and correct predictions there; ``chosen``: for every fold, the mean accuracy
        on its neighbours of the setting that is best there, and the fold's correct predictions at it; ``curve``:
        mean accuracy against the one hyperparameter, if it is one; ``late`` and ``seconds`` a setting and fold.
    """
    settings = methods.methods()[slice_.method].settings(slice_.protocol.values)
    sizes = np.array([unit["size"] for unit in found])
    correct = np.array([unit["correct"] for unit in found])
    means = _rounded((correct / sizes[:, None]).mean(axis=0))
    best = int(means.argmax())
    inner: list[list[Array]] = [[] for _ in found]
    for i, unit in enumerate(found):
        for j, on_other, on_own in unit["partners"]:
            inner[i].append(np.array(on_other) / sizes[j])
            inner[j].append(np.array(on_own) / sizes[i])
    chosen = []
    for i, judged in enumerate(inner):
        if judged:
            score = _rounded(np.mean(judged, axis=0))
            at = int(score.argmax())
            chosen.append([float(score[at]), int(correct[i, at])])
    return {
        "setting": settings[best],
        "sizes": sizes.tolist(),
        "correct": correct[:, best].tolist(),
        "chosen": chosen,
        "curve": means.tolist() if len(settings[0]) == 1 else [],
        "late": sum(unit["late"] for unit in found),
        "trained": len(settings) * sum(1 + len(unit["partners"]) for unit in found),
        "seconds": float(np.median([unit["seconds"] for unit in found])) / len(settings),
    }


def _rounded(accuracy: Array) -> Array:
    # the same fractions summed in another order must tie, and be written the same
    return np.asarray(np.round(accuracy, 10))
