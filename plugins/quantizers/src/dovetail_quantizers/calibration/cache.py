"""A JSON file that stores observed ranges for later runs.

The key is a hash of everything that ranges depend on: the graph with its weights, the observed
tensors, the estimators, and all samples. Reading samples is cheap compared with running them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

import msgspec

from dovetail.ir import Graph, Tensor, to_text
from dovetail.quantization import Calibration
from dovetail_quantizers.calibration.samples import samples_of
from dovetail_quantizers.planning.value_range import ValueRange
from dovetail_quantizers.stored_results import ResultsFile, read_results, write_results

# Part of every key: the calibration of this version finds other ranges than that of the last one.
_CALIBRATION = b"2: states of recurrent layers"
# Older results are removed; each is a few kilobytes.
_KEPT = 32


class _Result(msgspec.Struct, frozen=True, omit_defaults=True):
    samples: int
    ranges: dict[str, tuple[float, float]]
    # of ranges with numbers that represent infinities: whether there are some below, and above
    far: dict[str, tuple[bool, bool]] = {}


class _File(ResultsFile):
    results: dict[str, _Result] = msgspec.field(default_factory=dict)


class RangeCache:
    """The stored ranges of one calibration.

    Args:
        path: The file; it may be missing.
        key: From `key_of`.
    """

    def __init__(self, path: Path, key: str) -> None:
        self._path = path
        self._key = key

    def get(self) -> tuple[dict[str, ValueRange], int] | None:
        """Return the ranges and their number of samples, None if they are not stored.

        Raises:
            FrontendError: The file cannot be read.
            QuantizationError: The file is damaged, or not a calibration cache.
        """
        found = self._read().results.get(self._key)
        if found is None:
            return None
        nothing = (False, False)
        ranges = {n: ValueRange(*r, *found.far.get(n, nothing)) for n, r in found.ranges.items()}
        return ranges, found.samples

    def put(self, ranges: Mapping[str, ValueRange], samples: int) -> None:
        """Store ranges; after an error the file is unchanged.

        Raises:
            ContainerError: The file cannot be written.
        """
        file = self._read()
        file.results.pop(self._key, None)
        file.results[self._key] = _Result(
            samples,
            {name: (each.minimum, each.maximum) for name, each in ranges.items()},
            {name: (each.below, each.above) for name, each in ranges.items() if each.has_infinity},
        )
        for key in list(file.results)[:-_KEPT]:
            del file.results[key]
        write_results(self._path, file)

    def _read(self) -> _File:
        return read_results(self._path, _File, "calibration cache")


def key_of(
    graph: Graph,
    calibration: Calibration,
    watched: Mapping[str, Sequence[Tensor]],
    how: Mapping[str, Any],
) -> str | None:
    """Return the key of a calibration; None if its samples can be read only once.

    Args:
        graph: The float graph.
        calibration: The samples, with a length. They are read once.
        watched: The observed tensors.
        how: The parameters of the estimator of each name in `watched`.

    Raises:
        QuantizationError: Samples do not match the graph; all of these are listed.
    """
    if not isinstance(calibration, Sized):  # iterators have no length
        return None
    digest = hashlib.sha256(_CALIBRATION)
    digest.update(to_text(graph).encode())
    for tensor in graph.tensors.values():
        if tensor.data is not None:
            digest.update(tensor.data.hash.encode())
    for node in graph.nodes:
        for name, param in node.params.items():
            text = param.data.hash if isinstance(param, Tensor) and param.data else repr(param)
            digest.update(f"{node.name}\0{name}\0{text}".encode())
    named = {name: [t.name for t in each] for name, each in watched.items()}
    digest.update(repr((len(calibration), sorted(named.items()), sorted(how.items()))).encode())
    for sample in samples_of(graph, calibration):
        for name, array in sorted(sample.items()):
            digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()
