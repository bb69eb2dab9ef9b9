"""The backend `hetero` on two backends of these tests: options, parts, contract, images, ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import partial_backends
import pytest
from msgspec.structs import replace
from partial_backends import EVENTS
from reference_backend import PACKAGE, chain

from dovetail import Session
from dovetail.container import Model, Producer
from dovetail.errors import (
    BackendError,
    ConfigError,
    ContainerError,
    DovetailError,
    PluginError,
    UnsupportedOpError,
)
from dovetail.ir import Array, DType, Graph, Node, Spec, Tensor, TensorKind, pack
from dovetail.ops import EVERYTHING, CheckedGraph, In, Op, OpPackage, OpRegistry, check_ops
from dovetail.runtime import Backend, Context, contract
from dovetail.runtime import Graph as RuntimeGraph
from dovetail.runtime.contract import Image, PrepareRequest, RunControl
from dovetail.runtime.placement.prepared import HeteroPrepared
from dovetail.testing import Bench, Status
from dovetail.testing.bench import compose
from dovetail.testing.checks import CHECKS, Check, run_check
from dovetail.testing.preparing import open_context

SUMS = OpPackage("test.sums")


@SUMS.op("Sum")
class Sum(Op):
    """x + y."""

    inputs = (In("in[0]"), In("in[1]"))

    def infer(self, x: Spec, y: Spec, out: Spec | None) -> Spec:
        return x

    def reference(self, x: Array, y: Array) -> Array:
        return x + y

    def work(self, ins: object, outs: object) -> int:
        return 6


OPS = OpRegistry.of(PACKAGE, SUMS)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
REFUSING = {"members": {"left": {"refuse": ["Wait"]}}}


@pytest.fixture(autouse=True)
def installed(site: Any) -> None:
    """Two backends, `left` and `right`, installed."""
    names = {n: f"partial_backends:{n.title()}Backend" for n in ("left", "right")}
    site.dist("choosy-dist", {"dovetail.backends": names})
    partial_backends.EVENTS.clear()


@pytest.fixture(autouse=True)
def gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Wait` is the identity here, and `Scale` too much work to move to another backend."""
    monkeypatch.setattr("reference_backend.GATE.wait", lambda _: True)
    monkeypatch.setattr("reference_backend.Scale.work", lambda *_: 6)


def finalized(context: Context, graph: Graph, config: Mapping[str, Any] | None = None) -> Any:
    handle = compose(context, graph)
    if config:
        handle.set_config(config)
    handle.finalize()
    return handle


def created(options: Mapping[str, Any] | None = None, name: str = "hetero:left,right") -> Backend:
    return Backend.create(name, REFUSING if options is None else options, OPS)


def lines(graph: RuntimeGraph) -> list[str]:
    assert graph.placement is not None
    return list(graph.placement.lines())


# -- what runs where -------------------------------------------------------------------------------


def test_the_first_backend_that_supports_a_node_runs_it() -> None:
    with created() as backend:
        graph = finalized(backend.create_context(), chain("Scale", "Wait", "Scale"))
        np.testing.assert_array_equal(graph.execute({"x": X})["y"], X * 4)
        assert lines(graph) == [
            "left: 2 nodes (66.7%), 12 MACs (100.0%), 2 parts",
            "right: 1 node (33.3%), 0 MACs (0.0%), 1 part",
            "48 bytes pass from part to part in each run",
            "on right: Wait node 'n1': op: type is Wait; use another op",
        ]
        assert graph.placement.data() == {
            "shares": [
                {"backend": "left", "nodes": 2, "macs": 12, "parts": 2},
                {"backend": "right", "nodes": 1, "macs": 0, "parts": 1},
            ],
            "moved": [
                {
                    "node": "Wait node 'n1'",
                    "backend": "right",
                    "reason": "op: type is Wait; use another op",
                }
            ],
            "seam_bytes": 48,
        }
    assert EVENTS[:3] == [
        "left prepared net part 0 on left",
        "right prepared net part 1 on right",
        "left prepared net part 2 on left",
    ]
    assert sorted(EVENTS[3:]) == sorted(
        [
            "left closed net part 0 on left",
            "right closed net part 1 on right",
            "left closed net part 2 on left",
            *("left closed a context", "right closed a context", "left closed", "right closed"),
        ]
    )


