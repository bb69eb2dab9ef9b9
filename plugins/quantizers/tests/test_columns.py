"""Blocks of weights behind a flattening: they are of columns as the user's model has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import model_of, new_graph, output

import dovetail as dt
from dovetail.errors import QuantizationError
from dovetail.ir import Array, Graph, Spec
from dovetail_opset.build import add, static
from dovetail_opset.passes import DeadCode, FoldFlatten
from dovetail_quantizers.dumping import dump_model_encodings

RNG = np.random.default_rng(87)
UNITS, SHAPE = 3, (4, 2, 2)  # channels first
WEIGHT = RNG.standard_normal((UNITS, 16)).astype(np.float32)
SAMPLES = [RNG.standard_normal((1, 2, 2, 4)).astype(np.float32) for _ in range(4)]


def network(perm: tuple[int, ...] = (0, 3, 1, 2)) -> Graph:
    """x (1, h, w, c) -> turned, flattened -> FullyConnected y; as conversion leaves it."""
    graph, x = new_graph((1, 2, 2, 4))
    turned = add(graph, "Transpose", [x], name="turned", perm=perm)
    flat = add(graph, "Reshape", [turned], name="flat", spec=Spec(x.dtype, (1, 16)))
    output(add(graph, "FullyConnected", [flat, static(graph, "w", WEIGHT)], name="y"))
    assert FoldFlatten().run(graph)
    DeadCode().run(graph)
    return graph


def blocks(form: str) -> tuple[dict[str, Any], Array]:
    """An entry with blocks of 4 columns, and the scale of each element."""
    entry = {"name": "w", "dtype": "INT", "enc_type": form, "is_sym": True, "block_size": 4}
    factors = RNG.integers(1, 17, (UNITS, 4))
    if form == "PER_BLOCK":
        scales = factors * 0.02
        entry |= {"bw": 4, "scale": scales.ravel().tolist(), "offset": [-8] * scales.size}
    else:
        scales = factors * 0.02
        entry |= {
            "bw": 8, "compressed_bw": 4, "scale": [0.02] * UNITS, "offset": [-128] * UNITS,
            "per_block_int_scale": factors.ravel().tolist(),
        }  # fmt: skip
    return entry, np.repeat(scales, 4, axis=1)


def written(folder: Path, entry: dict[str, Any]) -> Path:
    path = folder / "given.encodings"
    content = {"version": "1.0.0", "activation_encodings": [], "param_encodings": [entry]}
    path.write_text(json.dumps(content))
    return path


def run(model: dt.Model) -> Array:
    with dt.Session(model) as session:
        return np.concatenate([session.run({"x": sample})["y"] for sample in SAMPLES])


def product(weight: Array) -> Array:
    first = [np.transpose(sample, (0, 3, 1, 2)).reshape(1, -1) for sample in SAMPLES]
    return np.concatenate(first) @ weight.T


@pytest.mark.parametrize("target", [None, "cpu"])
@pytest.mark.parametrize("form", ["PER_BLOCK", "LPBQ"])
def test_blocks_of_a_file_are_for_the_user_s_columns(
    form: str, target: str | None, tmp_path: Path
) -> None:
    entry, scales = blocks(form)
    path = written(tmp_path, entry)
    made = dt.quantize(model_of(network()), SAMPLES, quantization_overrides=path, act_bitwidth=16)
    rounded = np.clip(np.rint(WEIGHT / scales), -8, 7) * scales
    # outputs have the range of the float ones, beyond which they are cut off
    ends = product(WEIGHT).min(), product(WEIGHT).max()
    wanted = np.clip(product(rounded), min(ends[0], 0), max(ends[1], 0))
    np.testing.assert_allclose(run(made), wanted, atol=0.002)  # steps of 16 bits
    (dumped,) = dump_model_encodings(made, tmp_path / "net.dvt")
    again = dt.quantize(
        model_of(network()), None, quantization_overrides=dumped, target_backend=target
    )
    np.testing.assert_array_equal(run(again), run(made))


def test_blocks_of_our_own_are_of_the_user_s_columns_too(tmp_path: Path) -> None:
    made = dt.quantize(model_of(network()), SAMPLES, weights_block_size=4, weights_bitwidth=4)
    (dumped,) = dump_model_encodings(made, tmp_path / "net.dvt")
    (entry,) = json.loads(dumped.read_text())["param_encodings"]
    maximum = np.abs(WEIGHT).reshape(UNITS, 4, 4).max(axis=2)
    np.testing.assert_allclose(entry["scale"], maximum.ravel() / 7, rtol=1e-6)


def test_another_order_is_refused(tmp_path: Path) -> None:
    entry, _ = blocks("PER_BLOCK")
    path = written(tmp_path, entry)
    with pytest.raises(QuantizationError, match="another order of the columns") as caught:
        dt.quantize(model_of(network((0, 2, 3, 1))), SAMPLES, quantization_overrides=path)
    assert "tensor 'w'" in str(caught.value)


def test_scales_of_channels_leave_the_columns_where_they_are(tmp_path: Path) -> None:
    entry = {
        "name": "w", "dtype": "INT", "enc_type": "PER_CHANNEL", "is_sym": True, "bw": 8,
        "scale": [0.01, 0.02, 0.03], "offset": [-128] * UNITS,
    }  # fmt: skip
    path = written(tmp_path, entry)
    made = dt.quantize(model_of(network()), SAMPLES, quantization_overrides=path)
    assert [node.op_type for node in made.graphs["net"].nodes] == ["Reshape", "FullyConnected"]
