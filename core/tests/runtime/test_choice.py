"""The backend `auto` on backends of these tests: rules, trials, failures, images, the kit."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partial_backends import EVENTS
from racing_backends import RUNS
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
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime import Backend, SignalKind, contract
from dovetail.runtime.choice.trial import paired_medians
from dovetail.runtime.config_file import config_from
from dovetail.runtime.names import backend_name, members_of, split_arch
from dovetail.testing import Bench, Status
from dovetail.testing.bench import compose
from dovetail.testing.checks import CHECKS, Check, run_check

OPS = OpRegistry.of(PACKAGE)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
SLOW, FASTER = {"delay_ms": 15}, {"delay_ms": 1}
Options = Mapping[str, Any]


@pytest.fixture(autouse=True)
def installed(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three backends, and a cache folder of the test."""
    names = {n: f"racing_backends:{n.title()}Backend" for n in ("first", "second", "foreign")}
    site.dist("racing-dist", {"dovetail.backends": names})
    monkeypatch.setenv("DOVETAIL_PLUGINS", "racing-dist,dovetail-core")
    monkeypatch.setenv("DOVETAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("reference_backend.GATE.wait", lambda _: True)
    monkeypatch.setattr("reference_backend.Scale.work", lambda *_: 6)
    EVENTS.clear()
    RUNS.clear()


def options(
    first: Options | None = None, second: Options | None = None, **others: Any
) -> dict[str, Any]:
    members = {"first": first or {}, "second": second or {}}
    return {"members": members, "trial_seconds": 0.05, **others}


def finalized(backend: Backend, *ops: str, config: Options | None = None) -> Any:
    handle = compose(backend.create_context(), chain(*(ops or ("Scale",))))
    if config:
        handle.set_config(config)
    handle.finalize()
    return handle


def chosen(given: Options, *ops: str, name: str = "auto") -> Any:
    """Return the choice for a chain on the backend `auto` with these options."""
    with Backend.create(name, given, OPS) as backend:
        graph = finalized(backend, *ops)
        count = 2 ** sum(op == "Scale" for op in ops or ("Scale",))
        np.testing.assert_array_equal(graph.execute({"x": X})["y"], X * count)
        return graph.placement.choice


def excluded(choice: Any) -> dict[str, str]:
    return {each.backend: each.excluded for each in choice.candidates if each.excluded}


# -- the trial -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["auto", "auto:first,second", "auto:second,first"])
@pytest.mark.parametrize(
    ("given", "fast"), [(options(SLOW, FASTER), "second"), (options(FASTER, SLOW), "first")]
)
def test_the_slower_candidate_is_never_chosen(order: str, given: Options, fast: str) -> None:
    choice = chosen(given, name=order)
    assert choice.backend == fast
    assert choice.reason == "the fastest of 2 measured"
    times = {each.backend: each.ms for each in choice.candidates}
    assert times.keys() == {"first", "second"}
    assert min(times.values()) == times[fast] >= 1
    assert {"first", "second"} <= set(RUNS)


def test_the_others_are_freed_after_the_trial() -> None:
    with Backend.create("auto", options(SLOW, FASTER), OPS) as backend:
        graph = finalized(backend)
        assert EVENTS == ["first closed net", "first closed a context"]
        RUNS.clear()
        graph.execute({"x": X})
        assert RUNS == ["second"]
    assert EVENTS[2:] == [
        "second closed net", "second closed a context", "first closed", "second closed"
    ]  # fmt: skip


def test_a_graph_with_a_state_is_prepared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reference_backend.Scale.is_pure", False)
    with Backend.create("auto", options(SLOW, FASTER), OPS) as backend:
        graph = finalized(backend)
        assert EVENTS == ["first closed net", "second closed net", "first closed a context"]
        assert graph.placement.choice.backend == "second"
        np.testing.assert_array_equal(graph.execute({"x": X})["y"], X * 2)


def test_the_report_states_the_choice() -> None:
    with Backend.create("auto", options(SLOW, FASTER), OPS) as backend:
        placement = finalized(backend).placement
        first, second, third, *_, last = placement.lines()
    assert first == "auto: second, the fastest of 2 measured"
    assert second.startswith("candidate first: ")
    assert second.endswith(" ms per inference")
    assert third.startswith("candidate second: ")
    assert last == "second: 1 node (100.0%), 6 MACs (100.0%), 1 part"
    data = placement.data()
    assert data["choice"]["backend"] == "second"
    assert [each["backend"] for each in data["choice"]["candidates"]] == ["first", "second"]


def test_the_log_has_the_choice(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "dovetail.auto"):
        chosen(options(SLOW, FASTER))
    assert "graph 'net': auto: second, the fastest of 2 measured" in caplog.text


def test_a_first_run_that_takes_too_long_is_stopped() -> None:
    choice = chosen(options({}, {"delay_ms": 10_000}), name="auto:first,second")
    assert choice.backend == "first"
    assert excluded(choice)["second"].startswith("the first run took more than ")


@pytest.mark.parametrize("speed", [SLOW, {"delay_ms": 60_000}])
def test_a_signal_ends_the_trial(speed: Options) -> None:
    with Backend.create("auto", options(speed, speed, trial_seconds=30), OPS) as backend:
        handle = compose(backend.create_context(), chain("Scale"))
        signal = backend.create_signal(SignalKind.TIMEOUT, 200_000)
        with pytest.raises(BackendError) as caught:
            handle.finalize(signal=signal)
        assert caught.value.code == "GRAPH_ERROR_TIMED_OUT"
        assert sorted(EVENTS) == [
            "first closed a context", "first closed net",
            "second closed a context", "second closed net",
        ]  # fmt: skip
        assert not handle.is_finalized


# -- rules -----------------------------------------------------------------------------------------


def test_only_native_backends_are_candidates_without_a_name() -> None:
    choice = chosen(options(SLOW, FASTER, measure=False))
    assert {each.backend for each in choice.candidates} == {"first", "second"}
    choice = chosen({"measure": False}, name="auto:foreign")
    assert choice.backend == "foreign"


@pytest.mark.parametrize(
    ("rounds_to", "precision", "is_allowed"),
    [
        ("float16", "float32", False),
        ("float16", "float16", True),
        ("float16", "any", True),
        ("integer", "float16", False),
        ("integer", "any", True),
        ("float32", "float32", True),
    ],
)
def test_precision(rounds_to: str, precision: str, is_allowed: bool) -> None:
    given = options(SLOW, {**FASTER, "rounds_to": rounds_to}, precision=precision)
    choice = chosen(given)
    assert choice.backend == ("second" if is_allowed else "first")
    if not is_allowed:
        assert f"rounding of float32 values is {rounds_to}" in excluded(choice)["second"]
        assert choice.reason == "the only candidate that is left"
        assert set(RUNS[:-1]) <= {"first"}


def test_rules_that_exclude_all_are_a_failed_check() -> None:
    narrow = {"rounds_to": "float16"}
    with Backend.create("auto", options(narrow, narrow), OPS) as backend:
        with pytest.raises(BackendError) as caught:
            finalized(backend)
        assert (caught.value.code, caught.value.exit_code) == ("CHOICE_CHECK_FAILED", 1)
        assert [p.where for p in caught.value.problems] == ["candidate first", "candidate second"]
        assert str(caught.value).count("rounding of float32 values is float16") == 2


def test_without_a_measurement_the_rules_decide() -> None:
    given = options(SLOW, {"delay_ms": 1, "efficiency": 0.1}, measure=False)
    assert chosen(given).backend == "first"  # the more efficient one comes first
    assert chosen(given, name="auto:second,first").backend == "second"
    assert chosen(given | {"power": "saving"}, name="auto:second,first").backend == "first"
    assert RUNS == ["first", "second", "first"]  # the runs of the test itself


def test_a_tensor_that_is_too_large_excludes_a_candidate() -> None:
    choice = chosen(options(SLOW, {"max_tensor_bytes": 23}))
    assert choice.backend == "first"
    assert "size: tensor 'x' is 24 bytes; allowed: at most 23 bytes" in excluded(choice)["second"]


def test_a_graph_that_none_supports_alone_runs_in_parts() -> None:
    given = options({**SLOW, "refuse": ["Wait"]}, {**SLOW, "refuse": ["Scale"]})
    choice = chosen(given, "Scale", "Wait", "Scale")
    assert choice.backend in ("hetero:first,second", "hetero:second,first")


def test_a_candidate_that_runs_most_of_a_graph_is_tried_with_others() -> None:
    given = options({"refuse": ["Wait"]}, {"delay_ms": 8})
    choice = chosen(given, "Scale", "Scale", "Scale", "Wait")
    assert {each.backend for each in choice.candidates} == {"hetero:first,second", "second"}
    choice = chosen(given | {"min_fraction": 0.9}, "Scale", "Scale", "Scale", "Wait")
    assert choice.backend == "second"
    assert "would run 75%; `min_fraction` is 90%" in excluded(choice)["hetero:first,second"]


def test_pinned_and_forbidden() -> None:
    given = options(SLOW, FASTER, pin={"n1": "first"}, min_fraction=0)
    choice = chosen(given, "Scale", "Scale")
    assert {each.backend for each in choice.candidates} == {"first", "hetero:second,first"}
    choice = chosen(options(SLOW, FASTER, order=["first", "second"], forbid=["second"]))
    assert choice.backend == "first"
    assert "forbidden backend 'second'" in excluded(choice)["second"]


def test_nodes_that_no_candidate_supports() -> None:
    given = options({"refuse": ["Wait"]}, {"refuse": ["Wait"]})
    with Backend.create("auto", given, OPS) as backend:
        with pytest.raises(UnsupportedOpError, match="Wait node 'n0'") as caught:
            finalized(backend, "Wait")
        assert caught.value.exit_code == 4


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"fail": True}, "cannot be started: OSError: no license"),
        ({"records_only": True}, "records calls and computes nothing"),
        ({"fails_to_prepare": True}, "OSError: out of device memory"),
        ({"fails_to_run": True}, "a run failed: the device is lost"),
    ],
)
def test_a_candidate_that_fails_is_reported_and_skipped(fault: Options, reason: str) -> None:
    choice = chosen(options(SLOW, fault))
    assert choice.backend == "first"
    assert reason in excluded(choice)["second"]