def test_one_backend_gets_the_graph_itself() -> None:
    with created({}, "hetero:right") as backend:
        graph = finalized(backend.create_context(), chain("Scale", "Wait"))
        assert EVENTS == ["right prepared net"]
        np.testing.assert_array_equal(graph.execute({"x": X})["y"], X * 2)
    with created({}) as backend:
        finalized(backend.create_context(), chain("Scale", "Wait"))
        assert "right prepared net" not in EVENTS[EVENTS.index("right closed") :]


def test_other_backends_have_no_placement() -> None:
    with Backend.create("left", ops=OPS) as backend:
        graph = compose(backend.create_context(), chain("Scale"))
        assert graph.placement is None
        graph.finalize()
        assert graph.placement is None


def test_nodes_that_nothing_supports_say_why_not_on_each() -> None:
    options = {"members": {name: {"refuse": ["Wait"]} for name in ("left", "right")}}
    with created(options) as backend:
        with pytest.raises(UnsupportedOpError) as caught:
            finalized(backend.create_context(), chain("Scale", "Wait"))
        (problem,) = caught.value.problems
        assert str(problem) == (
            "Wait node 'n1': op: type is Wait; use another op; "
            "right: op: type is Wait; use another op"
        )


def branching() -> Graph:
    """x -> Scale -> a; a -> Wait -> y (an output that is read, too); y + nothing: Scale -> z."""
    graph = Graph("net")
    made = {
        name: graph.add_tensor(Tensor(name, DType.FLOAT_32, (2, 3), kind))
        for name, kind in {
            "x": TensorKind.APP_WRITE,
            "unused": TensorKind.APP_WRITE,
            "a": TensorKind.NATIVE,
            "y": TensorKind.APP_READ,
            "z": TensorKind.APP_READ,
        }.items()
    }
    for name, op, source, target in (
        ("first", "Scale", "x", "a"),
        ("middle", "Wait", "a", "y"),
        ("last", "Scale", "y", "z"),
    ):
        graph.add_node(Node(name, "test.ops", op, [made[source]], [made[target]]))
    return graph


@pytest.mark.parametrize("kind", [TensorKind.APP_READ, TensorKind.APP_READWRITE])
def test_outputs_that_are_read_by_other_parts_and_inputs_that_nothing_reads(
    kind: TensorKind,
) -> None:
    net = branching()
    net.tensors["y"].kind = kind
    if kind is TensorKind.APP_READWRITE:
        net.tensors["x"].kind = net.tensors["unused"].kind = kind
    with created() as backend:
        graph = finalized(backend.create_context(), net)
        for shift in (0, 1):
            given = {"x": X + shift, "unused": X}
            found = graph.execute(given)
            np.testing.assert_array_equal(found["y"], given["x"] * 2)
            np.testing.assert_array_equal(found["z"], given["x"] * 4)
            mine = {name: np.full_like(X, np.nan) for name in ("y", "z")}
            graph.execute(given, mine)
            np.testing.assert_array_equal(mine["z"], found["z"])


def test_the_watch_sees_every_node() -> None:
    seen: list[str] = []

    class Watch:
        def step_finished(self, nodes: Any, microseconds: float, outputs: Any) -> None:
            seen.extend(nodes)

    with created() as backend:
        graph = compose(backend.create_context(), chain("Scale", "Wait", "Scale"))
        graph.finalize(observed=EVERYTHING)
        graph.execute({"x": X}, watch=Watch())
        assert seen == ["n0", "n1", "n2"]


