"""Traces of drawn sessions: any tensors, params and encodings, which no backend has to accept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st
from msgspec import Raw

from dovetail.container.entries import dump_encoding, dump_param
from dovetail.ir import (
    AxisScaleOffset,
    Blob,
    Block,
    BlockwiseExpansion,
    DataFormat,
    DType,
    Encoding,
    FloatBlock,
    Mapped,
    MemoryType,
    Scalar,
    ScaleOffset,
    Tensor,
    TensorKind,
    Vector,
    pack,
)
from dovetail.ir.encodings import EncodingMapping
from dovetail.runtime.api_table import API, ArgKind
from dovetail.runtime.calls import BackendReference, CallRecord, Role
from dovetail.runtime.calls.payloads import CallPayloads
from dovetail.runtime.calls.values import ArrayValue, BlobValue, ObservedValue, arguments_type
from dovetail_saver.trace import Header, TraceWriter

_ENCODER = msgspec.json.Encoder()
SHAPE = (2, 4, 3)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
SCALES = st.floats(2**-20, 2**20, width=32)


def _floats(count: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(SCALES, min_size=count, max_size=count).map(
        lambda values: np.array(values, np.float32)
    )


def _ints(count: int, low: int, high: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.integers(low, high), min_size=count, max_size=count).map(
        lambda values: np.array(values, np.int32)
    )


OFFSETS = _ints(4, -200, 200)
AXIS = st.builds(AxisScaleOffset, st.just(1), _floats(4), OFFSETS)
BW_AXIS = st.builds(AxisScaleOffset, st.just(1), _floats(4), st.none() | OFFSETS, st.just(4))
BLOCK = st.builds(
    lambda scales, offsets: Block((1, 2, 3), scales.reshape(2, 2, 1), offsets.reshape(2, 2, 1)),
    _floats(4),
    OFFSETS,
)
FLOAT_BLOCK = st.builds(
    lambda scales, offsets, bits: FloatBlock(
        (2, 2, 3), scales.reshape(1, 2, 1), offsets.reshape(1, 2, 1), bits
    ),
    _floats(2),
    _floats(2),
    st.none() | st.just(4),
)
EXPANSION = st.builds(
    lambda scales, factors, kind, offsets: BlockwiseExpansion(
        1, scales, factors.reshape(4, 2).astype(kind), offsets, None, 4
    ),
    _floats(4),
    _ints(8, 0, 15),
    st.sampled_from([np.uint8, np.uint16]),
    OFFSETS,
)


def _with_bits(encoding: Any) -> Any:
    """Return a block encoding with a bit width, which its mapped form has."""
    if isinstance(encoding, Block):
        return Block(encoding.block_size, encoding.scales, encoding.offsets, 4)
    return BlockwiseExpansion(
        encoding.axis, encoding.scales, encoding.block_scales, encoding.offsets, 4, 4
    )


ENCODINGS: st.SearchStrategy[Encoding | None] = st.one_of(
    st.none(),
    st.builds(ScaleOffset, SCALES, st.integers(-(2**31), 2**31 - 1), st.none() | st.just(4)),
    AXIS,
    BW_AXIS,
    BLOCK,
    FLOAT_BLOCK,
    EXPANSION,
    st.builds(
        Mapped,
        BW_AXIS | BLOCK.map(_with_bits) | EXPANSION.map(_with_bits),
        st.sampled_from(EncodingMapping),
    ),
    st.builds(Vector, BW_AXIS, *[st.integers(1, 8)] * 5),
)
SCALARS = st.one_of(
    st.builds(Scalar, st.just(DType.FLOAT_32), st.floats(width=32)),
    st.builds(Scalar, st.just(DType.FLOAT_64), st.floats()),
    st.builds(Scalar, st.just(DType.FLOAT_16), st.floats(width=16, allow_nan=False)),
    st.builds(Scalar, st.just(DType.BFLOAT_16), st.sampled_from([0.0, -1.5, float("inf")])),
    st.builds(Scalar, st.just(DType.BOOL_8), st.booleans()),
    st.builds(Scalar, st.just(DType.STRING), TEXT),
    st.builds(Scalar, st.just(DType.INT_64), st.integers(-(2**63), 2**63 - 1)),
    st.builds(Scalar, st.just(DType.UINT_64), st.integers(0, 2**64 - 1)),
    st.builds(Scalar, st.just(DType.UFIXED_POINT_16), st.integers(0, 2**16 - 1)),
)
DTYPES = [d for d in DType if d not in (DType.STRING, DType.UNDEFINED)]


def _data(dtype: DType, shape: tuple[int, ...], byte: int) -> Blob:
    return Blob(np.full(dtype.nbytes(shape), byte, np.uint8))


@st.composite
def tensors(draw: st.DrawFn, name: str, kind: TensorKind) -> Tensor:
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.sampled_from([SHAPE, (), (0, 3), (5,)]))
    is_static = kind.is_static
    encoding = draw(ENCODINGS) if shape == SHAPE else None
    # of narrow integers, an import extends the sign
    byte = 0 if encoding is not None and encoding.bitwidth else draw(st.integers(0, 255))
    return Tensor(
        name,
        dtype,
        shape,
        kind,
        encoding=encoding,
        data=_data(dtype, shape, byte) if is_static else None,
        dynamic=[True, False, True] if shape == SHAPE and draw(st.booleans()) else (),
        memory_type=draw(st.sampled_from(MemoryType)) if not is_static else MemoryType.RAW,
        data_format=draw(st.sampled_from([DataFormat.DENSE, DataFormat.UBWC_NV12])),
    )


class Sessions:
    """Writes records of calls.

    Args:
        folder: The folder of the trace.
    """

    def __init__(self, folder: Path) -> None:
        self.writer = TraceWriter(folder, Header())
        self._number = 0
        self._handles = 0

    def call(
        self,
        function: str,
        owner: int | None = None,
        payloads: CallPayloads | None = None,
        result: Any = None,
        **given: Any,
    ) -> int:
        """Write a record; return the handle that it creates."""
        api = API[function]
        values = {
            name: ObservedValue()
            if value.kind is ArgKind.OBSERVED
            else None
            if value.nullable
            else ()
            if value.many
            else None
            for name, value in api.args.items()
        }
        if api.result is not None and api.result.kind is ArgKind.HANDLE:
            self._handles += 1
            result = self._handles
        arguments = arguments_type(function)(**{**values, **given})
        self.writer.write(
            CallRecord(
                number=self._number,
                function=function,
                owner=owner,
                arguments=Raw(_ENCODER.encode(arguments)),
                result=Raw(_ENCODER.encode(result)),
                payloads=() if payloads is None else tuple(payloads.keys),
            )
        )
        self._number += 1
        return self._handles

    def payloads(self) -> CallPayloads:
        """Return a receiver of the payloads of a record."""
        return CallPayloads(self.writer.payloads)

    def tensor(self, function: str, owner: int, tensor: Tensor) -> int:
        """Write the creation of a tensor."""
        payloads = self.payloads()
        given: dict[str, Any] = {
            "name": tensor.name,
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "kind": tensor.kind,
        }
        if tensor.encoding is not None:
            given["encoding"] = dump_encoding(tensor.encoding, payloads, "")
        if tensor.data is not None:
            given["data"] = BlobValue(payloads.add(tensor.data))
        if function == "graph_create_tensor":
            given["dynamic"] = tensor.dynamic
            given["memory_type"] = tensor.memory_type
            given["data_format"] = tensor.data_format
        return self.call(function, owner, payloads, **given)

    def node(self, graph: int, ins: list[int | None], outs: list[int], **given: Any) -> None:
        """Write the addition of a node."""
        payloads = self.payloads()
        params: Mapping[str, Any] = given.pop("params")
        found = tuple(dump_param(name, each, payloads, "") for name, each in params.items())
        self.call(
            "graph_add_node", graph, payloads, inputs=ins, outputs=outs, params=found or None,
            **given,
        )  # fmt: skip

    def execute(self, function: str, graph: int, given: Tensor, found: Tensor, **more: Any) -> None:
        """Write an execution with an input of zeros."""
        payloads = self.payloads()
        blob = pack(np.zeros(given.shape, given.dtype.storage), given.dtype)
        index = payloads.add(blob, Role.INPUT)
        if given.dtype.is_packed:
            zeros = np.zeros(given.shape, given.dtype.storage)
            index = payloads.add_array(zeros, Role.INPUT)
        result = {found.name: ArrayValue(found.dtype.storage.str, found.shape)}
        self.call(
            function,
            graph,
            payloads,
            None if function == "graph_execute_async" else result,
            inputs={given.name: ArrayValue(given.dtype.storage.str, given.shape, index)},
            outputs=result if function == "graph_execute_async" else None,
            **more,
        )


def write_session(folder: Path, draw: Any) -> None:
    """Write the trace of a drawn session: two contexts, graphs, nodes, executions, profiles."""
    session = Sessions(folder)
    with session.writer:
        log = session.call("log_create", level=draw(st.integers(1, 5)))
        backend = session.call("backend_create", name=BackendReference("htp"))
        session.call("backend_has_capability", key=draw(st.integers(0, 2**40)))
        device = session.call("device_create", backend)
        profile = session.call("profile_create", backend, level=2)
        signal = session.call(
            "signal_create", backend, kind=2, timeout_us=draw(st.integers(0, 2**40))
        )
        for index in range(2):
            config = {"context_priority": "high", "async_execute_queue_depth": 3}
            context = session.call(
                "context_create", backend, device=draw(st.sampled_from([None, device])),
                config=draw(st.sampled_from([None, config, {"unknown": [1]}])),
            )  # fmt: skip
            shared = draw(tensors("shared", TensorKind.STATIC))
            shared_number = session.tensor("context_create_tensor", context, shared)
            graph = session.call(
                "graph_create", context, name=draw(TEXT),
                config=draw(st.sampled_from([None, {"graph_priority": "low"}])),
            )  # fmt: skip
            given = draw(tensors(f"x{draw(TEXT)}", TensorKind.APP_WRITE))
            found = draw(tensors(f"y{draw(TEXT)}", TensorKind.APP_READ))
            weights = draw(tensors(f"w{draw(TEXT)}", TensorKind.STATIC))
            x, w, y = (
                session.tensor("graph_create_tensor", graph, each)
                for each in (given, weights, found)
            )
            param = draw(tensors(draw(st.sampled_from(["", "p", weights.name])), TensorKind.STATIC))
            session.node(
                graph, [x, None, w, shared_number], [y],
                name=draw(TEXT), package=draw(TEXT), op_type=draw(TEXT),
                sources=draw(st.sampled_from([None, ("a", "b")])),
                params={"a": draw(SCALARS), "b": param, draw(TEXT): draw(SCALARS)},
            )  # fmt: skip
            session.call("graph_finalize", graph, profile=profile)
            session.call("profile_clear", profile)
            kind = ("graph_execute", "graph_execute_async")[index]
            session.execute(kind, graph, given, found, signal=signal)
            session.call("context_free", context)
        session.call("profile_get_events", profile, result=[])
        session.call("signal_trigger", signal)
        session.call("log_free", log)
        session.call("backend_free", backend)
