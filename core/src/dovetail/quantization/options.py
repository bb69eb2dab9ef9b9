"""The quantizer's options: the SDK's long names in snake case, and a few of our own."""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

from dovetail import typed
from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.plugins import names as plugin_names


class Sharing(enum.Enum):
    """Sharing of encodings between the inputs and the output of a Concat."""

    SHARE = "share"
    REQUANTIZE = "requantize"


class Style(enum.Enum):
    """The rules by which encodings are chosen: our own, or those of the SDK's converter."""

    DOVETAIL = "dovetail"
    SDK = "sdk"


_BITS = 8
_END = r"(-?)0[xX]([0-9a-fA-F]{1,8})"
_STEPS = re.compile(rf"\s*{_END}(?:\s*,\s*|\s+){_END}\s*")
LegacyMode = Literal["tf", "enhanced", "adjusted", "symmetric"]
Schema = Literal["asymmetric", "symmetric", "unsignedsymmetric"]

# An older or newer tool's name of an option -> its name here.
LEGACY_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "act_bw": "act_bitwidth",
        "bias_bw": "bias_bitwidth",
        "weight_bw": "weights_bitwidth",
        "weights_bw": "weights_bitwidth",
        "float_bw": "float_bitwidth",
        "float_bias_bw": "float_bias_bitwidth",
        "apply_algorithms": "algorithms",
        "enable_float_fallback": "float_fallback",
        "ignore_quantization_overrides": "ignore_encodings",
    }
)


_NOT_WITH_AIMET = (
    "float_bitwidth",
    "float_bias_bitwidth",
    "disable_relu_squashing",
    "restrict_quantization_steps",
    "float_fallback",
    "use_dynamic_16_bit_weights",
    "pack_4_bit_weights",
)


class QuantizationOptions(msgspec.Struct, kw_only=True, frozen=True):
    """Options of the quantizer. None means that an option is not set.

    Attributes:
        act_bitwidth: Bitwidth of activations; if None, that of the encodings file, or 8.
        weights_bitwidth: Bitwidth of weights; if None, as for activations.
        bias_bitwidth: Bitwidth of biases: 8 with separate ranges, 32 with the scale input x weight;
            if None, as for activations.
        float_bitwidth: Bitwidth of tensors that stay float.
        float_bias_bitwidth: Bitwidth of biases of nodes that stay float; None: `float_bitwidth`.
        act_quantizer, param_quantizer: Modes of older tools, which combine estimator and schema.
        act_quantizer_calibration, param_quantizer_calibration: Name of a range estimator;
            `min-max` if None.
        act_quantizer_schema, param_quantizer_schema: Derivation of the quantization grid from a
            range; asymmetric if None.
        percentile_calibration_value: For the estimator `percentile`; 99.99 if None.
        use_per_channel_quantization: Weights of convolutions get a scale for each output channel.
        use_per_row_quantization: Weights of MatMul and FullyConnected get a scale for each output.
        weights_block_size: Weights of MatMul and FullyConnected get a scale for each block of this
            many elements along the summed axis.
        restrict_quantization_steps: Minimum and maximum stored value, whose difference is the
            number of steps of a range; as text, "-0x80 0x7F".
        disable_relu_squashing: The range of a tensor that only a Relu, clip, Sigmoid, Softmax or
            similar op reads includes values that this op cuts off or cannot distinguish.
        quantization_style: Rules for encodings that the other options leave open. `sdk`: 32-bit
            biases have a scale of their own, and only a Relu or clip limits the range of its input.
        concat: Whether the inputs of a Concat take the encoding of its output.
        algorithms: Names of installed algorithms, in order.
        algorithm_params: Parameters of the algorithms, by algorithm and name.
        use_aimet_quantizer: AIMET chooses the encodings, if its package is installed.
        config_file: Path of the SDK's YAML file for the quantizer, which names algorithms.
        skip_algorithm_check: Changes of algorithms are kept even if the error of the outputs does
            not fall.
        quantization_overrides: Path of an encodings file.
        keep_quant_nodes: Nodes of the model that quantize activations stay, as Converts; otherwise
            only their encodings do.
        ignore_encodings: Encodings in the model are ignored.
        lenient: Entries of an encodings file that match nothing, and infinities during calibration,
            are not errors.
        float_fallback: Tensors without an encoding stay float; there is no calibration.
        keep_weights_quantized: Static weights of nodes that stay float are fixed-point.
        use_dynamic_16_bit_weights: Weights that nodes compute, as the second input of a MatMul, are
            converted to a symmetric 16-bit grid where they have 16 bits.
        pack_4_bit_weights: 4-bit weights take half a byte each.
        preserve_io_datatype: Inputs and outputs of the graph that stay float: all, or those of
            these names.
        target_backend: Name of the backend that is to run the quantized graph, such as `htp:v73`;
            tensors get types that it takes.
        calibration_backend: Name of the backend that runs the float graph.
        calibration_cache: Path of a file that stores the observed ranges between runs.
    """

    act_bitwidth: Literal[8, 16] | None = None
    weights_bitwidth: Literal[4, 8, 16] | None = None
    bias_bitwidth: Literal[8, 32] | None = None
    float_bitwidth: Literal[16, 32] = 32
    float_bias_bitwidth: Literal[16, 32] | None = None
    act_quantizer: LegacyMode | None = None
    param_quantizer: LegacyMode | None = None
    act_quantizer_calibration: str | None = None
    param_quantizer_calibration: str | None = None
    act_quantizer_schema: Schema | None = None
    param_quantizer_schema: Schema | None = None
    percentile_calibration_value: Annotated[float, Meta(ge=90, le=100)] | None = None
    use_per_channel_quantization: bool = False
    use_per_row_quantization: bool = False
    weights_block_size: Annotated[int, Meta(ge=1)] | None = None
    restrict_quantization_steps: tuple[int, int] | str | None = None
    disable_relu_squashing: bool = False
    quantization_style: Style = Style.DOVETAIL
    concat: Sharing = Sharing.SHARE
    algorithms: tuple[str, ...] = ()
    algorithm_params: dict[str, dict[str, Any]] = {}
    use_aimet_quantizer: bool = False
    config_file: str | None = None
    skip_algorithm_check: bool = False
    quantization_overrides: str | None = None
    keep_quant_nodes: bool = False
    ignore_encodings: bool = False
    lenient: bool = False
    float_fallback: bool = False
    keep_weights_quantized: bool = False
    use_dynamic_16_bit_weights: bool = False
    pack_4_bit_weights: bool = False
    preserve_io_datatype: bool | tuple[str, ...] = False
    target_backend: str | None = None
    calibration_backend: str = "cpu"
    calibration_cache: str | None = None

    def preserves(self, name: str) -> bool:
        """Return whether an input or output of the graph stays float."""
        kept = self.preserve_io_datatype
        return kept if isinstance(kept, bool) else name in kept

    @property
    def activation_bits(self) -> int:
        """Bitwidth of activations."""
        return self.act_bitwidth or _BITS

    @property
    def weight_bits(self) -> int:
        """Bitwidth of weights."""
        return self.weights_bitwidth or _BITS

    @property
    def bias_bits(self) -> int:
        """Bitwidth of biases."""
        return self.bias_bitwidth or _BITS


