"""Encodings of static tensors: weights, biases and other constants."""

from __future__ import annotations

import math

import numpy as np

from dovetail.errors import Problem, QuantizationError
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    Block,
    DType,
    Encoding,
    Graph,
    Node,
    ScaleOffset,
    Tensor,
)
from dovetail.ops import OpRegistry
from dovetail.ops.simulate import product_of_scales
from dovetail.quantization import Bias, Granularity, QuantizationOptions, Weight
from dovetail_quantizers.grid import Scheme, grids_for, storage_type
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.recipe import MIN_MAX, Recipe
from dovetail_quantizers.planning.roles import inputs_with_roles, weight_axes
from dovetail_quantizers.planning.rules import is_quantized
from dovetail_quantizers.planning.value_range import (
    EVERYTHING_COUNTS,
    Far,
    value_range_of,
    values_of,
)

# Limit of 32-bit biases: rounding the scale cannot overflow the type.
_MOST = 2.0**31 - 2.0**8


def constant_encoding(
    values: Array, recipe: Recipe, across: float = 0.0, far: Far = EVERYTHING_COUNTS
) -> EncodingDecision:
    """Return the encoding of a constant by its own values.

    Args:
        values: Any shape.
        recipe: The recipe for the grid.
        across: Minimum distance from zero of values that represent infinity.
        far: The limits of these values.
    """
    value_range = value_range_of(values, far)
    grid = recipe.grid(*value_range.reaching(across))
    why = "the values of the tensor" + (
        ", infinities far from the other values" if value_range.has_infinity else ""
    )
    return EncodingDecision(
        grid.dtype, grid.encoding, why, (value_range.minimum, value_range.maximum)
    )


def weight_encoding(
    values: Array, node: Node, role: Weight, recipe: Recipe, options: QuantizationOptions
) -> EncodingDecision:
    """Return the encoding of a weight: per tensor, per channel or row, or per block.

    One without elements has one scale: no channel has a range.
    """
    axis, summed = weight_axes(role, node, values.ndim) if values.size else (None, None)
    block = options.weights_block_size
    if block is not None and summed is not None and values.shape[summed] % block == 0:
        return _per_block(values, summed, block, recipe, options)
    wanted = {
        Granularity.TENSOR: False,
        Granularity.CHANNEL: options.use_per_channel_quantization,
        Granularity.ROW: options.use_per_row_quantization,
    }[role.granularity]
    if wanted and axis is not None:
        return _per_axis(values, axis, recipe, options)
    minimum, maximum = _range_of(values, recipe)
    grid = recipe.grid(minimum, maximum)
    dtype, encoding = _stored(grid.dtype, grid.encoding, options)
    return EncodingDecision(
        dtype, encoding, f"{recipe.estimator} of its values", (minimum, maximum)
    )


def bias_encoding(
    values: Array,
    role: Bias,
    data: EncodingDecision | None,
    weight: EncodingDecision | None,
    bitwidth: int,
    recipe: Recipe,
) -> EncodingDecision:
    """Return the encoding of a bias.

    Args:
        values: The bias, (n,).
        role: Its role, with the inputs that it belongs to.
        data: The decision on the data.
        weight: The decision on the weight.
        bitwidth: 32 for the product of their scales, others for its own range.
        recipe: The recipe for its own range, which in the SDK's style counts for 32 bits, too; of
            other widths the grid is symmetric.
    """
    encoding = None
    derives = bitwidth == 32 and role.data is not None and not recipe.is_like_sdk
    if derives and data is not None and weight is not None:
        encoding = product_of_scales(data.encoding, weight.encoding, len(values))
    if encoding is None:
        if bitwidth != recipe.bitwidth:
            recipe = recipe.symmetric().with_bitwidth(bitwidth)
        found = constant_encoding(values, recipe)
        return EncodingDecision(
            found.dtype, found.encoding, "the values of the tensor", found.observed
        )
    return EncodingDecision(
        DType.SFIXED_POINT_32, encoding, "scale of the input x scale of the weights"
    )


def with_room_for_bias(
    weight: EncodingDecision, bias: Array, data: EncodingDecision | None
) -> EncodingDecision:
    """Return a weight's encoding with scales large enough for a 32-bit bias.

    A channel of tiny weights has tiny steps; a bias may need more of them than 32 bits have.
    """
    if data is None or not isinstance(data.encoding, ScaleOffset) or not bias.size:
        return weight
    needed = np.abs(bias.astype(np.float64)) / (_MOST * data.encoding.scale)
    encoding = weight.encoding
    if isinstance(encoding, ScaleOffset):
        if encoding.scale >= needed.max():
            return weight
        scale = float(needed.max())  # with the same offset, the range only grows
        wider: Encoding = ScaleOffset(scale, encoding.offset, encoding.bitwidth)
    elif isinstance(encoding, AxisScaleOffset) and bias.size % len(encoding.scales) == 0:
        each = needed.reshape(-1, len(encoding.scales)).max(axis=0)
        if (encoding.scales >= each).all():
            return weight
        scales = np.maximum(encoding.scales, each.astype(np.float32))
        wider = AxisScaleOffset(encoding.axis, scales, encoding.offsets, encoding.bitwidth)
    else:
        return weight
    why = f"{weight.why}; widened for its bias to fit 32 bits"
    return EncodingDecision(weight.dtype, wider, why, weight.observed)


