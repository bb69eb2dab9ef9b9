"""lora-importer: weights of use cases in the layouts of a converted model, checked against it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import forked
import numpy as np
import onnx
import pytest
from lora_models import CONFIG, attention, convolutions, write_adapter, write_flow

import dovetail as dt
from dovetail.adapters import read_adapter, read_adapter_config, read_safetensors, write_safetensors
from dovetail.errors import ConfigError, FrontendError
from dovetail_onnx import OnnxOptions
from dovetail_onnx.lora.creator import create_model
from dovetail_onnx.lora.importer import import_adapters

MODULES = {"attention": ("attn.q", "mlp"), "convolutions": ("first", "second")}


@pytest.fixture(params=["attention", "convolutions"])
def flow(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Create a model with branches in `made`, and convert it to base.dvt."""
    case = request.param
    write_flow(tmp_path, attention() if case == "attention" else convolutions(), CONFIG)
    write_adapter(tmp_path / "english", MODULES[case], 4, 5)
    write_adapter(tmp_path / "formal", MODULES[case][:1], 2, 6)
    made = create_model(tmp_path / "lora.yaml", tmp_path / "made")
    names = tuple(made.weight_list.read_text().split())
    dt.convert(made.model, OnnxOptions(updateable=names)).save(tmp_path / "base.dvt")
    return tmp_path


def run_import(flow: Path, config: str = "made/lora_importer_config.yaml") -> Any:
    return import_adapters(
        flow / "base.dvt", flow / "made" / "base.onnx", flow / config, flow / "out"
    )


def test_weights_get_the_layouts_of_the_graph(flow: Path) -> None:
    made = run_import(flow)
    assert made.notes == ()
    graph = dt.load(flow / "base.dvt").graphs["base"]
    config = read_adapter_config(made.config)
    assert config.names == ("original", "english", "formal english")
    for name in config.names:
        (use,) = config.uses(name, "")
        assert (use.graph, use.encodings, use.weights_only) == ("base", None, False)
        adapter = read_adapter(use)
        source = read_safetensors(flow / "made" / f"{name.replace(' ', '_')}.safetensors").arrays
        assert adapter.in_graph_layout
        assert adapter.scaled == {n for n in source if "lora_B" in n}
        assert adapter.arrays.keys() == source.keys()
        for tensor in graph.tensors.values():
            if tensor.kind.is_updateable:
                values = source[tensor.source]
                perm = tensor.source_perm
                values = values if perm is None else values.transpose(perm)
                np.testing.assert_array_equal(adapter.arrays[tensor.name], values)


def test_the_command_takes_the_sdks_spelling(flow: Path) -> None:
    done = forked.run(
        "dovetail --json lora_importer --input_network made/base.onnx --input_dlc base.dvt "
        "--lora_config made/lora_importer_config.yaml --output_dir out",
        flow,
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["use_cases"].keys() == {"original", "english", "formal english"}
    assert (flow / data["config"]).is_file()


def test_the_original_comes_from_the_model(flow: Path) -> None:
    (flow / "c.json").write_text(json.dumps({"use_case": [{"name": "original"}]}))
    run_import(flow, "c.json")
    arrays = read_safetensors(flow / "out" / "original.safetensors").arrays
    for tensor in dt.load(flow / "base.dvt").graphs["base"].tensors.values():
        if tensor.kind.is_updateable:
            np.testing.assert_array_equal(arrays[tensor.name], tensor.values())


def test_an_original_that_differs_is_an_error(flow: Path) -> None:
    case = {"name": "original", "lora_weights": "made/english.safetensors"}
    (flow / "c.json").write_text(json.dumps({"use_case": [case]}))
    with pytest.raises(FrontendError, match="does not reproduce the base model") as caught:
        run_import(flow, "c.json")
    assert len(caught.value.problems) == 4
    assert not (flow / "out").exists()


def test_names_and_shapes_are_checked(flow: Path) -> None:
    path = flow / "made" / "english.safetensors"
    arrays = dict(read_safetensors(path).arrays)
    first, second, *_ = sorted(arrays)
    arrays[first + "x"] = arrays.pop(first).copy()
    arrays[second] = np.zeros((3, 3), np.float32)
    write_safetensors(path, {name: values.copy() for name, values in arrays.items()})
    with pytest.raises(FrontendError, match="do not match the ONNX model") as caught:
        run_import(flow)
    told = " ".join(map(str, caught.value.problems))
    assert f"did you mean '{first}'" in told
    assert "expected shape" in told
    assert not (flow / "out").exists()


def test_a_missing_weight_is_an_error(flow: Path) -> None:
    path = flow / "made" / "english.safetensors"
    arrays = dict(read_safetensors(path).arrays)
    arrays.pop(sorted(arrays)[0])
    write_safetensors(path, {name: values.copy() for name, values in arrays.items()})
    with pytest.raises(FrontendError) as caught:
        run_import(flow)
    assert "missing: all updateable tensors" in str(caught.value.problems[0])


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"name": "a"}, "missing lora_weights"),
        ({"name": "a", "lora_weights": "w", "graph": "bass"}, "graph 'bass' not found"),
        ({"name": "original", "output_path": "../other"}, "leads outside"),
        ({"name": "original", "output": "a"}, "unknown key"),
    ],
)
def test_faults_of_the_config(flow: Path, case: Any, message: str) -> None:
    (flow / "c.json").write_text(json.dumps({"use_case": [case]}))
    with pytest.raises(ConfigError) as caught:
        run_import(flow, "c.json")
    assert message in " ".join([caught.value.message, *map(str, caught.value.problems)])
    assert not (flow / "out").exists()


def test_a_model_without_updateable_weights_is_an_error(flow: Path) -> None:
    dt.convert(flow / "made" / "base.onnx").save(flow / "base.dvt")
    with pytest.raises(FrontendError, match="no updateable weights") as caught:
        run_import(flow)
    assert "--lora-weight-list" in caught.value.hint


def test_another_source_is_noted(flow: Path) -> None:
    model = onnx.load(flow / "made" / "base.onnx")
    model.doc_string = "changed"
    onnx.save(model, flow / "made" / "base.onnx")
    assert "converted from another file" in run_import(flow).notes[0]