def test_failing_nodes_are_named() -> None:
    with created({"members": {"left": {"refuse": ["Fail"]}}}) as backend:
        graph = finalized(backend.create_context(), chain("Scale", "Fail", "Scale"))
        with pytest.raises(BackendError, match="n1"):
            graph.execute({"x": X})


# -- pins and configs ------------------------------------------------------------------------------


def test_pins_by_name_and_by_source_name() -> None:
    net = chain("Scale", "Scale", "Scale")
    net.nodes[1].sources = ("conv/middle",)
    with created({"pin": {"conv/middle": "right"}}) as backend:
        context = backend.create_context()
        (graph,) = context.compose(model_of(net))
        graph.finalize()
        assert lines(graph)[-1] == (
            "on right: Scale node 'n1' (from conv/middle): pinned by the config"
        )
    with created({"pin": {"n1": "right"}}) as backend:
        graph = finalized(backend.create_context(), net, {"pin": {"n1": "left", "n2": "right"}})
        assert [m.node for m in graph.placement.moved] == ["Scale node 'n2'"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"pin": {"n9": "right"}}, "pin: node 'n9' not found (valid names: n0, n1, n2)"),
        ({"pin": {"n1": "rigth"}}, "pin.n1: backend 'rigth' is not in the order (did you mean"),
        ({"members": {"cpu": {}}}, "members: backend 'cpu' is not in the order"),
        ({"members": {"left": {"refuse": 3}}}, "members.left: $.refuse"),
    ],
)
def test_wrong_graph_configs(config: Any, message: str) -> None:
    with created() as backend:
        context = backend.create_context()
        graph = compose(context, chain("Scale", "Wait", "Scale"))
        graph.set_config(config)
        with pytest.raises(ConfigError) as caught:
            graph.finalize()
        assert message in str(caught.value)
        graph.set_config({})
        graph.finalize()  # the handle still works
        np.testing.assert_array_equal(graph.execute({"x": X})["y"], X * 4)


def test_members_have_their_own_devices_and_graph_configs() -> None:
    with created({}) as backend:
        device = backend.create_device({"members": {"left": {"refuse": ["Wait"]}}})
        graph = finalized(backend.create_context(device), chain("Scale", "Wait"))
        assert [m.node for m in graph.placement.moved] == ["Wait node 'n1'"]
        config = {"members": {"left": {"refuse": ["Scale"]}}, "graph_priority": "high"}
        other = finalized(backend.create_context(), chain("Scale", "Wait"), config)
        assert other.placement.moved[0].node == "Scale node 'n0'"
        with pytest.raises(ConfigError, match="settings for other backends"):
            backend.create_context(config={"members": {"middle": {}}})


def test_settings_of_sessions_reach_contexts() -> None:
    config = {
        "context": {"context_priority": "high"},
        "backend": {"left": {"refuse": ["Wait"]}},
        "placement": {"pin": {"n2": "right"}},
    }
    model = model_of(chain("Scale", "Wait", "Scale"))
    with Session(model, "hetero:left,right", config, ops=OPS) as session:
        (graph,) = session.graphs.values()
        assert graph.context.config.context_priority == "high"
        assert [m.node for m in graph.placement.moved] == ["Wait node 'n1'", "Scale node 'n2'"]
        np.testing.assert_array_equal(session.run(X)["y"], X * 4)


def model_of(graph: Graph) -> Any:
    return Model.of(graph, producer=Producer("test", "1"), registry=OPS)


