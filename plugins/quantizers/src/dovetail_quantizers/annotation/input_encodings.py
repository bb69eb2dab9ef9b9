"""The encoding that each node needs for each of its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeGuard

import msgspec

from dovetail.errors import ConfigError, QuantizationError
from dovetail.ir import DType, Node, Spec, Tensor
from dovetail.quantization import Bias, Role, Weight
from dovetail_quantizers.annotation.statics import (
    bias_encoding,
    constant_encoding,
    packed,
    weight_encoding,
    with_room_for_bias,
)
from dovetail_quantizers.planning.decide import across
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.groups import Group
from dovetail_quantizers.planning.masks import far_of
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.precision import takes_types
from dovetail_quantizers.planning.recipe import Recipe, float_type
from dovetail_quantizers.planning.roles import present, roles_of
from dovetail_quantizers.planning.rules import is_quantized, kept_by
from dovetail_quantizers.planning.spanning import is_same
from dovetail_quantizers.planning.value_range import value_range_of, values_of

_BIAS_BITS = 32
_WIDE_WEIGHT = "a computed weight of 16 bits"
_ONE_SCALE: Mapping[str, Any] = {
    "use_per_channel_quantization": False,
    "use_per_row_quantization": False,
    "weights_block_size": None,
}

# By node and number of the input.
InputEncodings = dict[tuple[Node, int], EncodingDecision]


def input_encodings(plan: Plan, decided: Mapping[Group, EncodingDecision]) -> InputEncodings:
    """Return the decision on each input of each node; unchanged inputs have no entry."""
    found: InputEncodings = {}
    rejected: dict[str, dict[str, None]] = {}
    for node in plan.graph.nodes:
        if plan.is_fixed(node):
            _fixed(plan, decided, node, found)
        elif node in plan.floats:
            for option in _float(plan, node, found):
                rejected.setdefault(option, {})[node.where] = None
    plan.notes += [
        f"{option} does not apply to {', '.join(nodes)}: the op takes these inputs only in the "
        "type of its data"
        for option, nodes in rejected.items()
    ]
    return found


def _fixed(
    plan: Plan, decided: Mapping[Group, EncodingDecision], node: Node, found: InputEncodings
) -> None:
    roles = roles_of(node, plan.ops)
    inputs = [(i, t) for i, t in present(node) if is_quantized(t)]
    biases = [(i, t) for i, t in inputs if t.kind.is_static and isinstance(roles.get(i), Bias)]
    for i, tensor in inputs:
        if (i, tensor) not in biases:
            with _named(tensor):
                found[node, i] = _one(plan, decided, node, i, tensor)
    for i, tensor in biases:
        if (given := _given(plan, node, i, tensor)) is not None:
            found[node, i] = given
        else:
            with _named(tensor):
                found[node, i] = _bias(plan, node, i, tensor, found)


@contextmanager
def _named(tensor: Tensor) -> Iterator[None]:
    """Name the tensor in errors, such as for values that no grid spans, or for its bitwidth."""
    try:
        yield
    except (ConfigError, QuantizationError) as error:
        error.where = f"tensor '{tensor.source}'"
        raise


def _one(
    plan: Plan, decided: Mapping[Group, EncodingDecision], node: Node, i: int, tensor: Tensor
) -> EncodingDecision:
    dtype = plan.overrides.input_types.get((node, i))
    if not tensor.kind.is_static:
        own = decided[plan.groups[tensor]]
        if dtype is None and _is_wide_weight(plan, node, i, own):
            return _converted(plan, decided, node, tensor, DType.SFIXED_POINT_16, _WIDE_WEIGHT)
        return own if dtype in (None, own.dtype) else _converted(plan, decided, node, tensor, dtype)
    # a constant that does not share has no group
    group = plan.groups.get(tensor)
    if group is not None and group in decided:
        return decided[group]
    if (given := _given(plan, node, i, tensor)) is not None:
        return packed(given, plan.options)
    width = dtype or _width(plan, tensor)
    role = roles_of(node, plan.ops).get(i)
    if isinstance(role, Weight):
        return _weight(plan, node, role, tensor, width)
    recipe = _in_width(plan.recipes.activation, width)
    values, far = values_of(tensor), far_of(node, i, plan.groups)
    if value_range_of(values, far).has_infinity:
        plan.note_infinities(tensor)
    return constant_encoding(values, recipe, across(plan, decided, node, tensor), far)


def _given(plan: Plan, node: Node, i: int, tensor: Tensor) -> EncodingDecision | None:
    """Return the given encoding of a constant, with the same points in the type that is needed."""
    given = plan.overrides.encodings.get(tensor)
    dtype = plan.overrides.input_types.get((node, i))
    if given is None or dtype is None:
        return given
    return given.with_same_points(dtype) or given


def _width(plan: Plan, tensor: Tensor) -> int | None:
    """Return the given bitwidth of a constant that is read as no bias; None for that of a bias.

    The recurrence of a GRU adds a constant and, where the state before it is 0, multiplies by it.
    """
    width = plan.overrides.widths.get(tensor)
    is_bias = width == _BIAS_BITS and any(
        other is tensor and isinstance(roles_of(node, plan.ops).get(i), Bias)
        for node in plan.graph.consumers(tensor)
        for i, other in present(node)
    )
    return None if is_bias else width


def _weight(
    plan: Plan, node: Node, role: Weight, tensor: Tensor, width: int | DType | None
) -> EncodingDecision:
    recipe, options = _in_width(plan.recipes.weight, width), plan.options
    if isinstance(width, DType) and not width.is_signed:  # several scales are of signed grids
        options = msgspec.structs.replace(options, **_ONE_SCALE)
    return weight_encoding(values_of(tensor), node, role, recipe, options)


def _is_wide_weight(plan: Plan, node: Node, i: int, own: EncodingDecision) -> bool:
    """Return whether the options want a computed weight of 16 bits in another type."""
    role = roles_of(node, plan.ops).get(i)
    wanted = plan.options.use_dynamic_16_bit_weights and own.dtype is DType.UFIXED_POINT_16
    return wanted and i > 0 and isinstance(role, Weight)


def _bias(
    plan: Plan, node: Node, i: int, tensor: Tensor, found: InputEncodings
) -> EncodingDecision:
    role = roles_of(node, plan.ops)[i]
    assert isinstance(role, Bias)
    values = values_of(tensor)
    bitwidth = plan.overrides.widths.get(tensor, plan.options.bias_bits)
    recipe = plan.recipes.bias
    if (dtype := plan.overrides.input_types.get((node, i))) is not None:
        bitwidth, recipe = dtype.bits, recipe.of_type(dtype)
    data = None if role.data is None else found.get((node, role.data))
    weight = None if role.weight is None else found.get((node, role.weight))
    derives = bitwidth == _BIAS_BITS and not recipe.is_like_sdk
    if derives and weight is not None and role.weight is not None:
        static = node.inputs[role.weight]
        if static is not None and static.kind.is_static and static not in plan.overrides.encodings:
            weight = with_room_for_bias(weight, values, data)
            found[node, role.weight] = weight
    return bias_encoding(values, role, data, weight, bitwidth, recipe)


def _converted(
    plan: Plan,
    decided: Mapping[Group, EncodingDecision],
    node: Node,
    tensor: Tensor,
    dtype: DType,
    why: str = "a type that the target takes",
) -> EncodingDecision:
    """Return the decision on an input of a node that a Convert gives another type.

    A node that only moves values reads them in the encoding of its results, if that is one.
    """
    results = [decided[plan.groups[t]] for t in kept_by(node, plan.ops, plan.options.concat)[1]]
    if results and results[0].dtype is dtype and all(is_same(results[0], r) for r in results):
        return results[0]
    if (given := plan.overrides.copies.get((tensor, dtype))) is not None:
        return given
    own = decided[plan.groups[tensor]]
    if own.observed is None and (same := own.with_same_points(dtype)) is not None:
        return replace(same, why=why)
    grid = plan.recipes.activation.of_type(dtype).grid(*(own.observed or own.ends or (0.0, 0.0)))
    return EncodingDecision(grid.dtype, grid.encoding, why, own.observed)


def _in_width(recipe: Recipe, width: int | DType | None) -> Recipe:
    if isinstance(width, DType):
        return recipe.of_type(width)
    return recipe if width in (None, recipe.bitwidth) else recipe.with_bitwidth(width)


def _float(plan: Plan, node: Node, found: InputEncodings) -> Iterator[str]:
    """Find the types of a float node's inputs; yield the options that its op does not support."""
    dtype, why = float_type(plan.floats[node].bitwidth), plan.floats[node].why
    inputs = {i: t for i, t in present(node) if is_quantized(t)}
    found |= {(node, i): as_float(dtype, why) for i in inputs}
    others = dict(_other_types(plan, node, inputs))
    specs = {i: Spec(e.dtype, inputs[i].shape, e.encoding) for i, (_, e) in others.items()}
    taken = specs if takes_types(node, plan.ops, dtype, specs) else {}
    for i, spec in specs.items():
        if i not in taken and takes_types(node, plan.ops, dtype, taken | {i: spec}):
            taken = taken | {i: spec}
    for i, (option, wanted) in others.items():
        if i in taken:
            found[node, i] = wanted
        else:
            yield option


