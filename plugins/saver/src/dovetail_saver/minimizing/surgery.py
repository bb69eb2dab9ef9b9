"""Graphs with fewer nodes: inputs and outputs where the other nodes were cut off.

A tensor that a removed node wrote becomes an input, and each execution gets its value. A tensor
that only removed nodes read becomes an output, with its value as the recorded one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from dovetail.ir import Array, Blob, TensorKind
from dovetail.runtime.calls import CallRecord, CompletionRecord
from dovetail.runtime.calls.payloads import NOT_RECORDED
from dovetail_saver.minimizing.drafts import Draft, arguments_of, with_arguments
from dovetail_saver.rewriting import TraceRecord
from dovetail_saver.uses import EXECUTES

Interior = Mapping[int, Mapping[str, Array]]  # values of tensors, by number of the execution


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    kind: TensorKind


@dataclass(frozen=True, slots=True)
class Cut:
    """A graph with some of its nodes.

    Attributes:
        kept: Handles of the tensors that the nodes use.
        kinds: New kinds of tensors, by handle.
        inputs, outputs: Names of the tensors that the application writes and reads.
    """

    kept: frozenset[int]
    kinds: Mapping[int, TensorKind]
    inputs: frozenset[str]
    outputs: frozenset[str]


def nodes_of(draft: Draft, graph: int) -> list[int]:
    """Return the positions of the records that add nodes to a graph."""
    return [
        index
        for index, record in enumerate(draft.records)
        if isinstance(record, CallRecord)
        and (record.function, record.owner) == ("graph_add_node", graph)
    ]


def with_nodes(draft: Draft, graph: int, nodes: Iterable[int], interior: Interior) -> Draft:
    """Return a draft in which a graph has only some of its nodes.

    Args:
        draft: The draft.
        graph: The handle of the graph.
        nodes: Positions of the nodes to keep; see `nodes_of`.
        interior: Values for the tensors that become inputs or outputs.
    """
    chosen = set(nodes)
    cut = _cut(draft, graph, chosen)
    editor = _Editor(graph, cut, interior)
    removed = set(nodes_of(draft, graph)) - chosen
    records = [
        edited
        for index, record in enumerate(draft.records)
        if index not in removed and (edited := editor.edit(record)) is not None
    ]
    return Draft(tuple(records), {**draft.added, **editor.added})


def _cut(draft: Draft, graph: int, chosen: set[int]) -> Cut:
    tensors: dict[int, _Tensor] = {}
    read: set[int] = set()
    written: set[int] = set()
    for index, record in enumerate(draft.records):
        if not isinstance(record, CallRecord) or record.owner != graph or record.error is not None:
            continue
        if record.function == "graph_create_tensor":
            arguments = arguments_of(record)
            number = msgspec.json.decode(record.result, type=int)
            tensors[number] = _Tensor(arguments["name"], TensorKind(arguments["kind"]))
        elif index in chosen:
            arguments = arguments_of(record)
            read |= {h for h in arguments["inputs"] if h is not None}
            written |= set(arguments["outputs"])
    kinds = {h: t.kind for h, t in tensors.items()}
    changeable = (TensorKind.NATIVE, TensorKind.APP_READ)
    for handle in (read | written) & tensors.keys():
        if kinds[handle] in changeable and handle not in written:
            kinds[handle] = TensorKind.APP_WRITE
        elif kinds[handle] is TensorKind.NATIVE and handle not in read:
            kinds[handle] = TensorKind.APP_READ
    kept = (read | written) & tensors.keys()

    def names(kind: TensorKind) -> frozenset[str]:
        return frozenset(tensors[h].name for h in kept if kinds[h] is kind)

    changed = {h: kinds[h] for h in kept if kinds[h] is not tensors[h].kind}
    return Cut(frozenset(kept), changed, names(TensorKind.APP_WRITE), names(TensorKind.APP_READ))


class _Editor:
    """Edits the records of a graph that is cut."""

    def __init__(self, graph: int, cut: Cut, interior: Interior) -> None:
        self.added: dict[str, Blob] = {}
        self._graph = graph
        self._cut = cut
        self._interior = interior
        self._running: set[int] = set()

    def edit(self, record: TraceRecord) -> TraceRecord | None:
        """Return a record for the cut graph; None if it is not needed."""
        if isinstance(record, CompletionRecord):
            return self._with_result(record) if record.number in self._running else record
        if not isinstance(record, CallRecord) or record.owner != self._graph:
            return record
        if record.function == "graph_create_tensor":
            return self._tensor(record)
        if record.function == "graph_update_tensor":
            tensor = arguments_of(record).get("tensor")
            return record if tensor in self._cut.kept else None
        if record.function == "graph_finalize":
            return self._finalize(record)
        if record.function in EXECUTES:
            return self._execute(record)
        return record

    def _tensor(self, record: CallRecord) -> CallRecord | None:
        number = msgspec.json.decode(record.result)
        if number is not None and number not in self._cut.kept:
            return None
        kind = self._cut.kinds.get(number)
        if kind is None:
            return record
        return with_arguments(record, {**arguments_of(record), "kind": int(kind)})

    def _finalize(self, record: CallRecord) -> CallRecord:
        """Return a call that names no tensor to observe or to read: some may be removed."""
        arguments = arguments_of(record)
        if not arguments.get("outputs") and not arguments.get("observed"):
            return record
        return with_arguments(record, {**arguments, "outputs": [], "observed": {}})

    def _execute(self, record: CallRecord) -> CallRecord:
        arguments, keys = arguments_of(record), list(record.payloads)
        values = self._interior.get(record.number, {})
        inputs = self._kept(arguments["inputs"], self._cut.inputs, keys)
        for name in sorted(self._cut.inputs - inputs.keys() & values.keys()):
            inputs[name] = self._value(values[name], keys)
        arguments["inputs"] = inputs
        outputs = arguments.get("outputs")
        if outputs is not None:
            found = {n: v for n, v in outputs.items() if n in self._cut.outputs}
            for name in sorted(self._cut.outputs - found.keys() & values.keys()):
                array = values[name]
                found[name] = {"is": "array", "dtype": array.dtype.str, "shape": array.shape}
            arguments["outputs"] = found
        edited = with_arguments(record, arguments, keys)
        if record.function == EXECUTES[1]:
            self._running.add(record.number)
            return edited
        finished: CallRecord = self._with_result(edited)
        return finished

    def _with_result(self, record: Any) -> Any:
        """Return a record with the outputs of the cut graph."""
        result = msgspec.json.decode(record.result)
        if not isinstance(result, dict):
            return record
        keys = list(record.payloads)
        values = self._interior.get(record.number, {})
        found = self._kept(result, self._cut.outputs, keys)
        for name in sorted(self._cut.outputs - found.keys() & values.keys()):
            found[name] = self._value(values[name], keys)
        raw = msgspec.Raw(msgspec.json.encode(found))
        return msgspec.structs.replace(record, result=raw, payloads=tuple(keys))

    def _kept(
        self, values: Mapping[str, Any], names: frozenset[str], keys: list[str]
    ) -> dict[str, Any]:
        """Return the values of some names, and drop the payloads of the others."""
        for name, value in values.items():
            payload = value.get("payload")
            if name not in names and isinstance(payload, int) and payload < len(keys):
                keys[payload] = NOT_RECORDED
        return {name: value for name, value in values.items() if name in names}

    def _value(self, array: Array, keys: list[str]) -> dict[str, Any]:
        blob = Blob(np.ascontiguousarray(array))
        self.added[blob.hash] = blob
        keys.append(blob.hash)
        return {
            "is": "array",
            "dtype": array.dtype.str,
            "shape": array.shape,
            "payload": len(keys) - 1,
        }
