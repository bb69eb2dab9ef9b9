"""Whole networks on `auto`: on `cpu`, another `cpu` and the HTP emulator; reports of the tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networks
import numpy as np
import onnx
import pytest
from picky_cpu import picky_installed

import dovetail as dt
from dovetail.cli import main
from dovetail.ops import check_ops
from dovetail.runtime import Backend
from dovetail.runtime.choice.backend import AutoBackend
from dovetail.runtime.contract import Image, PrepareRequest, RunControl
from dovetail.runtime.placement import Choice
from dovetail.testing.preparing import open_context

# Long enough that a busy machine does not make one run look much slower than the other backend's.
QUICK = {"trial_seconds": 0.1}


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The backend `picky`, installed, and a cache folder of the test."""
    monkeypatch.setenv("DOVETAIL_CACHE", str(tmp_path / "cache"))
    with picky_installed(tmp_path, monkeypatch):
        yield


@pytest.fixture
def model() -> dt.Model:
    onnx.save(networks.unet(), "net.onnx")
    return dt.convert("net.onnx")


def inputs_of(session: dt.Session) -> dict[str, Any]:
    (graph,) = session.graphs.values()
    rng = np.random.default_rng(0)
    return {t.name: rng.random(t.shape, np.float32) for t in graph.inputs}


def choice_of(session: dt.Session) -> Choice:
    (graph,) = session.graphs.values()
    assert graph.placement is not None
    assert graph.placement.choice is not None
    return graph.placement.choice


def excluded(choice: Choice) -> dict[str, str]:
    return {each.backend: each.excluded for each in choice.candidates if each.excluded}


def test_the_chosen_backend_returns_its_results(model: dt.Model) -> None:
    options = QUICK | {"members": {"picky": {"engine": "numpy"}}}
    with dt.Session(model, "auto:picky,cpu", options=options) as session:
        choice, inputs = choice_of(session), inputs_of(session)
        found = session.run(inputs)
    times = {each.backend: each.ms for each in choice.candidates}
    assert times.keys() == {"picky", "cpu"}
    assert times[choice.backend] == min(t for t in times.values() if t is not None)
    own = {"engine": "numpy"} if choice.backend == "picky" else {}
    with dt.Session(model, choice.backend, options=own) as session:
        for name, array in session.run(inputs).items():
            np.testing.assert_array_equal(found[name], array)


def test_a_quantized_network_may_run_on_the_emulator(model: dt.Model) -> None:
    with dt.Session(model) as session:
        samples = [inputs_of(session)]
    quantized = dt.quantize(model, samples)
    # by the rules alone: a trial stops the emulator where it is much slower
    with dt.Session(quantized, "auto:htp,cpu", options={"measure": False}) as session:
        choice, found = choice_of(session), session.run(samples[0])
    assert [each.backend for each in choice.candidates] == ["htp", "cpu"]
    assert (choice.backend, excluded(choice)) == ("htp", {})
    with dt.Session(quantized, "htp") as session:
        for name, array in session.run(samples[0]).items():
            np.testing.assert_array_equal(found[name], array)


def test_a_float_network_never_does_silently(model: dt.Model) -> None:
    with dt.Session(model, "auto:htp,cpu", options=QUICK) as session:
        assert choice_of(session).backend == "cpu"
        assert "rounding of float32 values is float16" in excluded(choice_of(session))["htp"]
    with Backend.create("auto") as backend:  # emulators must be named
        assert isinstance(backend.plugin, AutoBackend)
        names = {member.name for member in backend.plugin.members}
    assert {"cpu", "picky"} <= names
    assert not names & {"htp", "saver", "hetero", "auto"}


def test_an_op_that_one_backend_lacks(model: dt.Model) -> None:
    options = QUICK | {"members": {"picky": {"refuse": ["PoolMax2d"]}}}
    with dt.Session(model, "auto:picky,cpu", options=options) as session:
        choice, inputs = choice_of(session), inputs_of(session)
        found = session.run(inputs)
    assert {each.backend for each in choice.candidates} == {"hetero:picky,cpu", "cpu"}
    with dt.Session(model) as session:
        for name, array in session.run(inputs).items():  # seams end fusions
            assert np.abs(found[name] - array).max() <= 1e-4 * np.abs(array).max()


def test_an_image_is_restored_without_a_trial(
    model: dt.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = QUICK | {"members": {"picky": {"engine": "numpy"}}}
    with Backend.create("auto:picky,cpu", options) as backend:
        (graph,) = model.graphs.values()
        checked = check_ops(graph, backend.ops)
        context = open_context(backend.plugin)
        made = context.prepare(checked, PrepareRequest(backend.plugin.configs.graph()))
        data = context.image({graph.name: made}).to_bytes()
        rng = np.random.default_rng(0)
        inputs = {t.name: rng.random(t.shape, np.float32) for t in graph.inputs}

        def run(prepared: Any) -> dict[str, Any]:
            outputs = {t.name: np.empty(t.shape, np.float32) for t in graph.outputs}
            prepared.run(inputs, outputs, RunControl())
            return outputs

        monkeypatch.delattr("dovetail.runtime.choice.choosing.find_plans")
        again = open_context(backend.plugin)
        found = again.restore(Image.from_bytes(data), None, lambda _: PrepareRequest())
        restored = found[graph.name].prepared
        for name, array in run(made).items():
            np.testing.assert_array_equal(run(restored)[name], array)
        assert restored.placement is not None
        assert restored.placement.choice is not None
        assert restored.placement.choice.reason == "chosen when the image was created"
        made.close()
        restored.close()
        context.close()
        again.close()


def test_net_run_prints_the_choice(model: dt.Model, capsys: pytest.CaptureFixture[str]) -> None:
    model.save("net.dvt")
    (graph,) = model.graphs.values()
    (given,) = graph.inputs
    np.zeros(given.shape, "<f4").tofile("zeros.raw")
    Path("list.txt").write_text(f"{given.name}:=zeros.raw\n")
    Path("net.toml").write_text("[auto]\ntrial_seconds = 0.1\n")

    def net_run(*options: str, backend: str = "auto:picky,cpu") -> int:
        command = ["net-run", "--model", "net.dvt", "--input-list", "list.txt"]
        return main([*options, *command, "--config-file", "net.toml", "--backend", backend])

    assert net_run("--json") == 0
    (run,) = json.loads(capsys.readouterr().out)["graphs"]
    choice = run["placement"]["choice"]
    assert choice["backend"] in ("picky", "cpu")
    assert [each["backend"] for each in choice["candidates"]] == ["picky", "cpu"]
    assert net_run("--log-level=error") == 0
    shown = capsys.readouterr().err
    assert f"  auto: {choice['backend']}, the fastest of 2 measured (decided before" in shown
    assert "  candidate picky: " in shown
    assert net_run("--log-level=error", backend="auto:htp") == 1
    assert "the rules of `auto` exclude all candidates" in capsys.readouterr().err
    assert net_run("--log-level=error", backend="auto:pikcy") == 6
    assert "did you mean 'picky'?" in capsys.readouterr().err


def test_doctor_lists_the_candidates(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    shown = capsys.readouterr().out
    (line,) = [each for each in shown.splitlines() if "candidates: " in each]
    assert "cpu" in line
    assert "htp" not in line