def options_from(
    given: Mapping[str, Any], where: str = "quantization options"
) -> QuantizationOptions:
    """Return checked options from plain values by name; the SDK's other names are accepted.

    Raises:
        ConfigError: Names or values are wrong, or options contradict each other; all are listed.
    """
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in given.items():
        own = LEGACY_NAMES.get(name, name)
        if own in values:
            problems.append(Problem(f"'{own}' is set twice, by two of its names", where))
        values[own] = _plain(value)
    faulty: set[str] = set()
    wrong = list(_wrong_values(values, where, faulty))
    valid = {name: value for name, value in values.items() if name not in faulty}
    options = typed.convert(valid, QuantizationOptions, where=where)
    problems += [*wrong, *_contradictions(options, faulty, where)]
    if problems:
        text = "invalid options" if wrong else "options contradict each other"
        raise ConfigError(text, problems=problems)
    return options


def parse_steps(text: str) -> tuple[int, int]:
    """Return the two ends in the text of `restrict_quantization_steps`, such as "-0x80 0x7F".

    Raises:
        ConfigError: The text is not two hexadecimal numbers in increasing order.
    """
    found = _STEPS.fullmatch(text)
    ends = (int(found[1] + found[2], 16), int(found[3] + found[4], 16)) if found else (0, 0)
    if ends[0] >= ends[1]:
        raise ConfigError(
            f"the quantization steps {text!r} must be a minimum and a larger maximum",
            hint='pass two hexadecimal numbers, such as "-0x80 0x7F"',
        )
    return ends


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    return list(value) if isinstance(value, tuple) else value


