"""Transforms: the steps of a plan return what the op's reference does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.container import WeightStore
from dovetail.errors import BackendError
from dovetail.ir import Array, DType, Graph, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, build_plan
from dovetail_numpy import KERNELS
from dovetail_numpy.kernels import transform
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

POSITIONS = 9


def inputs_of(shape: tuple[int, ...], turned: int, kind: type | None) -> dict[str, Array]:
    rng, (batch, _, steps, _) = np.random.default_rng(3), shape
    rows = (batch, steps) if kind is None else (POSITIONS,)
    found: dict[str, Array] = {"x": rng.standard_normal(shape, np.float32)}
    found["x"].reshape(-1)[:3] = np.nan, np.inf, 0
    for name in ("cos", "sin"):
        found[name] = rng.standard_normal((*rows, turned // 2), np.float32)
    if kind is not None:
        found["positions"] = rng.integers(0, POSITIONS, (batch, steps)).astype(kind)
    return found


def run(feeds: dict[str, Array], turned: int, *, interleaved: bool) -> Array:
    graph = Graph("net")
    inputs = [
        graph.add_tensor(Tensor(name, DType.of(x.dtype), x.shape, TensorKind.APP_WRITE))
        for name, x in feeds.items()
    ]
    params: dict[str, Any] = {"interleaved": interleaved, "rotary_embedding_dim": turned}
    out = add(graph, "RotaryEmbedding", inputs, name="y", **params)
    out.kind = TensorKind.APP_READ
    checked = check_ops(graph, OpRegistry.of(PACKAGE))
    plan = build_plan(checked, KERNELS.for_backend("test"), WeightStore(), None)
    assert plan.steps[0].bind.__module__ == transform.__name__
    found = np.zeros(out.shape, np.float32)
    PlanPrepared(plan).run(feeds, {out.name: found}, RunControl())
    return found


def expected(feeds: dict[str, Array], turned: int, *, interleaved: bool) -> Array:
    x, cos, sin, *positions = feeds.values()
    if positions:
        cos, sin = cos[positions[0]], sin[positions[0]]
    cos, sin = cos[:, None], sin[:, None]
    half = turned // 2
    ends = (slice(0, turned, 2), slice(1, turned, 2))
    first, second = ends if interleaved else (slice(0, half), slice(half, turned))
    found, a, b = x.copy(), x[..., first], x[..., second]
    found[..., first] = a * cos - b * sin
    found[..., second] = b * cos + a * sin
    return found


@pytest.mark.parametrize("kind", [None, np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("block", [1, 16, 1 << 15])
@pytest.mark.parametrize(
    ("shape", "turned"),
    [((2, 3, 5, 8), 8), ((1, 4, 1, 6), 6), ((2, 2, 3, 10), 4), ((1, 1, 2, 2), 2)],
)
def test_pairs_are_rotated(
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    turned: int,
    block: int,
    interleaved: bool,
    kind: type | None,
) -> None:
    monkeypatch.setattr(transform, "block_size", lambda _: block)
    feeds = inputs_of(shape, turned, kind)
    with np.errstate(invalid="ignore"):
        wanted = expected(feeds, turned, interleaved=interleaved)
    # a rounding of each product, of which one may be exact
    found = run(feeds, turned, interleaved=interleaved)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("position", [-1, POSITIONS])
def test_positions_out_of_range(position: int) -> None:
    feeds = inputs_of((2, 3, 5, 8), 8, np.int32)
    feeds["positions"][1, 2] = position
    with pytest.raises(BackendError, match=rf"position {position} in in\[3\] is out of range"):
        run(feeds, 8, interleaved=False)
