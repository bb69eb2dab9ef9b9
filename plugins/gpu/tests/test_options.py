"""Options and settings of graphs: in our form, in the SDK's, and what they do."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from small_nets import chain, expected, model_of, some

import dovetail as dt
from dovetail.errors import ConfigError
from dovetail.runtime import Backend
from dovetail.runtime.config_file import load_config
from dovetail.runtime.contract import FloatPrecision
from dovetail_gpu import GpuBackend, GpuOptions
from dovetail_gpu.driver import devices
from dovetail_gpu.options import GpuGraph, PerfHint, PrecisionMode

TOLERANCE = {"fp32": 1e-6, "hybrid": 2e-3, "fp16": 2e-3}  # half precision has 11 bits


def settings(**keys: object) -> dict[str, object]:
    return {"graph": [{"graph_name": "chain", **keys}]}


def steps_of(session: dt.Session) -> list[tuple[str, ...]]:
    (graph,) = session.graphs.values()
    found = []

    class Watch:
        def step_finished(self, nodes: tuple[str, ...], *_: object) -> None:
            found.append(nodes)

    graph.execute({"x": some()}, watch=Watch())
    return found


def test_devices_are_chosen_by_number_and_by_name() -> None:
    (first, *_) = devices()
    for name in ("0", first.name[:6].upper(), first.platform[-4:]):
        with dt.Session(
            model_of(chain()), backend="gpu", config={"backend": {"gpu": {"device": name}}}
        ) as session:
            assert session.backend.get_platform_info().devices[0].name == str(first)


def test_nodes_are_fused_unless_that_is_disabled() -> None:
    with dt.Session(model_of(chain()), backend="gpu") as session:
        assert len(steps_of(session)) == 1
    config = settings(disable_node_optimizations=True)
    with dt.Session(model_of(chain()), backend="gpu", config=config) as session:
        assert steps_of(session) == [("moved",), ("gate",), ("product",), ("y",)]
        np.testing.assert_allclose(session.run({"x": some()})["y"], expected(some()), 1e-5, 1e-6)


def test_tensors_share_memory_unless_that_is_disabled() -> None:
    sizes = {}
    for alone in (False, True):
        config = settings(disable_memory_optimizations=alone, disable_node_optimizations=True)
        with dt.Session(model_of(chain((64, 64))), backend="gpu", config=config) as session:
            (graph,) = session.graphs.values()
            arena = graph._prepared.arena
            (sizes[alone],) = (size for space, size in arena.sizes.items() if space is not None)
            x = some((64, 64))
            np.testing.assert_allclose(session.run({"x": x})["y"], expected(x), 1e-5, 1e-6)
    one = 64 * 64 * 4
    assert sizes[True] == 5 * one  # of x and each result
    assert sizes[False] <= 3 * one


@pytest.mark.parametrize("mode", TOLERANCE)
def test_real_numbers_have_the_precision_of_the_graph(mode: str) -> None:
    with dt.Session(model_of(chain()), backend="gpu", config=settings(precision_mode=mode)) as s:
        found = s.run({"x": some()})["y"]
    error = np.abs(found - expected(some())).max()
    assert error <= TOLERANCE[mode]
    assert bool(error > 1e-5) is (mode != "fp32")


def test_the_sdks_file_has_options_and_settings_of_graphs(tmp_path: Path) -> None:
    own = {
        "graph_names": ["chain"],
        "precision_mode": "fp16",
        "disable_memory_optimizations": True,
        "disable_node_optimizations": True,
        "disable_queue_recording": True,
        "kernel_repo_path": str(tmp_path / "kernels"),
        "perf_hint": "low",
    }
    (tmp_path / "gpu.json").write_text(json.dumps(own))
    outer = {
        "backend_extensions": {
            "shared_library_path": "libQnnGpuNetRunExtensions.so",
            "config_file_path": "gpu.json",
        }
    }
    (tmp_path / "outer.json").write_text(json.dumps(outer))
    for name in ("outer.json", "gpu.json"):
        found = load_config(tmp_path / name, "gpu")
        assert msgspec.convert(found.options, GpuOptions) == GpuOptions(
            None, str(tmp_path / "kernels"), PerfHint.LOW
        )
        assert found.graph_config("chain") == GpuGraph(
            precision_mode=PrecisionMode.FP16,
            disable_memory_optimizations=True,
            disable_node_optimizations=True,
            disable_queue_recording=True,
        )


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"precision_mode": "fp16"}, "settings of no graph"),
        ({"disable_node_optimizations": True}, "settings of no graph"),
        ({"graph_names": ["a"], "precision_mode": "fp8"}, "fp8"),
        ({"perf_hint": "burst"}, "burst"),
        ({"precision": "fp16"}, "unknown key"),
    ],
)
def test_a_wrong_file_is_an_error(own: dict[str, object], reason: str, tmp_path: Path) -> None:
    (tmp_path / "gpu.json").write_text(json.dumps(own))
    outer = {"backend_extensions": {"config_file_path": "gpu.json"}}
    (tmp_path / "outer.json").write_text(json.dumps(outer))
    with pytest.raises(ConfigError, match=reason):
        load_config(tmp_path / "outer.json", "gpu")


def test_programs_and_tuning_are_kept_in_the_folder_that_is_given(tmp_path: Path) -> None:
    config = {"backend": {"gpu": {"kernel_repo_path": str(tmp_path / "repo")}}}
    compiled = []
    for _ in range(2):
        with dt.Session(model_of(chain()), backend="gpu", config=config) as session:
            session.run({"x": some()})
            compiled.append(session.backend.plugin.opencl.programs.compiled)
    assert compiled == [1, 0]
    assert [path.suffix for path in (tmp_path / "repo").iterdir()] == [".bin"]


@pytest.mark.parametrize("variable", ["PYOPENCL_BUILD_OPTIONS", "POCL_EXTRA_BUILD_FLAGS"])
def test_programs_with_other_options_of_the_compiler_are_other_programs(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others add these: a slow program, or one that computes otherwise, must not outlive them."""
    config = {"backend": {"gpu": {"kernel_repo_path": str(tmp_path)}}}
    compiled = []
    for options in ("-D UNUSED=1", ""):  # nothing else: PoCL may read its variable only once
        monkeypatch.setenv(variable, options)
        with dt.Session(model_of(chain()), backend="gpu", config=config) as session:
            compiled.append(session.backend.plugin.opencl.programs.compiled)
    assert compiled == [1, 1]


