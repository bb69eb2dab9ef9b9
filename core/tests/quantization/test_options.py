"""The quantizer's options: checked together, and the same on the command line."""

from __future__ import annotations

import inspect
from typing import Any, get_args

import msgspec
import pytest

from dovetail.cli.quantization_options import OTHER_SPELLINGS, takes_quantization
from dovetail.errors import ConfigError
from dovetail.quantization import (
    LEGACY_NAMES,
    QuantizationOptions,
    Sharing,
    options_from,
    parse_steps,
)
from dovetail.quantization import options as options_module


def test_defaults_are_the_sdks() -> None:
    made = options_from({})
    widths = (made.activation_bits, made.weight_bits, made.bias_bits, made.float_bitwidth)
    assert widths == (8, 8, 8, 32)
    assert not made.use_per_channel_quantization
    assert made.concat is Sharing.SHARE


@pytest.mark.parametrize("name", ["calibration_cache", "quantization_overrides"])
def test_paths_have_no_nul(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        options_from({name: "a\0b"})
    (problem,) = caught.value.problems
    assert problem.message == f"{name} cannot contain a NUL character"


def test_older_names_are_taken() -> None:
    made = options_from({"act_bw": 16, "weight_bw": 4, "bias_bw": 32, "float_bias_bw": 16})
    assert (made.act_bitwidth, made.weights_bitwidth) == (16, 4)
    assert (made.bias_bitwidth, made.float_bias_bitwidth) == (32, 16)


def test_every_contradiction_is_told() -> None:
    with pytest.raises(ConfigError) as caught:
        options_from(
            {
                "act_quantizer": "tf",
                "act_quantizer_calibration": "mse",
                "param_quantizer": "symmetric",
                "param_quantizer_schema": "symmetric",
                "pack_4_bit_weights": True,
                "percentile_calibration_value": 95,
            }
        )
    assert len(caught.value.problems) == 4


def test_every_wrong_value_is_told_with_what_is_taken() -> None:
    with pytest.raises(ConfigError) as caught:
        options_from(
            {
                "act_bitwidth": 9,
                "concat": "both",
                "float_bias_bitwidth": 8,
                "percentile_calibration_value": 3.0,
                "act_quantiser": "tf",
                "weights_bitwidth": 4,
            }
        )
    told = [str(problem) for problem in caught.value.problems]
    assert len(told) == 5
    for name, taken in {
        "act_bitwidth": "8, 16",
        "concat": "share, requantize",
        "float_bias_bitwidth": "16, 32",
        "percentile_calibration_value": ">= 90",
        "act_quantiser": "act_quantizer",
    }.items():
        assert any(name in text and taken in text for text in told), name


def test_an_estimator_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: tuple[str, ...] = ("min-max", "mse")
    monkeypatch.setattr(options_module, "plugin_names", lambda _: installed)
    given = {"act_quantizer_calibration": "minmax", "param_quantizer_calibration": "zzzzzz"}
    with pytest.raises(ConfigError) as caught:
        options_from({**given, "act_bitwidth": 9})
    width, near, far = map(str, sorted(caught.value.problems, key=str))
    assert "act_bitwidth" in width
    assert "did you mean 'min-max'?" in near
    assert "min-max, mse" in far
    installed = ()  # what is wrong then is that there is no quantizer
    assert options_from(given).act_quantizer_calibration == "minmax"


def test_faults_of_values_and_contradictions_are_told_together() -> None:
    with pytest.raises(ConfigError, match="invalid options") as caught:
        options_from(
            {
                "act_bitwidth": 7,
                "weights_bw": 8,
                "weights_bitwidth": 3,
                "restrict_quantization_steps": "a b",
                "algorithms": ["cle"],
                "algorithm_params": {"adaround": {}},
                "ignore_encodings": True,
                "quantization_overrides": "f.json",
                "act_quantizer": "fast",
                "act_quantizer_calibration": "mse",
                "pack_4_bit_weights": True,  # nothing is known of the weights' bitwidth
            }
        )
    told = "\n".join(map(str, caught.value.problems))
    for part in (
        "act_bitwidth cannot be 7",
        "'weights_bitwidth' is set twice",
        "weights_bitwidth cannot be 3",
        "the quantization steps 'a b'",
        "'adaround', which is not among the algorithms",
        "ignore_encodings and quantization_overrides are mutually exclusive",
        "act_quantizer cannot be 'fast'",
        "act_quantizer and act_quantizer_calibration are mutually exclusive",
    ):
        assert part in told
    assert len(caught.value.problems) == 8


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("-0x80 0x7F", (-128, 127)),
        ("-0x8000 0x7F7F", (-32768, 32639)),
        (" 0x0  0xff ", (0, 255)),
        ("-0x80,0x7F", (-128, 127)),
        ("-0x80, 0x7F", (-128, 127)),
    ],
)
def test_steps_are_two_hexadecimal_numbers(text: str, ends: tuple[int, int]) -> None:
    assert parse_steps(text) == ends


