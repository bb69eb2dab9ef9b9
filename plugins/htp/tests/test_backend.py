"""The backend runs what is defined on integers, and rejects everything else with its rule."""

import itertools
from copy import deepcopy

import msgspec
import numpy as np
import pytest

import dovetail
from dovetail import runtime
from dovetail.api.node_runs import NodeRuns
from dovetail.container import Model, Producer
from dovetail.errors import ConfigError, UnsupportedOpError
from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.ops import checked_node
from dovetail_htp.configs import HtpDevice
from dovetail_htp.processors import HTP, processor
from dovetail_htp.socs import find_soc
from dovetail_numpy.integer import DEFINITIONS, Definitions
from dovetail_numpy.integer.fixed import Requantization, definitions
from dovetail_opset.build import add

U8, S8, S32 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.SFIXED_POINT_32
RANDOM = np.random.default_rng(3)
NO_PADDING = [[0, 0], [0, 0]]
IMAGE = RANDOM.integers(0, 256, (1, 6, 6, 8), np.uint8)


def convolutions(seed: int = 3) -> Graph:
    """Return a graph of two convolutions with a move between them."""
    random = np.random.default_rng(seed)
    graph = Graph("net")
    first = graph.add_tensor(
        Tensor("x", U8, (1, 6, 6, 8), TensorKind.APP_WRITE, encoding=ScaleOffset(0.02, -128))
    )
    weights = [
        graph.add_tensor(
            Tensor.static(
                f"w{i}", random.integers(-127, 128, shape), S8, encoding=ScaleOffset(0.01)
            )
        )
        for i, shape in enumerate([(3, 3, 8, 4), (1, 1, 16, 5)])
    ]
    bias = graph.add_tensor(
        Tensor.static("b", random.integers(-900, 900, 4), S32, encoding=ScaleOffset(2e-4))
    )
    middle = graph.add_tensor(Tensor("m", U8, (1, 4, 4, 4), encoding=ScaleOffset(0.1, -120)))
    moved = graph.add_tensor(Tensor("r", U8, (1, 2, 2, 16), encoding=ScaleOffset(0.1, -120)))
    last = Tensor("y", U8, (1, 2, 2, 5), TensorKind.APP_READ, encoding=ScaleOffset(0.3, -100))
    add(
        graph,
        "Conv2d",
        [first, weights[0], bias],
        name="first",
        outputs=middle,
        stride=[1, 1],
        pad_amount=NO_PADDING,
    )
    add(graph, "SpaceToDepth", [middle], name="move", outputs=moved, block_size=[2, 2])
    add(
        graph,
        "Conv2d",
        [moved, weights[1]],
        name="second",
        outputs=last,
        stride=[1, 1],
        pad_amount=NO_PADDING,
    )
    return graph


def defined(graph: Graph, ops, image: np.ndarray, of: Definitions = DEFINITIONS) -> np.ndarray:
    """Return a graph's output, node by node: by definition, or by the op's reference of moves."""
    values = {"x": image}
    for node in graph.nodes:
        view, faults = checked_node(node, ops)
        assert not faults
        ins = [values[t.name] if t.name in values else t.stored() for t in node.inputs]
        definition = of.of(view)
        if definition is None:
            schema, op = view.definition
            (values[node.outputs[0].name],) = schema.reference(op, ins, view.outs)
        else:
            (values[node.outputs[0].name],) = definition.compute(view, ins)
    return values["y"]


def model_of(graph: Graph) -> Model:
    return Model({graph.name: graph}, Producer("test", "1"), {})


@pytest.mark.parametrize("engine", ["numpy", "auto"])
def test_a_graph_is_computed_as_its_definition_says(ops, engine: str) -> None:
    graph = convolutions()
    with runtime.Backend.create("htp", {"engine": engine}) as backend:
        composed = backend.create_context().compose(model_of(graph))[0]
        composed.finalize()
        found = composed.execute({"x": IMAGE})["y"]
    np.testing.assert_array_equal(found, defined(graph, ops, IMAGE))
    assert len(np.unique(found)) > 12, "the data saturate"


