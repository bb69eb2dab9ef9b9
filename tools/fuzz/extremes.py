"""A sweep that sets each number in each of ONNX's node test models to a few extremes.

Each model has several copies of its node, so that limits on their sum are tested too.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

from fuzz.mutation import Mutated
from fuzz.pick import INT_MAX, INT_MIN
from fuzz.seeds import Seed, with_numbers

_NUMBERS = (10**5, 10**7, 2**31 - 1, 2**40, INT_MAX, INT_MIN, -(10**7))
_EXTENTS = (10**4, 10**6, 10**9)
_COPIES = 4
# Number of elements of a constant that are set; more would show nothing new.
_MOST_ELEMENTS = 8


@dataclass(frozen=True, slots=True)
class Extreme(Seed):
    """A model and the number in it that is set.

    Attributes:
        what: Kind of the number: "attribute", "constant", "size" (of an axis of an input) or
            "nothing".
        item: Index of the attribute, constant or input.
        element: Index of the number in it, None for all.
        value: The new value.
    """

    what: str = "nothing"
    item: int = 0
    element: int | None = None
    value: int = 0


def extreme_seeds() -> list[Extreme]:
    """Return the files of the sweep before their mutation."""
    with warnings.catch_warnings(action="ignore"):  # NumPy warns of infinities
        cases = load_model_tests(kind="node")
    found: list[Extreme] = []
    seen: set[tuple[object, ...]] = set()
    for case in cases:
        if case.model is None or len(case.model.graph.node) != 1:
            continue
        (node,), (opset, *_) = case.model.graph.node, case.model.opset_import
        names = tuple(sorted(a.name for a in node.attribute))
        form = node.domain, node.op_type, opset.version, names, len(node.input)
        if form in seen:
            continue
        seen.add(form)
        model = with_numbers(case) or case.model
        data = _copied(model).SerializeToString()
        found.append(Extreme(case.name, data))
        found += [Extreme(case.name, data, *change) for change in _changes(model)]
    return found


def mutate_extreme(seeds: Sequence[Seed], run: int, number: int) -> Mutated:
    """Return a file of the sweep, which does not depend on the seed."""
    seed = seeds[number % len(seeds)]
    if not isinstance(seed, Extreme):
        raise TypeError(f"{seed.name} is not a file of the sweep")
    model = ModelProto.FromString(seed.data)
    if seed.what == "attribute":
        for node in model.graph.node:
            _set_attribute(node.attribute[seed.item], seed)
    elif seed.what == "constant":
        _set_constant(model, seed)
    elif seed.what == "size" and seed.element is not None:
        shape = model.graph.input[seed.item].type.tensor_type.shape
        shape.dim[seed.element].dim_value = seed.value
        for info in model.graph.output:
            info.type.tensor_type.ClearField("shape")
    how = seed.what if seed.what == "nothing" else f"{seed.what} {seed.item}"
    return Mutated(
        seed.name, (f"{how} [{seed.element}] = {seed.value}",), model.SerializeToString()
    )


def _copied(model: ModelProto) -> ModelProto:
    """Return a model with several copies of its node, each with separate outputs."""
    made = ModelProto()
    made.CopyFrom(model)
    (node,) = model.graph.node
    for i in range(1, _COPIES):
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.name = f"copy{i}"
        del copy.output[:]
        copy.output.extend(name and f"{name}.copy{i}" for name in node.output)
        made.graph.node.append(copy)
        for info in model.graph.output:
            added = made.graph.output.add()
            added.CopyFrom(info)
            added.name = f"{info.name}.copy{i}"
    return made


def _changes(model: ModelProto) -> Iterator[tuple[str, int, int | None, int]]:
    for i, attribute in enumerate(model.graph.node[0].attribute):
        whole = [None] if attribute.ints else []
        single = [0] if attribute.type == AttributeProto.INT else range(len(attribute.ints))
        for element in (*whole, *single):
            yield from (("attribute", i, element, value) for value in _NUMBERS)
    for i, tensor in enumerate(model.graph.initializer):
        is_integer = numpy_helper.to_array(tensor).dtype.kind in "iu"
        count = int(np.prod(tensor.dims)) if is_integer else 0
        for element in range(min(_MOST_ELEMENTS, count)):
            yield from (("constant", i, element, value) for value in _NUMBERS)
    for i, info in enumerate(model.graph.input):
        for axis in range(len(info.type.tensor_type.shape.dim)):
            yield from (("size", i, axis, value) for value in _EXTENTS)


def _set_attribute(attribute: AttributeProto, seed: Extreme) -> None:
    if attribute.type == AttributeProto.INT:
        attribute.i = seed.value
    elif seed.element is None:
        attribute.ints[:] = [seed.value] * len(attribute.ints)
    else:
        attribute.ints[seed.element] = seed.value


def _set_constant(model: ModelProto, seed: Extreme) -> None:
    tensor = model.graph.initializer[seed.item]
    values = numpy_helper.to_array(tensor).copy()
    bounds = np.iinfo(values.dtype)
    values.reshape(-1)[seed.element] = max(bounds.min, min(bounds.max, seed.value))
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
