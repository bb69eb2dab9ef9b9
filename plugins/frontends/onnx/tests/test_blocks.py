"""DepthToSpace and SpaceToDepth against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, OpError

F32 = np.float32


def data(*shape, dtype=F32):
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


@pytest.mark.parametrize("opset", [7, 11, 13, 28])
def test_depth_to_space(check, opset) -> None:
    x = data(2, 12, 3, 5)
    graph = check("DepthToSpace", [x], opset=opset, blocksize=2)
    assert [n.op_type for n in graph.nodes] == ["Transpose", "DepthToSpace", "Transpose"]
    for mode in ("DCR", "CRD") if opset >= 11 else ():
        check("DepthToSpace", [x], opset=opset, blocksize=2, mode=mode)


@pytest.mark.parametrize("opset", [7, 13])
def test_space_to_depth(check, opset) -> None:
    check("SpaceToDepth", [data(2, 3, 4, 6)], opset=opset, blocksize=2)
    check("SpaceToDepth", [data(1, 2, 6, 3)], opset=opset, blocksize=3)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_space_to_depth_has_a_mode_since_version_28(read, model, run, mode) -> None:
    # without a peer: ONNX Runtime does not know the version, ONNX's evaluator not the mode
    x = data(2, 3, 4, 6)
    node = helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2, mode=mode)
    y = run(read(model([node], {"x": x}, ["y"], opset=28)), {"x": x})["y"]
    assert y.shape == (2, 12, 2, 3)
    for (n, depth, i, j), value in np.ndenumerate(y):
        place, c = divmod(depth, 3) if mode == "DCR" else divmod(depth, 4)[::-1]
        assert value == x[n, c, 2 * i + place // 2, 2 * j + place % 2]


@pytest.mark.parametrize(
    ("shape", "attributes", "said"),
    [
        ((2, 3, 4), {"blocksize": 2}, "input must have rank 4, got rank 3"),
        ((2, 4, 3, 3), {"blocksize": 0}, "blocksize must be at least 1, got 0"),
        (
            (2, 4, 3, 3),
            {"blocksize": 2, "mode": "RGB"},
            "unsupported mode 'RGB'; expected one of DCR, CRD",
        ),
        ((2, 6, 3, 3), {"blocksize": 2}, r"the depth \(6,\) does not divide"),
    ],
)
def test_impossible_blocks(model, read, shape, attributes, said) -> None:
    node = helper.make_node("DepthToSpace", ["x"], ["y"], name="shuffle", **attributes)
    with pytest.raises((FrontendError, OpError), match=said) as caught:
        read(model([node], {"x": data(*shape)}, ["y"]))
    assert "shuffle" in caught.value.problems[0].where