def test_a_plugin_that_cannot_be_imported_is_reported_and_skipped(site: Any) -> None:
    site.dist("broken-dist", {"dovetail.backends": {"broken": "nowhere:Backend"}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOVETAIL_PLUGINS", "racing-dist,dovetail-core,broken-dist")
        choice = chosen(options(SLOW, FASTER))
        with Backend.create("auto", ops=OPS) as backend:
            notes = backend.get_platform_info().notes
    assert choice.backend == "second"
    assert "nowhere" in excluded(choice)["broken"]
    assert notes[0] == "candidates: first, second"
    assert notes[1].startswith("broken cannot be used: ")


def test_if_none_is_left_every_reason_is_listed() -> None:
    fault = {"fails_to_prepare": True}
    with Backend.create("auto", options(fault, fault), OPS) as backend:
        with pytest.raises(BackendError) as caught:
            finalized(backend)
        assert caught.value.code == "GRAPH_ERROR_FINALIZE_FAILED"
        assert caught.value.exit_code == 7
        assert str(caught.value).count("out of device memory") == 2
    with (
        Backend.create("auto", options({"fail": True}, {"fail": True}), OPS) as backend,
        pytest.raises(PluginError, match="no candidate of 'auto' can be used") as lost,
    ):
        backend.create_context()
    assert (lost.value.code, lost.value.exit_code) == ("PLUGIN_MISSING", 6)
    assert str(lost.value).count("no license") == 2


def test_if_none_runs_on_the_generated_inputs_the_rules_decide() -> None:
    fault = {"fails_to_run": True}
    with Backend.create("auto", options(fault, fault), OPS) as backend:
        choice = finalized(backend).placement.choice
    assert choice.backend == "first"
    assert "no candidate ran on the generated inputs" in choice.reason


@pytest.mark.parametrize(
    ("name", "given", "error", "parts"),
    [
        ("auto:", {}, ConfigError, ["order: no backend in the order"]),
        ("auto:first,first", {}, ConfigError, ["duplicate backend 'first'"]),
        ("auto:auto", {}, ConfigError, ["'auto' cannot be a member of another backend"]),
        ("hetero:auto,first", {}, ConfigError, ["'auto' cannot be a member of another backend"]),
        ("auto:frist", {}, PluginError, ["'frist' is not installed", "did you mean 'first'?"]),
        ("auto", {"precision": "int8"}, ConfigError, ["$.precision", "float32"]),
        ("auto", {"trial_seconds": 0}, ConfigError, ["$.trial_seconds"]),
        ("auto", {"powr": "saving"}, ConfigError, ["did you mean 'power'?"]),
        ("auto", {"members": {"first": {"delay": 1}}}, ConfigError, ["$.delay: unknown key"]),
    ],
)
def test_wrong_options(name: str, given: Any, error: type[DovetailError], parts: Any) -> None:
    with pytest.raises(error) as caught:
        Backend.create(name, given, OPS)
    for part in parts:
        assert part in str(caught.value)
    assert EVENTS == []


# -- names and config files ------------------------------------------------------------------------


def test_names() -> None:
    assert backend_name("auto:libQnnCpu.so,libQnnHtpV73Stub.so") == "auto:cpu,htp:v73"
    assert members_of("auto:cpu,htp:v73") == ("cpu", "htp")
    assert members_of("auto") is None
    assert split_arch("auto:cpu") == ("auto", None)


def test_a_config_file(caplog: pytest.LogCaptureFixture) -> None:
    data = {
        "auto": {"power": "saving", "trial_seconds": 0.05},
        "backend": {"first": {"delay_ms": 20}, "second": {"delay_ms": 1, "efficiency": 0.1}},
    }
    model = Model.of(chain("Scale"), producer=Producer("test", "1"), registry=OPS)
    with Session(model, "auto", data, ops=OPS) as session:
        assert session.graphs["net"].placement.choice.backend == "second"
    data["backend"]["first"]["delay_ms"] = 2
    with Session(model, "auto:second,first", data, ops=OPS) as session:
        assert session.graphs["net"].placement.choice.backend == "first"
    config_from({"auto": {}}, "first", "run.toml")
    assert "run.toml: [auto] is not used by 'first', but by the backend auto" in caplog.text
    with pytest.raises(ConfigError) as caught:
        config_from({"auto": {"members": {}}, "backend": {"auto": {}}}, "auto", "run.toml")
    assert "$.auto.members: unknown key" in str(caught.value)
    assert "the options of backend 'auto' are in [auto]" in str(caught.value)


# -- images ----------------------------------------------------------------------------------------


def image_of(given: Options, name: str, *ops: str) -> tuple[bytes, Any]:
    with Backend.create(name, given, OPS) as backend:
        graph = finalized(backend, *ops)
        return backend.contexts[0].plugin.image(
            {"net": graph._prepared}
        ).to_bytes(), graph.placement


def restored(data: bytes, given: Options, name: str, *ops: str) -> Any:
    with Backend.create(name, given, OPS) as backend:
        context = backend.create_context()
        (graph,) = context.compose(
            Model.of(chain(*ops), producer=Producer("test", "1"), registry=OPS)
        )
        checked = check_ops(graph.ir, OPS)
        found = context.plugin.restore(
            contract.Image.from_bytes(data),
            lambda _: checked,
            lambda _: contract.PrepareRequest(backend.plugin.configs.graph()),
        )
        out = {"y": np.empty_like(X)}
        found["net"].prepared.run({"x": X}, out, contract.RunControl())
        placement = found["net"].prepared.placement
        found["net"].prepared.close()
        return out["y"], placement


def test_an_image_has_the_chosen_backend() -> None:
    data, placement = image_of(options(SLOW, FASTER), "auto", "Scale")
    RUNS.clear()
    EVENTS.clear()
    y, again = restored(data, options(SLOW, FASTER), "auto", "Scale")
    np.testing.assert_array_equal(y, X * 2)
    assert list(again.lines()) == [
        "auto: second, chosen when the image was created",
        *[line for line in placement.lines() if line.startswith("second:")],
    ]
    assert "second restored net" in EVENTS
    assert RUNS == []  # no trial; the kit's prepared graph does not count runs
    # another candidate may be missing or other now
    restored(data, {"members": {"second": FASTER}}, "auto:second", "Scale")
    restored(data, options({"fail": True}, FASTER), "auto:first,second", "Scale")
    with pytest.raises(ContainerError, match="second"):
        restored(data, {}, "auto:first", "Scale")
    with pytest.raises(ContainerError, match="delay"):
        restored(data, options(SLOW, SLOW), "auto", "Scale")


LACKING = {
    "opaque_ops",
    "overlapped_runs_end_before_their_context",
    "graphs_are_restored_without_their_model",
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_it_meets_the_requirements_on_backends(check: Check) -> None:
    bench = Bench("auto:first,second", options(FASTER, {}))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DOVETAIL_PLUGINS")
        result = run_check(bench, check)
    wanted = Status.UNSUPPORTED if check.name in LACKING else Status.PASSED
    assert result.status is wanted, result.reason


def test_paired_medians_cancel_changes_of_the_load() -> None:
    # the second is 10 % slower in each round, and the load triples after its third
    load = [1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0]
    first, second = [2.0 * x for x in load], [2.2 * x for x in load]
    found = paired_medians({"first": first, "second": second, "slow": [4.0 * x for x in load[:3]]})
    assert found == pytest.approx({"first": 6.0, "second": 6.6, "slow": 12.0})
    assert paired_medians({}) == {}
