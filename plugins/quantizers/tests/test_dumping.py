"""Encodings that were dumped and are read again: the same graph comes of them, without samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import model_of, new_graph, output

import dovetail as dt
from dovetail.ir import Graph
from dovetail_opset.build import add, static
from dovetail_quantizers.dumping import dump_model_encodings

RNG = np.random.default_rng(81)
SAMPLES = RNG.standard_normal((4, 1, 4)).astype(np.float32)
WEIGHTS = RNG.standard_normal((3, 4, 4)).astype(np.float32)


def network() -> Graph:
    """x -> FullyConnected a -> FullyConnected b -> FullyConnected y."""
    graph, x = new_graph((1, 4))
    for name, weight in zip("aby", WEIGHTS, strict=True):
        x = add(graph, "FullyConnected", [x, static(graph, f"w{name}", weight)], name=name)
    output(x)
    return graph


def dumped(model: dt.Model, folder: Path) -> str:
    (path,) = dump_model_encodings(model, folder / "net.dvt")
    return str(path)


@pytest.mark.parametrize(
    ("floats", "options"),
    [
        *(((name,), {}) for name in "xaby"),
        (("a", "b"), {}),
        ((), {"preserve_io_datatype": True}),
        (("b",), {"preserve_io_datatype": True}),
        (("y",), {"float_bitwidth": 16}),
    ],
)
def test_a_dump_says_the_graph_it_was_made_of(
    floats: tuple[str, ...], options: dict[str, Any], tmp_path: Path
) -> None:
    said = {name: [{"bitwidth": 16, "dtype": "float"}] for name in floats}
    given = tmp_path / "given.json"
    given.write_text(json.dumps({"activation_encodings": said, "param_encodings": {}}))
    once = dt.quantize(model_of(network()), SAMPLES, quantization_overrides=given, **options)
    path = dumped(once, tmp_path)
    again = dt.quantize(model_of(network()), None, quantization_overrides=path, **options)
    wanted, found = (
        {t.name: t.spec for t in model.graphs["net"].tensors.values()} for model in (once, again)
    )
    assert found == wanted


def test_interfaces_that_stay_float_are_known_by_what_is_inside(tmp_path: Path) -> None:
    made = dt.quantize(model_of(network()), SAMPLES, preserve_io_datatype=True)
    content = json.loads(Path(dumped(made, tmp_path)).read_text())
    found = {e["name"]: e["dtype"] for e in content["activation_encodings"]}
    assert found == dict.fromkeys(("x", "a", "b", "y"), "INT")


def test_what_readers_of_a_float_tensor_want_has_a_name(tmp_path: Path) -> None:
    given = tmp_path / "given.json"
    entry = [{"bitwidth": 16, "dtype": "float"}]
    given.write_text(json.dumps({"activation_encodings": {"b": entry}, "param_encodings": {}}))
    made = dt.quantize(model_of(network()), SAMPLES, quantization_overrides=given)
    content = json.loads(Path(dumped(made, tmp_path)).read_text())
    found = {e["name"]: e["dtype"] for e in content["activation_encodings"]}
    # the copy of a that b reads as float is no entry: it follows from b
    assert found == {"x": "INT", "a": "INT", "b": "FLOAT", "b.convert": "INT", "y": "INT"}
