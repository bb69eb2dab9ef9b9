"""Images of graphs: they bring settings, tuning and packed weights, and no programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from small_nets import chain, expected, model_of, some

import dovetail as dt
from dovetail.container import WeightStore
from dovetail.errors import ContainerError
from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime.contract import Image, Prepared, PrepareRequest, RunControl
from dovetail_gpu import GpuBackend, GpuOptions, tuning
from dovetail_gpu.options import GpuGraph, PrecisionMode
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static

OPS = OpRegistry.of(PACKAGE)
DEFAULT = GpuGraph()


def convolution() -> Graph:
    rng = np.random.default_rng(1)
    graph = Graph("chain")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 16, 16, 32), TensorKind.APP_WRITE))
    weights = static(graph, "w", rng.standard_normal((3, 3, 32, 48), np.float32))
    bias = static(graph, "b", rng.standard_normal(48).astype(np.float32))
    y = add(
        graph,
        "Conv2d",
        [x, weights, bias],
        name="y",
        stride=np.array([1, 1], np.uint32),
        pad_amount=np.array([[1, 1], [1, 1]], np.uint32),
    )
    y.kind = TensorKind.APP_READ
    return graph


def opened(**options: Any) -> tuple[GpuBackend, Any]:
    backend = GpuBackend(OPS, GpuOptions(**options))
    return backend, backend.open_context(None, None, WeightStore())


def prepared(graph: Graph, config: GpuGraph = DEFAULT, **options: Any) -> tuple[Any, ...]:
    backend, context = opened(**options)
    request = PrepareRequest(config=config)
    return backend, context, context.prepare(check_ops(graph, OPS), request)


def run(found: Prepared, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    outputs = {"y": np.empty(shape, np.float32)}
    found.run({"x": x}, outputs, RunControl())
    return outputs["y"]


def restored(image: Image, graph: Graph, context: Any, config: GpuGraph = DEFAULT) -> Prepared:
    request = PrepareRequest(config=config)
    found = context.restore(image, lambda _: check_ops(graph, OPS), lambda _: request)
    return found["chain"].prepared


@pytest.mark.parametrize("make", [chain, convolution])
def test_a_restored_graph_computes_the_same_and_measures_nothing(
    make: Callable[[], Graph], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make()
    shape = tuple(graph.tensors["x"].shape)
    x, y_shape = some(shape), tuple(graph.tensors["y"].shape)
    folder = str(tmp_path / "first")
    _, context, first = prepared(graph, kernel_repo_path=folder)
    wanted = run(first, x, y_shape)
    image = Image.from_bytes(context.image({"chain": first}).to_bytes())
    # elsewhere, without the files of the cache
    (tmp_path / "first").rename(tmp_path / "second")

    def measured(*_: object) -> None:
        raise AssertionError("something is measured")

    monkeypatch.setattr(tuning.Tuning, "_measured", measured)
    backend, context = opened(kernel_repo_path=folder)
    again = restored(image, make(), context)
    np.testing.assert_array_equal(run(again, x, y_shape), wanted)
    assert backend.opencl.tuning.measured == 0
    second = Image.from_bytes(context.image({"chain": again}).to_bytes())
    assert second.graphs == image.graphs


def test_an_image_holds_no_machine_code() -> None:
    _, context, found = prepared(chain())
    content = context.image({"chain": found}).to_bytes()
    assert b"ELF" not in content
    assert b"__kernel" not in content


def test_an_image_is_for_any_folder_of_programs(tmp_path: Path) -> None:
    model, file = model_of(chain()), tmp_path / "chain.bin"
    config = {"backend": {"gpu": {"kernel_repo_path": str(tmp_path / "programs")}}}
    with dt.Session(model, backend="gpu", config=config) as session:
        session.save_context(file)
    assert str(tmp_path).encode() not in file.read_bytes()
    with dt.Session.from_context(file, backend="gpu") as session:
        np.testing.assert_allclose(session.run({"x": some()})["y"], expected(some()), 1e-5, 1e-6)


def test_an_image_brings_the_settings_of_its_graph() -> None:
    half = GpuGraph(precision_mode=PrecisionMode.FP16, disable_node_optimizations=True)
    _, context, found = prepared(chain(), half)
    wanted = run(found, some(), (2, 5, 13))
    image = context.image({"chain": found})
    for config in (GpuGraph(), half):
        again = restored(image, chain(), opened()[1], config)
        np.testing.assert_array_equal(run(again, some(), (2, 5, 13)), wanted)
    with pytest.raises(ContainerError, match="precision_mode") as caught:
        restored(image, chain(), opened()[1], GpuGraph(precision_mode=PrecisionMode.FP32))
    assert caught.value.code == "CONTAINER_INCOMPATIBLE"


@pytest.mark.parametrize("has_model", [True, False])
def test_steps_are_made_again(has_model: bool) -> None:
    _, context, found = prepared(chain())
    image = context.image({"chain": found})
    counted: dict[str, float] = {}
    request = PrepareRequest(record=lambda event: counted.update({event.identifier: event.value}))
    other = opened()[1]
    model = (lambda _: check_ops(chain(), OPS)) if has_model else None
    other.restore(image, model, lambda _: request)
    assert counted["steps made again"] == 1  # all four nodes are fused


@pytest.mark.parametrize(
    "own",
    [
        {"config": {"precision_mode": "fp8"}, "choices": {}},
        {"config": {}, "choices": {"work": 3}},
        {"config": {}, "choices": {}, "more": 1},
        {"choices": {}},
        7,
        [],
    ],
)
def test_damaged_settings_are_rejected(own: Any) -> None:
    _, context, found = prepared(chain())
    image = context.image({"chain": found})
    plan = image.graphs["chain"]
    assert isinstance(plan, dict)
    changed = {**plan, "settings": {**plan["settings"], "own": own}}
    damaged = replace(image, graphs={"chain": changed})
    with pytest.raises(ContainerError) as caught:
        restored(damaged, chain(), opened()[1])
    assert caught.value.code == "CONTAINER_INVALID"


def test_choices_of_an_image_that_no_kernel_has_are_ignored() -> None:
    _, context, found = prepared(chain())
    image = context.image({"chain": found})
    plan: Any = image.graphs["chain"]
    own = {**plan["settings"]["own"], "choices": {"product": "__kernel void evil() {}"}}
    changed = {**plan, "settings": {**plan["settings"], "own": own}}
    again = restored(replace(image, graphs={"chain": changed}), chain(), opened()[1])
    np.testing.assert_allclose(run(again, some(), (2, 5, 13)), expected(some()), 1e-5, 1e-6)
