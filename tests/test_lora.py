"""LoRA adapters from end to end: converted, quantized, imported, applied on backends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked
import numpy as np
import onnx
import pytest
from lora_models import CONFIG, attention, convolutions, merged, write_adapter, write_flow
from opencl_driver import require_opencl
from runtime import peer_session
from updateable_cases import CASES, RNG

import dovetail as dt
from dovetail.adapters import write_safetensors
from dovetail.errors import ConfigError, FrontendError, QuantizationError
from dovetail.ir import TensorKind, copy_graph
from dovetail_onnx import OnnxOptions
from dovetail_onnx.lora.creator import create_model
from dovetail_onnx.lora.importer import import_adapters

MODULES = {"attention": ("attn.q", "attn.v", "mlp"), "convolutions": ("first", "second")}
MAKE = {"attention": attention, "convolutions": convolutions}
SHAPES = {"attention": (8, 16), "convolutions": (1, 3, 8, 8)}
CONFIGS = "adapters/lora_output_files.yaml"
MERGED = {"attention": ("wq", "wv", "wo", "bo"), "convolutions": ("w1", "b1", "w2")}


class Flow:
    """A base model with two adapters of ranks 4 and 2."""

    def __init__(self, folder: Path, case: str) -> None:
        self.folder, self.case = folder, case
        self.base = MAKE[case]()
        write_flow(folder, self.base, CONFIG)
        english = write_adapter(folder / "english", MODULES[case], 4, 5)
        formal = write_adapter(folder / "formal", MODULES[case][:1], 2, 6)
        both = {m: [(a, b, 2.0)] for m, (a, b) in english.items()}
        self.changes = {"original": {}, "english": dict(both)}
        for module, (a, b) in formal.items():
            both[module] = [*both[module], (a, b, 4.0)]
        self.changes["formal english"] = both
        self.made = create_model(folder / "lora.yaml", folder / "made")
        rng = np.random.default_rng(8)
        self.samples = [rng.standard_normal(SHAPES[case]).astype(np.float32) for _ in range(3)]

    def converted(self, mode: str, network: Path | None = None) -> Any:
        names = tuple(self.made.weight_list.read_text().split())
        source = self.made.model if network is None else network
        return dt.convert(source, OnnxOptions(updateable=names), quant_updatable_mode=mode)

    def imported(self, model: Any, config: str = "made/lora_importer_config.yaml") -> Any:
        model.save(self.folder / "base.dvt")
        return import_adapters(
            self.folder / "base.dvt",
            self.made.model,
            self.folder / config,
            self.folder / "adapters",
        )

    def expected(self, name: str, x: Any) -> Any:
        return peer_session(merged(self.base, self.changes[name])).run(None, {"x": x})[0]


@pytest.fixture(params=MODULES)
def flow(tmp_path: Path, request: pytest.FixtureRequest) -> Flow:
    return Flow(tmp_path, request.param)


@pytest.fixture(params=["cpu", "gpu", "hetero:gpu,cpu"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    if "gpu" in request.param:
        require_opencl()
    return request.param


def test_adapters_equal_merged_weights(flow: Flow, backend: str) -> None:
    made = flow.imported(flow.converted("none"))
    assert made.notes == ()
    (x, *_) = flow.samples
    with dt.Session(flow.folder / "base.dvt", backend) as session:
        for name in ("english", "formal english", "original", "english"):
            applied = session.apply_adapter(flow.folder / CONFIGS, name)
            assert applied.name == name
            assert len(applied.tensors["base"]) == 2 * len(MODULES[flow.case])
            # the products are summed in another order, in merged weights rounded once more
            np.testing.assert_allclose(
                session.run({"x": x})["y"], flow.expected(name, x), rtol=1e-4, atol=5e-5
            )
        session.remove_adapter()
        np.testing.assert_allclose(
            session.run({"x": x})["y"], flow.expected("original", x), rtol=1e-4, atol=5e-5
        )


def test_adapters_are_known_by_name_and_scaled(flow: Flow) -> None:
    flow.imported(flow.converted("none"))
    (x, *_) = flow.samples
    with dt.Session(flow.folder / "base.dvt") as session:
        session.apply_adapter(flow.folder / CONFIGS, "original")
        session.apply_adapter("english", scale=0.25)
        changes = flow.changes["english"]
        weaker = {m: [(a, b, 0.25 * f) for a, b, f in parts] for m, parts in changes.items()}
        expected = peer_session(merged(flow.base, weaker)).run(None, {"x": x})[0]
        found = session.run({"x": x})["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=5e-5)
        session.apply_adapter("english", scale=0)
        expected = flow.expected("original", x)
        np.testing.assert_allclose(session.run({"x": x})["y"], expected, rtol=1e-4, atol=5e-5)
        with pytest.raises(ConfigError, match="adapter 'englsh' not found") as caught:
            session.apply_adapter("englsh")
        assert caught.value.hint == "did you mean 'english'?"


def test_merged_weights_are_updateable_too(tmp_path: Path) -> None:
    """The weights of the base model themselves, in the layout of the ONNX model."""
    for case, names in MERGED.items():
        (tmp_path / case).mkdir()
        flow = Flow(tmp_path / case, case)
        (x, *_) = flow.samples
        target = merged(flow.base, flow.changes["english"])
        arrays = {t.name: _values(t) for t in target.graph.initializer if t.name in names}
        write_safetensors(flow.folder / "merged.safetensors", arrays)
        model = dt.convert(flow.folder / "base.onnx", OnnxOptions(updateable=names))
        with dt.Session(model) as session:
            session.apply_adapter(flow.folder / "merged.safetensors")
            found = session.run({"x": x})["y"]
            np.testing.assert_allclose(found, flow.expected("english", x), rtol=1e-5, atol=1e-5)
            with pytest.raises(ConfigError, match="which weights to multiply"):
                session.apply_adapter(flow.folder / "merged.safetensors", scale=2.0)


def _values(tensor: Any) -> Any:
    return np.frombuffer(tensor.raw_data, np.float32).reshape(tensor.dims)


@pytest.mark.parametrize("mode", ["none", "adapter_only", "all"])
@pytest.mark.parametrize(
    "options", [{}, {"act_bitwidth": 16, "use_per_channel_quantization": True}]
)
def test_quantized_it_equals_a_graph_prepared_afresh(flow: Flow, mode: str, options: Any) -> None:
    """On htp bit for bit: the same weights and encodings in a graph that was never updated."""
    samples = [{"x": x} for x in flow.samples]
    network = create_model(
        flow.folder / "lora.yaml", flow.folder / "initial", initial="english"
    ).model
    model = dt.quantize(flow.converted(mode, network), samples, bias_bitwidth=32, **options)
    # this base model is not the original: it contains the weights of an adapter
    config = flow.folder / "made" / "lora_importer_config.yaml"
    config.write_text(config.read_text().replace("original\n", "plain\n"))
    flow.imported(model)
    (x, *_) = flow.samples
    with dt.Session(flow.folder / "base.dvt", "htp") as session:
        before = session.run({"x": x})["y"]
        for name in ("plain", "formal english", "english"):
            session.apply_adapter(flow.folder / CONFIGS, name)
            found = session.run({"x": x})["y"]
            graph = copy_graph(session.graphs["base"].ir)
            fresh = dt.Model({"base": graph}, model.producer, model.op_packages)
            with dt.Session(fresh, "htp") as other:
                np.testing.assert_array_equal(found, other.run({"x": x})["y"])
        np.testing.assert_array_equal(found, before)  # the adapter that the model contains
        session.apply_adapter("formal english")
        session.remove_adapter()
        np.testing.assert_array_equal(session.run({"x": x})["y"], before)


def test_encodings_of_each_use_case_give_the_model_quantized_with_it(flow: Flow) -> None:
    """A use case is quantized alone; the base model with its encodings is the same bit for bit."""
    samples = [{"x": x} for x in flow.samples]
    text = (flow.folder / "made" / "lora_importer_config.yaml").read_text()
    alone = {}
    for name in ("english", "formal english"):
        folder = flow.folder / name.replace(" ", "-")
        made = create_model(flow.folder / "lora.yaml", folder / "made", initial=name)
        alone[name] = dt.quantize(flow.converted("all", made.model), samples)
        (written,) = dt.api.quantization.write_encodings(alone[name], folder / "q.dvt")
        entry = f"output_path: {name.replace(' ', '_')}\n"
        assert entry in text
        text = text.replace(entry, f"{entry}  quant_overrides: {written}\n")
    (flow.folder / "made" / "with_encodings.yaml").write_text(text)
    base = dt.quantize(flow.converted("all"), samples)
    flow.imported(base, "made/with_encodings.yaml")
    (x, *_) = flow.samples
    with dt.Session(flow.folder / "base.dvt", "htp") as session:
        before = session.run({"x": x})["y"]
        for name, model in alone.items():
            applied = session.apply_adapter(flow.folder / CONFIGS, name)
            assert applied.interface_encodings["base"].keys() == {"y"}  # x was the same
            with dt.Session(model, "htp") as other:
                expected = other.run({"x": x})["y"]
            np.testing.assert_array_equal(session.run({"x": x})["y"], expected)
        session.apply_adapter("original")
        np.testing.assert_array_equal(session.run({"x": x})["y"], before)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", ["none", "all"])
def test_each_use_of_updateable_weights_is_updated_on_all_backends(
    tmp_path: Path, case: str, mode: Any
) -> None:
    """Float backends against the peer; htp against a graph that was never updated, bit for bit."""
    nodes, x, known = CASES[case]
    names = tuple(name for name in known if name != "k")
    new = {n: RNG.standard_normal(known[n].shape).astype(np.float32) for n in names}
    write_safetensors(tmp_path / "a.safetensors", new)
    onnx.save(_model(nodes, x, known), tmp_path / "m.onnx")
    target = _model(nodes, x, known | new)
    expected = peer_session(target).run(None, {"x": x})[0]
    model = dt.convert(
        tmp_path / "m.onnx", OnnxOptions(updateable=names), quant_updatable_mode=mode
    )
    for backend in ("cpu", "gpu", "htp"):
        if backend == "gpu":
            require_opencl()
        if backend == "htp":
            model = dt.quantize(model, [{"x": x}, {"x": -x}], bias_bitwidth=32)
        with dt.Session(model, backend) as session:
            session.run({"x": x})
            session.apply_adapter(tmp_path / "a.safetensors")
            found = session.run({"x": x})["y"]
            if backend != "htp":
                # sums of up to 27 products in another order
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
                continue
            graph = copy_graph(session.graphs["m"].ir)
            fresh = dt.Model({"m": graph}, model.producer, model.op_packages)
            with dt.Session(fresh, "htp") as other:
                np.testing.assert_array_equal(other.run({"x": x})["y"], found)


def _model(nodes: Any, x: Any, known: Any) -> Any:
    """Return a model whose output y has the type float32 and any shape."""
    graph = onnx.helper.make_graph(
        nodes,
        "net",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(values, name) for name, values in known.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)


def test_graphs_of_several_shapes_share_an_adapter(tmp_path: Path) -> None:
    flow = Flow(tmp_path, "attention")
    names = tuple(flow.made.weight_list.read_text().split())
    shapes = {"x": [(4, 16), (8, 16)]}
    model = dt.convert(flow.made.model, OnnxOptions(updateable=names), shapes=shapes)
    flow.imported(model)
    with dt.Session(model) as session:
        assert len(session.graphs) == 2
        applied = session.apply_adapter(flow.folder / CONFIGS, "english")
        assert applied.tensors.keys() == session.graphs.keys()
        for graph in session.graphs:
            rows = session.graphs[graph].inputs[0].shape[0]
            x = flow.samples[0][:rows]
            found = session.run({"x": x}, graph=graph)["y"]
            for end in (*flow.base.graph.input, *flow.base.graph.output):
                end.type.tensor_type.shape.dim[0].dim_value = rows
            np.testing.assert_allclose(found, flow.expected("english", x), rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_adapters_and_sections_of_context_binaries_go_together(flow: Flow, backend: str) -> None:
    model = flow.converted("adapter_only")
    if backend == "htp":
        model = dt.quantize(model, [{"x": x} for x in flow.samples])
    flow.imported(model)
    (x, *_) = flow.samples
    outputs, sections = {}, {}
    with dt.Session(model, backend) as session:
        before = session.run({"x": x})["y"]
        session.save_context(flow.folder / "c.bin")
        (graph,) = session.graphs.values()
        for name in ("english", "formal english"):
            session.apply_adapter(flow.folder / CONFIGS, name)
            outputs[name] = session.run({"x": x})["y"]
            sections[name] = bytes(graph.context.get_binary_section())
    with dt.Session.from_context(flow.folder / "c.bin", backend) as session:
        (graph,) = session.graphs.values()
        for name, section in sections.items():
            graph.context.apply_binary_section(section)
            np.testing.assert_array_equal(session.run({"x": x})["y"], outputs[name])
        session.apply_adapter(flow.folder / CONFIGS, "english")
        np.testing.assert_array_equal(session.run({"x": x})["y"], outputs["english"])
        session.remove_adapter()
        np.testing.assert_array_equal(session.run({"x": x})["y"], before)


def test_values_beyond_fixed_encodings_are_noted(flow: Flow) -> None:
    model = dt.quantize(flow.converted("none"), [{"x": x} for x in flow.samples])
    notes = flow.imported(model).notes
    assert any("are beyond the range of its encoding" in note for note in notes)
    assert all(note.startswith("use case 'english'") or "formal" in note for note in notes)


@pytest.mark.parametrize("name", ["base.dlc", "base_net.json"])
@pytest.mark.parametrize("mode", ["none", "adapter_only", "all"])
def test_bases_in_files_of_the_sdk_give_the_same_adapters(
    tmp_path: Path, mode: str, name: str
) -> None:
    flow = Flow(tmp_path, "attention")
    model = dt.quantize(flow.converted(mode), [{"x": x} for x in flow.samples])
    expected = flow.imported(model)
    dt.export(model, tmp_path / name)
    config = tmp_path / "made" / "lora_importer_config.yaml"
    found = import_adapters(tmp_path / name, flow.made.model, config, tmp_path / "again")
    assert found.notes == expected.notes
    folder = tmp_path / "adapters"
    for path in (each for each in folder.rglob("*") if each.is_file()):
        assert (tmp_path / "again" / path.relative_to(folder)).read_bytes() == path.read_bytes()


def test_nothing_changes_if_an_adapter_does_not_match(flow: Flow) -> None:
    (x, *_) = flow.samples
    with dt.Session(flow.converted("none")) as session:
        before = session.run({"x": x})["y"]
        bad = flow.folder / "bad.safetensors"
        write_safetensors(bad, {"a": np.zeros(3, np.float32)})
        with pytest.raises(FrontendError, match="does not match graph 'base'"):
            session.apply_adapter(bad)
        bad.write_bytes(b"0" * 64)
        with pytest.raises(FrontendError, match="not a safetensors file"):
            session.apply_adapter(bad)
        np.testing.assert_array_equal(session.run({"x": x})["y"], before)


def test_an_adapter_with_encodings_of_another_model(flow: Flow) -> None:
    model = dt.quantize(flow.converted("adapter_only"), [{"x": x} for x in flow.samples])
    flow.imported(model)
    path = flow.folder / "adapters" / "english" / "english.encodings"
    path.write_text(path.read_text().replace("lora_A", "lora_C"))
    with dt.Session(flow.folder / "base.dvt", "htp") as session:
        with pytest.raises(QuantizationError, match="do not match the model"):
            session.apply_adapter(flow.folder / CONFIGS, "english")
        session.run({"x": flow.samples[0]})


def test_modes_mark_the_tensors_of_adapters(tmp_path: Path) -> None:
    flow = Flow(tmp_path, "attention")
    branch = {f"/attn/{m}/MatMul.lora_{part}" for m in "qv" for part in "AB"}
    branch |= {f"/mlp/Gemm.lora_{part}" for part in "AB"}
    weights = {f"{name}.weight" for name in branch}
    kinds = {}
    for mode in ("none", "float_only", "adapter_only", "all"):
        graph = flow.converted(mode).graphs["base"]
        kinds[mode] = {t.name for t in graph.tensors.values() if t.kind.is_updateable}
        assert graph.tensor("wq").kind is TensorKind.STATIC
    assert kinds["none"] == kinds["float_only"] == weights
    assert kinds["adapter_only"] == weights | branch
    assert kinds["all"] > weights | branch | {"x", "y", "s", "q", "q.base"}


def test_the_command_line_marks_weights(tmp_path: Path) -> None:
    flow = Flow(tmp_path, "attention")
    command = "dovetail convert -i made/base.onnx -o b.dvt --lora_weight_list"
    done = forked.run(f"{command} made/lora_weight_list.txt --quant_updatable_mode all", tmp_path)
    assert done.returncode == 0, done.stderr
    model = dt.load(tmp_path / "b.dvt")
    assert model.producer.options["quant_updatable_mode"] == "all"
    assert model.graphs["base"].tensor("x").kind is TensorKind.UPDATEABLE_APP_WRITE
    (tmp_path / "names.txt").write_text("\nwz\nlora\n\n")
    done = forked.run(f"{command} names.txt", tmp_path)
    assert done.returncode == 2
    assert "initializer 'wz' not found" in done.stderr
    assert "initializer 'lora' not found" in done.stderr
    (tmp_path / "names.txt").write_text("\n")
    assert "the list is empty" in forked.run(f"{command} names.txt", tmp_path).stderr
    done = forked.run(f"{command} {flow.made.weight_list} --quant-updatable-mode al", tmp_path)
    assert done.returncode == 2
    assert "did you mean 'all'" in done.stderr
    done = forked.run("dovetail convert base.onnx --quant-updatable-mode adapter_only", tmp_path)
    assert done.returncode == 2
    assert "--lora-weight-list" in done.stderr
    done = forked.run(
        f"{command} {flow.made.weight_list} --quant-updatable-mode float_only --float-fallback",
        tmp_path,
    )
    assert done.returncode == 2
    assert "float_only is for models that stay float" in done.stderr
