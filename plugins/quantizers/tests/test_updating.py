"""Encodings for updates: derived from values as the quantizer does, and read from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.api import quantize
from dovetail.container import Model, Producer
from dovetail.errors import QuantizationError
from dovetail.ir import Block, DType, Graph, ScaleOffset, Tensor, TensorKind, pack
from dovetail.plugins.ops import installed_ops
from dovetail_opset.build import add, static
from dovetail_quantizers.quantizer import DefaultQuantizer

OPS = installed_ops()
QUANTIZER = DefaultQuantizer()
RNG = np.random.default_rng(11)
PER_ROW = {"use_per_row_quantization": True, "use_per_channel_quantization": True}
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "16-bit": {"weights_bitwidth": 16, "act_bitwidth": 16},
    "4-bit": {"weights_bitwidth": 4},
    "symmetric": {"param_quantizer_schema": "symmetric"},
    "rows": PER_ROW,
    "rows-4-bit": PER_ROW | {"weights_bitwidth": 4},
    "blocks": {"weights_block_size": 4},
}


def network(weight: Any) -> Model:
    """y = x w.T + b, whose weights and result are updateable."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 8), TensorKind.APP_WRITE))
    w, b = static(graph, "w", weight), static(graph, "b", np.float32([1, -2, 3, 4]))
    w.kind = TensorKind.UPDATEABLE_STATIC
    w.source, w.source_perm = "source.w", (1, 0)
    y = add(graph, "FullyConnected", [x, w, b], name="y")
    y.kind = TensorKind.UPDATEABLE_APP_READ
    return Model.of(graph, producer=Producer("test", "1"), registry=OPS)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def quantized(weight: Any, **options: Any) -> Graph:
    made = quantize(network(weight), [normal(2, 8) for _ in range(3)], **options)
    return made.graphs["net"]


@pytest.mark.parametrize("case", OPTIONS)
def test_an_encoding_for_other_values_is_the_quantizers(case: str) -> None:
    old, new = normal(4, 8), 3 * normal(4, 8)
    graph, wanted = quantized(old, **OPTIONS[case]), quantized(new, **OPTIONS[case])
    assert graph.tensor("w").kind is TensorKind.UPDATEABLE_STATIC
    assert QUANTIZER.encoding_for(graph.tensor("w"), new) == wanted.tensor("w").encoding


@pytest.mark.parametrize("case", [case for case in OPTIONS if case != "blocks"])
def test_saved_encodings_are_read_again(tmp_path: Path, case: str) -> None:
    graph = quantized(normal(4, 8), **OPTIONS[case])
    other = quantized(5 * normal(4, 8), **OPTIONS[case])
    new = {name: other.tensor(name).encoding for name in ("w", "y")}
    QUANTIZER.save_encodings(graph, new, tmp_path / "e", OPS)
    assert QUANTIZER.read_encodings(tmp_path / "e", graph, OPS) == new
    names = {e["name"] for e in json.loads((tmp_path / "e").read_text())["param_encodings"]}
    assert names == {"source.w"}  # the user's own


def test_tensors_that_are_not_updateable_are_left_out(tmp_path: Path) -> None:
    graph = quantized(normal(4, 8))
    entry = {"bw": 8, "dtype": "INT", "enc_type": "PER_TENSOR", "is_sym": False}
    entry |= {"offset": [-3], "scale": [0.5]}
    file = {"version": "1.0.0", "param_encodings": []}
    file["activation_encodings"] = [entry | {"name": n} for n in ("x", "y")]
    (tmp_path / "e").write_text(json.dumps(file))
    assert QUANTIZER.read_encodings(tmp_path / "e", graph, OPS) == {"y": ScaleOffset(0.5, -3)}


def test_a_symmetric_entry_for_an_unsigned_tensor_keeps_its_points(tmp_path: Path) -> None:
    graph = quantized(normal(4, 8))
    entry = {"bw": 8, "dtype": "INT", "enc_type": "PER_TENSOR", "is_sym": True}
    entry |= {"offset": [-128], "scale": [0.25], "name": "source.w"}
    file = {"version": "1.0.0", "activation_encodings": [], "param_encodings": [entry]}
    (tmp_path / "e").write_text(json.dumps(file))
    assert QUANTIZER.read_encodings(tmp_path / "e", graph, OPS) == {"w": ScaleOffset(0.25, -128)}


def test_entries_that_match_nothing_or_another_type_are_errors(tmp_path: Path) -> None:
    graph = quantized(normal(4, 8))
    entry = {"bw": 16, "dtype": "INT", "enc_type": "PER_TENSOR", "is_sym": False}
    entry |= {"offset": [-9], "scale": [0.25]}
    file = {"version": "1.0.0", "activation_encodings": [entry | {"name": "yy"}]}
    file["param_encodings"] = [entry | {"name": "source.w"}]
    (tmp_path / "e").write_text(json.dumps(file))
    with pytest.raises(QuantizationError) as caught:
        QUANTIZER.read_encodings(tmp_path / "e", graph, OPS)
    told = sorted(str(problem) for problem in caught.value.problems)
    assert len(told) == 2
    assert any("no tensor of the model has this name" in text for text in told)
    assert any("UFIXED_POINT_16, but the tensor is UFIXED_POINT_8" in text for text in told)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_without_a_range_are_rejected(value: float) -> None:
    graph = quantized(normal(4, 8))
    with pytest.raises(QuantizationError, match="NaN or infinity"):
        QUANTIZER.encoding_for(graph.tensor("w"), np.full((4, 8), value))


def test_kinds_without_a_rule_are_rejected() -> None:
    scales = np.ones((1, 2), np.float32)
    tensor = Tensor.static("w", np.zeros((4, 8), np.uint8), DType.UFIXED_POINT_8)
    tensor.encoding = Block((4, 4), scales, np.int32([[-1, -2]]))
    with pytest.raises(QuantizationError, match="kind Block"):
        QUANTIZER.encoding_for(tensor, np.zeros((4, 8)))


def test_a_signed_encoding_with_an_offset_stays_signed() -> None:
    tensor = Tensor.static("w", np.zeros(3, np.int8), DType.SFIXED_POINT_8)
    tensor.encoding = ScaleOffset(0.1, 28)
    made = QUANTIZER.encoding_for(tensor, np.float32([-1, 0, 3]))
    low, high = (-128 + made.offset) * made.scale, (127 + made.offset) * made.scale
    # the ends may be moved by half a step, so that zero is a point
    assert abs(low + 1) <= made.scale / 2 + 1e-6
    assert abs(high - 3) <= made.scale / 2 + 1e-6
    assert pack(np.int8([0]), DType.SFIXED_POINT_8).nbytes == 1


def test_marked_encodings_change_nothing_for_the_quantizer() -> None:
    """UPDATEABLE_NATIVE tensors get the encodings of NATIVE ones, also where ops are flat."""
    found = {}
    for kind in (TensorKind.NATIVE, TensorKind.UPDATEABLE_NATIVE):
        model = network(normal(4, 8) * 0 + 1)
        graph = model.graphs["net"]
        y = graph.tensor("y")
        y.kind = kind
        z = add(graph, "Relu", [y], name="z")
        z.kind = TensorKind.APP_READ
        made = quantize(model, [np.ones((2, 8), np.float32), -2 * np.ones((2, 8), np.float32)])
        tensors = made.graphs["net"].tensors
        found[kind] = {name: t.encoding for name, t in tensors.items()}
        assert made.graphs["net"].tensor("y").kind is kind
    assert found[TensorKind.NATIVE] == found[TensorKind.UPDATEABLE_NATIVE]
