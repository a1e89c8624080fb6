"""What the report runs: which methods on which sets, in the order of what matters first.

Knows sets, methods and protocols.  Must not know of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from . import methods, sets
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
_SLOW = ("l1_ls_twsvm", "absolute", "pinball")  # with kernels, by a multiple


def family(dataset: str) -> str:
    """Return "two" or "several", by how many classes a set has."""
    two = dataset in sets.TWO_CLASS or dataset.startswith(("cmc2_", "wpbc_"))
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
    rows = {name: len(sets.load(name, protocol.folds, protocol.seed, protocol.max_rows).codes) for name in _names()}
    by_size = sorted(sets.TWO_CLASS + sets.SEVERAL, key=rows.__getitem__)
    found = list(_of(by_size, lambda d: PAPER[family(d)], [None], protocol))
    found += _of(EXPERIMENTS, EXPERIMENTS.__getitem__, [None], protocol)
    found += _of(by_size, variants, [None], protocol)
    found += _of(by_size, lambda d: PAPER[family(d)], protocol.gammas, protocol)
    found += _of(_ALSO_RBF, lambda d: EXPERIMENTS[d] if full else ("svm",), protocol.gammas, protocol)
    if full:
        found += _of(by_size, lambda d: [v for v in variants(d) if v not in _SLOW], protocol.gammas, protocol)
        found += _of(by_size, lambda d: [v for v in variants(d) if v in _SLOW], protocol.gammas, protocol)
    return found


def _names() -> Iterable[str]:
    return [*sets.TWO_CLASS, *sets.SEVERAL, *EXPERIMENTS]


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
