"""`inspect` of context binaries, `context diff`, `context upgrade`, `weights compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import dovetail
from dovetail import runtime
from dovetail.container import ContextFile, ContextParts
from dovetail.ir import Array, DType, ScaleOffset, Tensor, TensorKind
from dovetail.ops import EVERYTHING, Observed

W = np.random.default_rng(5).standard_normal((64, 1000)).astype("f4")
X = np.random.default_rng(6).standard_normal((1, 64)).astype("f4")
OLD = {"version": "0.0.9"}


def matrix(new_net: Any, name: str, weights: Array, rows: int = 1, extra: Array = W[:, 0]) -> str:
    """Save a model: y = x @ w, and z = relu of y plus a bias."""
    net = new_net(name)
    y = Tensor("y", DType.FLOAT_32, (rows, 1000))
    y = net.node("MatMul", net.input("x", rows, 64), net.static("w", weights), name="y", out=y)
    bias = net.static("b", np.resize(extra, 1000).astype("f4"))
    return str(net.save(net.node("ElementWiseAdd", y, bias, name="z")))


def generate(run: Any, name: str, *models: str, backend: str = "cpu", **options: str) -> Any:
    args = [word for key, value in options.items() for word in (f"--{key}", value)]
    done = run(
        "--json",
        "context-binary-generator",
        *("--model", ",".join(models), "--backend", backend),
        *("--binary-file", name, "--output-dir", ".", *args),
    )
    assert done.code == 0, done.err
    return done.data


def aged(path: str, new: str, **facts: str) -> str:
    """Write a context binary as if it came from elsewhere."""
    parts = ContextParts(file := ContextFile.open(path))
    content = parts.content(tuple(file.graphs))
    changed = replace(content, fingerprint={**content.fingerprint, **facts})
    Path(new).write_bytes(b"".join(changed.parts()))
    return new


@pytest.fixture
def shared(new_net: Any, run: Any) -> Any:
    """`both.bin` with two sizes of one model; what the generator reports."""
    models = [matrix(new_net, name, W, rows) for name, rows in (("one", 1), ("two", 3))]
    for model in models:
        generate(run, Path(model).stem, model)
    return generate(run, "both", *models)


# -- sharing ---------------------------------------------------------------------------------------


def test_the_generator_reports_what_is_shared(shared: Any) -> None:
    report = shared["sharing"]
    alone = [Path(f"{name}.bin").stat().st_size for name in ("one", "two")]
    size = Path("both.bin").stat().st_size
    assert [graph["alone_bytes"] for graph in report["graphs"]] == alone
    assert (report["file_bytes"], report["sum_bytes"]) == (size, sum(alone))
    assert report["ratio_to_sum"] == pytest.approx(size / sum(alone))
    assert report["ratio_to_largest"] == pytest.approx(size / max(alone))
    # the weights themselves at least; packed, they have the same layout
    assert report["shared_bytes"] >= W.nbytes
    assert size < 1.1 * max(alone)
    assert (report["same_names"], report["unshared"]) == (2, [])


def test_weights_that_are_not_shared_are_listed_with_their_similarity(
    new_net: Any, run: Any
) -> None:
    tuned = W + np.float32(0.01)
    models = matrix(new_net, "base", W), matrix(new_net, "tuned", tuned)
    report = generate(run, "both", *models)["sharing"]
    (one,) = report["unshared"]
    a, b = W.astype(float).ravel(), tuned.astype(float).ravel()
    assert (one["name"], one["graphs"]) == ("w", ["base", "tuned"])
    assert [d["fact"] for d in one["differences"]] == ["values"]
    assert one["cosine"] == pytest.approx(a @ b / np.sqrt(a @ a * (b @ b)), rel=1e-9)
    quick = run("--json", "inspect", "both.bin").data["sharing"]
    assert [each["cosine"] for each in quick["unshared"]] == [None]
    assert run("--json", "inspect", "both.bin", "--similarity").data["sharing"] == report
    text = run("inspect", "both.bin", "--similarity").out
    assert "NOT SHARED" in text
    assert f"{one['cosine']:.6f}" in text


def test_a_placement_shares_too(new_net: Any, run: Any) -> None:
    models = [matrix(new_net, name, W, rows) for name, rows in (("one", 1), ("two", 3))]
    report = generate(run, "both", *models, backend="hetero:htp,cpu")["sharing"]
    for model, graph in zip(models, report["graphs"], strict=True):
        alone = generate(run, "alone", model, backend="hetero:htp,cpu")
        assert alone["files"][0]["bytes"] == graph["alone_bytes"]


# -- inspect ---------------------------------------------------------------------------------------


def test_inspect_shows_a_context(shared: Any, run: Any) -> None:
    found = run("--json", "inspect", "both.bin", "--verify").data
    assert (found["kind"], found["backend"], found["verified"]) == ("context", "cpu", True)
    one, two = found["graphs"]
    assert (one["inputs"][0]["shape"], two["inputs"][0]["shape"]) == ([1, 64], [3, 64])
    assert one["ops"] == {"qti.aisw::ElementWiseAdd": 1, "qti.aisw::MatMul": 1}
    assert one["shared_blob_bytes"] >= W.nbytes
    text = run("inspect", "both.bin")
    assert "all 2 weights of the same name are shared" in text.out
    assert "graph two: 2 nodes" in text.out
    assert "MatMul" in run("inspect", "both.bin", "--text").out
    assert (
        run("--json", "inspect", "both.bin", "--layers").data["layers"]["two"]["macs"] >= 3 * W.size
    )


def test_inspect_judges_with_reasons(shared: Any, run: Any) -> None:
    def verdict(file: str, backend: str) -> Any:
        return run("--json", "inspect", file, "--backend", backend).data["compatibility"]

    assert verdict("both.bin", "cpu") == {"backend": "cpu", "verdict": "OPTIMAL", "reasons": []}
    old = verdict(aged("both.bin", "old.bin", **OLD), "cpu")
    assert old["verdict"] == "RECOMPILE"
    assert [(r["fact"], r["found"]) for r in old["reasons"]] == [("version", "0.0.9")]
    assert verdict("both.bin", "htp")["verdict"] == "UNSUPPORTED"
    text = run("inspect", "old.bin", "--backend", "cpu").out
    assert "on cpu here: RECOMPILE" in text
    assert "0.0.9" in text


def test_options_of_the_file_are_those_of_the_judge(new_net: Any, run: Any) -> None:
    model = matrix(new_net, "net", W)
    generate(run, "net", model, **{"platform-options": "engine:numpy"})
    found = run("--json", "inspect", "net.bin", "--backend", "cpu").data
    assert (found["options"], found["compatibility"]["verdict"]) == ({"engine": "numpy"}, "OPTIMAL")


def test_inspect_rejects_what_does_not_go_together(shared: Any, run: Any) -> None:
    for options in (("--backend", "cpu"), ("--similarity",)):
        done = run("inspect", "one.dvt", *options)
        assert (done.code, "are for context binaries" in done.err) == (2, True)
        done = run("inspect", "both.bin", "--text", *options)
        assert (done.code, "mutually exclusive" in done.err) == (2, True)
    Path("cut.bin").write_bytes(Path("both.bin").read_bytes()[:-1])
    for options in ((), ("--verify",)):
        done = run("inspect", "cut.bin", *options)
        assert (done.code, "cut short" in done.err) == (3, True)


# -- context diff ----------------------------------------------------------------------------------


def test_a_file_does_not_differ_from_itself(shared: Any, run: Any) -> None:
    assert run("context", "diff", "both.bin", "both.bin", "--check").code == 0
    found = run("--json", "context", "diff", "both.bin", "both.bin").data
    assert found["changes"] == []
    assert (found["blobs"]["first"], found["weights"]["identical"]) == (0, 4)


def test_diff_names_what_differs(new_net: Any, run: Any) -> None:
    generate(run, "a", matrix(new_net, "net", W))
    changed = W.copy()
    changed[3, 3] += 1
    generate(run, "b", matrix(new_net, "net", changed, rows=3))
    done = run("--json", "context", "diff", "a.bin", "b.bin", "--check")
    assert done.code == 1
    changes = {
        change["item"]: (change["first"], change["second"]) for change in done.data["changes"]
    }
    assert changes["graphs.net.inputs.x.shape"] == ([1, 64], [3, 64])
    assert {"graphs.net.digest", "graphs.net.plan"} <= changes.keys()
    assert not any(item.startswith(("fingerprint", "options", "backend")) for item in changes)
    weights = done.data["weights"]
    assert (weights["same_names"], weights["identical"], weights["different"]) == (2, 1, 1)
    assert [tensor["name"] for tensor in weights["tensors"]] == ["w"]
    sizes = {
        n: {b.sha256: b.size for b in ContextFile.open(f"{n}.bin").manifest.blobs} for n in "ab"
    }
    blobs, both = done.data["blobs"], sizes["a"].keys() & sizes["b"].keys()
    assert (blobs["common"], blobs["first"]) == (len(both), len(sizes["a"]) - len(both))
    assert blobs["common_bytes"] == sum(sizes["a"][key] for key in both)
    text = run("context", "diff", "a.bin", "b.bin").out
    assert "graphs.net.inputs.x.shape" in text


def test_diff_shows_facts_and_graphs_that_one_file_has(shared: Any, run: Any) -> None:
    aged("both.bin", "old.bin", **OLD)
    found = run("--json", "context", "diff", "old.bin", "one.bin").data
    changes = {change["item"]: (change["first"], change["second"]) for change in found["changes"]}
    assert changes["fingerprint.version"][0] == "0.0.9"
    assert changes["graphs.two"][1] is None
    assert found["weights"]["unmatched_first"] == ["two/w", "two/b"]


def test_without_models_weights_are_not_compared(new_net: Any, run: Any) -> None:
    model = matrix(new_net, "net", W)
    generate(run, "a", model, **{"backend-binary": "bare"})
    done = run("context", "diff", "a.bin", "bare.bin")
    assert done.code == 0
    assert "weights are not compared" in done.out
    assert run("context", "diff", "a.bin", model).code == 3


# -- context upgrade -------------------------------------------------------------------------------


def test_an_upgrade_carries_out_recompile(new_net: Any, run: Any) -> None:
    model = matrix(new_net, "net", W)
    with dovetail.Session(model) as session:
        wanted = session.run(X)
    generate(run, "net", model)
    aged("net.bin", "old.bin", **OLD)
    X.tofile("x.raw")
    Path("list.txt").write_text("x.raw\n", "utf-8")
    done = run("net-run", "--retrieve-context", "old.bin", "--input-list", "list.txt")
    assert done.code == 5
    assert "dovetail context upgrade" in done.err
    done = run("--json", "context", "upgrade", "old.bin", "--output", "new.bin")
    assert done.code == 0, done.err
    assert (done.data["verdict"], done.data["output"]) == ("RECOMPILE", "new.bin")
    assert Path("new.bin").read_bytes() == Path("net.bin").read_bytes()
    with dovetail.Session.from_context("new.bin") as session:
        np.testing.assert_array_equal(session.run(X)["z"], wanted["z"])
    # the file itself may be replaced
    assert run("context", "upgrade", "old.bin", "-o", "old.bin").code == 0
    assert Path("old.bin").read_bytes() == Path("net.bin").read_bytes()


def test_an_upgrade_keeps_settings_outputs_and_observed_tensors(new_net: Any, run: Any) -> None:
    model = matrix(new_net, "net", W)
    with runtime.Backend.create("cpu", {"engine": "numpy"}) as backend:
        context = backend.create_context()
        (graph,) = context.compose(dovetail.load(model))
        graph.set_config({"graph_priority": "high"})
        graph.finalize(observed=Observed(frozenset({"y"})), outputs=["y"])
        context.save("net.bin")
    assert run("context", "upgrade", aged("net.bin", "old.bin", **OLD), "-o", "new.bin").code == 0
    assert Path("new.bin").read_bytes() == Path("net.bin").read_bytes()
    entry = ContextFile.open("new.bin").graphs["net"]
    assert (entry.config, entry.observed) == ({"graph_priority": "high"}, ("y",))
    assert entry.added_outputs == ("y",)


def test_an_upgrade_keeps_context_tensors(run: Any) -> None:
    kind = TensorKind
    with runtime.Backend.create("cpu") as backend:
        context = backend.create_context()
        state = context.create_tensor("s", DType.FLOAT_32, (1, 4), data=np.full((1, 4), 2, "f4"))
        for name in ("writes", "reads"):
            graph = context.create_graph(name)
            ends = ("x", kind.APP_WRITE) if name == "writes" else ("y", kind.APP_READ)
            end = graph.create_tensor(ends[0], DType.FLOAT_32, (1, 4), ends[1])
            pair = (end, state) if name == "writes" else (state, end)
            graph.add_node("n", "qti.aisw", "Relu", [pair[0]], [pair[1]])
            graph.finalize(observed=EVERYTHING)
        context.save("net.bin")
    assert run("context", "upgrade", aged("net.bin", "old.bin", **OLD), "-o", "new.bin").code == 0
    with runtime.Backend.create("cpu") as backend:
        context = backend.create_context_from_binary("new.bin")
        writes, reads = (context.retrieve_graph(name) for name in ("writes", "reads"))
        np.testing.assert_array_equal(reads.execute({})["y"], np.full((1, 4), 2))
        writes.execute({"x": np.float32([[1, -1, 3, 4]])})
        np.testing.assert_array_equal(reads.execute({})["y"], [[1, 0, 3, 4]])


def test_an_upgrade_for_another_backend(new_net: Any, run: Any, caplog: Any) -> None:
    model = matrix(new_net, "net", W)
    Path("htp.toml").write_text('[[graph]]\ngraph_name = "net"\nvtcm_mb = 4\n', "utf-8")
    generate(run, "net", model, backend="htp", **{"config-file": "htp.toml"})
    assert ContextFile.open("net.bin").graphs["net"].config == {"vtcm_mb": 4}
    done = run("--json", "context", "upgrade", "net.bin", "-o", "new.bin", "--backend", "cpu")
    assert done.code == 0, done.err
    assert done.data["verdict"] == "UNSUPPORTED"
    assert (
        "settings that backend 'cpu' does not have are dropped: vtcm_mb" in done.err + caplog.text
    )
    generate(run, "wanted", model)
    assert Path("new.bin").read_bytes() == Path("wanted.bin").read_bytes()


def test_without_models_there_is_no_upgrade(new_net: Any, run: Any, entries: Any) -> None:
    generate(run, "bare", matrix(new_net, "net", W), **{"backend-binary": "own"})
    before = entries()
    done = run("context", "upgrade", "own.bin", "-o", "new.bin")
    assert done.code == 5
    assert "no model of graph net" in done.err
    assert "--embed-model" in done.err
    assert entries() == before


# -- weights compare -------------------------------------------------------------------------------


def test_weights_of_models_and_contexts(new_net: Any, run: Any) -> None:
    a, b = matrix(new_net, "a", W), matrix(new_net, "b", W + 1)
    generate(run, "a", a)
    for one, other in ((a, b), ("a.bin", b)):
        done = run("--json", "weights", "compare", one, other, "--check")
        assert done.code == 1
        counts = [done.data[key] for key in ("same_names", "identical", "different")]
        assert counts == [2, 1, 1]
    assert run("weights", "compare", a, "a.bin", "--check").code == 0
    text = run("weights", "compare", a, b).out
    assert "of the same name  2" in text
    assert "values" in text


def test_graphs_of_one_file_can_be_compared(shared: Any, run: Any) -> None:
    chosen = ("--first-graph", "one", "--second-graph", "two")
    done = run("--json", "weights", "compare", "both.bin", "both.bin", "--check", *chosen)
    assert (done.code, done.data["identical"]) == (0, 2)
    done = run("weights", "compare", "both.bin", "both.bin", "--first-graph", "tow")
    assert (done.code, "did you mean 'two'?" in done.err) == (2, True)


def test_models_of_other_formats_are_converted(new_net: Any, run: Any) -> None:
    path = matrix(new_net, "net", W)
    assert run("export", path, "-o", "net.onnx").code == 0
    done = run("--json", "weights", "compare", path, "net.onnx")
    assert done.code == 0, done.err
    assert (done.data["identical"], done.data["contents"]["common"]) == (1, 1)
    # the converter makes it a FullyConnected, whose weights are transposed
    (w,) = done.data["tensors"]
    assert {d["fact"] for d in w["differences"]} == {"values", "shape"}


def test_the_table_of_weights_fits_a_terminal(new_net: Any, run: Any) -> None:
    paths = []
    for i in (0, 1):
        net = new_net("net")
        w = net.static("a_rather_long_name_of_a_layer/w", np.full(3, i, np.uint8))
        w.dtype = DType.UFIXED_POINT_8
        w.encoding = ScaleOffset(0.018937259912490845 * (1 + i), -143)
        net.save(net.node("ElementWiseNeg", w, name="y"), path=f"{i}.dvt")
        paths.append(f"{i}.dvt")
    text = run("weights", "compare", *paths).out
    assert max(map(len, text.splitlines())) <= 100
    assert "scales 0.0189373 / 0.0378745" in " ".join(text.split())
