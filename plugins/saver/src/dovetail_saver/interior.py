"""Values of all tensors of the graphs of a trace, in a run on some backend."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from dovetail.container import Closing
from dovetail.errors import TraceError
from dovetail.ir import Array, TensorKind
from dovetail.ops import OpPackage
from dovetail.runtime.api_table import API
from dovetail.runtime.calls import CallRecord, InstalledResolver, Played, Player
from dovetail.runtime.calls.payloads import PayloadSource
from dovetail.runtime.calls.values import typed_arguments
from dovetail.runtime.graph import Graph
from dovetail_saver.replay import Retarget
from dovetail_saver.trace import Entry, OpaqueRecord
from dovetail_saver.uses import EXECUTES


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution of a graph, with the values of all its tensors.

    Attributes:
        entry: Its record; that of its end if it was asynchronous.
        graph: The graph.
        values: Stored values of inputs, internal tensors and outputs, by name.
    """

    entry: Entry
    graph: Graph
    values: Mapping[str, Array]


class InteriorPlayer(Closing):
    """Player of calls, with all tensors that nodes write as outputs of their graphs.

    Backends do not fuse nodes over tensors that are outputs, so that values may differ from those
    of an ordinary run where a fused kernel rounds in another way.

    Args:
        payloads: The payloads of the calls.
        retarget: Another backend, or None.
        packages: Op packages that are not installed.
    """

    def __init__(
        self,
        payloads: PayloadSource,
        retarget: Retarget | None = None,
        packages: Sequence[OpPackage] = (),
    ) -> None:
        self._payloads = payloads
        self._retarget = retarget
        self._player = Player(payloads, InstalledResolver(packages=packages))
        self._begun: dict[int, tuple[CallRecord, str]] = {}  # executions that have not ended

    def play(self, entry: Entry) -> tuple[Played | None, Execution | None]:
        """Make a call, and return it with the values if an execution has ended.

        Raises:
            TraceError: The record is invalid.
        """
        record = entry.record
        if isinstance(record, OpaqueRecord):
            return None, None
        if isinstance(record, CallRecord):
            if self._retarget is not None:
                record = self._retarget(record, entry.where)
            record = self._with_outputs(record, entry.where)
            if API[record.function].ends_later:
                self._begun[record.number] = (record, entry.where)
        played = self._player.play(record, entry.where)
        if played.error is not None or not isinstance(played.result, dict):
            return played, None
        if isinstance(record, CallRecord):
            call, where = record, entry.where
        else:
            call, where = self._begun.pop(record.number)
        graph = self._player.handle(call.owner)
        if not isinstance(graph, Graph):
            return played, None
        values = {**dict(self._inputs(call, graph, where)), **played.result}
        return played, Execution(entry, graph, values)

    def close(self) -> None:
        """Free what the calls have created."""
        self._player.close()

    def _with_outputs(self, record: CallRecord, where: str) -> CallRecord:
        """Return a record that makes all tensors of a graph outputs, or reads them."""
        is_finalize = record.function == "graph_finalize"
        if not is_finalize and record.function not in EXECUTES:
            return record
        graph = self._player.handle(record.owner)
        if not isinstance(graph, Graph):
            return record
        inside = [
            tensor
            for node in graph.ir.nodes
            for tensor in node.outputs
            if tensor.kind is TensorKind.NATIVE and tensor.name in graph.ir.tensors
        ]
        arguments: dict[str, Any] = msgspec.json.decode(record.arguments)
        typed_arguments(record, where)  # now the types are known
        outputs = arguments.setdefault("outputs", [] if is_finalize else None)
        if is_finalize and isinstance(outputs, list):
            outputs += [t.name for t in inside if t.name not in outputs]
        elif isinstance(outputs, dict):
            for tensor in inside:
                storage = tensor.dtype.storage.str
                value = {"is": "array", "dtype": storage, "shape": tensor.shape}
                outputs.setdefault(tensor.name, value)
        encoded = msgspec.Raw(msgspec.json.encode(arguments))
        return msgspec.structs.replace(record, arguments=encoded)

    def _inputs(self, record: CallRecord, graph: Graph, where: str) -> Iterator[tuple[str, Array]]:
        """Yield the stored values of the inputs; zeros where they were not recorded."""
        inputs = typed_arguments(record, where).inputs
        for name, end in graph.interface.inputs.items():
            payload = getattr(inputs.get(name), "payload", None)
            key = "" if payload is None else record.payloads[payload]
            blob = self._payloads.get(key) if key else None
            if blob is None:
                yield name, np.zeros(end.shape, end.storage)
            elif blob.nbytes == math.prod(end.shape) * end.storage.itemsize:
                yield name, blob.bytes.view(end.storage).reshape(end.shape)
            else:
                raise TraceError(f"the payload of input '{name}' has another size", where=where)
