"""Whether a result, from a store or a table that anything may have happened to, can be one of a run.

What cannot is done again: it would else stop a report, or stand in it.  Knows slices and their units.  Must not know of
stores or tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import methods
from .folds import partners
from .protocol import Slice, Unit


def unit(of: Unit, found: Any) -> bool:
    """Return whether a fold's result is whole: of its size, one count a setting, with its partners."""
    return _holds(lambda: _unit(of, found))


def reduced(of: Slice, found: Any) -> bool:
    """Return whether what a slice's folds came to is whole: of their sizes, on the grid, counts within them."""
    return _holds(lambda: _reduced(of, found))


def _unit(of: Unit, found: Any) -> bool:
    if "failed" in found:
        return isinstance(found["failed"], str) and bool(found["failed"])
    slice_, sizes = of.slice, _sizes(of.slice)
    settings = len(methods.methods()[slice_.method].settings(slice_.protocol.values))
    paired = partners(of.fold, len(sizes), slice_.protocol.reach[slice_.gamma is not None])
    return (
        found["size"] == sizes[of.fold]
        and _counts(found["correct"], [sizes[of.fold]] * settings)
        and [pair[0] for pair in found["partners"]] == paired
        and all(
            _counts(on_other, [sizes[j]] * settings) and _counts(on_own, [sizes[of.fold]] * settings)
            for j, on_other, on_own in found["partners"]
        )
        and 0 <= found["late"] <= settings * _planes(slice_) * (1 + len(paired))
        and _time(found["seconds"])
    )


def _reduced(of: Slice, found: Any) -> bool:
    if "failed" in found:
        return isinstance(found["failed"], str) and bool(found["failed"])
    sizes = _sizes(of)
    settings = methods.methods()[of.method].settings(of.protocol.values)
    chosen, curve = found["chosen"], found["curve"]
    return (
        found["setting"] in settings
        and found["sizes"] == sizes
        and _counts(found["correct"], sizes)
        and (len(chosen) == len(sizes) if len(sizes) >= 3 else not chosen)
        and _shares([score for score, _ in chosen])
        and _counts([count for _, count in chosen], sizes[: len(chosen)])
        and len(curve) == (len(settings) if len(settings[0]) == 1 else 0)
        and _shares(curve)
        and found["trained"] > 0
        and 0 <= found["late"] <= found["trained"] * _planes(of)
        and _time(found["seconds"])
    )


def _holds(claim: Callable[[], bool]) -> bool:
    try:
        return bool(claim())
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):  # not even of that shape
        return False


def _sizes(of: Slice) -> list[int]:
    fold = of.load().fold
    return [int(n) for n in np.bincount(fold[fold >= 0])]


def _planes(of: Slice) -> int:
    """Return an upper bound of how many trainings at one setting may be late."""
    return max(2, len(np.unique(of.load().codes)))


def _counts(found: Sequence[Any], most: Sequence[int]) -> bool:
    return len(found) == len(most) and all(
        type(count) is int and 0 <= count <= n for count, n in zip(found, most, strict=True)
    )


def _shares(found: Sequence[Any]) -> bool:
    return all(type(share) is float and 0 <= share <= 1 for share in found)


def _time(seconds: Any) -> bool:
    return math.isfinite(seconds) and seconds >= 0
