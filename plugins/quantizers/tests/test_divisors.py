"""Constants that a model divides by: the small ones decide on the largest quotients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.ir import Graph
from dovetail_opset.build import add, static
from dovetail_quantizers.dumping import dump_model_encodings

RNG = np.random.default_rng(13)
SAMPLES = RNG.uniform(-2, 3, (6, 4, 8)).astype(np.float32)
DEVIATIONS = np.geomspace(0.3, 500, 8).astype(np.float32)


def graph_of() -> Graph:
    """x / the deviations of its columns."""
    graph, x = new_graph((4, 8))
    divisor = static(graph, "divisor", DEVIATIONS)
    output(add(graph, "ElementWiseDivide", [x, divisor], name="y"))
    return graph


# 40 and 88 dB were measured.
@pytest.mark.parametrize(("bits", "least_db"), [(8, 38), (16, 85)])
def test_small_divisors_are_not_rounded_to_zero(bits: int, least_db: float) -> None:
    made = dt.quantize(model_of(graph_of()), list(SAMPLES), act_bitwidth=bits)
    with dt.Session(made, backend="htp") as session:
        found = np.stack([session.run({"x": sample})["y"] for sample in SAMPLES])
    wanted = SAMPLES / DEVIATIONS
    assert 10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()) > least_db


@pytest.mark.parametrize("options", [{"quantization_style": "sdk"}, {"entry": True}])
def test_a_divisor_with_an_encoding_stays(options: dict[str, Any], tmp_path: Path) -> None:
    if options.pop("entry", False):
        options["quantization_overrides"] = path = tmp_path / "given.json"
        entry = {"bitwidth": 16, "min": 0.0, "max": 500.0, "is_symmetric": "False"}
        path.write_text(
            json.dumps({"activation_encodings": {}, "param_encodings": {"divisor": [entry]}})
        )
    made = quantized(graph_of(), list(SAMPLES), **options)
    assert [node.op_type for node in made.nodes] == ["ElementWiseDivide"]


def test_a_single_divisor_stays() -> None:
    graph, x = new_graph((4, 8))
    divisor = static(graph, "divisor", np.full(8, 7, np.float32))
    output(add(graph, "ElementWiseDivide", [x, divisor], name="y"))
    made = quantized(graph, list(SAMPLES))
    assert [node.op_type for node in made.nodes] == ["ElementWiseDivide"]


def test_dumped_encodings_name_the_factor(tmp_path: Path) -> None:
    made = dt.quantize(model_of(graph_of()), list(SAMPLES))
    (path,) = dump_model_encodings(made, tmp_path / "net.dvt")
    again = dt.quantize(model_of(graph_of()), quantization_overrides=path)
    (first,), (second,) = made.graphs.values(), again.graphs.values()
    assert {t.name: t.encoding for t in first.tensors.values()} == {
        t.name: t.encoding for t in second.tensors.values()
    }
