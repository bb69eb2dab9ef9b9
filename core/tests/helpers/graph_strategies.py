"""Strategies of hypothesis: any graph, with its tensors, encodings and params."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from dovetail.ir import (
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    DataFormat,
    DType,
    Encoding,
    EncodingMapping,
    FloatBlock,
    Graph,
    Mapped,
    MemoryType,
    Node,
    Param,
    Scalar,
    ScaleOffset,
    Tensor,
    TensorKind,
    Vector,
    pack,
)

SCALED = AxisScaleOffset | Block | BlockwiseExpansion
FIXED = [d for d in DType if d.is_fixed_point]
STORED = [d for d in DType if d not in (DType.STRING, DType.UNDEFINED)]
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)
scales = st.floats(0, 2.0**20, width=32)


def arrays(dtype: Any, shape: Any, elements: Any = None) -> st.SearchStrategy[Any]:
    return npst.arrays(dtype, shape, elements=elements)


@st.composite
def encodings(draw: st.DrawFn, dtype: DType, shape: tuple[int, ...]) -> Encoding:
    """An encoding that fits a tensor; some with more than 64 elements, which go into blobs."""
    bitwidth = draw(st.none() | st.integers(1, dtype.bits))
    offset = st.integers(-(2**31), 2**31 - 1)
    kinds = ["tensor"]
    if shape and 0 not in shape:
        kinds += ["axis", "block", "expansion", "float block", "mapped", "vector"]
    kind = draw(st.sampled_from(kinds))
    if kind == "tensor":
        return ScaleOffset(
            draw(st.floats(0, float(np.finfo(np.float32).max))), draw(offset), bitwidth
        )
    if kind == "mapped":
        scaled = encodings(dtype, shape).filter(lambda e: isinstance(e, SCALED))
        base = msgspec.structs.replace(draw(scaled), bitwidth=dtype.bits)
        return Mapped(base, draw(st.sampled_from(EncodingMapping)))
    some = st.none() if draw(st.booleans()) else st.just(True)
    if kind in ("block", "float block"):
        sizes = tuple(
            draw(st.sampled_from([b for b in range(1, n + 1) if n % b == 0])) for n in shape
        )
        grid = tuple(n // b for n, b in zip(shape, sizes, strict=True))
        if kind == "float block":
            fractions = draw(arrays(np.float32, grid, st.floats(-9, 9, width=32)))
            return FloatBlock(sizes, draw(arrays(np.float32, grid, scales)), fractions, bitwidth)
        offsets = draw(some) and draw(arrays(np.int32, grid))
        return Block(sizes, draw(arrays(np.float32, grid, scales)), offsets, bitwidth)
    axis = draw(st.integers(0, len(shape) - 1))
    count = shape[axis]
    scale = draw(arrays(np.float32, count, scales))
    offsets = draw(some) and draw(arrays(np.int32, count))
    if kind == "axis":
        return AxisScaleOffset(axis, scale, offsets, bitwidth)
    if kind == "vector":
        numbers = draw(st.tuples(*[st.integers(1, 2**32 - 1)] * 4))
        elements = AxisScaleOffset(axis, scale, offsets, dtype.bits)
        return Vector(elements, *numbers, draw(st.integers(1, 32)))
    each = math.prod(shape) // count
    blocks = draw(st.sampled_from([b for b in range(1, each + 1) if each % b == 0]))
    bits = draw(st.integers(1, 16))
    wide = np.uint8 if bits <= 8 else np.uint16
    factors = arrays(wide, (count, blocks), st.integers(0, (1 << min(bits, 8)) - 1))
    return BlockwiseExpansion(axis, scale, draw(factors), offsets, bitwidth, bits)


@st.composite
def tensors(draw: st.DrawFn, name: str, kind: TensorKind) -> Tensor:
    dtype = draw(st.sampled_from([*STORED, DType.STRING]))
    shape = draw(shapes | st.just((80, 2))) if kind.is_static else draw(shapes)
    encoding = None
    if dtype.is_fixed_point:
        encoding = draw(st.none() | encodings(dtype, shape))
    data = None
    if kind.is_static and dtype is DType.STRING:
        data = pack(draw(arrays(object, shape, names)), dtype)
    elif kind.is_static:
        content = draw(st.binary(min_size=dtype.nbytes(shape), max_size=dtype.nbytes(shape)))
        data = Tensor.static("raw", np.frombuffer(content, np.uint8)).data
    perm = draw(st.none() | st.permutations(range(len(shape))).map(tuple))
    source = draw(st.none() | st.text(st.characters(exclude_categories=["Cs"])))
    is_open = not kind.is_static and 0 not in shape
    return Tensor(
        name,
        dtype,
        shape,
        kind,
        encoding=encoding,
        data=data,
        source=source,
        source_perm=perm,
        dynamic=draw(st.tuples(*[st.booleans()] * len(shape))) if is_open else (),
        memory_type=draw(st.sampled_from(MemoryType)) if kind.is_input else MemoryType.RAW,
        data_format=DataFormat.DENSE if kind.is_static else draw(st.sampled_from(DataFormat)),
    )


@st.composite
def scalars(draw: st.DrawFn) -> Scalar:
    dtype = draw(st.sampled_from([d for d in DType if d is not DType.UNDEFINED]))
    if dtype is DType.STRING:
        return Scalar(dtype, draw(names | st.sampled_from(["inf", "-inf", "nan", ""])))
    if dtype is DType.BOOL_8:
        return Scalar(dtype, draw(st.booleans()))
    if dtype.is_float:
        return Scalar(dtype, draw(st.floats()))
    return Scalar(dtype, draw(st.integers(*dtype.stored_range())))


READ = [k for k in TensorKind if k.is_input or k.is_static or k is TensorKind.NULL]
WRITTEN = [k for k in TensorKind if not k.is_static and (k.is_output or not k.is_input)]
WRITTEN.remove(TensorKind.NULL)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    graph = Graph(draw(names))
    labels = iter(draw(st.lists(names, min_size=12, max_size=12, unique=True)))
    readable: list[Tensor | None] = [None]
    for kind in draw(st.lists(st.sampled_from(READ), max_size=4)):
        readable.append(graph.add_tensor(draw(tensors(next(labels), kind))))
    for i in range(draw(st.integers(0, 3))):
        kinds = draw(st.lists(st.sampled_from(WRITTEN), min_size=1, max_size=2))
        outputs = [graph.add_tensor(draw(tensors(next(labels), kind))) for kind in kinds]
        inputs = draw(st.lists(st.sampled_from(readable), max_size=3))
        params: dict[str, Param] = draw(st.dictionaries(names, scalars(), max_size=2))
        if draw(st.booleans()):
            params["tensor"] = draw(tensors("a param", TensorKind.STATIC))
        sources = draw(st.none() | st.lists(names, max_size=2))
        package = draw(st.sampled_from(["qti.aisw", "my.pkg"]))
        graph.add_node(
            Node(f"node {i}", package, draw(names), inputs, outputs, params, sources=sources)
        )
        readable += outputs
    return graph