@pytest.mark.parametrize("kind", [Requantization.FIXED, Requantization.FIXED_SINGLE])
@pytest.mark.parametrize("engine", ["numpy", "auto"])
def test_the_option_selects_the_arithmetic(ops, kind: Requantization, engine: str) -> None:
    graph = convolutions(5)
    option = {"engine": engine, "requantization": kind.value}
    with runtime.Backend.create("htp", option) as backend:
        composed = backend.create_context().compose(model_of(graph))[0]
        composed.finalize()
        found = composed.execute({"x": IMAGE})["y"]
    np.testing.assert_array_equal(found, defined(graph, ops, IMAGE, definitions(kind)))


def test_the_arithmetics_differ(ops) -> None:
    many = [convolutions(seed) for seed in range(100)]
    kinds = list(Requantization)
    found = [np.stack([defined(g, ops, IMAGE, definitions(k)) for g in many]) for k in kinds]
    assert all((a != b).any() for a, b in itertools.combinations(found, 2))


def test_every_unsupported_node_is_listed() -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE))
    flags = graph.add_tensor(Tensor("flags", DType.BOOL_8, (2, 3)))
    add(graph, "IsNan", [x], name="is_nan", outputs=flags)
    y = Tensor("y", DType.BOOL_8, (2, 3), TensorKind.APP_READ)
    add(graph, "ElementWiseNot", [flags], name="not", outputs=y)
    wide = Tensor("z", DType.FLOAT_64, (2, 3), TensorKind.APP_READ)
    add(graph, "Cast", [x], name="widen", outputs=wide)
    with runtime.Backend.create("htp") as backend:
        composed = backend.create_context().compose(model_of(graph))[0]
        with pytest.raises(UnsupportedOpError, match="2 of 3 nodes") as caught:
            composed.finalize()
    named = {problem.where: problem.message for problem in caught.value.problems}
    assert list(named) == ["IsNan node 'is_nan'", "Cast node 'widen'"]
    first, second = named.values()
    assert first.startswith("op: op is IsNan, which htp v73 does not have; ")
    assert "hetero:htp,cpu" in first
    assert second.startswith("dtype: out[0].dtype is FLOAT_64; allowed: ")
    assert "FLOAT_16" in second
    assert "follow the advice on each node" in caught.value.hint


def test_a_quantized_op_that_the_quantizer_would_write_out() -> None:
    graph, encoding = Graph("net"), ScaleOffset(0.1, 0)
    x = Tensor("x", DType.UFIXED_POINT_8, (2, 3), TensorKind.APP_WRITE, encoding=encoding)
    y = Tensor("y", DType.UFIXED_POINT_8, (2,), TensorKind.APP_READ, encoding=encoding)
    add(graph, "ReduceSumSquare", [graph.add_tensor(x)], name="squares", outputs=y, axes=[1])
    with runtime.Backend.create("htp") as backend:
        composed = backend.create_context().compose(model_of(graph))[0]
        with pytest.raises(UnsupportedOpError) as caught:
            composed.finalize()
    (problem,) = caught.value.problems
    assert "quantize the float model with --target-backend htp, which writes" in problem.message


@pytest.mark.parametrize(
    ("dtype", "hint"),
    [
        (
            DType.INT_64,
            "convert the model with `--target-backend htp`, which computes all integers in 32 bits"
            ", or with `--input-dtype ids int32`, with bool instead of int32 for masks of 0 and 1",
        ),
        (
            DType.INT_32,
            "convert the model with `--input-dtype NAME bool` for inputs of 0 and 1 alone",
        ),
    ],
)
def test_the_advice_on_integers_of_64_bits(dtype: DType, hint: str) -> None:
    graph, wide = Graph("net"), DType.INT_64
    x = graph.add_tensor(Tensor("ids", dtype, (2,), TensorKind.APP_WRITE))
    x = add(graph, "Cast", [x], name="wide", spec=Spec(wide, (2,)))
    y = Tensor("y", wide, (2,), TensorKind.APP_READ)
    add(graph, "ElementWiseAdd", [x, x], name="sum", outputs=y)
    with runtime.Backend.create("htp") as backend:
        (composed,) = backend.create_context().compose(model_of(graph))
        with pytest.raises(UnsupportedOpError) as caught:
            composed.finalize()
    assert caught.value.hint == hint


