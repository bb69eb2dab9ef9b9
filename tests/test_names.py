"""Names of converted networks: what survives is called as in the user's model, in any layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import networks
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, helper, numpy_helper
from reference_values import values_of

import dovetail
from dovetail.ir import Array, Graph
from dovetail.plugins.ops import installed_ops

N = helper.make_node
LAYERS = ("Conv", "BatchNormalization", "Relu", "Add", "Concat", "MaxPool", "Mul", "Transpose")
# Float32 sums of at most 36 products, in another order, through at most 6 layers.
RTOL, ATOL = 1e-3, 1e-4


class Builder:
    """A model of named nodes on images (1, 4, 6, 6)."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}

    def constant(self, name: str, *shape: int, low: float = -1) -> str:
        self.constants[name] = self.rng.uniform(low, 1, shape).astype(np.float32)
        return name

    def add(self, op_type: str, *inputs: str, **attributes: object) -> str:
        i = len(self.nodes)
        name, x = f"{op_type.lower()}/{i}", f"t.{i}"
        extra: tuple[str, ...] = ()
        if op_type == "Conv":
            extra = (self.constant(f"w{i}", 4, 4, 3, 3), self.constant(f"b{i}", 4))
            attributes = {"pads": [1, 1, 1, 1]}
        elif op_type == "BatchNormalization":
            extra = tuple(self.constant(f"{p}{i}", 4, low=0.5) for p in ("g", "s", "m", "v"))
        elif op_type == "MaxPool":
            attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
        elif op_type == "Mul":
            extra = (self.constant(f"f{i}", 4, 1, 1),)
        elif op_type == "Transpose":
            attributes = {"perm": [0, 1, 3, 2]}
        self.nodes.append(N(op_type, [*inputs, *extra], [x], name=name, **attributes))
        return x

    def model(self, outputs: list[str]) -> ModelProto:
        infos = [helper.make_tensor_value_info("x", 1, (1, 4, 6, 6))]
        graph = helper.make_graph(
            self.nodes,
            "names",
            infos,
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [numpy_helper.from_array(a, name) for name, a in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", 17)]
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opsets, ir_version=9)
        )


@st.composite
def models(draw: st.DrawFn) -> ModelProto:
    builder = Builder(draw(st.integers(0, 9)))
    made = ["x"]
    for _ in range(draw(st.integers(1, 6))):
        op_type, x = draw(st.sampled_from(LAYERS)), draw(st.sampled_from(made[-2:]))
        if op_type in ("Add", "Concat"):
            inputs = [x, draw(st.sampled_from(made))]
            x = builder.add(op_type, *inputs, **({"axis": 2} if op_type == "Concat" else {}))
            if op_type == "Concat":  # back to the common shape
                x = builder.add("MaxPool", x)
                builder.nodes[-1].attribute[2].ints[:] = [2, 1]
        else:
            x = builder.add(op_type, x)
        made.append(x)
    return builder.model([made[-1]])


def convert(model: ModelProto, path: Path) -> Graph:
    path.write_bytes(model.SerializeToString())
    (graph,) = dovetail.convert(path).graphs.values()
    return graph


def tensor_names(model: ModelProto) -> set[str]:
    graph = model.graph
    return {name for node in graph.node for name in (*node.input, *node.output) if name}


