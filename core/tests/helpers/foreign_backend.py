"""A foreign runtime: its contexts are blobs that core cannot read."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from dovetail.container import WeightStore
from dovetail.errors import ContainerError
from dovetail.ir import Array, DType, Tensor, TensorKind
from dovetail.ops import CheckedGraph, NodeView
from dovetail.runtime.base import BackendBase, ContextBase, PreparedBase
from dovetail.runtime.contract import (
    SUPPORTED,
    Capabilities,
    Fingerprint,
    Image,
    Prepared,
    PrepareRequest,
    Restored,
    RunControl,
    Support,
)
from dovetail.runtime.interface import Interface

FACTORS = {"Halve": 0.5, "Scale": 2.0}


class Program(PreparedBase):
    """A program of the runtime: `[output, input, factor]` for each step, and `[name, shape]`s."""

    def __init__(self, code: dict[str, Any]) -> None:
        self.code = code
        self.steps = [(str(out), str(x), np.float32(f)) for out, x, f in code["steps"]]
        self.ends = [
            {str(n): tuple(map(int, s)) for n, s in code[k]} for k in ("inputs", "outputs")
        ]

    def run(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], control: RunControl
    ) -> None:
        values = dict(inputs)
        for out, x, factor in self.steps:
            control.check()
            values[out] = values[x] * factor
        for name, array in outputs.items():
            array[...] = values[name]

    def interface(self, name: str) -> Interface:
        kinds = (TensorKind.APP_WRITE, TensorKind.APP_READ)
        inputs, outputs = (
            [Tensor(n, DType.FLOAT_32, shape, kind) for n, shape in ends.items()]
            for ends, kind in zip(self.ends, kinds, strict=True)
        )
        return Interface.of(name, inputs, outputs)


class ForeignContext(ContextBase):
    def image(self, graphs: Mapping[str, Prepared]) -> Image:
        code = {n: p.code for n, p in graphs.items() if isinstance(p, Program)}
        body = json.dumps(code).encode()
        blob = zlib.crc32(body).to_bytes(4, "little") + body
        return Image(self.backend.fingerprint(self.device), {}, opaque=blob)

    def restore(
        self,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: Callable[[str], PrepareRequest],
    ) -> Mapping[str, Restored]:
        image.require(self.backend.fingerprint(self.device))
        body = image.opaque[4:]
        if zlib.crc32(body).to_bytes(4, "little") != image.opaque[:4]:
            raise ContainerError("the context of the foreign runtime is damaged")
        try:
            found = {name: Program(code) for name, code in json.loads(body).items()}
        except (ValueError, LookupError, TypeError) as error:
            raise ContainerError(f"invalid program: {error}", code="CONTAINER_INVALID") from error
        return {name: Restored(made.interface(name), made) for name, made in found.items()}


class ForeignBackend(BackendBase):
    name: ClassVar[str] = "foreign"

    def capabilities(self) -> Capabilities:
        return Capabilities(op_packages=True, caching=True, cancel=True)

    def fingerprint(self, device: object) -> Fingerprint:
        return Fingerprint({"backend": self.name, "runtime": "1.0"})

    def validate(self, node: NodeView, device: object, config: object) -> Support:
        if node.op_type not in FACTORS or node.node.params:
            return Support(False, "op", "op", node.op_type, tuple(FACTORS))
        if node.outs[0].dtype is not DType.FLOAT_32:
            return Support(False, "dtype", "out[0]", node.outs[0].dtype.name, ("FLOAT_32",))
        if any(x is not None and x.kind.is_static for x in node.node.inputs):
            return Support(False, "constant", "in[0]", "constant", ("input",))
        return SUPPORTED

    def open_context(self, device: object, config: object, weights: WeightStore) -> ForeignContext:
        return ForeignContext(self, device, config, weights)

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> Program:
        request.control.check()
        nodes = [(v.op_type, v.node.inputs[0], v.node.outputs[0]) for v in graph.nodes]
        steps = [[y.name, x.name, FACTORS[op]] for op, x, y in nodes if x is not None]
        ends = {"inputs": graph.inputs, "outputs": graph.outputs}
        return Program(
            {"steps": steps, **{k: [[t.name, t.shape] for t in ts] for k, ts in ends.items()}}
        )
