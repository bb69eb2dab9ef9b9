"""The SDK's JSON as users have it: its keys, what they do here, and its faults."""

import json
from pathlib import Path

import numpy as np
import pytest

import dovetail
from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.errors import ConfigError
from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail.runtime.config_file import config_from, load_config
from dovetail_htp.configs import keys_and_effects
from dovetail_opset.build import add

# Key and value of every key of the file, with the shape of a user's file.
EVERY_KEY = {
    "graphs": [
        {
            "graph_names": ["net"],
            "vtcm_mb": 8,
            "vtcm_size": 0,
            "hvx_threads": 4,
            "O": 3.0,
            "dlbc": 1,
            "dlbc_weights": 0,
            "fp16_relaxed_precision": 1,
            "weights_packing": False,
            "num_cores": 1,
            "short_depth_conv_on_hmx_off": False,
            "fold_relu_activation_into_conv_off": False,
            "advanced_activation_fusion": True,
            "use_high_precision_fp16_sigmoid": False,
            "monolithic_lstm": False,
            "finalize_config": {"P": 1},
        }
    ],
    "devices": [
        {
            "device_id": 0,
            "soc_id": 57,
            "soc_model": 57,
            "dsp_arch": "v75",
            "vtcm_mb": 4,
            "pd_session": "unsigned",
            "profiling_level": "linting",
            "use_client_context": False,
            "core_id": [0],
            "core_type": 0,
            "cores": [
                {
                    "core_id": 0,
                    "perf_profile": "burst",
                    "rpc_control_latency": 100,
                    "rpc_polling_time": 9999,
                    "hmx_timeout_us": 300000,
                    "adaptive_polling_time": 0,
                }
            ],
        }
    ],
    "context": {
        "weight_sharing_enabled": True,
        "max_spill_fill_buffer_for_group": 1,
        "group_id": 0,
        "file_read_memory_budget_in_mb": 10,
        "io_memory_estimation": True,
        "extended_udma": False,
        "init_acceleration": False,
        "concurrent_deserialization_patch": "patch",
        "lora_weight_sharing": False,
        "lora_weight_sharing_ram_preload": False,
        "reused_io_limit_mb": 0,
        "skip_validation_on_binary_section": False,
        "detachable_buffers_enabled": False,
    },
    "groupContext": {"share_resources": False, "reused_io_limit_mb": 0},
    "memory": {"mem_type": "shared_buffer"},
}
TUTORIAL = {
    "htp_config": {
        "device_id": 0,
        "performance_mode": "high_performance",
        "precision_mode": "int8",
        "vtcm_mb": 8,
        "enable_dma": True,
    },
    "gpu_config": {"device_id": 0, "precision_mode": "fp16", "enable_transform_optimization": True},
    "cpu_config": {"num_threads": 4, "performance_mode": "balanced", "enable_fast_math": True},
}


def model() -> Model:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE))
    y = Tensor("y", DType.FLOAT_32, (2, 3), TensorKind.APP_READ)
    add(graph, "Relu", [x], name="relu", outputs=y)
    return Model({"net": graph}, Producer("test", "1"), {})


@pytest.fixture(name="write")
def fixture_write(tmp_path):
    """Return a function that writes an inner file and an outer one, and returns its path."""

    def write(inner: object, outer: dict[str, object] | None = None) -> Path:
        (tmp_path / "htp.json").write_text(json.dumps(inner))
        extensions = {
            "shared_library_path": "libQnnHtpNetRunExtensions.so",
            "config_file_path": "htp.json",
        }
        path = tmp_path / "outer.json"
        path.write_text(json.dumps({"backend_extensions": extensions, **(outer or {})}))
        return path

    return write


def paths(data: object, prefix: str = "") -> set[str]:
    """Return the paths of the leaves of nested data, as the table writes them."""
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return paths(data[0], f"{prefix.removesuffix('.')}[].")
    if not isinstance(data, dict) or prefix.endswith("finalize_config."):
        return {prefix.removesuffix(".")}
    return {path for key, value in data.items() for path in paths(value, f"{prefix}{key}.")}