# -- options with faults ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "error", "parts"),
    [
        ("hetero:", {}, ConfigError, ["order: no backend in the order (for example hetero:a,b)"]),
        ("hetero", {"order": []}, ConfigError, ["no backend in the order"]),
        ("hetero:left,left", {}, ConfigError, ["duplicate backend 'left'"]),
        (
            "hetero:left,hetero:right",
            {},
            ConfigError,
            ["'hetero' cannot be a member of another backend"],
        ),
        (
            "hetero:lefd,rigt",
            {},
            PluginError,
            ["'lefd' is not installed (did you mean 'left'?)", "did you mean 'right'?"],
        ),
        (
            "hetero:left,nope,left,hetero",
            {"forbid": ["cpu"], "pin": {"n": "gpu"}, "members": {"dsp": {}}},
            ConfigError,
            [
                "order: backend 'nope' is not installed",
                "order: duplicate backend 'left'",
                "order: 'hetero' cannot be a member of another backend",
                "forbid: backend 'cpu' is not in the order",
                "pin.n: backend 'gpu' is not in the order",
                "members: backend 'dsp' is not in the order",
            ],
        ),
        (
            "hetero:left,right",
            {"members": {"left": {"refuze": []}, "right": {"refuse": 1}}},
            ConfigError,
            ["options of backend 'left': $.refuze: unknown key", "right': $.refuse: Expected"],
        ),
        ("hetero:left", {"min_fraction": 1.5}, ConfigError, ["<= 1"]),
        ("hetero:left", {"minfraction": 1}, ConfigError, ["did you mean 'min_fraction'?"]),
        (
            "hetero:left,right",
            {"members": {"right": {"fail": True}}},
            BackendError,
            ["backend 'right': the backend cannot be started: OSError: no license"],
        ),
    ],
)
def test_wrong_options(name: str, options: Any, error: type[DovetailError], parts: Any) -> None:
    with pytest.raises(error) as caught:
        created(options, name)
    for part in parts:
        assert part in str(caught.value)
    assert caught.value.exit_code == {ConfigError: 2, PluginError: 6, BackendError: 7}[error]


def test_a_member_that_cannot_start_leaves_none_open() -> None:
    with pytest.raises(BackendError):
        created({"members": {"right": {"fail": True}}})
    assert EVENTS == ["left closed"]


def test_without_an_order_it_can_only_be_described() -> None:
    with Backend.create("hetero", ops=OPS) as backend:
        assert backend.capabilities == contract.Capabilities()
        assert backend.plugin.platform().devices == ()
        with pytest.raises(ConfigError, match="no backends given for 'hetero'"):
            backend.create_context()


# -- the contract of the config --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (
            {"forbid": ["right"]},
            ["Wait node 'n1': would run on forbidden backend 'right': op: type is Wait"],
        ),
        (
            {"min_fraction": 0.7},
            [
                "backend 'left' runs 2 of 3 nodes, 66.67%; min_fraction is 70.00%",
                "Wait node 'n1': on 'right': op: type is Wait",
            ],
        ),
        (
            {"pin": {"n1": "left"}},
            ["Wait node 'n1': pinned to 'left', which does not support it: op: type is Wait"],
        ),
        (
            {"pin": {"n1": "left", "n0": "right"}, "forbid": ["right"], "min_fraction": 1},
            [
                "pinned to 'left'",
                "Scale node 'n0': would run on forbidden backend 'right': pinned by the config",
                "2 of 3 nodes",
            ],
        ),
    ],
)
def test_a_broken_contract_is_a_failed_check(options: Any, parts: list[str]) -> None:
    with created(REFUSING | options) as backend:
        context = backend.create_context()
        graph = compose(context, chain("Scale", "Wait", "Scale"))
        with pytest.raises(BackendError) as caught:
            graph.finalize()
        assert caught.value.code == "PLACEMENT_CHECK_FAILED"
        assert caught.value.exit_code == 1
        assert caught.value.where == "graph 'net'"
        for part in parts:
            assert part in str(caught.value)
        assert not graph.is_finalized
        if "pin" not in options:  # the context still works
            finalized(context, chain("Scale", name="other"))


def test_a_contract_that_holds() -> None:
    with created(REFUSING | {"min_fraction": 0.66, "pin": {"n1": "right"}}) as backend:
        graph = finalized(backend.create_context(), chain("Scale", "Wait", "Scale"))
        assert [line.split(" (")[0] for line in lines(graph)[:2]] == [
            "left: 2 nodes",
            "right: 1 node",
        ]


# -- updates, images, memory -----------------------------------------------------------------------


