"""Sessions of a model file that is converted for the shapes and values of each run's inputs."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from reference_backend import ENTERED, GATE, OPS, ReferenceBackend, chain

import dovetail
from dovetail.container import Model, Producer
from dovetail.errors import BackendError, ConfigError, FrontendError
from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail.ops import OpRegistry
from dovetail.ops.frontend import FrontendOptions, InputsNeededError
from dovetail.runtime import ProfileLevel

X = np.arange(6, dtype=np.float32).reshape(2, 3)

pytestmark = pytest.mark.usefixtures("reference_installed")


class Doubler:
    """y is x doubled as often as the value of 'times' says; where that is 0, it waits first."""

    name = "toy"
    options_type = FrontendOptions

    def __init__(self) -> None:
        self.asks_for: tuple[str, ...] = ("times",)
        self.is_deaf = False  # to the values that it is given
        self.keeps_input = False  # though its value is given
        self.reads: list[FrontendOptions] = []

    def read(self, path: Path, options: FrontendOptions, ops: OpRegistry) -> list[Graph]:
        self.reads.append(options)
        known = set() if self.is_deaf else options.input_values.keys()
        if missing := tuple(n for n in self.asks_for if n not in known):
            raise InputsNeededError("it depends", missing, hint=f"specialize={missing}")
        times = int(options.input_values["times"]) if "times" in self.asks_for else 1
        graph = chain(*["Scale"] * times or ["Wait"])
        for tensor in graph.tensors.values():
            tensor.shape = options.input_dims.get("x", tensor.shape)
        if self.keeps_input:
            graph.add_tensor(Tensor("times", DType.INT_64, (), TensorKind.APP_WRITE))
        return [graph]


@pytest.fixture
def frontend(monkeypatch: pytest.MonkeyPatch) -> Doubler:
    """Let conversions use a frontend as if it were installed, without passes."""
    made = Doubler()
    monkeypatch.setattr("dovetail.api.conversion.find_frontend", lambda *_: made)
    monkeypatch.setattr("dovetail.api.conversion.pipeline_passes", lambda *_, **__: ())
    monkeypatch.setattr("dovetail.api.conversion.hash_source", lambda path: "0" * 64)
    return made


def session(*names: str, **options: object) -> dovetail.Session:
    given = {"ops": OPS, "specialize": names or ("times", "x")} | options
    return dovetail.Session("net.toy", "reference", **given)  # type: ignore[arg-type]


def run(net: dovetail.Session, times: int, x: np.ndarray = X) -> np.ndarray:
    return net.run({"x": x, "times": times})["y"]


def test_each_set_of_shapes_and_values_is_converted_once(frontend: Doubler) -> None:
    wide = np.ones((1, 5, 2), np.float32)
    with session() as net:
        assert net.graphs == {}
        assert net.constant_inputs == ()
        for _ in range(2):
            np.testing.assert_array_equal(run(net, 1), X * 2)
            np.testing.assert_array_equal(run(net, 3), X * 8)
            np.testing.assert_array_equal(run(net, 1, wide), wide * 2)
        assert net.constant_inputs == ("times",)
    # the first try knows no values; an input whose value is given needs no shape
    assert [set(o.input_values) for o in frontend.reads] == [set(), *[{"times"}] * 3]
    assert [o.input_dims for o in frontend.reads] == [
        {"times": (), "x": (2, 3)},
        {"x": (2, 3)},
        {"x": (2, 3)},
        {"x": (1, 5, 2)},
    ]


def test_shapes_alone(frontend: Doubler) -> None:
    frontend.asks_for = ()
    with session("x") as net:
        for shape in ((2, 3), (4,), (), (0, 2), (4,)):
            x = np.ones(shape, np.float32)
            np.testing.assert_array_equal(net.run({"x": x})["y"], x * 2)
        assert net.constant_inputs == ()
    assert len(frontend.reads) == 4


def test_the_shape_of_an_input_without_specialize_is_the_model_s(frontend: Doubler) -> None:
    with session("times") as net:
        np.testing.assert_array_equal(run(net, 2), X * 4)
        with pytest.raises(BackendError, match="shape"):
            run(net, 2, X[:1])
        with pytest.raises(BackendError, match="'z'"):
            net.run({"x": X, "times": 2, "z": X})


def test_values_differ_by_type_and_content(frontend: Doubler) -> None:
    with session() as net:
        for times in (2, np.int32(2), np.float64(2.0), 2):
            np.testing.assert_array_equal(run(net, times), X * 4)  # type: ignore[arg-type]
    assert len(frontend.reads) == 1 + 3


def test_what_was_used_longest_ago_is_freed(frontend: Doubler) -> None:
    with session(max_specializations=2) as net:
        run(net, 1)
        (first,) = net.graphs.values()
        run(net, 2)
        run(net, 1)
        (again,) = net.graphs.values()
        assert again is first
        run(net, 3)  # 2 goes
        run(net, 1)
        assert len(net.backend.contexts) == 2
        assert not first.is_freed
        count = len(frontend.reads)
        run(net, 2)
        assert len(frontend.reads) == count + 1
    assert first.is_freed


def test_what_is_in_use_is_freed_afterwards(frontend: Doubler) -> None:
    with session(max_specializations=1) as net:
        with net.specialized({"x": X, "times": 2}) as graph:
            run(net, 3)
            assert graph.context in net.backend.contexts
            np.testing.assert_array_equal(graph.execute({"x": X})["y"], X * 4)
        assert graph.is_freed
        assert len(net.backend.contexts) == 1


def test_a_run_is_not_held_up_by_another_that_is_freed(frontend: Doubler) -> None:
    GATE.clear()
    ENTERED.clear()
    with session(max_specializations=1) as net:
        waiting = threading.Thread(target=run, args=(net, 0))
        waiting.start()
        try:
            assert ENTERED.wait(20)
            np.testing.assert_array_equal(run(net, 1), X * 2)  # the other is evicted
            assert len(net.backend.contexts) == 2
        finally:
            GATE.set()
            waiting.join(20)
        assert len(net.backend.contexts) == 1


def test_threads_convert_once(frontend: Doubler) -> None:
    with session() as net:
        run(net, 1)
        threads = [threading.Thread(target=run, args=(net, 5)) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(20)
        assert len(frontend.reads) == 3
        assert len(net.backend.contexts) == 2


def test_native_profiles_graphs_and_configs(frontend: Doubler) -> None:
    config = {"graph": [{"graph_name": "net", "graph_priority": "high"}]}
    with session(config=config) as net:
        profile = net.backend.create_profile(ProfileLevel.BASIC)
        out = net.run({"x": X, "times": 2}, native=True, graph="net", profile=profile)
        np.testing.assert_array_equal(out["y"], X * 4)
        assert {event.identifier for event in profile.events} == {"net"}
        assert net.graphs["net"].priority.name == "HIGH"
        with pytest.raises(BackendError) as caught:
            net.run({"x": X, "times": 2}, graph="nett")
        assert "did you mean 'net'?" in caught.value.hint
    with pytest.raises(ConfigError, match="graph 'other' not found"):
        session(config={"graph": [{"graph_name": "other"}]})


def test_a_plain_session_gives_its_graph_too(frontend: Doubler) -> None:
    model = Model.of(chain("Scale"), producer=Producer("test", "1"), registry=OPS)
    with dovetail.Session(model, "reference", ops=OPS) as net, net.specialized({}) as graph:
        assert graph is net.graphs["net"]
        assert net.constant_inputs == ()


def test_a_closed_session_says_so_before_it_converts(frontend: Doubler) -> None:
    net = session()
    assert repr(net) == "<Session on reference: no graph yet>"
    net.close()
    with pytest.raises(BackendError, match="the session was closed"):
        run(net, 1)
    assert frontend.reads == []


def test_inputs_that_are_missing_or_no_numbers(frontend: Doubler) -> None:
    with session("tmies", "x") as net, pytest.raises(BackendError) as caught:
        run(net, 1)
    (problem,) = caught.value.problems
    assert str(problem) == "missing input 'tmies' (did you mean 'times'?)"
    with session() as net, pytest.raises(BackendError) as caught:
        net.run({})
    assert str(caught.value.problems[0]).startswith("missing input")
    assert not any(each.hint for each in caught.value.problems)  # there is no name to suggest
    with session() as net, pytest.raises(BackendError, match=r"not arrays of numbers: times"):
        net.run({"x": X, "times": object()})
    assert frontend.reads == []


def test_unknown_inputs_are_rejected_before_the_first_run(
    frontend: Doubler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Doubler, "input_names", lambda self, path: ("times", "x"), raising=False)
    with pytest.raises(ConfigError, match="`specialize` names unknown inputs") as caught:
        session("tmies", "x", "y")
    assert caught.value.code == "USAGE"
    first, second = map(str, caught.value.problems)
    assert first == "input 'tmies' not found in the model (did you mean 'times'?)"
    assert second.startswith("input 'y' not found in the model")
    with session() as net:
        np.testing.assert_array_equal(run(net, 1), X * 2)


def test_what_else_must_be_known_is_said(frontend: Doubler) -> None:
    frontend.asks_for = ("times", "axes")
    with session() as net, pytest.raises(InputsNeededError) as caught:
        run(net, 1)
    assert caught.value.inputs == ("times", "axes")
    assert caught.value.code == "MODEL_VALUES_UNKNOWN"


def test_a_conversion_that_fails_leaves_nothing_and_is_tried_again(
    frontend: Doubler, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session() as net:
        with monkeypatch.context() as patch:
            patch.setattr(ReferenceBackend, "prepare", lambda *_: 1 / 0)
            with pytest.raises(BackendError, match="prepare"):
                run(net, 1)
        assert net.backend.contexts == []
        assert net.graphs == {}
        np.testing.assert_array_equal(run(net, 1), X * 2)


def test_a_frontend_that_makes_nothing_of_values(frontend: Doubler) -> None:
    frontend.keeps_input = True
    with session() as net, pytest.raises(FrontendError, match="inputs into constants: times"):
        run(net, 1)
    frontend.is_deaf = True
    with session() as net, pytest.raises(InputsNeededError):  # not asked for ever
        run(net, 1)


def test_what_cannot_be_specialized(frontend: Doubler, tmp_path: Path) -> None:
    model = Model.of(chain("Scale"), producer=Producer("test", "1"), registry=OPS)
    model.save(tmp_path / "net.dvt")
    for given in (model, [model], tmp_path / "net.dvt"):
        with pytest.raises(ConfigError, match="are static"):
            dovetail.Session(given, "reference", ops=OPS, specialize=["x"])
    with pytest.raises(ConfigError, match="requires one model, got 2"):
        dovetail.Session(["a.toy", "b.toy"], "reference", ops=OPS, specialize=["x"])
    with pytest.raises(ConfigError, match="duplicate names in `specialize`: x"):
        session("x", "x")
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        session(max_specializations=0)
    for wrong in ("3", 2.0, None, True):
        with pytest.raises(ConfigError, match="'max_specializations' cannot be "):
            session(max_specializations=wrong)


def test_a_file_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(FrontendError) as caught:
        dovetail.Session(tmp_path / "net.toy", "reference", ops=OPS, specialize="x")
    assert caught.value.code == "FILE_UNREADABLE"
