"""What algorithms are given, and what becomes of what they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import pytest
from msgspec import Meta
from quantizing import dense, encoding, model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.errors import ConfigError, QuantizationError
from dovetail.ir import Array, DType, Graph, pack
from dovetail.ops import OpRegistry, to_real
from dovetail.plugins.ops import installed_ops
from dovetail.quantization import (
    Observation,
    QuantizationAlgorithm,
    Refinement,
    Workspace,
)
from dovetail_opset.build import add, static
from dovetail_quantizers.calibration.running import runner

RNG = np.random.default_rng(11)
SAMPLES = RNG.standard_normal((6, 1, 4)).astype(np.float32)
WEIGHT = RNG.standard_normal((3, 4)).astype(np.float32)


def three_layers() -> Graph:
    """x (1, 4) -> Relu(FullyConnected) a, another b (read twice), a third c."""
    graph, made = new_graph((1, 4))
    for name in "abc":
        weight = static(graph, f"w{name}", RNG.standard_normal((4, 4)).astype(np.float32))
        bias = static(graph, f"b{name}", RNG.standard_normal(4).astype(np.float32))
        made = add(graph, "FullyConnected", [made, weight, bias], name=f"fc{name}")
        made = add(graph, "Relu", [made], name=name)
    output(add(graph, "ElementWiseAdd", [made, graph.tensor("b")], name="y"))
    return graph


def test_statistics_are_those_of_all_samples(
    installed: dict[str, type[QuantizationAlgorithm]],
) -> None:
    class Watcher(QuantizationAlgorithm):
        name: ClassVar[str] = "watcher"

        def observe(self, graph: Graph, ops: OpRegistry) -> Sequence[Observation]:
            return (Observation("x", axis=1, keep=2), Observation("fc"))

        def rewrite(self, work: Workspace) -> Sequence[str]:
            by_channel, whole = work.seen["x"], work.seen["fc"]
            rows = SAMPLES[:, 0].astype(np.float64)
            np.testing.assert_array_equal(by_channel.minimum, rows.min(axis=0))
            np.testing.assert_array_equal(by_channel.absmax, np.abs(rows).max(axis=0))
            np.testing.assert_allclose(by_channel.mean, rows.mean(axis=0), rtol=1e-12)
            np.testing.assert_allclose(by_channel.variance, rows.var(axis=0), rtol=1e-9)
            np.testing.assert_array_equal(np.stack(by_channel.kept), SAMPLES[:2])
            made = rows @ WEIGHT.astype(np.float64).T
            # float32 products of 4 terms
            np.testing.assert_allclose(whole.maximum, made.max(), rtol=1e-6)
            np.testing.assert_allclose(whole.mean, made.mean(), rtol=1e-5)
            assert (by_channel.count, whole.count) == (6, 18)
            return ("seen",)

    installed["watcher"] = Watcher
    made = quantize_with_report(
        model_of(dense(WEIGHT, None)), list(SAMPLES), algorithms=("watcher",)
    )
    assert made.report.notes == ("watcher: seen",)


def test_what_is_rewritten_is_what_is_calibrated(
    installed: dict[str, type[QuantizationAlgorithm]],
) -> None:
    class Halver(QuantizationAlgorithm):
        name: ClassVar[str] = "halver"

        def rewrite(self, work: Workspace) -> Sequence[str]:
            tensor = work.graph.tensor("w")
            tensor.data = pack(tensor.values() / 2, tensor.dtype)
            return ()

    installed["halver"] = Halver
    graph = dense(np.ones((1, 4), np.float32), None)
    full = quantized(graph, [np.ones((1, 4))])
    half = quantized(graph, [np.ones((1, 4))], algorithms=["halver"], skip_algorithm_check=True)
    assert encoding(half, "y").scale == encoding(full, "y").scale / 2
    np.testing.assert_array_equal(graph.tensor("w").values(), np.ones((1, 4)))


def shown(graph: Graph, tensor: str, sample: Array) -> Array:
    """A tensor's real values as the cpu backend computes it."""
    with runner(graph, installed_ops(), "cpu", (tensor,)) as run:
        inputs = {"x": sample}
        if graph.tensor("x").dtype.is_fixed_point:
            from dovetail.ops import from_real

            inputs = {"x": from_real(sample, graph.tensor("x").spec)}
        return np.array(to_real(run(inputs)[tensor], graph.tensor(tensor).spec))