def test_a_newer_architecture_takes_more() -> None:
    graph = Graph("net")
    wide = DType.UFIXED_POINT_16
    x = graph.add_tensor(Tensor("x", wide, (2, 8), TensorKind.APP_WRITE, encoding=ScaleOffset(0.1)))
    gamma = graph.add_tensor(Tensor.static("g", np.ones(8), wide, encoding=ScaleOffset(1e-4)))
    beta = graph.add_tensor(Tensor.static("b", np.ones(8), U8, encoding=ScaleOffset(0.01)))
    y = Tensor("y", wide, (2, 8), TensorKind.APP_READ, encoding=ScaleOffset(1e-4, -32768))
    add(graph, "LayerNorm", [x, gamma, beta], name="norm", outputs=y, axes=[1])
    (node,) = graph.nodes
    with runtime.Backend.create("htp") as backend:
        old = backend.create_device({"dsp_arch": "v69"})
        verdicts = [backend.validate_op(node, device) for device in (old, None)]
    assert verdicts[0].rule == "architecture"
    assert (verdicts[0].field, verdicts[0].allowed) == ("in[1].dtype", ("UFIXED_POINT_8",))
    assert verdicts[0].rewrite == (
        "change in[1] to UFIXED_POINT_8 (weights_bitwidth=8), or select one of v73, v75, v79, "
        "v81, v85 (dsp_arch)"
    )
    assert verdicts[1].rule in ("", "definition")


@pytest.mark.parametrize(
    ("device", "texts"),
    [
        ({"soc_model": 57, "dsp_arch": "v73"}, ["v73 contradicts v75 of soc_model"]),
        ({"soc_model": 21}, ["SDM865 (SoC 21) has the architecture v66, not 'htp'", "'dsp'"]),
        ({"soc_model": 59}, ["SM4450 (SoC 59) has no such processor"]),
        ({"soc_model": "SM8551"}, ["unknown SoC model 'SM8551'", "did you mean 'SM8550'?"]),
        ({"dsp_arch": "v70", "soc_model": -4}, ["architecture 'v70'", "unknown SoC model -4"]),
        ({"soc_model": 57, "soc_id": 43}, ["two SoCs"]),
        ({"soc_model": 57, "htp_arch": "v73"}, ["v73 contradicts v75 of soc_model"]),
        ({"soc_model": 999}, ["unknown SoC model 999"]),
        ({"soc_model": "SM9999", "dsp_arch": "v81"}, ["unknown SoC model 'SM9999'"]),
    ],
)
def test_a_device_that_cannot_be_emulated(device, texts) -> None:
    with runtime.Backend.create("htp") as backend:
        made = backend.create_device(device)
        with pytest.raises(ConfigError) as caught:
            backend.create_context(made)
    for text in texts:
        assert text in str(caught.value)


