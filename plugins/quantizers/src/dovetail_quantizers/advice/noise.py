"""An estimate of the noise of a quantized graph, by its causes.

Each rounding adds noise to a tensor. Its power, divided by the power of the tensor, is a noise
share. Errors of different causes are taken as independent, so their shares add up; an error is
taken to pass through the layers after it unchanged. Nothing is run: activations are judged by
values that calibration drew, weights and biases by their steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Graph, Node, ScaleOffset, Tensor, dequantize, quantize
from dovetail.quantization import Bias, Granularity, Weight
from dovetail_quantizers.algorithms.cle import equalizable
from dovetail_quantizers.grid import FLOAT_MAX, grid_range
from dovetail_quantizers.planning.groups import Group
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.recipe import MIN_MAX
from dovetail_quantizers.planning.roles import present, roles_of, weight_axes
from dovetail_quantizers.planning.value_range import EVERYTHING_COUNTS
from dovetail_quantizers.refinement.layer import real_values

BIAS, CHANNEL, ROW, WIDTH, RANGE = "bias", "channel", "row", "width", "range"
SCALES, WEIGHTS_8, WEIGHTS_16 = "scales", "weights 8", "weights 16"
_GRANULARITIES = {Granularity.CHANNEL: CHANNEL, Granularity.ROW: ROW}
# Errors of constants are the same at all positions: they do not average out in later sums and
# means, as those of activations do. The factor fits the trained networks of examples/.
_CONSTANT = 2.0
# By how much weights may amplify the rounding of their input more than the input itself. Measured:
# up to 8 in trained networks, 70,000 to 700,000 with channels scaled by powers of ten.
_UNEVEN = 20.0
# Shares of a range that a narrower one is tried with.
_CUTS = 2.0 ** -np.arange(0.5, 5.1, 0.5)


@dataclass(slots=True)
class Noise:
    """Noise shares of a graph.

    Attributes:
        total: Their sum.
        savings: The part of the sum that a remedy would remove, by remedy and by tensor.
        counts: Number of tensors that a remedy could change, by remedy.
    """

    total: float = 0.0
    savings: dict[str, dict[str, float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, share: float, saved: Mapping[str, float]) -> None:
        """Add the share of one tensor, and the part that each remedy would remove."""
        self.total += share
        for remedy, part in saved.items():
            found = self.savings.setdefault(remedy, {})
            found[name] = found.get(name, 0.0) + part
            self.counts[remedy] = len(found)


def noise_of(plan: Plan, float_graph: Graph, drawn: Mapping[str, list[Array]]) -> Noise:
    """Return the noise shares of an annotated graph.

    Args:
        plan: The plan; its graph is annotated.
        float_graph: The float graph.
        drawn: Values of activations from calibration, by tensor name.
    """
    return _Estimate(plan, float_graph, drawn).noise


@dataclass(frozen=True, slots=True)
class _Output:
    """The output that weights and biases add their errors to.

    Attributes:
        power: The mean of its squares.
        rounding: The power of its own rounding.
        factor: By how much errors of constants count.
    """

    power: float
    rounding: float
    factor: float


class _Estimate:
    def __init__(self, plan: Plan, float_graph: Graph, drawn: Mapping[str, list[Array]]) -> None:
        self.noise = Noise()
        self._float = float_graph
        self._plan = plan
        self._power: dict[Group, float] = {}
        self._equalizable = equalizable(float_graph, plan.ops)
        for group in dict.fromkeys(plan.groups.values()):
            parts = [each for t in group.sources for each in drawn.get(t.name, ())]
            values = np.concatenate(parts) if parts else np.zeros(0, np.float32)
            # where all consumers are flat, or mask values, the end of the grid is as good
            values = np.clip(values, *_counting(group))
            values = values[np.isfinite(values)]
            power = _mean_square(values) if values.size else 0.0
            if 0 < power < math.inf:
                self._power[group] = power
                self._add_activation(group, values, power)
        for node in plan.graph.nodes:
            self._add_constants(node)

    def _add_activation(self, group: Group, values: Array, power: float) -> None:
        """Add the rounding of activations: by the values that were drawn."""
        tensor = group.leader
        encoding = tensor.encoding
        if not isinstance(encoding, ScaleOffset):
            return
        share = _mean_square(
            dequantize(quantize(values, encoding, tensor.dtype), encoding) - values
        )
        share /= power
        saved = {}
        is_free = group not in self._plan.given
        if self._can_widen(group):
            saved[WIDTH] = share * (1 - 2.0**-16)
        is_min_max = self._plan.recipes.activation.estimator == MIN_MAX
        if is_free and is_min_max and self._plan.options.act_quantizer is None:
            least = _least_noise(values, encoding, tensor) / power
            saved[RANGE] = max(share - least, 0.0)
        self.noise.add(tensor.source, share, saved)

    def _can_widen(self, group: Group) -> bool:
        """Return whether `act_bitwidth` decides on a group, which has 8 bits."""
        is_free = group not in self._plan.given and group not in self._plan.widths
        return is_free and group.leader.dtype.bits == 8

    def _add_constants(self, node: Node) -> None:
        """Add the rounding of weights and biases, as shares of the node's first output."""
        output = node.outputs[0]
        group = self._plan.groups.get(output)
        power = None if group is None else self._power.get(group)
        if group is None or power is None:
            return
        # a Relu after the node cuts off about half of the noise
        factor = _CONSTANT * (0.5 if output in group.squashed else 1.0)
        one = output.encoding
        rounding = one.scale**2 / 12 if isinstance(one, ScaleOffset) else 0.0
        known = _Output(power, rounding, factor)
        roles = roles_of(node, self._plan.ops)
        constants = [
            (tensor, role)
            for i, tensor in present(node)
            if (role := roles.get(i)) is not None
            and tensor.kind.is_static
            and tensor.encoding is not None
            and all(tensor.shape)
        ]
        biases = [tensor for tensor, role in constants if isinstance(role, Bias)]
        for tensor, role in constants:
            if isinstance(role, Bias):
                self._add_bias(tensor, known)
            else:
                self._add_weight(node, tensor, role, known, biases)

    def _add_bias(self, tensor: Tensor, output: _Output) -> None:
        share = _mean_square(self._error(tensor)) * output.factor / output.power
        is_free = tensor.dtype.bits == 8 and tensor not in self._plan.overrides.encodings
        self.noise.add(tensor.source, share, {BIAS: share} if is_free else {})

    def _add_weight(
        self, node: Node, tensor: Tensor, role: Weight, output: _Output, biases: Sequence[Tensor]
    ) -> None:
        values, error = self._exact(tensor), self._error(tensor)
        axis, _ = weight_axes(role, node, values.ndim)
        data = None if node.inputs[0] is None else self._plan.groups.get(node.inputs[0])
        read = None if data is None else self._power.get(data)
        if axis is None or read is None:
            power = _mean_square(values)
            self.noise.add(
                tensor.source, _CONSTANT * _mean_square(error) / power if power else 0.0, {}
            )
            return
        # the power of sums of so many products, by channel
        sums = _by_channel(values, axis) * math.prod(tensor.shape) / tensor.shape[axis] * read
        mean = float(sums.mean())
        if not mean:
            return
        amplified = mean / output.power
        is_uneven = self._add_scales(node, read, amplified)
        # a channel of tiny weights may have a bias only
        whole = sums + sum(
            np.square(self._exact(b).astype(np.float64)) for b in biases if b.shape == sums.shape
        )
        powers = whole * (output.power / float(whole.mean())) + output.rounding
        weighed = output.factor * read * (math.prod(tensor.shape) / tensor.shape[axis]) / powers
        share = float((_by_channel(error, axis) * weighed).mean())
        remedy = _GRANULARITIES.get(role.granularity)
        is_free = tensor not in self._plan.overrides.encodings
        saved = {SCALES: share} if is_uneven else {}
        saved |= self._wider(tensor, share)
        if remedy is None or not is_free or not isinstance(tensor.encoding, ScaleOffset):
            self.noise.add(tensor.source, share, saved)
            return
        bitwidth = tensor.encoding.bitwidth or tensor.dtype.bits
        narrow = _rounded_by_channel(values, axis, bitwidth) - values
        left = float((_by_channel(narrow, axis) * weighed).mean())
        self.noise.add(tensor.source, share, saved | {remedy: max(share - left, 0.0)})

    def _wider(self, tensor: Tensor, share: float) -> dict[str, float]:
        """Return the part of a weight's share that a wider grid would remove, by remedy."""
        recipes, overrides = self._plan.recipes, self._plan.overrides
        if tensor in overrides.encodings or tensor in overrides.widths:
            return {}
        bitwidth = recipes.weight.bitwidth
        if bitwidth < 8:
            return {WEIGHTS_8: share * (1 - 4.0 ** (bitwidth - 8))}
        if bitwidth == 8 and recipes.activation.bitwidth == 16:
            return {WEIGHTS_16: share * (1 - 2.0**-16)}
        return {}

    def _add_scales(self, node: Node, read: float, amplified: float) -> bool:
        """Add the rounding of small channels of an input, which large weights amplify.

        Args:
            node: A node with weights.
            read: The power of its input.
            amplified: By how much the sums of products would exceed the output if all channels of
                the input had its power.

        Returns:
            Whether there are such channels, an algorithm can scale them and none does already.
        """
        data = node.inputs[0]
        if data is None or self._plan.graph.producer(data) is None or amplified < _UNEVEN:
            return False
        is_free = not self._plan.options.algorithms and node.name in self._equalizable
        if isinstance(data.encoding, ScaleOffset):
            share = data.encoding.scale**2 / 12 / read * amplified
            saved = {SCALES: share} if is_free else {}
            if not is_free and self._can_widen(self._plan.groups[data]):
                saved = {WIDTH: share * (1 - 2.0**-16)}
            self.noise.add(data.source, share, saved)
        return is_free

    def _exact(self, tensor: Tensor) -> Array:
        """Return the float values of a constant; those stored where only the copy has the name."""
        found = self._float.tensors.get(tensor.name)
        is_same = found is not None and found.kind.is_static and found.shape == tensor.shape
        return real_values(tensor) if found is None or not is_same else real_values(found)

    def _error(self, tensor: Tensor) -> Array:
        return np.asarray(real_values(tensor) - self._exact(tensor))


