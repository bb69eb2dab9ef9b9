"""Comparison of replayed outputs with the recorded ones, tensor by tensor."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail import ir
from dovetail.errors import TraceError
from dovetail.ir import Array, Blob
from dovetail.ops.simulate import to_real
from dovetail.runtime.calls import Played
from dovetail.runtime.calls.payloads import NOT_RECORDED, PayloadSource
from dovetail.runtime.calls.values import ArrayValue, recorded_result
from dovetail.runtime.graph import Graph
from dovetail.verification import Comparison, ConfiguredVerifier, VerificationError


class Verdict(enum.StrEnum):
    """The result of comparing a tensor."""

    EQUAL = "equal"
    CLOSE = "close"  # not equal, but every verifier passes
    DIFFERENT = "different"
    NOT_RECORDED = "not recorded"
    UNKNOWN = "unknown"  # not equal, and only its hash was recorded


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """The comparison of an output of one execute.

    Attributes:
        call: Number of the call in its trace.
        graph, tensor: Names.
        verdict: The result.
        different: Count of the elements that differ.
        elements: Count of the elements.
        largest_error: Largest absolute difference of real values; NaN if it is not known.
        verifications: What the verifiers found.
        reason: Why the verdict is what it is, if the numbers do not say.
    """

    call: int
    graph: str
    tensor: str
    verdict: Verdict
    different: int = 0
    elements: int = 0
    largest_error: float = float("nan")
    verifications: tuple[Comparison, ...] = ()
    reason: str = ""

    @property
    def badness(self) -> tuple[bool, float]:
        """The order of comparisons: those that fail and have large or unknown errors come last."""
        error = self.largest_error
        return self.verdict is Verdict.DIFFERENT, math.inf if math.isnan(error) else error


def compare_outputs(
    call: int,
    played: Played,
    graph: Graph,
    payloads: PayloadSource,
    verifiers: Sequence[ConfiguredVerifier],
    where: str,
) -> Iterator[TensorComparison]:
    """Compare the outputs of an execution with the recorded ones.

    Args:
        call: Number of the call.
        played: The execution; it has outputs.
        graph: Its graph.
        payloads: Finds recorded values.
        verifiers: Verifiers for outputs that are not equal; none if these have to be equal.
        where: The record, for errors.

    Raises:
        TraceError: The record is invalid.
    """
    wanted = recorded_result(played.record, where)
    found = played.result
    if not isinstance(wanted, dict) or not isinstance(found, Mapping):
        return
    keys = played.record.payloads
    ends = graph.interface.outputs
    for name in dict.fromkeys((*wanted, *found)):
        if name not in found or name not in wanted:
            reason = f"the output was {'recorded' if name in wanted else 'replayed'} only"
            yield TensorComparison(call, graph.name, name, Verdict.DIFFERENT, reason=reason)
            continue
        end = ends.get(name)
        pair = _Pair(call, graph.name, name, None if end is None else end.tensor, found[name])
        value = wanted[name]
        key = NOT_RECORDED if value.payload is None else keys[value.payload]
        yield pair.compare(value, key, payloads, verifiers, where)


@dataclass(frozen=True, slots=True)
class _Pair:
    call: int
    graph: str
    name: str
    tensor: ir.Tensor | None
    found: Array

    def compare(
        self,
        value: ArrayValue,
        key: str,
        payloads: PayloadSource,
        verifiers: Sequence[ConfiguredVerifier],
        where: str,
    ) -> TensorComparison:
        found = self.found
        if key == NOT_RECORDED:
            return self._verdict(Verdict.NOT_RECORDED)
        if (value.dtype, value.shape) != (found.dtype.str, found.shape):
            return self._verdict(
                Verdict.DIFFERENT,
                f"recorded {value.dtype}{list(value.shape)}, "
                f"replayed {found.dtype.str}{list(found.shape)}",
            )
        blob = payloads.get(key)
        if blob is None:
            if Blob(np.ascontiguousarray(found)).hash == key:
                return self._verdict(Verdict.EQUAL)
            verdict = Verdict.UNKNOWN if verifiers else Verdict.DIFFERENT
            return self._verdict(verdict, "another hash; the values were not recorded")
        if blob.nbytes != found.nbytes:
            raise TraceError(f"the payload of output '{self.name}' has another size", where=where)
        recorded = blob.bytes.view(found.dtype).reshape(found.shape)
        return self._values(recorded, verifiers)

    def _values(self, recorded: Array, verifiers: Sequence[ConfiguredVerifier]) -> TensorComparison:
        found = self.found
        different = _different_elements(recorded, found)
        if not different:
            return self._verdict(Verdict.EQUAL, largest_error=0.0)
        golden, target = self._real(recorded), self._real(found)
        with np.errstate(all="ignore"):
            error = np.abs(target.astype(np.float64) - golden.astype(np.float64))
        verifications, reason = [], ""
        for verifier in verifiers:
            try:
                verifications.append(verifier.compare(golden, target))
            except VerificationError as failure:
                reason = failure.message
        passed = bool(verifications) and not reason and all(v.passed for v in verifications)
        return self._verdict(
            Verdict.CLOSE if passed else Verdict.DIFFERENT,
            reason,
            different,
            float(np.max(error)),
            tuple(verifications),
        )

    def _real(self, stored: Array) -> Array:
        return stored if self.tensor is None else to_real(stored, self.tensor.spec)

    def _verdict(
        self,
        verdict: Verdict,
        reason: str = "",
        different: int = 0,
        largest_error: float = float("nan"),
        verifications: tuple[Comparison, ...] = (),
    ) -> TensorComparison:
        return TensorComparison(
            self.call,
            self.graph,
            self.name,
            verdict,
            different,
            self.found.size,
            largest_error,
            verifications,
            reason,
        )


def _different_elements(one: Array, other: Array) -> int:
    """Return the count of elements whose bytes differ."""
    size = (one.size, one.itemsize)
    bytes_of = [np.ascontiguousarray(a).view(np.uint8).reshape(size) for a in (one, other)]
    unequal = bytes_of[0] != bytes_of[1]
    return int(np.count_nonzero(unequal.any(axis=1))) if unequal.any() else 0