def _other_types(
    plan: Plan, node: Node, inputs: Mapping[int, Tensor]
) -> Iterator[tuple[int, tuple[str, EncodingDecision]]]:
    """Yield the inputs of a float node for which options ask for another type, and the option."""
    bitwidth, why = plan.floats[node].bitwidth, plan.floats[node].why
    roles, bias_bits = roles_of(node, plan.ops), plan.options.float_bias_bitwidth
    for i, tensor in inputs.items():
        role = roles.get(i)
        if plan.options.keep_weights_quantized and _is_static_weight(role, tensor):
            yield i, ("keep_weights_quantized", _kept(plan, node, role, tensor))
        elif isinstance(role, Bias) and bias_bits not in (None, bitwidth):
            yield i, ("float_bias_bitwidth", as_float(float_type(bias_bits), why))


def _is_static_weight(role: Role | None, tensor: Tensor) -> TypeGuard[Weight]:
    return isinstance(role, Weight) and tensor.kind.is_static and bool(tensor.shape)


def _kept(plan: Plan, node: Node, role: Weight, tensor: Tensor) -> EncodingDecision:
    """Return the encoding of a weight of a node that stays float."""
    if tensor in plan.overrides.encodings:
        return packed(plan.overrides.encodings[tensor], plan.options)
    with _named(tensor):
        return _weight(plan, node, role, tensor, _width(plan, tensor))


def as_float(dtype: DType, why: str) -> EncodingDecision:
    """Return the decision on a tensor that stays float."""
    return EncodingDecision(dtype, None, why)
