"""Activations."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum
import math
from types import MappingProxyType
from typing import ClassVar, cast

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, ScaleOffset, Spec
from dovetail.ops import UNBOUNDED, In, Op, Range, Weight, choice, float32, scalar
from dovetail.ops.op import param_fields
from dovetail_opset._erf import erf
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, need_same_type
from dovetail_opset._variants import Variants


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)) without overflow, elementwise."""
    small = np.exp(-np.abs(x))
    return cast(Array, np.where(x >= 0, 1, small) / (1 + small))


def elu(x: Array, alpha: float) -> Array:
    """Return x where it is positive, else alpha * (exp(x) - 1), elementwise."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def gelu(x: Array) -> Array:
    """Return x / 2 * (1 + erf(x / sqrt 2)), elementwise; 0 at minus infinity."""
    share: Array = 1 + erf(x * math.sqrt(0.5))
    return np.where(share == 0, x.dtype.type(0), np.multiply(x * 0.5, share))


def hard_swish(x: Array) -> Array:
    """Return x * clip(x + 3, 0, 6) / 6 without intermediate overflow, elementwise."""
    share: Array = np.clip(x + 3, 0, 6) / 6
    return np.multiply(x, share)


def softplus(x: Array, beta: float, threshold: float) -> Array:
    """Return log(1 + exp(beta * x)) / beta, elementwise.

    Where beta * x exceeds a threshold that is not negative, the result is x.
    """
    scaled = beta * x
    result = np.logaddexp(scaled, x.dtype.type(0)) / beta
    return np.where(scaled > threshold, x, result) if threshold >= 0 else result


def clip(x: Array, low: float, high: float) -> Array:
    """Return x clipped to [low, high], elementwise, as far as its type has these values."""
    if x.dtype.kind == "f":
        return np.asarray(np.clip(x, x.dtype.type(low), x.dtype.type(high)))
    if x.dtype.kind == "b":
        lowest, highest = 0, 1
    else:
        lowest, highest = int(np.iinfo(x.dtype).min), int(np.iinfo(x.dtype).max)
    # integers between the bounds; a bound beyond the type would wrap around in it
    lower, upper = (min(max(v, lowest), highest) for v in (low, high))
    above = np.maximum(x, x.dtype.type(math.ceil(lower)))
    return np.asarray(np.minimum(above, x.dtype.type(math.floor(upper))))


class _Activation(Op):
    inputs = (In("in[0]"),)
    is_elementwise = True

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return computed(x, x.shape, out)


@PACKAGE.op("Relu")
class Relu(_Activation):
    """max(x, 0). Returns the shape of x."""

    clips = True
    value_range = (0.0, math.inf)

    def reference(self, x: Array) -> Array:
        return np.maximum(x, 0)


@PACKAGE.op("ReluMinMax")
class ReluMinMax(_Activation):
    """x clipped to [min_value, max_value]. Returns the shape of x."""

    clips = True

    min_value = float32()
    max_value = float32()

    @property
    def value_range(self) -> Range:
        return self.min_value, self.max_value

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        _need_range(self.min_value, self.max_value)
        return computed(x, x.shape, out)

    def reference(self, x: Array) -> Array:
        return clip(x, self.min_value, self.max_value)


@PACKAGE.op("Relu1")
class Relu1(_Activation):
    """x clipped to [-1, 1]. Returns the shape of x."""

    clips = True
    value_range = (-1.0, 1.0)

    def reference(self, x: Array) -> Array:
        return clip(x, -1, 1)


@PACKAGE.op("Relu6")
class Relu6(_Activation):
    """x clipped to [0, 6]. Returns the shape of x."""

    clips = True
    value_range = (0.0, 6.0)

    def reference(self, x: Array) -> Array:
        return clip(x, 0, 6)


@PACKAGE.op("Prelu")
class Prelu(Op):
    """x where it is not negative, else slope * x.

    x: any shape but (), also of the result; slope: rank 1 or more, broadcast to x, never the
    reverse.
    """

    inputs = (In("in[0]"), In("in[1]"))
    is_elementwise = True
    quantization_roles: ClassVar = {1: Weight()}
    source = "spec/qnn_ops.md, Prelu; He et al. 2015, Delving Deep into Rectifiers"

    def infer(self, x: Spec, slope: Spec, out: Spec | None) -> Spec:
        need_same_type(x, slope)
        rank = len(slope.shape)
        if not 0 < rank <= len(x.shape):
            raise OpError(
                f"the slopes in[1] must have rank 1 to {len(x.shape)}, that of in[0] {x.shape}, "
                f"but their shape is {slope.shape}"
            )
        aligned = zip(slope.shape, x.shape[-rank:], strict=True)
        if any(have not in (1, want) for have, want in aligned):
            raise OpError(f"the slopes in[1] {slope.shape} do not broadcast to in[0] {x.shape}")
        return computed(x, x.shape, out)

    def reference(self, x: Array, slope: Array) -> Array:
        return np.where(x >= 0, x, slope * x)


@PACKAGE.op("Sigmoid")
class Sigmoid(_Activation):
    """1 / (1 + exp(-x)). Returns the shape of x."""

    value_range = (0.0, 1.0)
    result_encodings = MappingProxyType(
        {
            DType.UFIXED_POINT_16: ScaleOffset(2.0**-16),
            DType.SFIXED_POINT_16: ScaleOffset(2.0**-15),
        }
    )
    flat_beyond = (-12.0, 12.0)

    def reference(self, x: Array) -> Array:
        return sigmoid(x)


@PACKAGE.op("Tanh")
class Tanh(_Activation):
    """The hyperbolic tangent. Returns the shape of x."""

    value_range = (-1.0, 1.0)
    result_encodings = MappingProxyType(
        {
            DType.UFIXED_POINT_16: ScaleOffset(2.0**-15, -(2**15)),
            DType.SFIXED_POINT_16: ScaleOffset(2.0**-15),
        }
    )
    flat_beyond = (-6.5, 6.5)

    def reference(self, x: Array) -> Array:
        return np.tanh(x)


@PACKAGE.op("Gelu")
class Gelu(_Activation):
    """x / 2 * (1 + erf(x / sqrt 2)), the exact form. Returns the shape of x."""

    flat_beyond = (-6.0, math.inf)

    def reference(self, x: Array) -> Array:
        return gelu(x)


@PACKAGE.op("HardSwish")
class HardSwish(_Activation):
    """x * clip(x + 3, 0, 6) / 6. Returns the shape of x."""

    flat_beyond = (-3.0, math.inf)
    source = "spec/qnn_ops.md, HardSwish; Howard et al. 2019, Searching for MobileNetV3"

    def reference(self, x: Array) -> Array:
        return hard_swish(x)


@PACKAGE.op("Elu")
class Elu(_Activation):
    """x where it is positive, else alpha * (exp(x) - 1). Returns the shape of x."""

    alpha = float32(1.0)

    def reference(self, x: Array) -> Array:
        return elu(x, self.alpha)


@PACKAGE.op("ElementWiseSoftplus")
class ElementWiseSoftplus(_Activation):
    """log(1 + exp(beta * x)) / beta.

    Where beta * x exceeds a threshold that is not negative, the result is x. Returns the shape of
    x.
    """

    beta = float32(1.0)
    threshold = float32(-1.0)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        if self.beta == 0:
            raise OpError("beta must not be 0: it divides the result")
        return computed(x, x.shape, out)

    def reference(self, x: Array) -> Array:
        return softplus(x, self.beta, self.threshold)


class HardSigmoid(_Activation):
    """clip(alpha * x + beta, 0, 1). An operation of ElementWiseNeuron, not an op."""

    value_range = (0.0, 1.0)

    alpha = float32(0.2)
    beta = float32(0.5)

    @property
    def flat_beyond(self) -> Range:
        if self.alpha <= 0:
            return UNBOUNDED
        return -self.beta / self.alpha, (1 - self.beta) / self.alpha

    def reference(self, x: Array) -> Array:
        return np.clip(self.alpha * x + self.beta, 0, 1)


class Neuron(enum.IntEnum):
    """The functions of ElementWiseNeuron."""

    ELU = 0
    GELU = 1
    HARD_SIGMOID = 2
    HARD_SWISH = 3
    RELU = 4
    RELU_MIN_MAX = 5
    SIGMOID = 6
    SOFTPLUS = 7
    TANH = 8


NEURONS: dict[Neuron, type[Op]] = {
    Neuron.ELU: Elu,
    Neuron.GELU: Gelu,
    Neuron.HARD_SIGMOID: HardSigmoid,
    Neuron.HARD_SWISH: HardSwish,
    Neuron.RELU: Relu,
    Neuron.RELU_MIN_MAX: ReluMinMax,
    Neuron.SIGMOID: Sigmoid,
    Neuron.SOFTPLUS: ElementWiseSoftplus,
    Neuron.TANH: Tanh,
}


@PACKAGE.op("ElementWiseNeuron")
class ElementWiseNeuron(Variants):
    """One of the activations, selected by `operation`. Returns the shape of x.

    alpha defaults to 1 for ELU and 0.2 for HARD_SIGMOID, beta to 0.5 for HARD_SIGMOID and 1 for
    SOFTPLUS. RELU_MIN_MAX needs min_value and max_value.
    """

    inputs = (In("in[0]"),)

    operation = choice(Neuron)
    alpha = scalar(None, dtypes=(DType.FLOAT_32,))
    beta = scalar(None, dtypes=(DType.FLOAT_32,))
    min_value = scalar(None, dtypes=(DType.FLOAT_32,))
    max_value = scalar(None, dtypes=(DType.FLOAT_32,))
    threshold = float32(-1.0)

    @property
    def single(self) -> Op:
        """The op of the same meaning; params that are left out have its defaults."""
        kind = NEURONS[self.operation]
        fields = param_fields(kind).items()
        given = {name: getattr(self, name) for name, _ in fields}
        return kind(**{n: given[n] for n, f in fields if f.is_required or given[n] is not None})

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        if self.operation is Neuron.RELU_MIN_MAX:
            if self.min_value is None or self.max_value is None:
                raise OpError("operation RELU_MIN_MAX needs the params min_value and max_value")
            _need_range(self.min_value, self.max_value)
        return computed(x, x.shape, out)

    def reference(self, x: Array) -> Array:
        found: Array = self.single.reference(x)
        return found


def _need_range(low: float, high: float) -> None:
    if not low <= high:
        raise OpError(f"min_value {low} is greater than max_value {high}")
