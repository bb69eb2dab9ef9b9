"""Sessions of ONNX files that are converted for what each run brings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import dovetail
from dovetail.errors import BackendError, ConfigError, FrontendError, UnsupportedOpError
from dovetail.ops.frontend import InputsNeededError
from dovetail.plugins import names
from dovetail_onnx import OnnxFrontend

pytestmark = pytest.mark.skipif(
    "cpu" not in names("dovetail.backends"), reason="nothing runs the models"
)
X = np.arange(24, dtype=np.float32).reshape(4, 6)
INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT
Save = Callable[..., Path]


@pytest.fixture
def save(model, tmp_path: Path) -> Save:
    """Save a model; arguments as of `make_model`."""

    def run(*arguments, **options) -> Path:
        path = tmp_path / "net.onnx"
        path.write_bytes(model(*arguments, **options).SerializeToString())
        return path

    return run


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Count conversions that succeed."""
    made: list[object] = []
    read = OnnxFrontend.read

    def counted(self, path, options=None, ops=None):
        graph = read(self, path, options, ops)
        made.append(options)
        return graph

    monkeypatch.setattr(OnnxFrontend, "read", counted)
    return made


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CASES: list[tuple[str, int, list[tuple[dict[str, object], object]]]] = [
    (
        "Reshape",
        1,
        [({"shape": s}, X.reshape(s)) for s in ([2, 12], [24], [2, 3, 4], [2, 12], [3, -1])],
    ),
    (
        "Expand",
        1,
        [({"shape": s}, np.broadcast_to(X, s)) for s in ([2, 4, 6], [4, 6], [2, 4, 6])],
    ),
    (
        "Slice",
        1,
        [
            ({"starts": [a], "ends": [b], "axes": [c]}, X[np.s_[a:b] if c == 0 else np.s_[:, a:b]])
            for a, b, c in ((0, 2, 0), (1, 6, 1), (0, 2, 0))
        ],
    ),
]


@pytest.mark.parametrize(("op_type", "outputs", "runs"), CASES, ids=[case[0] for case in CASES])
def test_inputs_decide_shapes(op_type, outputs, runs, save, conversions) -> None:
    inputs = list(runs[0][0])
    ranks = {name: (INT64, ["N"]) for name in inputs}
    node = helper.make_node(op_type, ["x", *inputs], ["y"])
    path = save([node], {"x": X, **ranks}, ["y"])
    with dovetail.Session(path, specialize=inputs) as net:
        for given, wanted in runs:
            found = net.run({"x": X, **given})["y"]
            assert found.shape == wanted.shape
            np.testing.assert_array_equal(found, wanted)
        assert net.constant_inputs == tuple(inputs)
    assert len(conversions) == len({str(given) for given, _ in runs})


def test_top_k(save) -> None:
    node = helper.make_node("TopK", ["x", "k"], ["values", "indices"])
    path = save([node], {"x": X, "k": integers(1)}, ["values", "indices"])
    with dovetail.Session(path, specialize="k") as net:
        for k in (1, 4):
            found = net.run({"x": X, "k": [k]})
            np.testing.assert_array_equal(found["values"], X[:, ::-1][:, :k])
            np.testing.assert_array_equal(found["indices"], np.tile(5 - np.arange(k), (4, 1)))


def test_open_dimensions_are_those_of_the_arrays(save, conversions, caplog) -> None:
    weight = np.random.default_rng(5).normal(size=(6, 50)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["ids", "w"], ["a"]),
        helper.make_node("Add", ["a", "mask"], ["y"]),
    ]
    inputs = {"ids": (FLOAT, ["batch", "length", 6]), "mask": (FLOAT, ["batch", "length", 1])}
    path = save(nodes, inputs, ["y"], {"w": weight})
    rng = np.random.default_rng(6)
    with dovetail.Session(path, specialize=["ids"]) as net:  # whose symbols are those of 'mask'
        for shape in ((1, 7), (3, 2), (1, 7)):
            ids = rng.normal(size=(*shape, 6)).astype(np.float32)
            mask = rng.normal(size=(*shape, 1)).astype(np.float32)
            found = net.run({"ids": ids, "mask": mask})["y"]
            # sums of 6 products in another order
            np.testing.assert_allclose(found, ids @ weight + mask, rtol=1e-5, atol=1e-5)
        with pytest.raises(BackendError, match="mask"):
            net.run({"ids": ids, "mask": mask[:, :1]})
        contexts = tuple(net.backend.contexts)
        plain = [
            {id(t.data) for t in context.graphs["net"].ir.tensors.values() if t.data is not None}
            for context in contexts
        ]
        assert len(contexts) == 2
        assert plain[0] & plain[1], "weights are in memory once"
        packed = [{p.key: id(p.data) for p in c.weights.forms} for c in contexts]
        for key in packed[0].keys() & packed[1].keys():
            assert packed[0][key] == packed[1][key]
    assert len(conversions) == 2
    assert "is open and becomes 1" not in caplog.text


def reshaping(save: Save, **more: object) -> Path:
    """Save a model that reshapes x to 'shape' plus 'zero'."""
    nodes = [
        helper.make_node("Add", ["shape", "zero"], ["to"]),
        helper.make_node("Reshape", ["x", "to"], ["y"]),
    ]
    return save(nodes, {"x": X, "shape": (INT64, ["R"]), "zero": integers(0), **more}, ["y"])


@pytest.mark.parametrize(
    ("specialize", "feeds", "error", "said"),
    [
        (["shape"], {"shape": [24], "zero": [0]}, InputsNeededError, "=['shape', 'zero']"),
        (["sahpe"], {"shape": [24], "zero": [0]}, ConfigError, "did you mean 'shape'?"),
        (["shape", "zero"], {"shape": [25], "zero": [0]}, FrontendError, "cannot be reshaped"),
        (["shape", "zero"], {"shape": [24.5], "zero": [0]}, ConfigError, "is 24.5, which INT64"),
        (["shape", "zero"], {"shape": [24]}, BackendError, "missing input 'zero'"),
        ([], {"shape": [24], "zero": [0]}, UnsupportedOpError, "specialize=['shape', 'zero']"),
    ],
)
def test_what_is_wrong_is_said(
    save, specialize: list[str], feeds: Mapping[str, object], error: type[Exception], said: str
) -> None:
    path = reshaping(save)
    with pytest.raises(error) as caught, dovetail.Session(path, specialize=specialize) as net:
        net.run({"x": X, **feeds})
    assert said in str(caught.value)


def test_a_shape_that_stays_open_says_how_to_bind_it(save) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    path = save([node], {"x": (FLOAT, [1, "length"])}, ["y"])
    with pytest.raises(FrontendError) as caught:
        dovetail.Session(path)
    assert "Session(..., specialize=['x'])" in caught.value.hint
    with dovetail.Session(path, specialize=["x"]) as net:
        np.testing.assert_array_equal(net.run({"x": [[-1, 2, 3]]})["y"], [[0, 2, 3]])
        with pytest.raises(ConfigError, match="expected rank 2, got 1"):
            net.run({"x": [1, 2]})


def test_an_input_that_no_output_needs(save) -> None:
    path = reshaping(save, unused=X)
    with dovetail.Session(path, specialize=["shape", "zero", "unused"]) as net:
        feeds = {"x": X, "shape": [6, 4], "zero": [0], "unused": X}
        np.testing.assert_array_equal(net.run(feeds)["y"], X.reshape(6, 4))