def updateable(value: float = 1.0) -> Graph:
    """x + w -> a -> Wait -> b; b + w -> y, with an UPDATEABLE w that both ends read."""
    graph = Graph("net")
    data = pack(np.full((2, 3), value, np.float32), DType.FLOAT_32)
    made = {
        name: graph.add_tensor(
            Tensor(name, DType.FLOAT_32, (2, 3), kind, data=data if name == "w" else None)
        )
        for name, kind in {
            "x": TensorKind.APP_WRITE,
            "w": TensorKind.UPDATEABLE_STATIC,
            "a": TensorKind.NATIVE,
            "b": TensorKind.NATIVE,
            "y": TensorKind.APP_READ,
        }.items()
    }
    for name, op, sources, target in (
        ("n0", "Sum", "xw", "a"),
        ("n1", "Wait", "a", "b"),
        ("n2", "Sum", "bw", "y"),
    ):
        ins = [made[source] for source in sources]
        package = "test.sums" if op == "Sum" else "test.ops"
        graph.add_node(Node(name, package, op, ins, [made[target]]))
    return graph


def prepared(backend: Backend, graph: Graph) -> tuple[Any, CheckedGraph, HeteroPrepared]:
    context = open_context(backend.plugin)
    checked = check_ops(graph, backend.ops)
    made = context.prepare(checked, PrepareRequest())
    assert isinstance(made, HeteroPrepared)
    return context, checked, made


def result(made: contract.Prepared) -> Array:
    outputs = {"y": np.empty_like(X)}
    made.run({"x": X}, outputs, RunControl())
    return outputs["y"]


def test_updates_reach_each_part_that_has_the_tensor() -> None:
    with created() as backend:
        _, _, made = prepared(backend, updateable())
        assert [part.updateable for part in made.parts] == [("w",), (), ("w",)]
        np.testing.assert_array_equal(result(made), X + 2)
        made.update([updateable(5.0).tensor("w")])
        np.testing.assert_array_equal(result(made), X + 10)


def test_an_update_that_fails_halfway_must_be_repeated() -> None:
    with created() as backend:
        _, _, made = prepared(backend, updateable())
        wrong = Tensor.static("w", np.zeros(2, np.float32))
        with pytest.raises(BackendError, match="the shape differs"):
            made.update([wrong])  # nothing has changed: it still runs
        np.testing.assert_array_equal(result(made), X + 2)
        made.parts[2].prepared.data["w"] = np.zeros(5)  # type: ignore[attr-defined]
        with pytest.raises(BackendError, match="the shape differs"):
            made.update([updateable(5.0).tensor("w")])
        with pytest.raises(BackendError, match="an update of w has changed only some parts"):
            result(made)
        made.parts[2].prepared.data["w"] = X  # type: ignore[attr-defined]
        made.update([updateable(5.0).tensor("w")])
        np.testing.assert_array_equal(result(made), X + 10)


def test_sections_of_equal_parts() -> None:
    with created() as backend:
        _, _, base = prepared(backend, updateable())
        _, _, changed = prepared(backend, updateable(5.0))
        assert changed.section(()).blobs == {}
        section = changed.section(["w"])
        assert sorted(section.blobs) == ["0/w", "2/w"]
        base.apply(through_json(section))
        np.testing.assert_array_equal(result(base), X + 10)
        _, _, other = prepared(backend, chain("Scale", "Scale"))
        with pytest.raises(ContainerError, match="other parts"):
            other.apply(section)


def through_json(image: Image) -> Image:
    return replace(image, graphs=msgspec.json.decode(msgspec.json.encode(image.graphs)))


