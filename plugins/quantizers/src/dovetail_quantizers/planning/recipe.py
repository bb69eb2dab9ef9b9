"""Recipes from options: an estimator and a grid for activations, weights and biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, cast

from dovetail.calibration import RangeEstimator
from dovetail.errors import PluginError
from dovetail.ir import DType
from dovetail.plugins import load as load_plugin
from dovetail.quantization import QuantizationOptions, Style, parse_steps
from dovetail_quantizers.grid import Grid, Scheme, grid_for

GROUP = "dovetail.range_estimators"
MIN_MAX = "min-max"
PERCENTILE = "percentile"
_SCHEMES = {
    None: Scheme.ASYMMETRIC,
    "asymmetric": Scheme.ASYMMETRIC,
    "symmetric": Scheme.SYMMETRIC,
    "unsignedsymmetric": Scheme.UNSIGNED_SYMMETRIC,
}


@dataclass(frozen=True, slots=True)
class QuantizerMode:
    """A quantizer mode of the SDK: the entry point of its range estimator, and its scheme."""

    estimator: str
    scheme: Scheme


# The modes of `--act_quantizer` and `--param_quantizer`.
# Source: SDK reference, "Quantization Modes".
QUANTIZER_MODES = MappingProxyType(
    {
        "tf": QuantizerMode(MIN_MAX, Scheme.ASYMMETRIC),
        "symmetric": QuantizerMode(MIN_MAX, Scheme.SYMMETRIC),
        "enhanced": QuantizerMode("enhanced", Scheme.ASYMMETRIC),
        "adjusted": QuantizerMode("adjusted", Scheme.ASYMMETRIC),
    }
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The recipe for the grids of one kind of tensor.

    Attributes:
        bitwidth: Bits of a stored integer.
        scheme: The position of the grid relative to zero.
        estimator: Name of the range estimator.
        parameters: Parameters of the estimator.
        steps: First and last stored integer, if restricted.
        style: The rules for the grids.
    """

    bitwidth: int
    scheme: Scheme
    estimator: str = MIN_MAX
    parameters: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[int, int] | None = None
    style: Style = Style.DOVETAIL

    @property
    def is_like_sdk(self) -> bool:
        """True if grids are computed as by the SDK's converter."""
        return self.style is Style.SDK

    @property
    def signature(self) -> str:
        """A text of what ranges depend on besides the values: estimator, parameters, grid."""
        return f"{self.estimator} {sorted(self.parameters.items())} {self.bitwidth} {self.scheme}"

    def new_estimator(self) -> RangeEstimator:
        """Create an estimator for one tensor, or one channel of it.

        Raises:
            PluginError: The estimator is missing, or does not accept the parameters.
        """
        made = cast("type[RangeEstimator]", load_plugin(GROUP, self.estimator))
        try:
            return made(**self._accepted(made))
        except TypeError as error:
            raise PluginError(
                f"the estimator cannot be created: {error}", where=f"{GROUP} '{self.estimator}'"
            ) from error

    def grid(self, minimum: float, maximum: float) -> Grid:
        """Return the grid of a range.

        Raises:
            QuantizationError: No grid spans the range.
        """
        scheme = self.scheme
        if scheme is Scheme.UNSIGNED_SYMMETRIC and minimum < 0:
            scheme = Scheme.SYMMETRIC  # values below zero need a sign
        return grid_for(
            minimum, maximum, self.bitwidth, scheme, steps=self.steps, like_sdk=self.is_like_sdk
        )

    def symmetric(self) -> Recipe:
        """Return the recipe with a symmetric grid."""
        return replace(self, scheme=Scheme.SYMMETRIC)

    def with_bitwidth(self, bitwidth: int) -> Recipe:
        """Return the recipe with another width."""
        return replace(self, bitwidth=bitwidth, steps=None)

    def of_type(self, dtype: DType) -> Recipe:
        """Return the recipe for a type: signed grids are symmetric, unsigned ones have offsets."""
        scheme = Scheme.SYMMETRIC if dtype.is_signed else Scheme.ASYMMETRIC
        steps = self.steps if self.bitwidth == dtype.bits else None
        # steps on one side of zero are of asymmetric grids only
        if steps is not None and scheme is not self.scheme and not steps[0] < 0 < steps[1]:
            steps = None
        return replace(self, bitwidth=dtype.bits, scheme=scheme, steps=steps)

    def _accepted(self, made: type[RangeEstimator]) -> dict[str, Any]:
        # Estimators that minimize the error of the grid need the grid; others do not.
        import inspect  # imported here: min-max, the most common estimator, has no parameters

        names = inspect.signature(made).parameters
        about = {"bitwidth": self.bitwidth, "symmetric": self.scheme is not Scheme.ASYMMETRIC}
        return {n: v for n, v in about.items() if n in names} | dict(self.parameters)


@dataclass(frozen=True, slots=True)
class Recipes:
    """The recipes of one quantization.

    Attributes:
        activation: For activations, and for constants that are encoded like them.
        weight: For weights.
        bias: For biases with their own range.
    """

    activation: Recipe
    weight: Recipe
    bias: Recipe


def recipes_of(options: QuantizationOptions) -> Recipes:
    """Return the recipes of options.

    Raises:
        PluginError: An estimator is not installed.
        ConfigError: The steps are invalid.
    """
    activation = _recipe(options, "act", options.activation_bits)
    weight = _recipe(options, "param", options.weight_bits)
    schema = weight.scheme if options.bias_bits == 8 else Scheme.SYMMETRIC
    bias = Recipe(8, schema, style=options.quantization_style)
    for each in (activation, weight):
        each.new_estimator()  # raise for a missing estimator before anything is run
    return Recipes(activation, weight, bias)


def float_type(bitwidth: int) -> DType:
    """Return the float type of a bitwidth."""
    return {16: DType.FLOAT_16, 32: DType.FLOAT_32}[bitwidth]


def _recipe(options: QuantizationOptions, what: str, bitwidth: int) -> Recipe:
    mode: str | None = getattr(options, f"{what}_quantizer")
    given, style = options.restrict_quantization_steps, options.quantization_style
    steps = parse_steps(given) if isinstance(given, str) else given
    # The ends apply to the bitwidth that they match; weights may have another one.
    if steps is not None and not 1 << (bitwidth - 1) <= steps[1] - steps[0] < 1 << bitwidth:
        steps = None
    if mode is not None:
        meant = QUANTIZER_MODES[mode]
        return Recipe(bitwidth, meant.scheme, meant.estimator, {}, steps, style)
    schema: str | None = getattr(options, f"{what}_quantizer_schema")
    estimator: str = getattr(options, f"{what}_quantizer_calibration") or MIN_MAX
    value = options.percentile_calibration_value
    parameters = {"percentile": value} if estimator == PERCENTILE and value is not None else {}
    return Recipe(bitwidth, _SCHEMES[schema], estimator, parameters, steps, style)
