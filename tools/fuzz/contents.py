"""Mutations of a model's contents: shapes, weights, attributes, versions."""

from __future__ import annotations

import struct
from collections.abc import Callable, MutableSequence, Sequence
from random import Random
from typing import TypeVar

from onnx import AttributeProto, ModelProto, TensorProto, helper

from fuzz import pick

T = TypeVar("T")
Mutation = Callable[[ModelProto, Random], None]


def declared_size(model: ModelProto, random: Random) -> None:
    """Replace a declared size by another, a symbol or none; or change the rank."""
    info = pick.some(random, pick.infos(model))
    if info is None:
        return
    shape = info.type.tensor_type.shape
    dim = pick.some(random, shape.dim)
    if dim is None or random.random() < 0.1:
        for _ in range(random.choice((1, 1, 2, 70))):
            shape.dim.add(dim_value=random.choice(pick.EXTENTS))
    elif random.random() < 0.1:
        dim.Clear()
    elif random.random() < 0.1:
        dim.dim_param = random.choice(pick.TEXTS)
    else:
        dim.dim_value = random.choice(pick.EXTENTS)


def declared_type(model: ModelProto, random: Random) -> None:
    """Replace a declared element type by another, or by a type that is not a tensor."""
    info = pick.some(random, pick.infos(model))
    if info is None:
        return
    if random.random() < 0.1:
        info.type.sequence_type.elem_type.tensor_type.elem_type = 1
    else:
        info.type.tensor_type.elem_type = random.choice((*range(26), -1, 99, 2**31 - 1))


def weight_size(model: ModelProto, random: Random) -> None:
    """Replace a size of a weight's shape, or change its rank."""
    tensor = pick.some(random, pick.tensors(model))
    if tensor is None:
        return
    how = random.random()
    if how < 0.2:
        del tensor.dims[:]
    elif how < 0.4 or not tensor.dims:
        tensor.dims.extend([random.choice(pick.EXTENTS)] * random.choice((1, 1, 2, 70)))
    else:
        tensor.dims[random.randrange(len(tensor.dims))] = random.choice(pick.EXTENTS)


def weight_data(model: ModelProto, random: Random) -> None:
    """Shorten, lengthen or replace a weight's data, or store them in another field."""
    tensor = pick.some(random, pick.tensors(model))
    if tensor is None:
        return
    data = bytearray(tensor.raw_data)
    how = random.randrange(6)
    if how == 0:
        tensor.raw_data = bytes(data[: random.randint(0, len(data))])
    elif how == 1:
        tensor.raw_data = bytes(data) + random.randbytes(random.randint(1, 9))
    elif how == 2:
        tensor.raw_data = random.randbytes(len(data))
    elif how == 3:
        tensor.ClearField("raw_data")
        tensor.float_data.extend(random.choices(pick.FLOATS, k=random.randint(0, 8)))
    elif how == 4:
        tensor.ClearField("raw_data")
        tensor.int32_data.extend(random.choices((0, 1, -1, 2**31 - 1, -(2**31)), k=4))
    else:
        tensor.int64_data.extend(random.choices(pick.INTEGERS, k=random.randint(0, 4)))


def weight_number(model: ModelProto, random: Random) -> None:
    """Replace one element of a weight by an extreme value."""
    tensor = pick.some(random, [t for t in pick.tensors(model) if t.raw_data])
    if tensor is None:
        return
    data = bytearray(tensor.raw_data)
    if tensor.data_type == TensorProto.INT64:
        element = struct.pack("<q", random.choice(pick.INTEGERS))
    elif tensor.data_type == TensorProto.FLOAT:
        element = struct.pack("<f", random.choice(pick.FLOATS))
    else:
        element = bytes([random.choice((0, 1, 0x7F, 0x80, 0xFF))])
    place = random.randrange(len(data)) // len(element) * len(element)
    data[place : place + len(element)] = element
    tensor.raw_data = bytes(data)


def weight_type(model: ModelProto, random: Random) -> None:
    """Replace a weight's element type."""
    tensor = pick.some(random, pick.tensors(model))
    if tensor is not None:
        tensor.data_type = random.choice((*range(26), -1, 99))


def weight_place(model: ModelProto, random: Random) -> None:
    """Store a weight in another file, in segments, or as a sparse tensor."""
    tensor = pick.some(random, pick.tensors(model))
    if tensor is None:
        return
    how = random.random()
    if how < 0.1:
        tensor.segment.begin, tensor.segment.end = 0, random.choice(pick.INTEGERS)
    elif how < 0.2:
        sparse = model.graph.sparse_initializer.add()
        sparse.values.CopyFrom(tensor)
        sparse.dims.extend(tensor.dims)
    else:
        tensor.data_location = TensorProto.EXTERNAL
        if random.random() < 0.8:
            tensor.ClearField("raw_data")
        for key, values in _PLACES.items():
            if random.random() < 0.8:
                tensor.external_data.add(key=key, value=random.choice(values))