def theirs(model: ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    """All tensors that nodes of a model write, by ONNX Runtime."""
    whole = ModelProto()
    whole.CopyFrom(model)
    known = {o.name for o in model.graph.output}
    whole.graph.output.extend(v for v in model.graph.value_info if v.name not in known)
    session = onnxruntime.InferenceSession(whole.SerializeToString())
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def assert_names(graph: Graph, model: ModelProto) -> None:
    """Tensors and nodes that come from the model have the names that they have there."""
    users, operators = tensor_names(model), {n.name for n in model.graph.node}
    survivors = {t.source for t in graph.tensors.values() if t.source in users}
    survivors -= {t.source for t in graph.tensors.values() if ".columns_" in t.name}
    assert survivors <= set(graph.tensors)
    borrowed = {t.name for t in graph.tensors.values() if t.name in users and t.source != t.name}
    assert not borrowed
    single = {n.sources[0] for n in graph.nodes if len(n.sources) == 1}
    assert single & operators <= {n.name for n in graph.nodes}
    assert all(n.name in n.sources for n in graph.nodes if n.name in operators)
    assert [t.name for t in graph.inputs] == [i.name for i in model.graph.input]
    assert [t.name for t in graph.outputs] == [o.name for o in model.graph.output]


@settings(max_examples=30)  # the first one loads the plugins
@given(model=models())
def test_drawn_networks(tmp_path_factory: pytest.TempPathFactory, model: ModelProto) -> None:
    graph = convert(model, tmp_path_factory.getbasetemp() / "drawn.onnx")
    assert_names(graph, model)
    feeds = {"x": np.random.default_rng(1).uniform(-1, 1, (1, 4, 6, 6)).astype(np.float32)}
    ours, wanted = values_of(graph, feeds, installed_ops()), theirs(model, feeds)
    for name in ours.keys() & wanted.keys():
        perm = graph.tensor(name).source_perm or range(wanted[name].ndim)
        value = wanted[name].transpose(*perm)
        np.testing.assert_allclose(ours[name], value, rtol=RTOL, atol=ATOL, err_msg=name)


@pytest.mark.parametrize(
    "make",
    [lambda: networks.mobilenet_v2(size=32), networks.unet, networks.lstm, networks.encoder],
    ids=["mobilenet", "unet", "lstm", "encoder"],
)
def test_networks(tmp_path: Path, make: Callable[[], ModelProto]) -> None:
    model = make()
    assert_names(convert(model, tmp_path / "network.onnx"), model)


def test_both_forms_of_a_tensor(tmp_path: Path) -> None:
    """The user's layout keeps the name; the other form is named after it."""
    builder = Builder(0)
    y = builder.add("Conv", "x")
    graph = convert(builder.model([y]), tmp_path / "model.onnx")
    assert {t.name: t.source_perm for t in graph.tensors.values() if not t.kind.is_static} == {
        "x": None,
        "x.channels_last": (0, 2, 3, 1),
        "t.0": None,
        "t.0.channels_last": (0, 2, 3, 1),
    }
    assert [(n.op_type, n.name) for n in graph.nodes] == [
        ("Transpose", "x.channels_last"),
        ("Conv2d", "conv/0"),
        ("Transpose", "t.0.transpose"),
    ]
    assert [p.name for p in graph.node("conv/0").params.values() if hasattr(p, "shape")] == [
        "conv/0.stride",
        "conv/0.pad_amount",
        "conv/0.dilation",
    ]


def test_nodes_without_names(tmp_path: Path) -> None:
    """They are called by operator and position, as the frontend documents."""
    builder = Builder(0)
    y = builder.add("Relu", builder.add("Conv", "x"))
    for node in builder.nodes:
        node.name = ""
    graph = convert(builder.model([y]), tmp_path / "model.onnx")
    assert [n.name for n in graph.nodes if n.op_type != "Transpose"] == ["Conv_0", "Relu_1"]


def test_names_do_not_depend_on_the_run(tmp_path: Path) -> None:
    model = networks.unet()
    first, second = (convert(model, tmp_path / f"{i}.onnx") for i in range(2))
    assert list(first.tensors) == list(second.tensors)
    assert [n.name for n in first.nodes] == [n.name for n in second.nodes]


def test_constants_of_a_folded_factor(tmp_path: Path) -> None:
    """The folded weights keep their name; a bias that the model does not have is named anew."""
    builder = Builder(0)
    y = builder.add("Mul", builder.add("Conv", "x"))
    del builder.nodes[0].input[2], builder.constants["b0"]
    graph = convert(builder.model([y]), tmp_path / "model.onnx")
    assert_names(graph, builder.model([y]))
    (layer,) = (n for n in graph.nodes if n.op_type == "Conv2d")
    assert layer.name == "conv/0"
    assert [t.name for t in layer.inputs if t is not None] == [
        "x.channels_last",
        "w0",
        "conv/0.bias",
    ]