def test_the_table_has_every_key() -> None:
    given = paths(EVERY_KEY) | paths({"htp_config": TUTORIAL["htp_config"]})
    others = {"devices[].cores", "devices[].htp_arch", "gpu_config", "cpu_config"}
    assert {key for key, _ in keys_and_effects()} == given | others


@pytest.mark.parametrize("backend", ["htp", "hetero:htp,dsp", "libQnnHtpV75Stub.so"])
def test_every_key_is_accepted_and_listed_once_if_it_has_no_effect(
    write, caplog: pytest.LogCaptureFixture, backend: str
) -> None:
    x = np.float32([[-1, 0, 1], [2, -3, 4]])
    with dovetail.Session(model(), backend, config=write(EVERY_KEY)) as net:
        np.testing.assert_array_equal(net.run({"x": x})["y"], np.maximum(x, 0))
    (record,) = [r for r in caplog.records if "no effect here" in r.message]
    listed = record.message.partition("no effect here: ")[2].replace("[0]", "[]").split(", ")
    without = {key for key, stated in keys_and_effects() if not stated}
    cores = {key for key in without if key.startswith("devices[].cores[].")}
    assert set(listed) == (without & paths(EVERY_KEY)) - cores | {"devices[].cores"}


def test_older_forms_mean_the_same(write) -> None:
    new = load_config(write(EVERY_KEY), "htp")
    old = {**EVERY_KEY, "graphs": EVERY_KEY["graphs"][0], "context": [EVERY_KEY["context"]]}
    assert load_config(write(old), "htp") == new
    assert new.graph_config("net").optimization == 3


def test_both_files_have_settings_of_a_graph(write) -> None:
    outer = {
        "graph_configs": [{"graph_name": "net", "graph_priority": "low"}],
        "context_configs": {"context_priority": "high"},
    }
    config = load_config(write(EVERY_KEY, outer), "htp")
    (settings,) = config.graphs
    assert (settings.config.graph_priority, settings.config.vtcm_mb) == ("low", 8)
    assert config.context.context_priority == "high"
    assert config.context.weight_sharing_enabled is True
    assert config.device.soc_model == 57


def test_a_member_of_a_placement_has_its_settings(write) -> None:
    config = load_config(write(EVERY_KEY), "hetero:htp,dsp")
    assert config.device.members["htp"]["soc_model"] == 57
    assert config.graph_config("net").members["htp"]["vtcm_mb"] == 8


def test_the_tutorials_file(write, caplog: pytest.LogCaptureFixture) -> None:
    outer = write(TUTORIAL)
    for path in (outer, outer.with_name("htp.json")):
        assert load_config(path, "htp").device.vtcm_mb == 8
    assert "htp_config.enable_dma, gpu_config, cpu_config" in caplog.text


