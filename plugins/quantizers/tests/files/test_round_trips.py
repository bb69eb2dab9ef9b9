"""Writing: every number that a version can hold comes back, and bytes do not change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import ConfigError, QuantizationError
from dovetail_quantizers.files import (
    QNN_JSON,
    WRITTEN,
    EncodingsFile,
    Form,
    TensorEncoding,
    dump_encodings,
    read_encodings,
    write_encodings,
)
from dovetail_quantizers.files.difference import difference

# All doubles whose float32 is a scale.
SCALES = st.floats(2.0**-126, 2.0**100)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@st.composite
def entries(draw: st.DrawFn, name: str) -> TensorEncoding:
    form = draw(st.sampled_from(Form))
    is_param = form is not Form.PER_TENSOR or draw(st.booleans())
    if form is Form.PER_TENSOR and draw(st.integers(0, 4)) == 0:
        return TensorEncoding(name, "float", draw(st.sampled_from([16, 32])), is_param=is_param)
    bitwidth = 8 if form is Form.LPBQ else draw(st.sampled_from([2, 4, 8, 16, 32]))
    steps, center = (1 << bitwidth) - 1, -(1 << (bitwidth - 1))
    shape = {
        Form.PER_TENSOR: (),
        Form.PER_CHANNEL: (draw(st.integers(1, 4)),),
        Form.PER_BLOCK: (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        Form.LPBQ: (draw(st.integers(1, 3)), 1),
    }[form]
    count = int(np.prod(shape))
    symmetric = form is not Form.PER_TENSOR or draw(st.booleans())
    offset = center if symmetric else draw(st.integers(-steps, 0))
    made = TensorEncoding(
        name,
        "int",
        bitwidth,
        form,
        symmetric,
        np.asarray(draw(st.lists(SCALES, min_size=count, max_size=count))).reshape(shape),
        np.full(shape, offset, np.int64),
        axis={Form.PER_TENSOR: None, Form.PER_CHANNEL: draw(st.integers(0, 3))}.get(form, 1),
        block_size=draw(st.integers(1, 9)) if form.is_blocked else None,
        is_param=is_param,
    )
    if form is not Form.LPBQ:
        return made
    blocks = draw(st.integers(1, 3))
    factors = st.lists(st.integers(1, 16), min_size=blocks * count, max_size=blocks * count)
    return made.with_factors(np.asarray(draw(factors), np.int64).reshape(count, blocks), 4)


@st.composite
def files(draw: st.DrawFn) -> EncodingsFile:
    names = draw(st.lists(NAMES, unique=True, max_size=4))
    return EncodingsFile.of("1.0.0", [draw(entries(name)) for name in names])


def again(folder: Path, text: str) -> EncodingsFile:
    path = folder / "again.json"
    path.write_text(text, "utf-8")
    return read_encodings(path)


@pytest.mark.parametrize("version", WRITTEN)
@settings(max_examples=60)
@given(file=files())
def test_what_is_held_comes_back_to_the_last_digit(
    tmp_path_factory: pytest.TempPathFactory, version: str, file: EncodingsFile
) -> None:
    folder = tmp_path_factory.getbasetemp()
    dumped = dump_encodings(file, version)
    read = again(folder, dumped.text)
    found = difference(file, read)
    left_out = {problem.where[1:-1] for problem in dumped.left_out}
    assert not found.changed
    assert not found.added
    assert set(found.removed) == left_out
    assert dump_encodings(read, version).text == dumped.text


@settings(max_examples=100)
@given(file=files(), chain=st.lists(st.sampled_from(WRITTEN), min_size=1, max_size=5))
def test_no_chain_of_versions_changes_what_passes_through(
    tmp_path_factory: pytest.TempPathFactory, file: EncodingsFile, chain: list[str]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    now = file
    for version in chain:
        now = again(folder, dump_encodings(now, version).text)
    assert not difference(file, now).changed


def full() -> EncodingsFile:
    """One tensor of each form."""
    channels = np.asarray([0.1, 0.3])
    return EncodingsFile.of(
        "1.0.0",
        [
            TensorEncoding(
                "x", scales=np.asarray(0.7), offsets=np.asarray(-61), is_param=False
            ),
            TensorEncoding("h", "float", 16, is_param=False),
            TensorEncoding("o", "int", 16, is_param=False),
            TensorEncoding(
                "w", "int", 4, Form.PER_CHANNEL, True, channels, np.full(2, -8), 0, is_param=True
            ),
            TensorEncoding(
                "v", "int", 8, Form.PER_CHANNEL, True, channels, np.full(2, -128), is_param=True
            ),
            TensorEncoding(
                "b", "int", 4, Form.PER_BLOCK, True, np.asarray([[0.1, 0.2], [0.3, 0.4]]),
                np.full((2, 2), -8), 0, 4, is_param=True,
            ),
        ],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("0.6.1", {"b"}),
        ("1.0.0", {"o"}),
        ("2.0.0", {"h", "o", "v"}),
        ("2.1.0", {"h", "o", "v"}),
        (QNN_JSON, {"o", "v", "b"}),
    ],
)
def test_what_a_version_cannot_hold_is_listed(
    tmp_path: Path, version: str, names: set[str]
) -> None:
    path = tmp_path / "out.json"
    with pytest.raises(QuantizationError) as caught:
        write_encodings(full(), path, version)
    assert {p.where[1:-1] for p in caught.value.problems} == names
    assert not path.exists()
    done = write_encodings(full(), path, version, lossy=True)
    assert {p.where[1:-1] for p in done.left_out} == names
    assert set(read_encodings(path).entries) == set(full().entries) - names


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"one of 0\.6\.1, 1\.0\.0"):
        write_encodings(full(), tmp_path / "x", "1.0")


def test_0_6_1_writes_the_range_and_1_0_0_the_order_of_channels() -> None:
    file = full()
    old = json.loads(dump_encodings(file, "0.6.1").text)
    assert old["activation_encodings"]["x"] == [
        {
            "bitwidth": 8,
            "dtype": "int",
            "is_symmetric": "False",
            "max": 194 * 0.7,
            "min": -61 * 0.7,
            "offset": -61.0,
            "scale": 0.7,
        }
    ]
    new = json.loads(dump_encodings(file, "1.0.0").text)
    blocks = next(e for e in new["param_encodings"] if e["name"] == "b")
    # blocks along axis 0: the columns are the output channels, and come one after the other
    assert blocks["scale"] == [0.1, 0.3, 0.2, 0.4]


def test_2_0_0_stores_symmetric_tensors_signed_and_others_not() -> None:
    made = json.loads(dump_encodings(full(), "2.0.0").text)["encodings"]
    by_name = {entry["name"]: entry for entry in made}
    assert by_name["x"] == {
        "name": "x", "output_dtype": "uint8", "y_scale": 0.7, "y_zero_point": 61
    }  # fmt: skip
    assert by_name["w"] == {"name": "w", "output_dtype": "int4", "axis": 0, "y_scale": [0.1, 0.3]}
    assert by_name["b"]["y_scale"] == [[0.1, 0.2], [0.3, 0.4]]


def test_derived_biases_keep_their_place(tmp_path: Path) -> None:
    zeros = TensorEncoding(
        "b", "int", 32, Form.PER_CHANNEL, True, np.zeros(3), np.zeros(3, np.int64), 0, is_param=True
    )
    for version in WRITTEN:
        read = again(tmp_path, dump_encodings(EncodingsFile.of("1.0.0", [zeros]), version).text)
        assert read.entries["b"].is_derived
        assert read.entries["b"].scales.shape == (3,)


def test_what_is_said_of_the_whole_file_is_kept_or_noted(tmp_path: Path, old: Any) -> None:
    data = old(
        producer={"package": "p", "version": "1"},
        quantizer_args={"per_channel_quantization": True, "quant_scheme": "min_max"},
        excluded_layers=["a", "b"],
        surprise=1,
    )
    data["activation_encodings"] = {}
    read = again(tmp_path, json.dumps(data))
    assert [note.where for note in read.notes] == ["$.surprise"]
    assert json.loads(dump_encodings(read, "0.6.1").text) | {"surprise": 1} == data
    dumped = dump_encodings(read, "2.0.0")
    assert json.loads(dumped.text)["producer"] == data["producer"]
    assert {"quantizer_args", "excluded_layers"} == {
        note.message.split("'")[1] for note in dumped.notes
    }


def test_roles_that_a_file_does_not_tell_are_guessed_and_noted(read: Any, onnx_like: Any) -> None:
    file = read(
        onnx_like(
            {"name": "x", "output_dtype": "uint8", "y_scale": 0.1},
            {"name": "w", "output_dtype": "int8", "axis": 0, "y_scale": [0.1, 0.2]},
            {"name": "b", "output_dtype": "int32", "y_scale": 0.1},
        )
    )
    dumped = dump_encodings(file, "1.0.0")
    made = json.loads(dumped.text)
    assert [e["name"] for e in made["activation_encodings"]] == ["x"]
    assert [e["name"] for e in made["param_encodings"]] == ["w", "b"]
    assert "which of 3 tensors are weights" in str(dumped.notes[0])