def check_statics(graph: Graph, ops: OpRegistry) -> None:
    """Raise if weights or biases are not finite, or constants contain NaN.

    Raises:
        QuantizationError: There are some; all are listed.
    """
    params: dict[Tensor, bool] = {}
    for _, tensor, role in inputs_with_roles(graph, ops):
        if tensor.kind.is_static and is_quantized(tensor):
            params[tensor] = params.get(tensor, False) or role is not None
    problems = []
    for tensor, is_param in params.items():
        values = values_of(tensor)
        if not (np.isfinite(values).all() if is_param else not np.isnan(values).any()):
            problems.append(Problem("contains NaN or infinity", f"tensor '{tensor.source}'"))
    if problems:
        raise QuantizationError(
            "some weights cannot be quantized",
            where=f"graph '{graph.name}'",
            problems=list(dict.fromkeys(problems)),  # copies have the same source and fault
            hint="check how the model was trained or exported; if it was quantized before, whether "
            "a scale is infinite, as of a mask of the smallest float32: then pass the float model",
        )


def _per_axis(
    values: Array, axis: int, recipe: Recipe, options: QuantizationOptions
) -> EncodingDecision:
    rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    minimum, maximum = _ranges_of(rows, recipe)
    scales, _ = grids_for(
        minimum,
        maximum,
        recipe.bitwidth,
        Scheme.SYMMETRIC,
        steps=recipe.symmetric().steps,
        like_sdk=recipe.is_like_sdk,
    )
    dtype = storage_type(recipe.bitwidth, Scheme.SYMMETRIC)
    narrow = recipe.bitwidth if recipe.bitwidth < dtype.bits else None
    kept, encoding = _stored(dtype, AxisScaleOffset(axis, scales, None, narrow), options)
    why = f"{recipe.estimator} of each of {len(rows)} channels"
    return EncodingDecision(kept, encoding, why, _whole(minimum, maximum))


def _per_block(
    values: Array, axis: int, block: int, recipe: Recipe, options: QuantizationOptions
) -> EncodingDecision:
    shape = values.shape
    split = (*shape[:axis], shape[axis] // block, block, *shape[axis + 1 :])
    blocks = np.moveaxis(values.reshape(split), axis + 1, -1)
    minimum, maximum = _ranges_of(blocks.reshape(math.prod(blocks.shape[:-1]), block), recipe)
    scales, _ = grids_for(
        minimum, maximum, recipe.bitwidth, Scheme.SYMMETRIC, like_sdk=recipe.is_like_sdk
    )
    dtype = storage_type(recipe.bitwidth, Scheme.SYMMETRIC)
    narrow = recipe.bitwidth if recipe.bitwidth < dtype.bits else None
    sizes = tuple(block if i == axis else 1 for i in range(values.ndim))
    shaped = scales.reshape(blocks.shape[:-1])
    kept, encoding = _stored(dtype, Block(sizes, shaped, None, narrow), options)
    why = f"{recipe.estimator} of each of {scales.size} blocks of {block}"
    return EncodingDecision(kept, encoding, why, _whole(minimum, maximum))


def _range_of(values: Array, recipe: Recipe) -> tuple[float, float]:
    minimum, maximum = _ranges_of(values.reshape(1, -1), recipe)
    return float(minimum[0]), float(maximum[0])


def _ranges_of(rows: Array, recipe: Recipe) -> tuple[Array, Array]:
    """Return the minimum and maximum of each row, (n,) each."""
    if not rows.size:
        return np.zeros(len(rows)), np.zeros(len(rows))
    if recipe.estimator == MIN_MAX:
        return rows.min(axis=1), rows.max(axis=1)
    found = np.empty((len(rows), 2))
    for i, row in enumerate(rows):
        estimator = recipe.new_estimator()
        estimator.observe(row)
        found[i] = estimator.range()
    return found[:, 0], found[:, 1]


def _whole(minimum: Array, maximum: Array) -> tuple[float, float]:
    if not len(minimum):
        return 0.0, 0.0
    return float(np.min(minimum)), float(np.max(maximum))


def packed(given: EncodingDecision, options: QuantizationOptions) -> EncodingDecision:
    """Return a given 4-bit encoding in half a byte, if the options ask for it."""
    if given.encoding is None or given.dtype.bits != 8:
        return given
    dtype, encoding = _stored(given.dtype, given.encoding, options)
    return EncodingDecision(dtype, encoding, given.why, given.observed)


def _stored(
    dtype: DType, encoding: Encoding, options: QuantizationOptions
) -> tuple[DType, Encoding]:
    """Return a type of half a byte for 4 bits, if the options ask for it."""
    if not options.pack_4_bit_weights or encoding.bitwidth != 4:
        return dtype, encoding
    packed = DType.fixed(4, signed=dtype.is_signed)
    if isinstance(encoding, ScaleOffset):
        return packed, ScaleOffset(encoding.scale, encoding.offset)
    if isinstance(encoding, AxisScaleOffset):
        return packed, AxisScaleOffset(encoding.axis, encoding.scales, encoding.offsets)
    assert isinstance(encoding, Block)
    return packed, Block(encoding.block_size, encoding.scales, encoding.offsets)