def _wrong_values(values: Mapping[str, Any], where: str, faulty: set[str]) -> Iterator[Problem]:
    """Yield a problem for every invalid value and every unknown name.

    Args:
        values: Plain values by name.
        where: Where they are given.
        faulty: The names are added whose values cannot be converted.
    """
    types = {f.name: f.type for f in msgspec.structs.fields(QuantizationOptions)}
    for name, value in values.items():
        if name not in types:
            faulty.add(name)
            yield Problem("unknown option", f"{where}: {name}", suggest_name(name, types))
            continue
        try:
            msgspec.convert(value, types[name])
        except (msgspec.ValidationError, UnicodeError) as failure:
            faulty.add(name)
            allowed = ", ".join(map(str, _allowed(types[name])))
            text = f"{name} cannot be {value!r}" + ("" if allowed else f": {failure}")
            yield Problem(text, where, f"expected {allowed}" if allowed else "")
        else:
            if isinstance(value, str) and "\0" in value:  # no path or name has one
                yield Problem(f"{name} cannot contain a NUL character", where)
            else:
                yield from _unusable(name, value, where)


def _unusable(name: str, value: Any, where: str) -> Iterator[Problem]:
    """Yield what is wrong with a value of the right type."""
    if name == "restrict_quantization_steps" and isinstance(value, str):
        try:
            parse_steps(value)
        except ConfigError as error:
            yield error.as_problem(where)
    elif name.endswith("_quantizer_calibration") and value is not None:
        known = plugin_names("dovetail.range_estimators")
        if value in known or not known:  # without any there is no quantizer, reported later
            return
        near = suggest_name(value, known)
        listed = f"installed: {', '.join(known)}"
        hint = near if near.startswith("valid") else f"{near} {listed}"
        yield Problem(f"{name} cannot be '{value}': range estimator not found", where, hint)


def _allowed(kind: Any) -> list[Any]:
    """Return the allowed values of an option with a fixed set of them."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [each.value for each in kind]
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [value for each in get_args(kind) for value in _allowed(each)]


def _contradictions(
    options: QuantizationOptions, faulty: Collection[str], where: str
) -> list[Problem]:
    """Return a problem for each contradiction of options.

    Args:
        options: The options with valid values.
        faulty: Names of those with invalid ones.
        where: Where they are given.
    """

    def is_set(name: str) -> bool:
        return name in faulty or getattr(options, name) not in (None, False)

    texts = []
    for what in ("act", "param"):
        newer = [f"{what}_quantizer_calibration", f"{what}_quantizer_schema"]
        said = [name for name in newer if is_set(name)]
        if is_set(f"{what}_quantizer") and said:
            texts.append(f"{what}_quantizer and {' and '.join(said)} are mutually exclusive")
    if options.ignore_encodings and options.quantization_overrides is not None:
        texts.append("ignore_encodings and quantization_overrides are mutually exclusive")
    if options.ignore_encodings and options.float_fallback:
        texts.append("float_fallback and ignore_encodings are mutually exclusive")
    texts += () if options.lenient else unmet_options(options, faulty)
    if options.use_aimet_quantizer and (said := _unlike_aimet(options)):
        texts.append(f"use_aimet_quantizer and {' and '.join(said)} are mutually exclusive")
    texts += [
        f"algorithms names '{name}' {options.algorithms.count(name)} times; name each once"
        for name in dict.fromkeys(options.algorithms)
        if options.algorithms.count(name) > 1
    ]
    texts += [
        f"algorithm_params are set for '{name}', which is not among the algorithms"
        for name in options.algorithm_params
        if name not in options.algorithms and "algorithms" not in faulty
    ]
    return [Problem(text, where) for text in texts]


def unmet_options(options: QuantizationOptions, faulty: Collection[str] = ()) -> Iterator[str]:
    """Yield what options without effect require, which is no error if the options are lenient.

    Args:
        options: The options.
        faulty: Names of options whose values are wrong, and are not judged.
    """
    calibrations = ("act_quantizer_calibration", "param_quantizer_calibration")
    if options.percentile_calibration_value is not None and not any(
        name in faulty or getattr(options, name) == "percentile" for name in calibrations
    ):
        yield "percentile_calibration_value requires a quantizer calibration of percentile"
    has_width = options.weights_bitwidth == 4 or "weights_bitwidth" in faulty
    if options.pack_4_bit_weights and not has_width:
        yield "pack_4_bit_weights requires a weights_bitwidth of 4"


def _unlike_aimet(options: QuantizationOptions) -> list[str]:
    """Return the names of set options that cannot be used with AIMET, as in the SDK."""
    fields = {field.name: field.default for field in msgspec.structs.fields(options)}
    return [name for name in _NOT_WITH_AIMET if getattr(options, name) != fields[name]]
