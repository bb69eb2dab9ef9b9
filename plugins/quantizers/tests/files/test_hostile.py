"""Files that are none, or are made to break a reader: refused, with a reason, in no time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dovetail.errors import DovetailError, FrontendError, QuantizationError
from dovetail_quantizers.files import parse_encodings, read_encodings

OLD = '{"activation_encodings": {"t": [{"bitwidth": 8, "scale": %s, "offset": 0}]}, %s}'


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ("{", "not valid JSON"),
        ("{}", "missing activation_encodings"),
        ("/" * 300_000, "not valid JSON"),
        ("/*" * 300_000, "not valid JSON"),
        ('/**/"' + '\\"' * 300_000, "not valid JSON"),
        (
            '{"version": "0.6.1", "encodings": []}',
            "missing activation_encodings and param_encodings",
        ),
        ('{"version": "2.0.0", "activation_encodings": {}}', "missing encodings"),
        ('{"version": "3.0.0", "encodings": []}', "unknown version '3.0.0'"),
        ('{"version": ["1.0.0"]}', "unknown version"),
        ('{"version": {"a": {}}}', "unknown version"),
        ("[" * 100_000, "not usable JSON"),
        ('{"a":' * 100_000, "not usable JSON"),
        ('{"a": ' + "9" * 10_000 + "}", "not usable JSON"),
    ],
)
def test_what_is_no_encodings_file(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(QuantizationError) as caught:
        read_encodings(path)
    assert part in str(caught.value)
    assert "x.json" in caught.value.where


def test_what_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'{"\xff": 1}')
    with pytest.raises(FrontendError, match="UTF-8"):
        read_encodings(path)
    with pytest.raises(FrontendError, match="cannot be read"):
        read_encodings(tmp_path)
    with pytest.raises(FrontendError, match="cannot be read"):
        read_encodings(tmp_path / "none.json")


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('\ufeff{"activation_encodings": {}, "param_encodings": {}}', "utf-8")
    assert read_encodings(path).entries == {}


@pytest.mark.parametrize(
    ("text", "where", "part"),
    [
        (OLD % ("1e999", '"param_encodings": {}'), ".scale", "not a "),
        (OLD % ("NaN", '"param_encodings": {}'), ".scale", "not a "),
        (OLD % ("9" * 400, '"param_encodings": {}'), ".scale", "range"),
        (OLD % ("true", '"param_encodings": {}'), ".scale", "bool"),
        (OLD % ("1", '"param_encodings": []'), "$.param_encodings", "object"),
        (OLD % ("1", '"param_encodings": {"w": {}}'), "w[0]", "'bitwidth' is missing"),
        (OLD % ("1", '"param_encodings": {"w": []}'), "w", "a list of encodings"),
        (OLD % ("1", '"param_encodings": {}, "param_bitwidth": 5'), "$.param_bitwidth", "5"),
        (OLD % ("1", '"param_encodings": {}, "bias_bitwidth": true'), "$.bias_bitwidth", "int"),
        (OLD % ("1", '"param_encodings": {"w": [[]]}'), "w[0]", "expected an object"),
        (OLD % ("1", '"param_encodings": {"w": [1], "w": []}'), "$.param_encodings", "once"),
        (
            OLD % ('1, "scale": 2', '"param_encodings": {}'),
            "t[0]",
            "'scale' appears more than once",
        ),
        (
            OLD % ("1", '"param_encodings": {}, "quantizer_args": {"a": NaN}'),
            "$.quantizer_args.a",
            "not a ",
        ),
        (
            '{"version": "2.0.0", "encodings": [{"name": "w", "output_dtype": "int4", "axis": 0, '
            '"y_scale": ' + "[" * 500 + "1" + "]" * 500 + "}]}",
            ".y_scale",
            "regular list",
        ),
        ('{"version": "2.0.0", "encodings": [3]}', "$.encodings[0]", "expected an object"),
        ('{"version": "2.0.0", "encodings": {}}', "$.encodings", "array"),
        ('{"version": "2.0.0", "encodings": [{"name": 3}]}', "$.encodings[0]", "output_dtype"),
        ('{"graph": {"tensors": {"t": 3}}}', "$.graph.tensors.t", "expected an object"),
    ],
)
def test_values_out_of_place(tmp_path: Path, text: str, where: str, part: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    _, faults = parse_encodings(path)
    assert any(f.where.endswith(where) and part in f.message for f in faults), faults


def test_an_error_lists_all_faults(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(OLD % ("-1", '"param_encodings": {"w": [1, 2]}'))
    with pytest.raises(QuantizationError) as caught:
        read_encodings(path)
    assert caught.value.message == "3 faults in an encodings file"
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("name", ["", "a.b[0]", "\ud800", "\x00", "$", "ü/ö:0"])
def test_names_may_be_anything(read: Any, name: str) -> None:
    entry = {"name": name, "output_dtype": "uint8", "y_scale": 1}
    assert list(read({"version": "2.0.0", "encodings": [entry]}).entries) == [name]


def test_a_deep_object_in_a_converted_model_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    deep = '{"a":' * 300 + "1" + "}" * 300
    path.write_text('{"graph": {"tensors": {}, "nodes": ' + deep + '}, "graph": {"tensors": {}}}')
    _, faults = parse_encodings(path)
    assert [f.message for f in faults] == ["the key 'graph' appears more than once"]


def test_every_refusal_is_an_error_of_ours(tmp_path: Path) -> None:
    """Cut a good file anywhere: it is refused, and never in another way."""
    text = (
        '{"version": "1.0.0", "activation_encodings": [{"name": "x", "dtype": "INT", '
        '"enc_type": "PER_TENSOR", "bw": 8, "is_sym": false, "scale": [0.5], "offset": [-3]}], '
        '"param_encodings": []}'
    )
    path = tmp_path / "x.json"
    for end in range(len(text)):
        path.write_text(text[:end])
        with pytest.raises(DovetailError):
            read_encodings(path)