def test_layers_come_in_order_with_what_both_networks_compute(
    installed: dict[str, type[QuantizationAlgorithm]],
) -> None:
    names: list[str] = []

    class Reader(QuantizationAlgorithm):
        name: ClassVar[str] = "reader"

        def refine(self, work: Refinement) -> Sequence[str]:
            for layer in work.layers(samples=4):
                names.append(layer.node.name)
                assert len(layer.float_inputs) == len(layer.quantized_inputs) == 4
                read = layer.node.inputs[0]
                assert read is not None
                for i, sample in enumerate(SAMPLES[:4]):
                    exact = shown(work.float_graph, read.name, sample)
                    np.testing.assert_allclose(layer.float_inputs[i], exact, rtol=1e-5, atol=1e-6)
                    near = shown(work.graph, read.name, sample)
                    # a sum that lies between two steps may be rounded either way
                    step = getattr(read.encoding, "scale", 0.0)
                    np.testing.assert_allclose(layer.quantized_inputs[i], near, atol=1.01 * step)
                    product = layer.float_inputs[i] @ layer.float_weight.T + layer.float_bias
                    np.testing.assert_allclose(
                        layer.float_outputs[i], product, rtol=1e-5, atol=1e-5
                    )
                    again = layer.run(layer.float_inputs[i], layer.float_weight, layer.float_bias)
                    np.testing.assert_allclose(again, product, rtol=1e-5, atol=1e-5)
            return ()

    installed["reader"] = Reader
    quantized(three_layers(), list(SAMPLES), algorithms=["reader"])
    assert names == ["fca", "fcb", "fcc"]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bits", [8, 32])
def test_a_bias_is_set_or_added_and_later_layers_see_it(
    installed: dict[str, type[QuantizationAlgorithm]], bias: bool, bits: int
) -> None:
    class Shifter(QuantizationAlgorithm):
        name: ClassVar[str] = "shifter"

        def refine(self, work: Refinement) -> Sequence[str]:
            for layer in work.layers():
                error = np.mean(
                    [
                        (exact - near).mean(axis=0)
                        for exact, near in zip(
                            layer.float_outputs, layer.accumulated(), strict=True
                        )
                    ],
                    axis=0,
                )
                before = 0 if layer.float_bias is None else layer.float_bias
                layer.set_bias(np.asarray(before + error, np.float32))
                left = [
                    (exact - near).mean(axis=0)
                    for exact, near in zip(layer.float_outputs, layer.accumulated(), strict=True)
                ]
                # half a step of the bias is left
                tensor = layer.node.inputs[2]
                assert tensor is not None
                assert tensor.encoding is not None
                step = float(np.max(tensor.encoding.scales_and_offsets(tensor.shape)[0]))
                assert np.abs(np.mean(left, axis=0)).max() < step
            return ()

    installed["shifter"] = Shifter
    graph = dense(WEIGHT, np.ones(3, np.float32) if bias else None, relu=False)
    made = quantized(
        graph, list(SAMPLES), algorithms=["shifter"], weights_bitwidth=4, bias_bitwidth=bits
    )
    (node,) = made.nodes
    assert node.inputs[2] is not None
    assert node.inputs[2].dtype is (DType.SFIXED_POINT_32 if bits == 32 else DType.UFIXED_POINT_8)
    with dt.Session(model_of(made)) as one, dt.Session(model_of(graph)) as other:
        runs = [(one.run({"x": s})["fc"], other.run({"x": s})["fc"]) for s in SAMPLES]
    error = np.mean([near - exact for near, exact in runs], axis=0)
    assert np.abs(error).max() < 2 * encoding(made, "fc").scale