_SIZES = ("0", "16", "1", "-1", "4.0", "", "x", str(2**31), str(2**63), str(2**64), "9" * 5000, "٣")
_PLACES = {
    "location": ("weights.bin", "../secret.bin", "/etc/hostname", "..", ".", "", "\0", "a" * 5000,
                 "missing", "model.onnx", "./../models/weights.bin", "link", "/dev/zero",
                 "fifo"),
    "offset": _SIZES,
    "length": _SIZES,
}  # fmt: skip


def attribute_value(model: ModelProto, random: Random) -> None:
    """Replace an attribute's value by an extreme value of its type."""
    found = pick.some(random, pick.attributes(model))
    if found is None:
        return
    if found.type == AttributeProto.INT:
        found.i = random.choice(pick.INTEGERS)
    elif found.type == AttributeProto.FLOAT:
        found.f = random.choice(pick.FLOATS)
    elif found.type == AttributeProto.STRING:
        found.s = random.choice((random.choice(pick.TEXTS).encode(), b"\xff\xfe"))
    elif found.type == AttributeProto.INTS:
        _extend_or_set(found.ints, pick.INTEGERS, random)
    elif found.type == AttributeProto.FLOATS:
        _extend_or_set(found.floats, pick.FLOATS, random)
    else:
        attribute_type(model, random)


def _extend_or_set(values: MutableSequence[T], choices: Sequence[T], random: Random) -> None:
    how = random.random()
    if how < 0.2:
        del values[random.randint(0, len(values)) :]
    elif how < 0.4 or not values:
        values.extend(random.choices(choices, k=random.choice((1, 2, 100))))
    else:
        values[random.randrange(len(values))] = random.choice(choices)


def attribute_type(model: ModelProto, random: Random) -> None:
    """Change an attribute's type, with or without its value."""
    found = pick.some(random, pick.attributes(model))
    if found is None:
        return
    name = found.name
    if random.random() < 0.3:
        found.type = random.choice(AttributeProto.AttributeType.values())
    elif random.random() < 0.1:
        found.ref_attr_name = "other"
    else:
        value = random.choice((1, -1, 0.5, "text", [1, 2], [0.5], ["a"], [], pick.INT_MAX))
        kind = AttributeProto.INTS if value == [] else None
        found.CopyFrom(helper.make_attribute(name, value, attr_type=kind))


def attribute_name(model: ModelProto, random: Random) -> None:
    """Remove, duplicate or rename an attribute."""
    node = pick.some(random, [n for n in pick.nodes(model) if n.attribute])
    if node is None:
        return
    place = random.randrange(len(node.attribute))
    how = random.randrange(3)
    if how == 0:
        del node.attribute[place]
    elif how == 1:
        node.attribute.add().CopyFrom(node.attribute[place])
    else:
        node.attribute[place].name = random.choice(pick.TEXTS)


def new_attribute(model: ModelProto, random: Random) -> None:
    """Copy an attribute from one node to another."""
    node, found = pick.some(random, pick.nodes(model)), pick.some(random, pick.attributes(model))
    if node is not None and found is not None:
        copy = AttributeProto()
        copy.CopyFrom(found)
        node.attribute.append(copy)


def opset(model: ModelProto, random: Random) -> None:
    """Import another opset version, another opset, one twice, or none."""
    how = random.random()
    version = random.choice((*range(1, 28), 0, -1, 99, 2**31, pick.INT_MAX, pick.INT_MIN))
    if how < 0.1:
        del model.opset_import[:]
    elif how < 0.3:
        domain = random.choice(("", "ai.onnx.ml", "com.microsoft", "local", "ai.onnx"))
        model.opset_import.append(helper.make_opsetid(domain, version))
    elif model.opset_import:
        random.choice(model.opset_import).version = version
    if how > 0.9:
        model.ir_version = random.choice((0, 1, 2, 3, 4, 7, 8, 99, pick.INT_MAX, pick.INT_MIN))


CONTENTS: tuple[Mutation, ...] = (
    declared_size,
    declared_type,
    weight_size,
    weight_data,
    weight_number,
    weight_number,
    weight_type,
    weight_place,
    attribute_value,
    attribute_value,
    attribute_type,
    attribute_name,
    new_attribute,
    opset,
)