def test_images_are_restored_without_placing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with created() as backend:
        context, checked, made = prepared(backend, updateable())
        image = through_json(context.image({"net": made}))
        monkeypatch.delattr("dovetail.runtime.placement.context.place")
        again = open_context(backend.plugin)
        found = again.restore(image, lambda _: checked, lambda _: PrepareRequest())["net"]
        np.testing.assert_array_equal(result(found.prepared), X + 2)
        assert found.prepared.placement == made.placement
        assert list(found.interface.inputs) == ["x"]
        found.prepared.update([updateable(5.0).tensor("w")])
        np.testing.assert_array_equal(result(found.prepared), X + 10)
        assert through_json(again.image({"net": found.prepared})).graphs == image.graphs


def test_images_of_another_config_are_incompatible() -> None:
    with created() as backend:
        context, checked, made = prepared(backend, updateable())
        image = through_json(context.image({"net": made}))
    for options, name, fact in (
        (REFUSING | {"pin": {"n0": "right"}}, "hetero:left,right", "pin"),
        (REFUSING, "hetero:right,left", "order"),
    ):
        with created(options, name) as backend, pytest.raises(ContainerError) as caught:
            open_context(backend.plugin).restore(
                image, lambda _: checked, lambda _: PrepareRequest()
            )
        assert caught.value.code == "CONTAINER_INCOMPATIBLE"
        assert any(p.message.startswith(f"{fact} is ") for p in caught.value.problems)


def _set(path: str, value: object) -> Callable[[Any], None]:
    """Return a function that changes an item of nested data."""

    def change(data: Any) -> None:
        *keys, last = [int(k) if k.isdigit() else k for k in path.split(".")]
        for key in keys:
            data = data[key]
        data[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("parts", []), "the graph has no parts"),
        (_set("parts", 3), "Expected `array`, got `int`"),
        (_set("parts.0.backend", "cpu"), "backend 'cpu' is not in the order"),
        (_set("parts.0.name", "net part 2 on left"), "two parts have one name"),
        (_set("parts.0.nodes", ["n0", "n1"]), "the parts do not have the nodes of the graph"),
        (_set("parts.0.plans", {}), "unknown key"),
        (_set("inputs", ["x", "z"]), "tensor 'z': no part uses it"),
        (_set("outputs", ["y", "z"]), "tensor 'z': no part uses it"),
        (_set("inputs", []), "tensor 'x': not written in this form before"),
        (lambda data: data["parts"].reverse(), "not written in this form before"),
    ],
)
def test_damaged_images_are_rejected(change: Callable[[Any], None], message: str) -> None:
    with created() as backend:
        context, checked, made = prepared(backend, updateable())
        image = through_json(context.image({"net": made}))
        change(image.graphs["net"])
        EVENTS.clear()
        with pytest.raises(ContainerError) as caught:
            context.restore(image, lambda _: checked, lambda _: PrepareRequest())
        assert message in str(caught.value)
        ends = Counter(event.split(maxsplit=2)[1] for event in EVENTS)
        assert ends["restored"] == ends["closed"]


def test_registered_memory() -> None:
    with created() as backend:
        context = backend.create_context()
        graph = finalized(context, chain("Scale", "Wait", "Scale"))
        given, taken = X.copy(), np.empty_like(X)
        outputs = {"y": context.register_memory(taken, DType.FLOAT_32)}
        graph.execute({"x": context.register_memory(given, DType.FLOAT_32)}, outputs)
        np.testing.assert_array_equal(taken, X * 4)
        with pytest.raises(BackendError, match="'custom_memory'"):
            context.register_memory(None, DType.FLOAT_32, (2, 3), {"fd": 3})


# -- the conformance kit ---------------------------------------------------------------------------


LACKING = {
    "opaque_ops",
    "overlapped_runs_end_before_their_context",
    "graphs_are_restored_without_their_model",
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
@pytest.mark.parametrize("refused", ["Halve", "Nothing"])
def test_it_meets_the_requirements_on_backends(check: Check, refused: str) -> None:
    bench = Bench("hetero:left,right", {"members": {"left": {"refuse": [refused]}}})
    outcome = run_check(bench, check)
    wanted = Status.UNSUPPORTED if check.name in LACKING else Status.PASSED
    assert outcome.status is wanted, outcome.reason