def test_stored_weights_are_set_for_one_layer_alone(
    installed: dict[str, type[QuantizationAlgorithm]],
) -> None:
    class Zeroer(QuantizationAlgorithm):
        name: ClassVar[str] = "zeroer"

        def refine(self, work: Refinement) -> Sequence[str]:
            layer = next(iter(work.layers()))
            weight = layer.node.inputs[layer.weight]
            assert weight is not None
            layer.set_weight(np.full(weight.shape, 128, np.uint8))
            with pytest.raises(QuantizationError, match="shape"):
                layer.set_weight(np.zeros((1, 1), np.uint8))
            return ()

    installed["zeroer"] = Zeroer
    graph, x = new_graph((1, 2))
    shared = static(graph, "w", np.array([[1, -1], [1, 1]], np.float32))
    first = add(graph, "FullyConnected", [x, shared], name="first")
    output(add(graph, "FullyConnected", [first, shared], name="second"))
    made = quantized(graph, [np.ones((1, 2))], algorithms=["zeroer"], skip_algorithm_check=True)
    weights = [node.inputs[1] for node in made.nodes]
    assert weights[0] is not weights[1]
    assert all(w is not None for w in weights)
    assert {int(v) for v in weights[0].stored().ravel()} == {128}  # type: ignore[union-attr]
    assert len(np.unique(weights[1].stored())) == 2  # type: ignore[union-attr]


def test_samples_that_pass_once_serve_no_comparison(
    installed: dict[str, type[QuantizationAlgorithm]],
) -> None:
    class Reader(QuantizationAlgorithm):
        name: ClassVar[str] = "reader"

        def refine(self, work: Refinement) -> Sequence[str]:
            return [layer.node.name for layer in work.layers()]

    installed["reader"] = Reader
    with pytest.raises(QuantizationError, match="only once"):
        quantized(dense(WEIGHT, None), iter(SAMPLES), algorithms=["reader"])


@dataclass(frozen=True)
class Counter(QuantizationAlgorithm):
    name: ClassVar[str] = "counter"

    count: int = 1
    share: float = 0.5
    loud: bool = False

    def rewrite(self, work: Workspace) -> Sequence[str]:
        return (f"{self.count!r} {self.share!r} {self.loud!r}",)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, "1 0.5 False"),
        ({"count": 3, "share": 1, "loud": True}, "3 1.0 True"),
        ({"count": "3", "share": "0.25", "loud": "true"}, "3 0.25 True"),
    ],
)
def test_parameters_are_fields_and_text_stands_for_any_type(
    installed: dict[str, type[QuantizationAlgorithm]], given: dict[str, object], made: str
) -> None:
    installed["counter"] = Counter
    report = quantize_with_report(
        model_of(dense(WEIGHT, None)),
        list(SAMPLES),
        algorithms=["counter"],
        algorithm_params={"counter": given},
    ).report
    assert report.notes == (f"counter: {made}",)


def test_all_wrong_parameters_are_told(
    installed: dict[str, type[QuantizationAlgorithm]],
) -> None:
    installed["counter"] = Counter
    with pytest.raises(ConfigError) as caught:
        quantized(
            dense(WEIGHT, None),
            list(SAMPLES),
            algorithms=["counter"],
            algorithm_params={"counter": {"conut": 3, "share": "much", "loud": 7}},
        )
    assert len(caught.value.problems) == 3
    assert "count" in str(caught.value.problems[0])


@dataclass(frozen=True)
class Limited(QuantizationAlgorithm):
    name: ClassVar[str] = "limited"

    between: Annotated[int, Meta(ge=1, le=9)] = 1
    above: Annotated[float, Meta(gt=2)] = 3.0
    way: Literal["up", "down"] = "up"


def test_ranges_are_in_the_types_of_parameters(
    installed: dict[str, type[QuantizationAlgorithm]],
) -> None:
    installed["limited"] = Limited
    with pytest.raises(ConfigError) as caught:
        quantized(
            dense(WEIGHT, None),
            list(SAMPLES),
            algorithms=["limited"],
            algorithm_params={"limited": {"between": "10", "above": 2, "way": "left"}},
        )
    assert [problem.message for problem in caught.value.problems] == [
        "'10' is out of range; expected 1 to 9",
        "2: Expected `float` > 2.0",
        "'left': Invalid enum value 'left'",
    ]