def test_every_fault_is_listed(write, tmp_path: Path) -> None:
    wrong = {
        "graphs": [{"O": 2.5, "vtcm_mb": "8"}, {"graph_names": ["net"], "hvx_thread": 4}],
        "devices": {"soc_modl": 57, "cores": [{"perf_profile": "bursts"}]},
        "contxt": {},
    }
    with pytest.raises(ConfigError) as caught:
        load_config(write(wrong), "htp")
    file = f"{tmp_path / 'htp.json'}: $."
    assert {p.where.removeprefix(file) for p in caught.value.problems} == {
        "contxt",
        "devices.soc_modl",
        "devices.cores[0].perf_profile",
        "graphs[0].O",
        "graphs[0].vtcm_mb",
        "graphs[1].hvx_thread",
        "graphs[0]",
    }
    assert "did you mean 'burst'?" in str(caught.value)


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ({"graphs": [{"graph_names": ["nett"], "vtcm_mb": 8}]}, "graph 'nett' not found"),
        ({"graphs": [{"vtcm_mb": 8}]}, "settings of no graph"),
        ({"graphs": [{"graph_names": ["net"]}, {"graph_names": ["net"]}]}, "duplicate settings"),
        ({"devices": [{"soc_model": 57, "dsp_arch": "v73"}]}, "v73 contradicts v75"),
        ({"devices": [{"soc_model": 21}]}, "use the backend 'dsp'"),
    ],
)
def test_settings_that_fit_nothing(write, inner, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        dovetail.Session(model(), "htp", config=write(inner))
    assert text in str(caught.value)


def test_devices_after_the_first_have_no_effect(write, caplog: pytest.LogCaptureFixture) -> None:
    devices = [{"soc_model": 57}, {"soc_model": 43}, {"device_id": 2}]
    config = load_config(write({"devices": devices, "context": [{}, {}]}), "htp")
    assert config.device.soc_model == 57
    (record,) = caplog.records
    assert record.message.endswith("devices[2].device_id, devices[1], devices[2], context[1]")


def test_a_wrong_key_of_its_own_file_is_named_as_there(write) -> None:
    """Without the outer file, too."""
    path = write({"devices": [{"soc_model": 57}], "context": {}, "graph": {"vtcm_mb": 4}})
    for each in (path, path.with_name("htp.json")):
        with pytest.raises(ConfigError) as caught:
            load_config(each, "htp")
        assert "htp.json: unknown keys" in str(caught.value)
        assert "$.graph: unknown key (did you mean 'graphs'?)" in str(caught.value)


def test_the_faults_of_members_are_listed() -> None:
    members = {"htp": {"soc_modl": 57}}
    wrong = {
        "device": {"members": members},
        "graph": [{"graph_name": "net", "members": {"dsp": {"vtcm_mb": "8"}}}],
    }
    with pytest.raises(ConfigError) as caught:
        config_from(wrong, "hetero:htp,dsp", "run.toml")
    assert [p.where for p in caught.value.problems] == [
        "$.device.members.htp.soc_modl",
        "$.graph[0].members.dsp.vtcm_mb",
    ]


def test_toml_has_the_same_keys(caplog: pytest.LogCaptureFixture) -> None:
    data = {
        "device": {"soc_model": "SM8650", "pd_session": "signed"},
        "context": {"io_memory_estimation": True},
        "graph": [{"graph_name": "net", "vtcm_mb": 4, "O": 3}],
    }
    config = config_from(data, "htp:v75", "run.toml")
    settings = config.graph_config("net")
    assert (settings.vtcm_mb, settings.optimization) == (4, 3)
    assert "device.pd_session, context.io_memory_estimation, graph[0].O" in caplog.text


@pytest.mark.parametrize(
    ("backend", "fails"),
    [("htp:v68", True), ("htp:v69", True), ("htp:v73", False), ("htp:v79", False), ("dsp", True)],
)
def test_weight_sharing_begins_with_v73(backend: str, fails: bool) -> None:
    with runtime.Backend.create(backend) as handle:
        config = {"weight_sharing_enabled": True}
        if not fails:
            handle.create_context(config=config)
            return
        with pytest.raises(ConfigError, match="no weight sharing, which begins with v73") as caught:
            handle.create_context(config=config)
        assert caught.value.where == "context.weight_sharing_enabled"
        handle.create_context(config={"weight_sharing_enabled": False})


def test_a_key_that_is_given_twice_is_an_error(write) -> None:
    path = write({})
    path.with_name("htp.json").write_text('{"devices": {"soc_model": 57, "soc_model": 43}}')
    with pytest.raises(ConfigError, match="duplicate keys in one object: 'soc_model'"):
        load_config(path, "htp")


def test_a_file_without_an_end_is_an_error(write) -> None:
    path = write({}, {"backend_extensions": {"config_file_path": "/dev/zero"}})
    with pytest.raises(ConfigError, match="cannot read the config file: more than 16777216 bytes"):
        load_config(path, "htp")