@pytest.mark.parametrize("name", ["file", "file/below", "nul\0", "long" * 2000])
def test_a_folder_that_cannot_be_created_is_an_error_of_the_option(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot be created") as caught:
        Backend.create("gpu", {"kernel_repo_path": str(tmp_path / name)})
    assert caught.value.where.endswith("kernel_repo_path")


def test_no_name_is_not_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="the name is empty"):
        Backend.create("gpu", {"kernel_repo_path": ""})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", PrecisionMode)
def test_half_precision_is_stated(mode: PrecisionMode) -> None:
    """`auto` relies on it: a float32 model must not be rounded without being asked for."""
    with Backend.create("gpu") as backend:
        assert isinstance(backend.plugin, GpuBackend)
        found = backend.plugin.float_precision(GpuGraph(precision_mode=mode))
    is_half = mode in (PrecisionMode.FP16, PrecisionMode.HYBRID)
    assert found is (FloatPrecision.FLOAT16 if is_half else FloatPrecision.FLOAT32)


def test_the_device_limits_tensors() -> None:
    with Backend.create("gpu") as backend:
        assert isinstance(backend.plugin, GpuBackend)
        assert backend.capabilities.max_tensor_bytes == backend.plugin.opencl.device.max_bytes
        assert backend.plugin.is_native is not backend.plugin.opencl.device.is_cpu
