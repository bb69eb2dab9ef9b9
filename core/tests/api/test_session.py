"""Session: real values in and out, several graphs, configs, and what it refuses."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from reference_backend import OPS, ReferenceBackend, ReferenceOptions, Scale, chain

import dovetail
from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.errors import (
    BackendError,
    ConfigError,
    ContainerError,
    FrontendError,
    UnsupportedOpError,
)
from dovetail.ir import DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail.ops import NodeView
from dovetail.runtime import EventUnit, ProfileLevel, contract, read_profile_log

NUL_PATH = '{"backend_extensions": {"config_file_path": "a\\u0000b"}}'
X = np.arange(6, dtype=np.float32).reshape(2, 3)

pytestmark = pytest.mark.usefixtures("reference_installed")


def model(*graphs: Graph) -> Model:
    return Model.of(*graphs, producer=Producer("test", "1"), registry=OPS)


def session(*graphs: Graph, **options: object) -> dovetail.Session:
    return dovetail.Session(model(*graphs), "reference", ops=OPS, **options)  # type: ignore[arg-type]


def quantized() -> Graph:
    graph = chain("Scale", dtype=DType.UFIXED_POINT_8)
    graph.tensors["x"].encoding = ScaleOffset(0.5, -10)
    graph.tensors["y"].encoding = ScaleOffset(1.0, 0)
    return graph


def test_anything_array_like_goes_in_and_float32_comes_out() -> None:
    with session(chain("Scale", "Scale")) as net:
        for given in (X, X.astype(np.float64), X.tolist(), X.astype(np.int64)):
            out = net.run({"x": given})["y"]
            assert out.dtype == np.float32
            np.testing.assert_array_equal(out, X * 4)


def test_fixed_point_tensors_are_quantized_on_the_way() -> None:
    with session(quantized()) as net:
        np.testing.assert_array_equal(net.run({"x": X})["y"], X * 2)
        stored = (X * 2 + 10).astype(np.uint8)
        native = net.run({"x": stored}, native=True)["y"]
        assert native.dtype == np.uint8
        np.testing.assert_array_equal(native, X * 2)
        with pytest.raises(BackendError, match="float32"):
            net.run({"x": X}, native=True)


def test_integers_stay_integers_and_fractions_are_refused() -> None:
    with session(chain("Scale", dtype=DType.INT_32)) as net:
        out = net.run({"x": X})["y"]
        assert out.dtype == np.int32
        for wrong in (X + 0.5, X * 1e10, np.full_like(X, np.nan)):
            with pytest.raises(BackendError, match="INT_32 cannot hold") as caught:
                net.run({"x": wrong})
            assert caught.value.exit_code == 3


def test_float16_goes_through() -> None:
    with session(chain("Scale", dtype=DType.FLOAT_16)) as net:
        out = net.run({"x": X / 3})["y"]
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, ((X / 3).astype(np.float16) * 2).astype(np.float32))


def test_several_graphs_need_a_name() -> None:
    with session(chain("Scale", name="one"), chain("Scale", "Scale", name="two")) as net:
        np.testing.assert_array_equal(net.run({"x": X}, graph="two")["y"], X * 4)
        with pytest.raises(BackendError, match="several graphs"):
            net.run({"x": X})
        with pytest.raises(BackendError) as caught:
            net.run({"x": X}, graph="tow")
        assert "did you mean 'two'?" in caught.value.hint


def test_several_models_share_a_session_and_packed_weights() -> None:
    models = [model(chain("Scale", name=name)) for name in ("one", "two")]
    with dovetail.Session(models, "reference", ops=OPS) as net:
        assert list(net.graphs) == ["one", "two"]
        assert len({id(graph.context.weights) for graph in net.graphs.values()}) == 1


def test_configs_as_data_toml_and_the_sdks_json(tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text(
        '[backend.reference]\nlevel = 4\n[context]\ncontext_priority = "low"\n'
        '[[graph]]\ngraph_name = "net"\ngraph_priority = "high"\n'
    )
    inner, outer = tmp_path / "inner.json", tmp_path / "outer.json"
    inner.write_text('{"level": 4}')
    outer.write_text(
        '{"backend_extensions": {"shared_library_path": "libX.so", "config_file_path": '
        '"inner.json"}, "context_configs": {"context_priority": "low"}, '
        '"graph_configs": [{"graph_name": "net", "graph_priority": "high"}]}'
    )
    data = {
        "backend": {"reference": {"level": 4}},
        "context": {"context_priority": "low"},
        "graph": [{"graph_name": "net", "graph_priority": "high"}],
    }
    for config in (toml, outer, data):
        with session(chain("Scale"), config=config) as net:
            assert net.backend.plugin.options.level == 4  # type: ignore[attr-defined]
            graph = net.graphs["net"]
            assert (graph.context.priority.name, graph.priority.name) == ("LOW", "HIGH")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.toml", "[context\n", ["TOML", "a.toml:1"]),
        ("a.json", '{"context_configs": {"is_persistent_binry": true}}', ["is_persistent_binary"]),
        ("a.toml", '[context]\ncontext_priority = "hihg"\n', ["'high'"]),
        ("a.toml", "[context]\nasync_execute_queue_depth = 0\n", ["async_execute_queue_depth"]),
        ("a.json", "[1]", ["expected an object"]),
        ("missing.toml", None, ["cannot read"]),
        ("a.toml", f"[context]\nasync_execute_queue_depth = {'9' * 5000}", ["TOML", "5000 digits"]),
        ("a.json", '{"graph_configs": ' + "9" * 5000 + "}", ["JSON", "5000 digits"]),
        ("a.toml", "x = " + "[" * 100_000, ["TOML", "recursion"]),
        ("a.json", "[" * 100_000, ["JSON", "recursion"]),
        ("a.json", NUL_PATH, ["cannot read the config file: the name is not a path"]),
        ("a.json", NUL_PATH.replace("u0000", "ud800"), ["the name is not a path"]),
    ],
)
def test_bad_configs(tmp_path: Path, name: str, text: str | None, words: list[str]) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        session(chain("Scale"), config=path)
    assert caught.value.exit_code == 2
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_options_are_the_short_form_of_the_config() -> None:
    config = {"backend": {"reference": {"level": 4, "names": ["a"]}}}
    with session(chain("Scale"), config=config, options={"level": 5}) as net:
        options = net.backend.plugin.options  # type: ignore[attr-defined]
        assert (options.level, options.names) == (5, ["a"])
    with pytest.raises(ConfigError, match="unknown key"):
        session(chain("Scale"), options={"lvel": 5})


class Restricted(ReferenceBackend):
    """Accepts graphs of a mode that its device has."""

    class Device(runtime.DeviceConfig, frozen=True):
        modes: list[str] = msgspec.field(default_factory=list)

    class Graph(runtime.GraphConfig, frozen=True):
        mode: str = "slow"

    configs = contract.Configs(ReferenceOptions, device=Device, graph=Graph)

    def validate(self, node: NodeView, device: Device, config: Graph) -> contract.Support:
        ok = config.mode == "slow" or config.mode in device.modes
        return contract.Support(ok, "mode", "graph", config.mode, tuple(device.modes))


def test_devices_and_graphs_have_settings_of_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.runtime.installed.load", lambda *_: Restricted)
    monkeypatch.setattr("dovetail.runtime.config_file._faults.names", lambda _: ["reference"])
    graphs = [chain("Scale", name="one"), chain("Scale", name="two"), chain("Scale", name="three")]
    fast = {"graph_names": ["one", "three"], "mode": "fast"}
    with session(*graphs, config={"device": {"modes": ["fast"]}, "graph": [fast]}) as net:
        modes = [graph.config.mode for graph in net.graphs.values()]  # type: ignore[attr-defined]
        assert modes == ["fast", "slow", "fast"]
    with pytest.raises(UnsupportedOpError, match="does not support"):
        session(*graphs, config={"graph": [fast]})
    wrong = {"device": {"mods": []}, "graph": [{"mod": "fast"}, {"graph_names": "one"}]}
    with pytest.raises(ConfigError) as caught:
        session(*graphs, config=wrong)
    places = {p.where for p in caught.value.problems}
    assert {"$.device.mods", "$.graph[0].mod", "$.graph[1].graph_names"} <= places


def test_all_faults_of_a_config_are_listed() -> None:
    wrong = {"context": {"context_priority": "hihg"}, "contxt": {}, "graph": [{}]}
    with pytest.raises(ConfigError) as caught:
        session(chain("Scale"), config=wrong)
    assert [(p.where, p.hint) for p in caught.value.problems] == [
        ("$.contxt", "did you mean 'context'?"),
        ("$.context.context_priority", "did you mean 'high'?"),
        ("$.graph[0]", "add graph_name or graph_names"),
    ]
    with pytest.raises(ConfigError, match="settings of no graph"):
        session(chain("Scale"), config={"graph": [{}]})


def test_parts_of_a_config_that_fit_nothing_are_refused_or_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    graphs = [{"graph_name": "nett"}, {"graph_name": "net"}, {"graph_name": "net"}]
    with pytest.raises(ConfigError) as caught:
        session(chain("Scale"), config={"graph": graphs})
    assert [str(p) for p in caught.value.problems] == [
        "graph 'nett' not found (did you mean 'net'?)",
        "duplicate settings of graph 'net'",
    ]
    with pytest.raises(ConfigError, match="'referense', which is not installed"):
        session(chain("Scale"), config={"backend": {"referense": {}}})
    (tmp_path / "htp.json").write_text('{"graphs": []}')
    outer = tmp_path / "outer.json"
    outer.write_text(
        '{"backend_extensions": {"shared_library_path": "libQnnHtpNetRunExtensions.so", '
        '"config_file_path": "htp.json"}}'
    )
    session(chain("Scale"), config=outer).close()
    assert "is for backend 'htp', not 'reference'" in caplog.text


def test_a_closed_session_says_so() -> None:
    net = session(chain("Scale"))
    assert repr(net) == "<Session on reference: net>"
    net.close()
    assert repr(net) == "<Session on reference: closed>"
    with pytest.raises(BackendError, match="the session was closed") as caught:
        net.run({"x": X})
    assert caught.value.code == "BACKEND_ERROR_INVALID_HANDLE"
    assert "from_context" in caught.value.hint


def test_a_session_from_a_file_and_its_refusals(tmp_path: Path) -> None:
    model(chain("Scale")).save(tmp_path / "net.dvt")
    with dovetail.Session(tmp_path / "net.dvt", "reference", ops=OPS) as net:
        np.testing.assert_array_equal(net.run({"x": X})["y"], X * 2)
    net.close()  # a second close does nothing
    with pytest.raises(BackendError, match="freed"):
        net.backend.create_context()
    (tmp_path / "net.dvt").rename(tmp_path / "renamed")
    assert list(dovetail.load_model(tmp_path / "renamed").graphs) == ["net"]
    with pytest.raises(FrontendError, match=r"already a Dovetail container.*\n.*dovetail export"):
        dovetail.convert(tmp_path / "renamed")
    (tmp_path / "text.dvt").write_text("hello")
    with pytest.raises(ContainerError):
        dovetail.load(tmp_path / "text.dvt")
    with pytest.raises(FrontendError) as caught:
        dovetail.load_model(tmp_path / "net.weird")
    assert caught.value.code == "FILE_UNREADABLE"
    (tmp_path / "net.dlc").write_bytes(b"PK")
    with pytest.raises(FrontendError, match="dovetail-qnn"):
        dovetail.load(tmp_path / "net.dlc")


def test_the_package_looks_its_names_up_when_asked() -> None:
    assert set(dovetail.__all__) <= set(dir(dovetail))
    assert dovetail.runtime.Backend.__name__ == "Backend"
    with pytest.raises(AttributeError, match="no attribute 'Sesion'"):
        _ = dovetail.Sesion  # type: ignore[attr-defined]
    assert Scale().factor == 2.0


def test_every_fault_of_a_config_is_listed(tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text("[contxt]\n[backend.referense]\n[backend.reference]\nlevle = 4\nname = []\n")
    with pytest.raises(ConfigError) as caught:
        session(chain("Scale"), config=toml)
    assert caught.value.where == str(toml)
    assert [(p.where, p.hint) for p in caught.value.problems] == [
        ("$.contxt", "did you mean 'context'?"),
        ("$.backend.referense", "did you mean 'reference'?"),
        ("$.backend.reference.levle", "did you mean 'level'?"),
        ("$.backend.reference.name", "did you mean 'names'?"),
    ]


def test_every_fault_of_an_sdk_config_and_its_inner_file_is_listed(tmp_path: Path) -> None:
    (tmp_path / "inner.json").write_text('{"level": "high"}')
    outer = tmp_path / "outer.json"
    outer.write_text(
        '{"backend_extensions": {"config_file_path": "inner.json"}, "graph_config": []}'
    )
    with pytest.raises(ConfigError) as caught:
        session(chain("Scale"), config=outer)
    first, second = caught.value.problems
    assert (first.where, first.hint) == ("$.graph_config", "did you mean 'graph_configs'?")
    assert second.where == f"{tmp_path / 'inner.json'}: $.level"
    assert second.message == "Expected `int`, got `str`"


def test_a_fault_hides_no_later_one(tmp_path: Path) -> None:
    tables = [{"graph_name": 3}, {"graph_priority": "low"}]
    config = {"contxt": {}, "context": {"context_priority": 7}, "graph": tables}
    with pytest.raises(ConfigError) as caught:
        session(chain("Scale"), config={**config, "backend": {"reference": {"levle": 1}}})
    assert [p.where for p in caught.value.problems] == [
        "$.contxt",
        "$.context.context_priority",
        "$.graph[0].graph_name",
        "$.backend.reference.levle",
        "$.graph[1]",
    ]
    extensions = {"config_file_path": "no.json"}
    outer = tmp_path / "outer.json"
    outer.write_text(json.dumps({"backend_extensions": extensions, "graph_configs": [{}, 3]}))
    with pytest.raises(ConfigError) as caught:
        session(chain("Scale"), config=outer)
    assert {p.where for p in caught.value.problems} == {
        "$.graph_configs[1]",
        str(tmp_path / "no.json"),
    }


def test_one_input_needs_no_name() -> None:
    with session(chain("Scale")) as net:
        for given in (X, X.tolist()):
            np.testing.assert_array_equal(net.run(given)["y"], X * 2)
        np.testing.assert_array_equal(net.run(X, native=True)["y"], X * 2)


def test_several_inputs_need_names() -> None:
    graph = chain("Scale")
    graph.add_tensor(Tensor("z", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE))
    with session(graph) as net, pytest.raises(BackendError) as caught:
        net.run(X)
    assert (caught.value.code, caught.value.exit_code) == ("INPUT_INVALID", 3)
    assert "got ndarray" in caught.value.message
    assert caught.value.hint == "the inputs are x, z"


@pytest.mark.parametrize("given", [[[1, 2, 3], [4]], object()])
def test_what_is_no_array_is_refused(given: object) -> None:
    with session(chain("Scale")) as net, pytest.raises(BackendError) as caught:
        net.run({"x": given})
    assert caught.value.code in ("INPUT_INVALID", "GRAPH_ERROR_INVALID_TENSOR")
    assert "'x'" in str(caught.value)


@pytest.mark.parametrize("given", [None, 5, [None], b"net.dvt", []])
def test_a_session_is_of_models_or_paths(given: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        dovetail.Session(given)
    assert (caught.value.code, caught.value.exit_code) == ("USAGE", 2)
    assert caught.value.hint


@pytest.mark.parametrize("call", [dovetail.load, dovetail.load_model, dovetail.convert])
def test_a_path_is_a_path(call: Any) -> None:
    with pytest.raises(ConfigError, match="argument 'path' cannot be None\nhint: pass a path"):
        call(None)


@pytest.mark.parametrize("act", [pickle.dumps, copy.copy, copy.deepcopy])
def test_sessions_and_handles_are_neither_pickled_nor_copied(act: Any) -> None:
    with session(chain("Scale")) as net:
        for each in (net, net.backend, net.graphs["net"]):
            with pytest.raises(BackendError, match="cannot be pickled or copied") as caught:
                act(each)
            assert caught.value.hint


def test_a_session_writes_a_profile_log(tmp_path: Path) -> None:
    path = tmp_path / "session.log"
    level = ProfileLevel.DETAILED
    with session(chain("Scale", "Scale"), profile_log=path, profile_level=level) as net:
        net.run(X)
        own = net.backend.create_profile()
        net.run(X, profile=own)
        assert len(own.events) == 1
    net.close()
    (section,) = read_profile_log(path)
    assert [record.call for record in section.records] == [2, 1]
    nodes = section.records[1].event.children
    assert [node.identifier for node in nodes] == ["n0", "n1"]
    counters = {c.name: (c.value, c.unit) for c in nodes[0].counters}
    # 6 floats are read, and as many are written
    assert counters == {"work": (0, EventUnit.COUNT), "bytes_moved": (48, EventUnit.BYTES)}


@pytest.mark.parametrize(
    ("graph", "runs"),
    [
        ({}, 4),
        ({"graph_profiling_num_executions": 2}, 2),
        ({"graph_profiling_start_delay": 0}, 4),
        ({"graph_profiling_start_delay": 1000}, 0),
        ({"graph_profiling_start_delay": 1e-9, "graph_profiling_num_executions": 2}, 2),
    ],
)
def test_a_config_limits_the_profiled_runs(
    tmp_path: Path, graph: dict[str, float], runs: int
) -> None:
    path = tmp_path / "net.log"
    config = {"graph": [{"graph_name": "net", **graph}]}
    with session(chain("Scale"), config=config, profile_log=path) as net:
        own = net.backend.create_profile()
        for _ in range(4):
            net.run({"x": X})
        net.run({"x": X}, profile=own)
        assert len(own.events) == 1  # a run with a profile of its own is profiled in any case
    (section,) = read_profile_log(path)
    assert [record.call for record in section.records] == [2] + [1] * runs


def test_a_config_limits_the_events_of_each_graph(tmp_path: Path) -> None:
    path = tmp_path / "net.log"
    graphs = chain("Scale", name="one"), chain("Scale", name="two")
    config = {"profile": {"num_max_events": 3}}
    with session(*graphs, config=config, profile_log=path) as net:
        for _ in range(4):
            net.run({"x": X}, graph="one")
        net.run({"x": X}, graph="two")
    (section,) = read_profile_log(path)
    assert [(record.graph, record.call) for record in section.records] == [
        ("one", 2),
        ("two", 2),
        ("one", 1),
        ("one", 1),
        ("two", 1),
    ]


def test_a_session_does_not_write_over_another_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(ContainerError, match="not a profile log"):
        session(chain("Scale"), profile_log=path)
    assert path.read_text() == "mine"
