"""Versions 0.4.0 to 0.6.1 and the SDK's override form: what they say, and in which words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail_quantizers.files import Form

ASYMMETRIC = {
    "bitwidth": 8,
    "dtype": "int",
    "is_symmetric": "False",
    "max": 2.25,
    "min": -0.9375,
    "offset": -75.0,
    "scale": 0.0125,
}


def channel(scale: float) -> dict[str, Any]:
    return {
        "bitwidth": 4,
        "dtype": "int",
        "is_symmetric": "True",
        "max": 7 * scale,
        "min": -8 * scale,
        "offset": -8,
        "scale": scale,
    }


def test_a_tensor(read: Any, old: Any) -> None:
    entry = read(old(ASYMMETRIC)).activations["t"]
    assert (entry.kind, entry.bitwidth, entry.form) == ("int", 8, Form.PER_TENSOR)
    assert (float(entry.scales), int(entry.offsets)) == (0.0125, -75)
    assert (float(entry.minimum), float(entry.maximum)) == (-0.9375, 2.25)
    assert not entry.symmetric
    assert entry.is_param is False


def test_channels(read: Any, old: Any) -> None:
    file = read(old(channel(0.5), channel(0.25), channel(1.0), section="param_encodings"))
    entry = file.params["t"]
    assert entry.form is Form.PER_CHANNEL
    assert entry.scales.tolist() == [0.5, 0.25, 1.0]
    assert entry.offsets.tolist() == [-8, -8, -8]
    assert entry.symmetric
    assert entry.axis is None


def test_a_float_entry(read: Any, old: Any) -> None:
    entry = read(old({"bitwidth": 16, "dtype": "float"})).entries["t"]
    assert (entry.kind, entry.bitwidth, entry.scales) == ("float", 16, None)


def test_an_entry_with_nothing_but_a_type_leaves_the_range_to_calibration(
    read: Any, old: Any
) -> None:
    assert read(old({"bitwidth": 16, "dtype": "int"})).entries["t"].is_open


def test_the_oldest_form_has_no_version_and_no_dtype(read: Any) -> None:
    data = {
        "activation_encodings": {"t": [{"bitwidth": 8, "max": 2.55, "min": 0.0}]},
        "param_encodings": {},
    }
    file = read(data)
    entry = file.entries["t"]
    assert file.version == "0.4.0"
    assert float(entry.scales) == pytest.approx(0.01, rel=1e-6)  # kept as a float32
    assert int(entry.offsets) == 0


@pytest.mark.parametrize(
    ("minimum", "maximum", "symmetric", "scale", "offset"),
    [
        # the worked examples of the SDK's reference, and one for each scheme by hand
        (-1.8, 0.5, "False", 2.3 / 255, -200),
        (5.0, 10.0, "False", 10 / 255, 0),
        (-20.0, -6.0, "False", 20 / 255, -255),
        (-5.1, 5.1, "False", 10.2 / 255, -128),
        (-1.0, 6.35, "True", 0.05, -128),
    ],
)
def test_scale_and_offset_from_a_range(
    read: Any,
    old: Any,
    minimum: float,
    maximum: float,
    symmetric: str,
    scale: float,
    offset: int,
) -> None:
    data = {"bitwidth": 8, "min": minimum, "max": maximum, "is_symmetric": symmetric}
    entry = read(old(data)).entries["t"]
    assert float(entry.scales) == pytest.approx(scale, rel=1e-6)  # kept as a float32
    assert int(entry.offsets) == offset


@pytest.mark.parametrize(
    ("minimum", "maximum", "offset", "zero_point"),
    [
        (None, None, 127, 127),  # nothing else to go by
        (-1.27, 1.28, 127, 127),
        (-1.28, 1.27, 127, 128),  # the range counts where the two are one step apart
    ],
)
def test_a_positive_offset_is_a_zero_point_and_noted(
    read: Any, old: Any, minimum: Any, maximum: Any, offset: int, zero_point: int
) -> None:
    data = {"bitwidth": 8, "offset": offset, "scale": 0.01}
    if minimum is not None:
        data |= {"min": minimum, "max": maximum}
    file = read(old(data))
    assert int(file.entries["t"].offsets) == -zero_point
    assert any("zero point" in str(note) and "'t'" in str(note) for note in file.notes)


def test_an_offset_of_zero_for_a_range_about_zero_is_a_signed_one(read: Any, old: Any) -> None:
    data = {"bitwidth": 8, "offset": 0, "scale": 0.01, "min": -1.28, "max": 1.27}
    file = read(old(data | {"is_symmetric": True}))
    assert int(file.entries["t"].offsets) == -128
    assert len(file.notes) == 1


def test_scales_of_zero_hold_the_place_of_a_derived_bias(read: Any, old: Any) -> None:
    data = {"bitwidth": 32, "offset": 0, "scale": 0, "min": 0, "max": 0, "is_symmetric": "True"}
    entry = read(old(data, data, section="param_encodings")).entries["t"]
    assert entry.is_derived
    assert entry.scales.shape == (2,)


def test_unknown_old_versions_are_read_and_noted(read: Any, old: Any) -> None:
    file = read(old(ASYMMETRIC, version="0.6.2"))
    assert file.version == "0.6.1"
    assert [note.where for note in file.notes] == ["$.version"]


@pytest.mark.parametrize(
    ("change", "where", "part"),
    [
        ({"scale": -0.1}, ".scale", "negative"),
        ({"scale": float("nan")}, ".scale", "not a "),
        ({"scale": 1e39}, ".scale", "float32"),
        ({"scale": 1e-60}, ".scale", "float32"),
        ({"scale": "0.1"}, "[0].scale", "float"),
        ({"offset": -256}, ".offset", "outside the grid"),
        ({"offset": 300}, ".offset", "outside the grid"),
        ({"offset": -75.5}, ".offset", "whole number"),
        ({"offset": 1e300}, ".offset", "whole number"),
        ({"min": -2.0}, "", "contradict"),
        ({"min": 3.0}, "", "larger than the maximum"),
        ({"max": float("inf")}, ".max", "not finite"),
        ({"max": None}, "", "needs both min and max"),
        ({"scale": None, "min": None, "max": None}, "", "needs a scale"),
        ({"scale": 0.0}, ".offset", "scale of 0"),
        ({"bitwidth": 1}, ".bitwidth", "2 to 32"),
        ({"bitwidth": 10**30}, ".bitwidth", "2 to 32"),
        ({"bitwidth": 8.0}, ".bitwidth", "int"),
        ({"dtype": "float"}, ".bitwidth", "16 or 32"),
        ({"dtype": "INT"}, ".dtype", "INT"),
        ({"is_symmetric": "maybe"}, ".is_symmetric", "maybe"),
        ({"scales": 0.1}, ".scales", "unknown key"),
    ],
)
def test_faults_name_the_tensor_and_the_place(
    faults: Any, old: Any, change: dict[str, Any], where: str, part: str
) -> None:
    found = faults(old(ASYMMETRIC | change))
    assert len(found) == 1
    assert found[0].where.startswith("'t' at $.activation_encodings.t")
    assert found[0].where.endswith(where)
    assert part in found[0].message


def test_every_fault_of_a_file_is_found(faults: Any) -> None:
    data = {
        "version": "0.6.1",
        "activation_encodings": {
            "a": [ASYMMETRIC | {"scale": "x", "offset": None, "mim": 3}],
            "b": [],
            "c": [ASYMMETRIC],
        },
        "param_encodings": {"c": [ASYMMETRIC], "d": [channel(0.5), channel(-0.5)]},
        "quantizer_args": {"quant_scheme": ["tf"]},
    }
    found = faults(data)
    assert sorted(problem.where.rpartition(" at ")[2] for problem in found) == [
        "$.activation_encodings.a[0].mim",
        "$.activation_encodings.a[0].scale",
        "$.activation_encodings.b",
        "$.param_encodings.c",
        "$.param_encodings.d",
        "$.param_encodings.d.scale",
        "$.quantizer_args.quant_scheme",
    ]
    assert any("did you mean 'min'?" in problem.hint for problem in found)


def test_channels_must_agree(faults: Any, old: Any) -> None:
    wide = channel(0.5) | {"bitwidth": 8, "is_symmetric": "False"}
    text = " ".join(str(problem) for problem in faults(old(channel(0.5), wide)))
    assert "differ in bitwidth: 4, 8" in text
    assert "differ in is_symmetric: False, True" in text
    missing = {k: v for k, v in channel(0.5).items() if k != "scale"}
    assert "missing for some channels" in str(faults(old(channel(0.5), missing))[0])


def test_one_scale_of_zero_among_others_is_a_fault(faults: Any, old: Any) -> None:
    zero = channel(0.5) | {"scale": 0.0, "min": 0.0, "max": 0.0}
    (found,) = faults(old(channel(0.5), zero, section="param_encodings"))
    assert "0.0 (at 1 of 2) is not a valid scale" in found.message


def test_numbers_are_doubles_to_the_last_digit(read: Any, old: Any) -> None:
    scale = 0.1 + 2**-54
    data = ASYMMETRIC | {"scale": scale, "min": None, "max": None}
    assert read(old(data)).entries["t"].scales == np.float64(scale)
