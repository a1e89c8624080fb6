"""What the report runs: which methods on which sets, in the order of what matters first.

Knows sets, methods and protocols.  Must not know of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from ... import datasets
from . import methods, sets, toys
from .protocol import Protocol, Slice

PAPER = {
    "two": {"twsvm": "TWSVM", "svm": "SVM", "gepsvm": "GEPSVM", "hnpsvm": "BHNPSVM"},
    "several": {"svm": "1-v-1", "twsvm_ovr": "1-v-r", "mbsvm": "MBSVM", "hnpsvm": "MHNPSVM"},
}
"""The columns of Tables 3 and 4, and of 5 and 6: our methods, and the paper's names of them."""

EXPERIMENTS: dict[str, Sequence[str]] = {
    "glass_with_id": tuple(PAPER["several"]),
    "glass_id_only": ("svm",),
    "vowel_speakers": tuple(PAPER["several"]),
    "vowel_split": tuple(PAPER["several"]),
    "cmc2_longterm": tuple(PAPER["two"]),
    "cmc2_shortterm": tuple(PAPER["two"]),
    "cmc": ("svm", "hnpsvm"),
    "car_ordered": tuple(PAPER["several"]),
    "wpbc_without_time": tuple(PAPER["two"]),
    "wpbc_with_id": tuple(PAPER["two"]),
}
"""Other forms of the sets, and the methods asked about them."""

_ALSO_RBF = ("glass_with_id", "wpbc_without_time", "wpbc_with_id", "vowel_split")
_SVM_RBF = ("vowel_speakers", "car_ordered")
_SLOW = ("absolute", "pinball")  # with kernels or many samples, by a multiple
_MANY_MARGINS = ("twsvm", "tbsvm")  # all other classes are margin rows
_PROGRAM = ("l1_ls_twsvm",)  # a linear program a setting, where others share a decomposition


def family(dataset: str) -> str:
    """Return "two" or "several", by how many classes a set has."""
    two = dataset in sets.TWO_CLASS or dataset.startswith(("cmc2_", "wpbc_", "cross_"))
    return "two" if two else "several"


def variants(dataset: str) -> list[str]:
    """Return every method a set of so many classes can have, the paper's aside."""
    kind = family(dataset)
    return [
        name
        for name, method in methods.methods().items()
        if method.classes in ("any", kind) and name not in PAPER[kind]
    ]


def slices(protocol: Protocol) -> list[Slice]:
    """Return all that a report of this protocol runs, first what matters most and costs least."""
    full = protocol.name == "full"
    by_size = sorted(sets.TWO_CLASS + sets.SEVERAL, key=_samples)
    found = list(_of(toys.NAMES, lambda d: [*PAPER[family(d)], *variants(d)], [None], protocol))
    found += _of(by_size, lambda d: PAPER[family(d)], [None], protocol)
    found += _of(EXPERIMENTS, EXPERIMENTS.__getitem__, [None], protocol)
    found += _of(by_size, variants, [None], protocol)
    found += _of(by_size, lambda d: PAPER[family(d)], protocol.gammas, protocol)
    found += _of(_ALSO_RBF, lambda d: EXPERIMENTS[d] if full else ("svm",), protocol.gammas, protocol)
    found += _of(_SVM_RBF, lambda d: ("svm",), protocol.gammas, protocol)
    if full:
        found += _of(by_size, variants, protocol.gammas, protocol)
    else:  # a linear program of many classes costs as much as all else
        found = [s for s in found if s.method not in _PROGRAM or family(s.dataset) == "two"]
    return sorted(found, key=_stage)


@cache
def planned(protocol: Protocol) -> frozenset[tuple[str, str, str]]:
    """Return the cells, by set, kernel and method, that a report of this protocol would have with time enough."""
    return frozenset((slice_.dataset, slice_.kernel, slice_.method) for slice_ in slices(protocol))


def _stage(slice_: Slice) -> int:
    """Return when a slice's turn is: the paper's own figures first, and what takes long last."""
    paper, linear = slice_.method in PAPER[family(slice_.dataset)], slice_.gamma is None
    asked, samples = slice_.dataset in EXPERIMENTS, _samples(slice_.dataset)
    svm = slice_.method.startswith("svm")
    if slice_.method in _PROGRAM:
        return 7 if linear and family(slice_.dataset) == "two" else 9
    if linear and svm:  # LIBSVM takes long at a large C
        if paper and samples > 1000 and (asked or samples > 4000):
            return 4 if family(slice_.dataset) == "two" or slice_.dataset == "cmc" else 2
        return 7 if not paper and samples > 500 else 0 if paper and not asked else 1
    if linear:
        if not paper and samples > 1500 and slice_.method in (*_SLOW, *_MANY_MARGINS):
            return 7
        return 0 if paper and not asked else 1
    if paper and slice_.method == "gepsvm" and samples > 1000:
        return 6  # a model a setting
    if paper:  # of the SVM the paper's figures are known; more than two thousand samples have few centres
        return 3 if samples < 1000 else 4 if svm or samples > 2000 else 5
    return 9 if slice_.method in _SLOW else 8


@cache
def _samples(dataset: str) -> int:
    if dataset in toys.NAMES:
        return 0
    return sum(len(datasets.load_dataset(name).target) for name in sets.sources(dataset))


def _of(
    names: Iterable[str],
    chosen: Callable[[str], Iterable[str]],
    gammas: Sequence[int | None],
    protocol: Protocol,
) -> Iterator[Slice]:
    for dataset in names:
        for method in chosen(dataset):
            for gamma in gammas:
                yield Slice(dataset, method, gamma, protocol)