@pytest.mark.parametrize("key", ["dsp_arch", "htp_arch"])
def test_an_architecture_is_enough_for_a_newer_soc(
    key: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Public files have numbers of chips that no table has yet; a misspelt one is not silent."""
    device = msgspec.convert({"soc_model": 999, key: "v81"}, HtpDevice)
    assert str(processor(HTP, None, device)) == "htp v81"
    with runtime.Backend.create("htp") as backend:
        backend.create_context(backend.create_device({"soc_model": 57, key: "v75"}))
        assert not caplog.text
        backend.create_context(backend.create_device({"soc_model": 999, key: "v81"}))
    assert "SoC 999 is not in the tables: it is emulated as 'htp v81' with 4 MB" in caplog.text


def test_a_name_tells_socs_with_one_id_apart() -> None:
    assert find_soc(35).name == "SM7325"
    assert find_soc("SM7325").vtcm_mb is None
    small = find_soc("QCM6490")
    assert (small.id, small.arch, small.vtcm_mb) == (35, 68, 2)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("libQnnHtp.so", "htp v73"),
        ("/sdk/lib/libQnnHtpV75Stub.so", "htp v75"),
        ("dspv68", "htp v68"),
        ("libQnnDspV65Stub.so", "dsp v65"),
        ("QnnDspV66Stub.dll", "dsp v66"),
        ("libQnnHta.so", "hta"),
        ("libQnnLpai.so", "lpai v6"),
    ],
)
def test_a_library_of_the_sdk_selects_a_processor(name: str, target: str) -> None:
    with runtime.Backend.create(name) as backend:
        (device,) = backend.get_platform_info().devices
    assert device.name == f"emulator of {target}"


@pytest.mark.parametrize("name", ["libQnnHtpV66Stub.so", "dsp:v73", "hta:v68"])
def test_an_architecture_that_a_backend_does_not_have(name: str) -> None:
    with pytest.raises(ConfigError, match="unsupported architecture"):
        runtime.Backend.create(name)


@pytest.mark.parametrize("name", ["hetero:htp:v69,cpu", "hetero:libQnnHtpV69Stub.so,libQnnCpu.so"])
def test_a_placement_names_an_architecture(name: str) -> None:
    with runtime.Backend.create(name, {"members": {"htp": {"engine": "numpy"}}}) as backend:
        (htp, _) = backend.plugin.members
        assert (htp.name, htp.plugin.options.arch, htp.plugin.engine.name) == (
            "htp",
            "v69",
            "numpy",
        )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hetero:htp:v99,cpu", "unsupported architecture 'v99'"),
        ("hetero:htp:v73,htp:v75", "duplicate backend 'htp'"),
        ("hetero:htp,cpu:v75", "unknown key"),
    ],
)
def test_a_placement_with_a_wrong_architecture(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        runtime.Backend.create(name)


def test_one_warning_counts_the_nodes_that_compute_on_floats(
    caplog: pytest.LogCaptureFixture,
) -> None:
    real = DType.FLOAT_32
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", real, (2, 3), TensorKind.APP_WRITE))
    moved, small = graph.add_tensor(Tensor("m", real, (3, 2))), Tensor("s", real, (3, 2))
    add(graph, "Reshape", [x], name="move", outputs=moved)
    add(graph, "Softmax", [moved], name="softmax", outputs=graph.add_tensor(small))
    out = Tensor("y", U8, (3, 2), TensorKind.APP_READ, encoding=ScaleOffset(1 / 256))
    add(graph, "Quantize", [small], name="quantize", outputs=out)
    with (
        dovetail.Session(model_of(graph), "htp"),
        dovetail.Session(model_of(convolutions()), "htp"),
    ):
        pass
    (record,) = caplog.records
    assert record.message.startswith("graph 'net': 1 of 3 nodes compute on floats")
    caplog.clear()
    with NodeRuns("htp") as runs:  # one warning for all graphs of a name
        for each in (graph, deepcopy(graph)):
            values = runs.run(each, {"x": np.zeros((2, 3), np.float32)})
        for node in graph.nodes:
            runs.run_node(node, {t.name: values[t.name] for t in node.inputs if t is not None})
    assert len(caplog.records) == 1
    caplog.clear()
    with NodeRuns("htp") as runs:  # nor is there one for each node
        for node in graph.nodes * 2:
            runs.run_node(node, {t.name: values[t.name] for t in node.inputs if t is not None})
    assert len(caplog.records) == 1