@pytest.mark.parametrize(
    "text", ["", "0x7F", "-128 127", "0x7F -0x80", "0x1 0x1", "0x1 0x2 0x3", "0x80-0x7F", "x 0x1"]
)
def test_other_steps_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="quantization steps") as caught:
        parse_steps(text)
    assert '"-0x80 0x7F"' in caught.value.hint


def test_lenient_options_may_have_no_effect() -> None:
    given = {"percentile_calibration_value": 99.9, "pack_4_bit_weights": True}
    assert options_from({**given, "lenient": True}).pack_4_bit_weights
    with pytest.raises(ConfigError) as caught:
        options_from(given)
    assert len(caught.value.problems) == 2


def test_an_algorithm_is_named_once() -> None:
    with pytest.raises(ConfigError) as caught:
        options_from({"algorithms": ["cle", "adaround", "cle"]})
    (problem,) = caught.value.problems
    assert "'cle' 2 times" in str(problem)


def test_the_command_line_has_every_option() -> None:
    def command(*, mine: int = 1, quantization: Any) -> None: ...

    offered = inspect.signature(takes_quantization(command)).parameters
    fields = {f.name for f in msgspec.structs.fields(QuantizationOptions)}
    assert offered.keys() == fields | {"mine"}


def test_the_command_line_has_every_older_name() -> None:
    older = {f"--{old.replace('_', '-')}": new for old, new in LEGACY_NAMES.items()}
    offered = {flag: name for name, flags in OTHER_SPELLINGS.items() for flag in flags}
    assert offered == older | {"--floatFallback": "float_fallback"}


def test_a_command_gets_what_was_given() -> None:
    seen: list[Any] = []

    def command(*, mine: int = 1, quantization: Any) -> None:
        seen.append((mine, dict(quantization)))

    wrapped = takes_quantization(command)
    wrapped(mine=2, act_bitwidth=16, algorithms=["cle", "adaround,x"], lenient=False, concat=None)
    assert seen == [(2, {"act_bitwidth": 16, "algorithms": ("cle", "adaround", "x")})]


def test_widths_on_the_command_line_are_numbers() -> None:
    def command(*, quantization: Any) -> None: ...

    annotation = (
        inspect.signature(takes_quantization(command)).parameters["act_bitwidth"].annotation
    )
    assert int in get_args(get_args(annotation)[0])


def test_parameters_of_algorithms_are_gathered() -> None:
    seen: list[Any] = []

    def command(*, quantization: Any) -> None:
        seen.append(dict(quantization))

    wrapped = takes_quantization(command)
    wrapped(
        algorithms=["adaround,cle"],
        algorithm_params=["adaround.seed=3", "cle.rounds=5", "adaround.rate=a.b=c"],
    )
    assert seen[0]["algorithm_params"] == {
        "adaround": {"seed": "3", "rate": "a.b=c"},
        "cle": {"rounds": "5"},
    }
    for wrong in ("adaround.seed", "seed=3", ".seed=3", "adaround.=3"):
        with pytest.raises(ConfigError, match="invalid parameter"):
            wrapped(algorithm_params=[wrong])


def test_parameters_need_their_algorithm() -> None:
    given = {"algorithms": ["cle"], "algorithm_params": {"cle": {}, "adaround": {"seed": 3}}}
    with pytest.raises(ConfigError) as caught:
        options_from(given)
    (problem,) = caught.value.problems
    assert "'adaround'" in str(problem)
