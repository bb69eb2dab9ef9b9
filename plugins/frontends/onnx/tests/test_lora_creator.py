"""lora-model-creator: branches that compute what merged weights do, on ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import forked
import numpy as np
import onnx
import pytest
from lora_models import CONFIG, attention, convolutions, merged, write_adapter, write_flow
from onnx import numpy_helper
from runtime import peer_session

from dovetail.adapters import read_safetensors, write_safetensors
from dovetail.errors import ConfigError, FrontendError
from dovetail_onnx.lora.creator import create_model

MODELS = {"attention": (attention, ("attn.q", "mlp")), "convolutions": (convolutions, ("first",))}
ALL = {"attention": ("attn.q", "attn.v", "mlp"), "convolutions": ("first", "second")}


def flow(folder: Path, case: str) -> tuple[Any, dict[str, Any]]:
    """Write two adapters: of rank 4 for all modules, and of rank 2 for some of them."""
    make, some = MODELS[case]
    write_flow(folder, make(), CONFIG)
    adapters = {
        "english": write_adapter(folder / "english", ALL[case], 4, 5),
        "formal": write_adapter(folder / "formal", some, 2, 6),
    }
    return make(), adapters


def run(model: Any, x: Any) -> Any:
    return peer_session(model).run(None, {"x": x})[0]


def with_weights(path: Path, weights: Path) -> Any:
    model = onnx.load(path)
    arrays = dict(read_safetensors(weights).arrays)
    for tensor in model.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(arrays.pop(tensor.name), tensor.name))
    assert not arrays
    return model


@pytest.mark.parametrize("case", MODELS)
def test_each_use_case_computes_what_merged_weights_do(tmp_path: Path, case: str) -> None:
    base, adapters = flow(tmp_path, case)
    made = create_model(tmp_path / "lora.yaml", tmp_path / "out")
    out = tmp_path / "out"
    x = (
        np.random.default_rng(7)
        .standard_normal([d.dim_value for d in base.graph.input[0].type.tensor_type.shape.dim])
        .astype(np.float32)
    )
    english = {m: [(a, b, 8 / 4)] for m, (a, b) in adapters["english"].items()}
    both = {m: list(parts) for m, parts in english.items()}
    for module, (a, b) in adapters["formal"].items():
        both[module].append((a, b, 8 / 2))
    cases = {"original": {}, "english": english, "formal_english": both}
    for name, changes in cases.items():
        found = run(with_weights(made.model, out / f"{name}.safetensors"), x)
        expected = run(merged(base, changes), x)
        # the products are summed in another order, and merged weights are rounded once more
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5, err_msg=name)
    assert not np.allclose(run(merged(base, english), x), run(base, x), atol=0.1)
    # without weights of a use case it is the base model, bit for bit but for the added zeros
    np.testing.assert_allclose(run(onnx.load(made.model), x), run(base, x), rtol=1e-6, atol=1e-6)
    assert len(made.ranks) == len(ALL[case])
    assert max(made.ranks.values()) == 6


def test_smaller_ranks_are_filled_with_zeros(tmp_path: Path) -> None:
    _, adapters = flow(tmp_path, "attention")
    create_model(tmp_path / "lora.yaml", tmp_path / "out")
    arrays = read_safetensors(tmp_path / "out" / "english.safetensors").arrays
    a, b = (arrays[f"/attn/q/MatMul.lora_{part}.weight"] for part in "AB")
    assert (a.shape, b.shape) == ((16, 6), (6, 16))
    np.testing.assert_array_equal(a[:, :4], adapters["english"]["attn.q"][0].T)
    np.testing.assert_array_equal(b[:4], 2 * adapters["english"]["attn.q"][1].T)
    assert not a[:, 4:].any()
    assert not b[4:].any()


def test_the_files_name_each_other(tmp_path: Path) -> None:
    flow(tmp_path, "attention")
    command = "dovetail --json lora_model_creator --lora_config lora.yaml --output_dir out"
    done = forked.run(f"{command} --initial-use-case english", tmp_path)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["ranks"] == {"/attn/q/MatMul": 6, "/attn/v/MatMul": 4, "/mlp/Gemm": 6}
    listed = (tmp_path / data["weight_list"]).read_text().split("\n")
    names = {tensor.name for tensor in onnx.load(tmp_path / data["model"]).graph.initializer}
    assert set(filter(None, listed)) < names
    text = (tmp_path / data["config"]).read_text()
    assert "lora_weights: formal_english.safetensors" in text
    model = onnx.load(tmp_path / data["model"])
    arrays = read_safetensors(tmp_path / "out" / "english.safetensors").arrays
    for tensor in model.graph.initializer:
        if tensor.name in arrays:
            np.testing.assert_array_equal(numpy_helper.to_array(tensor), arrays[tensor.name])


def test_external_data_are_copied(tmp_path: Path) -> None:
    base, _ = flow(tmp_path, "attention")
    x = np.ones((8, 16), np.float32)
    expected = run(base, x)
    onnx.save_model(
        base, tmp_path / "base.onnx", save_as_external_data=True, location="w", size_threshold=0
    )
    made = create_model(tmp_path / "lora.yaml", tmp_path / "out")
    assert (tmp_path / "out" / "base.data").is_file()
    found = peer_session(made.model).run(None, {"x": x})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_a_mapping_names_the_nodes(tmp_path: Path) -> None:
    base, _ = flow(tmp_path, "attention")
    for node in base.graph.node:
        node.name = ""
    onnx.save(base, tmp_path / "base.onnx")
    with pytest.raises(FrontendError, match="do not match the model") as caught:
        create_model(tmp_path / "lora.yaml", tmp_path / "out")
    assert "0 nodes have its name" in str(caught.value.problems[0])
    mapping = {"attn.q": ["q"], "attn.v": "v", "mlp": ["m"]}
    (tmp_path / "map.json").write_text(json.dumps(mapping))
    with (tmp_path / "lora.yaml").open("a") as file:
        file.write("attach_point_onnx_mapping: map.json\n")
    made = create_model(tmp_path / "lora.yaml", tmp_path / "out")
    assert list(made.ranks) == ["q", "v", "m"]
    (tmp_path / "map.json").write_text(json.dumps({"attn.q": ["qq"], "attn.v": ["s"]}))
    with pytest.raises(FrontendError) as caught:
        create_model(tmp_path / "lora.yaml", tmp_path / "new")
    told = " ".join(map(str, caught.value.problems))
    assert "node 'qq' not found" in told
    assert "the weight of 's' is not an initializer" in told
    assert "'mlp': not in the mapping" in told
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"use_dora": True}, "unsupported: use_dora"),
        ({"peft_type": "IA3"}, "unsupported: peft_type IA3"),
        ({"modules_to_save": ["mlp"], "bias": "all"}, "unsupported: modules_to_save"),
        ({"r": 0}, "expected a positive rank"),
        ({"lora_alpha": "much"}, "Expected `float`"),
    ],
)
def test_extensions_of_lora_are_rejected(tmp_path: Path, config: Any, message: str) -> None:
    write_flow(tmp_path, attention(), CONFIG)
    write_adapter(tmp_path / "english", ["attn.q"], 4, 5, **config)
    write_adapter(tmp_path / "formal", ["attn.q"], 2, 6)
    with pytest.raises(ConfigError) as caught:
        create_model(tmp_path / "lora.yaml", tmp_path / "out")
    assert message in " ".join([caught.value.message, *map(str, caught.value.problems)])


def test_factors_follow_the_config(tmp_path: Path) -> None:
    write_flow(tmp_path, attention(), CONFIG)
    write_adapter(tmp_path / "formal", ["attn.q"], 2, 6)
    options = {"use_rslora": True, "alpha_pattern": {"q": 3}, "rank_pattern": {"attn.q": 4}}
    parts = write_adapter(tmp_path / "english", ["attn.q", "mlp"], 4, 5, **options)
    create_model(tmp_path / "lora.yaml", tmp_path / "out")
    arrays = read_safetensors(tmp_path / "out" / "english.safetensors").arrays
    for stem, module, factor in (("/attn/q/MatMul", "attn.q", 3 / 2), ("/mlp/Gemm", "mlp", 8 / 2)):
        b = arrays[f"{stem}.lora_B.weight"][:4]
        np.testing.assert_allclose(b, factor * parts[module][1].T, rtol=1e-6)


def test_weights_that_do_not_fit_are_listed(tmp_path: Path) -> None:
    write_flow(tmp_path, attention(), CONFIG)
    write_adapter(tmp_path / "formal", ["attn.q"], 2, 6)
    write_adapter(tmp_path / "english", ["attn.q"], 4, 5)
    ones = np.ones((4, 16), np.float32)
    path = tmp_path / "english" / "adapter_model.safetensors"
    write_safetensors(path, {"a.lora_A.weight": ones, "b.lora_C": ones, "c.lora_A": ones[0]})
    with pytest.raises(FrontendError, match="is not a LoRA adapter") as caught:
        create_model(tmp_path / "lora.yaml", tmp_path / "out")
    told = " ".join(map(str, caught.value.problems))
    assert "missing lora_B" in told
    assert "b.lora_C" in told
    write_safetensors(path, {"mlp.lora_A": ones, "mlp.lora_B": np.ones((9, 4), np.float32)})
    with pytest.raises(FrontendError, match="do not match the model") as caught:
        create_model(tmp_path / "lora.yaml", tmp_path / "out")
    assert "expected (4, 16) and (16, 4)" in str(caught.value.problems[0])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("adapter: []\nuse-case: [{name: a, adapter_names: [b]}]", "adapter 'b' not found"),
        ("adapter: []\nuse-case: [{name: a}, {name: a}]", "use case 'a' occurs 2 times"),
        ("adapter: []\nuse-case: []", "expected at least one use case"),
        ("adapter: []\nuse-case: [{name: a}]", "no base model"),
        ("adapter: []\nuse-case: [{name: a, model_name: base.onnx}]", "no use case has an adapter"),
        ("adapters: []\nuse-case: []", "did you mean 'adapter'"),
    ],
)
def test_faults_of_the_config(tmp_path: Path, config: str, message: str) -> None:
    write_flow(tmp_path, attention(), config)
    with pytest.raises((ConfigError, FrontendError)) as caught:
        create_model(tmp_path / "lora.yaml", tmp_path / "out")
    told = [caught.value.message, caught.value.hint, *map(str, caught.value.problems)]
    assert message in " ".join(told)
    assert not (tmp_path / "out").exists()
