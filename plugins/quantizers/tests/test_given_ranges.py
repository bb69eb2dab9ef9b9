"""Given encodings are shared only with tensors whose values they span."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import encoding, model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.ir import Array, DType, Graph, ScaleOffset, Spec, Tensor
from dovetail_opset.build import add, add_all, static

# The range of the results, -0.4 to 0.62, is far from that of the inputs.
GIVEN = ScaleOffset(0.004, -100)
VALUES = np.array([[-8, 8, 0.5, -0.25]], np.float32)


def paired(graph: Graph, x: Tensor) -> Tensor:
    """Return x after a Quantize and a Dequantize."""
    spec = Spec(DType.UFIXED_POINT_8, x.shape, GIVEN)
    stored = add(graph, "Quantize", [x], name=f"{x.name}.quantized", spec=spec)
    return add(graph, "Dequantize", [stored], name=f"{x.name}.again")


def sliced(graph: Graph, x: Tensor) -> Tensor:
    return add(graph, "StridedSlice", [x], name="kept", ranges=[(0, 1, 1), (2, 4, 1)])


def gathered(graph: Graph, x: Tensor) -> Tensor:
    indices = static(graph, "indices", np.array([2, 3], np.int32))
    return add(graph, "Gather", [x, indices], name="kept", axis=1)


def largest(graph: Graph, x: Tensor) -> Tensor:
    return add(graph, "ReduceMax", [x], name="kept", axes=[1], keep_dims=True)


def pooled(graph: Graph, x: Tensor) -> Tensor:
    image = add(graph, "Reshape", [x], name="image", spec=Spec(DType.FLOAT_32, (1, 1, 4, 1)))
    window = {"filter_size": [1, 2], "stride": [1, 2], "pad_amount": [(0, 0), (0, 0)]}
    return add(graph, "PoolMax2d", [image], name="kept", **window)


def one_piece(graph: Graph, x: Tensor) -> Tensor:
    first, second = add_all(graph, "Split", [x], name="pieces", axis=1, split_index=[2])
    output(add(graph, "ElementWiseNeg", [first], name="z"))
    return second


KEEPERS = [sliced, gathered, largest, pooled, one_piece]


def network(keep: Any, *, is_read_twice: bool = True) -> Graph:
    """x -> keep -> pair -> Neg -> y, and x -> Reshape -> t."""
    graph, x = new_graph((1, 4))
    output(add(graph, "ElementWiseNeg", [paired(graph, keep(graph, x))], name="y"))
    if is_read_twice:
        output(add(graph, "Reshape", [x], name="t", spec=Spec(DType.FLOAT_32, (4,))))
    return graph


def shown(model: dt.Model) -> dict[str, Array]:
    with dt.Session(model) as session:
        return session.run({"x": VALUES})


@pytest.mark.parametrize("keep", KEEPERS)
@pytest.mark.parametrize("options", [{"float_fallback": True}, {"act_bitwidth": 16}])
def test_the_range_of_some_values_clips_no_others(keep: Any, options: dict[str, Any]) -> None:
    samples = None if "float_fallback" in options else [VALUES]
    made = dt.quantize(model_of(network(keep)), samples, **options)
    np.testing.assert_allclose(shown(made)["t"], VALUES[0], atol=16 / 65535)


@pytest.mark.parametrize("keep", [sliced, gathered, largest, pooled])
def test_an_input_that_nothing_else_reads_shares_the_given_encoding(keep: Any) -> None:
    made = quantized(network(keep, is_read_twice=False), [VALUES])
    assert encoding(made, "x") == encoding(made, "kept") == GIVEN


def test_an_output_of_the_graph_keeps_its_range() -> None:
    graph, x = new_graph((1, 4))
    made = output(add(graph, "ElementWiseNeg", [x], name="made"))
    output(add(graph, "ElementWiseNeg", [paired(graph, sliced(graph, made))], name="y"))
    found = shown(dt.quantize(model_of(graph), [VALUES], act_bitwidth=16))
    np.testing.assert_allclose(found["made"], -VALUES, atol=16 / 65535)


def test_what_loses_no_values_shares_the_encoding_of_its_results() -> None:
    def flipped(graph: Graph, x: Tensor) -> Tensor:
        return add(graph, "Transpose", [x], name="kept", perm=[1, 0])

    made = quantized(network(flipped), None, float_fallback=True)
    assert encoding(made, "t") == encoding(made, "kept") == GIVEN


def test_an_encodings_file_that_names_only_some_values(tmp_path: Path) -> None:
    graph, x = new_graph((1, 4))
    output(sliced(graph, x))
    output(add(graph, "Reshape", [x], name="t", spec=Spec(DType.FLOAT_32, (4,))))
    entry = {"bitwidth": 8, "scale": GIVEN.scale, "offset": GIVEN.offset}
    file = tmp_path / "net.encodings"
    file.write_text(json.dumps({"activation_encodings": {"kept": entry}, "param_encodings": {}}))
    given = {"quantization_overrides": str(file)}
    calibrated = dt.quantize(model_of(graph), [VALUES], act_bitwidth=16, **given)
    for model in (calibrated, dt.quantize(model_of(graph), None, float_fallback=True, **given)):
        np.testing.assert_allclose(shown(model)["t"], VALUES[0], atol=16 / 65535)


def joined(constant: Array | None = None) -> Graph:
    """x[:, 2:] -> Abs -> pair -> Concat with -x or a constant -> y."""
    graph, x = new_graph((1, 4))
    small = add(graph, "ElementWiseAbs", [sliced(graph, x)], name="small")
    if constant is None:
        other = add(graph, "ElementWiseNeg", [x], name="other")
    else:
        other = static(graph, "other", constant)
    output(add(graph, "Concat", [paired(graph, small), other], name="y", axis=1))
    return graph


def test_the_range_of_a_part_is_not_that_of_the_whole() -> None:
    found = shown(dt.quantize(model_of(joined()), [VALUES], act_bitwidth=16))
    np.testing.assert_allclose(found["y"][:, 2:], -VALUES, atol=16 / 65535)


@pytest.mark.parametrize(("value", "is_shared"), [(0.5, True), (5.0, False)])
def test_constants_within_a_given_range_share_it(value: float, is_shared: bool) -> None:
    graph = joined(np.full((1, 2), value, np.float32))
    made = quantized(graph, [VALUES], act_bitwidth=16)
    assert (encoding(made, "y") == GIVEN) is is_shared
    found = shown(model_of(made))
    np.testing.assert_allclose(found["y"][:, 2:], value, atol=0.002)