def _counting(group: Group) -> tuple[float, float]:
    """Return the range of the values of a group that make a difference to its consumers."""
    low, high = group.needed
    encoding = group.leader.encoding
    if isinstance(encoding, ScaleOffset):
        bottom, top = grid_range(group.leader.dtype, encoding)
        if group.floors or group.far.below != EVERYTHING_COUNTS.below:
            low = max(low, bottom, -FLOAT_MAX)  # that of a mask may be beyond float32
        if group.far.above != EVERYTHING_COUNTS.above:
            high = min(high, top, FLOAT_MAX)
    return low, high


def _mean_square(values: Array) -> float:
    return float(np.square(values, dtype=np.float64).mean())


def _by_channel(values: Array, axis: int) -> NDArray[np.float64]:
    """Return the mean of the squares of each index along an axis, (n,)."""
    others = tuple(i for i in range(values.ndim) if i != axis)
    return np.asarray(np.square(values, dtype=np.float64).mean(axis=others))


def _rounded_by_channel(values: Array, axis: int, bitwidth: int) -> Array:
    """Return values rounded to a symmetric grid for each index along an axis."""
    others = tuple(i for i in range(values.ndim) if i != axis)
    last = 2.0 ** (bitwidth - 1) - 1
    scales = np.abs(values).max(axis=others, keepdims=True) / last
    scales = np.where(scales > 0, scales, np.float32(1))
    return np.asarray(np.clip(np.rint(values / scales), -last - 1, last) * scales)


def _least_noise(values: Array, encoding: ScaleOffset, tensor: Tensor) -> float:
    """Return the mean power of the error on the best of some narrower grids."""
    low, high = tensor.dtype.stored_range(encoding.bitwidth)
    bottom, top = grid_range(tensor.dtype, encoding)
    found = math.inf
    for cut in _CUTS * max(-bottom, top):
        scale = (min(top, cut) - max(bottom, -cut)) / (high - low)
        near = np.clip(np.rint(values / scale) * scale, max(bottom, -cut), min(top, cut))
        found = min(found, _mean_square(near - values))
    return found
