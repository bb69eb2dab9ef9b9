"""Backends that run all but chosen ops by reference, and whose graphs are updated and restored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from dovetail.container import WeightStore
from dovetail.errors import BackendError, ContainerError
from dovetail.ir import Array, Tensor, TensorKind
from dovetail.ops import CheckedGraph, NodeView, OpRegistry, simulate
from dovetail.runtime import contract
from dovetail.runtime.base import BackendBase, ContextBase, PreparedBase, unsupported
from dovetail.runtime.config import DeviceConfig, GraphConfig
from dovetail.runtime.contract import Image, PrepareRequest, Restored, Support
from dovetail.runtime.interface import Interface

EVENTS: list[str] = []  # what was prepared, restored and closed


class PartialOptions(contract.Options, frozen=True):
    refuse: tuple[str, ...] = ()
    fail: bool = False


class PartialDevice(DeviceConfig, frozen=True):
    refuse: tuple[str, ...] = ()


class PartialGraph(GraphConfig, frozen=True):
    refuse: tuple[str, ...] = ()


class PartialPrepared(PreparedBase):
    def __init__(self, name: str, graph: CheckedGraph) -> None:
        self.name = name
        self.graph = graph
        self.data = {t.name: t.stored() for t in graph.tensors() if t.data is not None}
        self.specs = {t.name: t.spec for t in graph.tensors()}

    def run(self, inputs: Any, outputs: Any, control: contract.RunControl) -> None:
        known = {**self.data, **inputs}
        for view in self.graph.nodes:
            control.check()
            schema, op = view.definition
            given = [None if t is None else known[t.name] for t in view.node.inputs]
            ins = [None if t is None else self.specs[t.name] for t in view.node.inputs]
            outs = [self.specs[t.name] for t in view.node.outputs]
            try:
                found = simulate(schema, op, given, ins, outs)
            except ArithmeticError as error:
                raise BackendError(f"failed: {error}", where=f"node {view.node.name}") from error
            for tensor, value in zip(view.node.outputs, found, strict=True):
                known[tensor.name] = value.astype(tensor.dtype.storage, copy=False)
                if tensor.name in outputs:
                    np.copyto(outputs[tensor.name], value)
            if control.reports_steps:
                names = {t.name: known[t.name] for t in view.node.outputs}
                control.step_finished((view.node.name,), 0.0, 0.0, lambda names=names: names)

    def update(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            if tensor.name in self.data:
                if self.data[tensor.name].shape != tensor.shape:
                    code = "TENSOR_ERROR_INVALID_TENSOR_PARAM"
                    raise BackendError("the shape differs", code=code)
                self.data[tensor.name] = tensor.stored()
            self.specs[tensor.name] = tensor.spec

    def section(self, names: Collection[str]) -> Image:
        kept = {t.name for t in self.graph.tensors() if t.kind is TensorKind.UPDATEABLE_STATIC}
        return Image(contract.Fingerprint(), {}, {n: self.data[n] for n in kept & set(names)})

    def apply(self, section: Image) -> None:
        names = section.blobs.keys() & self.data.keys()
        self.data |= {name: _like(self.data[name], section.blobs, name) for name in names}

    def close(self) -> None:
        EVENTS.append(f"{self.name} closed {self.graph.name}")


class PartialContext(ContextBase):
    def image(self, graphs: Mapping[str, Any]) -> Image:
        """One opaque blob, as of a foreign runtime, and blobs of the data."""
        blobs = {f"{n}/{key}": x for n, one in graphs.items() for key, x in one.data.items()}
        fingerprint = self.backend.fingerprint(self.device)
        return Image(fingerprint, {}, blobs, "\n".join(graphs).encode())

    def restore(
        self,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: Callable[[str], PrepareRequest],
    ) -> Mapping[str, Restored]:
        if graph is None:
            raise unsupported("restore without the model", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")
        image.require(self.backend.fingerprint(self.device))
        found = {}
        for name in image.opaque.decode().split("\n") if image.opaque else ():
            part = graph(name)
            prepared = self.backend.prepared(self.backend.name, part)  # type: ignore[attr-defined]
            prepared.data = {
                n: _like(x, image.blobs, f"{name}/{n}") for n, x in prepared.data.items()
            }
            EVENTS.append(f"{self.backend.name} restored {part.name}")
            found[name] = Restored(Interface.of(name, part.inputs, part.outputs), prepared)
        return found

    def close(self) -> None:
        EVENTS.append(f"{self.backend.name} closed a context")


def _like(array: Array, blobs: Mapping[str, Array], key: str) -> Array:
    """Return a blob in the form of an array, from which it was made."""
    if key not in blobs or blobs[key].nbytes != array.nbytes:
        raise ContainerError(f"blob '{key}' is missing or of another size")
    return np.frombuffer(blobs[key].tobytes(), array.dtype).reshape(array.shape)


class LeftBackend(BackendBase):
    name: ClassVar[str] = "left"
    prepared: ClassVar[type[PartialPrepared]] = PartialPrepared
    configs: ClassVar[contract.Configs] = contract.Configs(
        backend=PartialOptions, device=PartialDevice, graph=PartialGraph
    )

    def __init__(self, ops: OpRegistry, options: Any) -> None:
        super().__init__(ops, options)
        if options.fail:
            raise OSError("no license")

    def capabilities(self) -> contract.Capabilities:
        return contract.Capabilities(
            op_packages=True,
            caching=True,
            cancel=True,
            watch=True,
            asynchronous=True,
            priority=True,
            updates=True,
            memory_handles=True,
        )

    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        refused = (*self.options.refuse, *device.refuse, *config.refuse)
        if node.op_type in refused:
            return Support(False, "op", "type", node.op_type, rewrite="use another op")
        return contract.SUPPORTED

    def open_context(self, device: Any, config: Any, weights: WeightStore) -> PartialContext:
        return PartialContext(self, device, config, weights)

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> PartialPrepared:
        EVENTS.append(f"{self.name} prepared {graph.name}")
        return self.prepared(self.name, graph)

    def close(self) -> None:
        EVENTS.append(f"{self.name} closed")


class RightBackend(LeftBackend):
    name: ClassVar[str] = "right"
