"""Results: their names, what chooses them, and that a run that fails leaves nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import net_run

from dovetail.files import staged_folder
from dovetail.ir import DType, Graph, Tensor
from dovetail_tools._net_run import output_files
from dovetail_tools._net_run.output_folder import replace_results


@pytest.fixture
def fed(raw: Any, listing: Any) -> Any:
    """Write a list of one raw file of six numbers."""
    listing("a.raw")
    return raw("a.raw", np.arange(-3.0, 3.0))


def tree(folder: str = "output") -> dict[str, bytes]:
    """Every file below a folder."""
    found = (p for p in Path(folder).rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): p.read_bytes() for p in found}


# -- which tensors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [[], ["--synchronous"]])
def test_debug_writes_what_every_node_computes(
    two_steps: str, run: Any, fed: Any, result: Any, mode: list[str]
) -> None:
    assert net_run(run, "--debug", *mode).code == 0
    assert {p.name for p in Path("output/Result_0").iterdir()} == {"mid.raw", "y.raw"}
    np.testing.assert_array_equal(result("mid.raw"), np.maximum(fed, 0))
    np.testing.assert_array_equal(result("y.raw"), -np.maximum(fed, 0))


def test_time_of_preparation_is_linear_in_the_added_outputs(
    new_net: Any, run: Any, raw: Any, listing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw("x.raw", np.ones(6, np.float32))
    listing("x.raw")
    searched = 0
    outputs = Graph.outputs.fget

    def counting(graph: Graph) -> Any:
        nonlocal searched
        searched += 1
        return outputs(graph)

    monkeypatch.setattr(Graph, "outputs", property(counting))
    counts = []
    for size in (2, 20):
        net = new_net(f"net{size}")
        x = net.input("x", 6)
        for i in range(size):
            x = net.node("ElementWiseNeg", x, name=f"t{i}")
        net.save(x, path="net.dvt")
        searched = 0
        assert net_run(run, "--debug").code == 0
        counts.append(searched)
    assert counts[0] == counts[1]


def test_set_output_tensors_adds(two_steps: str, run: Any, fed: Any, result: Any) -> None:
    assert net_run(run, "--set-output-tensors", "net:mid").code == 0
    assert {p.name for p in Path("output/Result_0").iterdir()} == {"mid.raw", "y.raw"}
    np.testing.assert_array_equal(result("mid.raw"), np.maximum(fed, 0))


@pytest.mark.parametrize("name", ["net:1", "net", "net:1:2"])
def test_names_of_graphs_may_have_colons(
    new_net: Any, run: Any, raw: Any, listing: Any, name: str
) -> None:
    net = new_net(name)
    middle = net.node("Relu", net.input("x:0", 6), name="mid:0")
    net.save(net.node("ElementWiseNeg", middle, name="y"), path="net.dvt")
    raw("x.raw", np.ones(6, np.float32))
    listing("x.raw")
    selected = ["--set-output-tensors", f"{name}:mid:0"]
    assert net_run(run, *selected, "--native-input-tensor-names", f"{name}:x:0").code == 0
    assert {p.name for p in Path("output/Result_0").iterdir()} == {"mid_0.raw", "y.raw"}
    made = ["context-binary-generator", "--model", "net.dvt", "--backend", "cpu", *selected]
    assert run(*made, "--binary-file", "b").code == 0


@pytest.mark.parametrize(
    ("value", "code", "part"),
    [
        ("net:mud", 2, "did you mean 'mid'?"),
        ("net:x", 2, "computed tensor 'x' not found"),
        ("nut:mid", 2, "did you mean 'net'?"),
        ("mid", 2, "graph0:tensor0,tensor1;graph1:tensor2"),
        ("net:mid;net:y", 2, "each graph once"),
        ("net:mid,,y", 2, "empty item"),
    ],
)
def test_set_output_tensors_refuses(
    two_steps: str, run: Any, fed: Any, value: str, code: int, part: str
) -> None:
    done = net_run(run, "--set-output-tensors", value)
    assert done.code == code
    assert part in done.err
    assert not Path("output").exists()


# -- names -----------------------------------------------------------------------------------------


def test_names_are_sanitized(new_net: Any, run: Any, fed: Any, result: Any) -> None:
    net = new_net()
    net.save(net.node("ElementWiseNeg", net.input("in:0", 6), name="../a b/c:0"))
    assert net_run(run).code == 0
    assert [p.name for p in Path("output/Result_0").iterdir()] == ["_._a_b_c_0.raw"]


@pytest.mark.parametrize(
    ("first", "second", "part"),
    [
        ("n" * 252, "y", "too long for a file: 256 characters"),
    ],
)
def test_names_that_cannot_be_files_are_refused_at_once(
    new_net: Any, run: Any, fed: Any, first: str, second: str, part: str
) -> None:
    net = new_net()
    x = net.input("x", 6)
    net.save(net.node("ElementWiseNeg", x, name=first), net.node("ElementWiseNeg", x, name=second))
    done = net_run(run)
    assert (done.code, done.error["code"]) == (3, "MODEL_INVALID")
    assert part in done.err
    assert not Path("output").exists()


def test_native_names_may_collide_too(new_net: Any, run: Any, raw: Any, listing: Any) -> None:
    net = new_net()
    whole = net.node("ElementWiseNeg", net.input("i", 1, dtype=DType.INT_32), name="y")
    real = net.node("ElementWiseNeg", net.input("f", 1), name="y_native")
    net.save(whole, real)
    raw("a.raw", [1.0])
    listing("i:=a.raw f:=a.raw")
    assert net_run(run).code == 0
    assert net_run(run, "--use-native-output-files").code == 0
    assert {p.name for p in Path("output/Result_0").iterdir()} == {
        "y_native.raw",
        "y_native_1.raw",
    }


# -- metadata --------------------------------------------------------------------------------------


def test_metadata_say_what_the_files_hold(new_net: Any, run: Any, raw: Any, listing: Any) -> None:
    net = new_net('a "graph": # yes')
    path = "net.dvt"
    net.save(net.node("ElementWiseNeg", net.input("x\n", 2, 3, dtype=DType.INT_8), name="y"))
    Path('a "graph": # yes.dvt').rename(path)
    raw("a.raw", [1.0, 2.0, 3.0])
    listing("a.raw")
    assert net_run(run, "--use-native-output-files").code == 0
    text = Path("output/execution_metadata.yaml").read_text("utf-8")
    pairs = [line.lstrip(" -").partition(": ") for line in text.splitlines() if ": " in line]
    values = [(key, json.loads(value)) for key, _, value in pairs]
    assert values == [
        ("backend", "cpu"),
        ("graph_name", 'a "graph": # yes'),
        ("folder", "."),
        ("results", 1),
        ("tensor_name", "x\n"),
        ("datatype", "QNN_DATATYPE_INT_8"),
        ("dimensions", [2, 3]),
        ("file_datatype", "QNN_DATATYPE_FLOAT_32"),
        ("file_dimensions", [1, 3]),
        ("tensor_name", "y"),
        ("datatype", "QNN_DATATYPE_INT_8"),
        ("dimensions", [2, 3]),
        ("file_datatype", "QNN_DATATYPE_INT_8"),
        ("file_dimensions", [1, 3]),
        ("file", "y_native.raw"),
    ]
    assert str(Path.cwd()) not in text


def test_metadata_lead_back_to_the_source_model(new_net: Any, run: Any, fed: Any) -> None:
    net = new_net()
    inner = Tensor("inner", DType.FLOAT_32, (3, 2), source="theirs", source_perm=(1, 0))
    net.node("Transpose", net.input("x", 2, 3), name="inner", out=inner, perm=[1, 0])
    net.save(net.node("ElementWiseNeg", inner, name="y"))
    assert net_run(run, "--debug").code == 0
    text = Path("output/execution_metadata.yaml").read_text("utf-8")
    lines = [line.strip() for line in text.splitlines()]
    at = lines.index('- tensor_name: "inner"')
    assert lines[at + 2 : at + 4] == ['source_name: "theirs"', "source_axes: [1, 0]"]
    assert text.count("source_") == 2


def test_equal_runs_write_equal_bytes(two_steps: str, run: Any, fed: Any) -> None:
    assert net_run(run, "--output-dir", "one").code == 0
    assert net_run(run, "--output-dir", "two", "--synchronous").code == 0
    assert tree("one") == tree("two")


# -- all or nothing --------------------------------------------------------------------------------


def test_a_later_run_replaces_all_results(
    two_steps: str, run: Any, raw: Any, fed: Any, listing: Any, result: Any
) -> None:
    listing("a.raw", "a.raw", "a.raw")
    assert net_run(run, "--profiling-level", "client", "--debug").code == 0
    Path("output/notes.txt").write_text("mine")
    Path("output/Result_x").mkdir()
    other = raw("b.raw", np.arange(6.0))
    listing("b.raw")
    assert net_run(run).code == 0
    assert set(tree()) == {"Result_0/y.raw", "execution_metadata.yaml", "notes.txt"}
    assert Path("output/Result_x").is_dir()
    np.testing.assert_array_equal(result("y.raw"), -other)


@pytest.mark.parametrize("mode", [[], ["--synchronous"]])
def test_a_run_that_fails_leaves_everything_as_it_was(
    new_net: Any, run: Any, raw: Any, listing: Any, entries: Any, mode: list[str]
) -> None:
    net = new_net()
    net.save(net.node("ElementWiseNeg", net.input("x", 1, 2, dtype=DType.INT_32), name="y"))
    raw("good.raw", [1.0, 2.0])
    raw("bad.raw", [1.0, 0.5])
    listing(*["good.raw"] * 9, "bad.raw")
    before = entries()
    assert net_run(run, *mode, "--output-dir", "new/deep").code == 3
    assert entries() == before
    listing("good.raw")
    assert net_run(run, *mode, "--output-dir", "new/deep").code == 0
    kept = tree("new/deep")
    listing(*["good.raw"] * 9, "bad.raw")
    assert net_run(run, *mode, "--output-dir", "new/deep").code == 3
    assert tree("new/deep") == kept
    assert {p.name for p in Path("new/deep").iterdir()} == {"Result_0", "execution_metadata.yaml"}


def test_an_output_folder_that_cannot_be_one(two_steps: str, run: Any, fed: Any) -> None:
    Path("file").write_text("here")
    for folder in ("file", "file/below"):
        done = net_run(run, "--output-dir", folder)
        assert (done.code, done.error["code"]) == (3, "FILE_UNWRITABLE")
    assert Path("file").read_text() == "here"


@pytest.mark.parametrize("mode", [[], ["--synchronous"]])
def test_a_full_disk_leaves_nothing(
    two_steps: str,
    run: Any,
    fed: Any,
    entries: Any,
    monkeypatch: pytest.MonkeyPatch,
    mode: list[str],
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = entries()
    monkeypatch.setattr(output_files, "write_raw", full)
    done = net_run(run, *mode)
    assert (done.code, done.error["code"]) == (3, "FILE_UNWRITABLE")
    assert done.error["where"] == "output/Result_0"
    assert entries() == before


def test_a_commit_that_fails_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "out"
    for i in range(2):
        (folder / f"Result_{i}").mkdir(parents=True)
        (folder / f"Result_{i}" / "y.raw").write_bytes(b"old")
    before = tree(str(folder))
    replace = Path.replace

    def stubborn(source: Path, target: Path) -> Path:
        if target == folder / "Result_1":
            monkeypatch.undo()
            raise OSError(28, "No space left on device")
        return replace(source, target)

    with staged_folder(folder) as staging:
        for i in range(3):
            (staging.new / f"Result_{i}").mkdir()
            (staging.new / f"Result_{i}" / "y.raw").write_bytes(b"new")
        monkeypatch.setattr(Path, "replace", stubborn)
        with pytest.raises(Exception, match="No space left"):
            replace_results(staging, folder, [""], [])
    assert tree(str(folder)) == before
    assert {p.name for p in folder.iterdir()} == {"Result_0", "Result_1"}


# -- several graphs --------------------------------------------------------------------------------


@pytest.fixture
def two_models(new_net: Any, raw: Any, listing: Any) -> str:
    for name, op in (("first", "ElementWiseNeg"), ("second/b", "ElementWiseAbs")):
        net = new_net(name)
        net.save(net.node(op, net.input("x", 1, 2), name="y"), path=f"{name[:6]}.dvt")
    raw("a.raw", [-1.0, 2.0])
    raw("b.raw", [-3.0, 4.0])
    listing("a.raw")
    listing("a.raw", "b.raw", path="other.txt")
    return "first.dvt,second.dvt"


def test_each_graph_has_its_folder(two_models: str, run: Any, result: Any) -> None:
    done = run("--json", "net-run", "--model", two_models, "--input-list", "list.txt,other.txt")
    assert done.code == 0, done.err
    assert result("y.raw", folder="output/first").tolist() == [1, -2]
    assert result("y.raw", index=1, folder="output/second_b").tolist() == [3, 4]
    assert [g["results_dir"] for g in done.data["graphs"]] == ["output/first", "output/second_b"]
    assert [g["results"] for g in done.data["graphs"]] == [1, 2]


def test_a_graph_can_be_skipped(two_models: str, run: Any) -> None:
    done = run("--json", "net-run", "--model", two_models, "--input-list", "__,other.txt")
    assert done.code == 0, done.err
    assert set(tree()) == {
        "second_b/Result_0/y.raw",
        "second_b/Result_1/y.raw",
        "execution_metadata.yaml",
    }


@pytest.mark.parametrize(
    ("lists", "part"),
    [
        ("list.txt", "expected 2 input lists for the graphs first, second/b, got 1"),
        ("__,__", "all graphs are skipped"),
        ("list.txt,", "empty item"),
    ],
)
def test_lists_must_go_with_graphs(two_models: str, run: Any, lists: str, part: str) -> None:
    done = run("net-run", "--model", two_models, "--input-list", lists)
    assert done.code == 2
    assert part in done.err


def test_one_graph_takes_one_list(two_steps: str, run: Any) -> None:
    done = run("net-run", "--model", two_steps, "--input-list", "list.txt,list.txt")
    assert done.code == 2
    assert "expected one for the graph net, got 2" in done.err


def test_faults_of_all_lists_are_told_together(
    two_models: str, run: Any, listing: Any, entries: Any
) -> None:
    listing("none.raw", path="list.txt")
    listing("x:=a.raw", "z:=a.raw", path="other.txt")
    before = entries()
    done = run("--json", "net-run", "--model", two_models, "--input-list", "list.txt,other.txt")
    assert [p["where"] for p in done.error["problems"]] == ["list.txt:1", "other.txt:2"]
    assert entries() == before


def test_two_graphs_of_one_name_are_refused(two_models: str, run: Any) -> None:
    done = run("net-run", "--model", "first.dvt,first.dvt", "--input-list", "list.txt,list.txt")
    assert done.code == 3
    assert "duplicate graph name 'first'" in done.err


def test_results_with_files_of_others_are_not_replaced(
    two_steps: str, run: Any, fed: Any, entries: Any
) -> None:
    Path("output/Result_7").mkdir(parents=True)
    Path("output/Result_7/notes.txt").write_text("mine")
    before = entries()
    done = net_run(run)
    assert (done.code, done.error["where"]) == (3, "output/Result_7")
    assert entries() == before


def test_clashing_names_get_a_number(new_net: Any, run: Any, fed: Any, result: Any) -> None:
    net = new_net()
    x = net.input("x", 6)
    made = [net.node("ElementWiseNeg", x, name=name) for name in ("a/b", "a:b", "a_b_1")]
    net.save(*made)
    assert net_run(run).code == 0
    names = {p.name for p in Path("output/Result_0").iterdir()}
    assert names == {"a_b.raw", "a_b_1.raw", "a_b_2.raw"}


def test_a_graph_named_like_the_metadata(new_net: Any, run: Any, fed: Any, listing: Any) -> None:
    for name, path in (("execution_metadata.yaml", "a.dvt"), ("g", "b.dvt")):
        net = new_net(name)
        net.save(net.node("ElementWiseNeg", net.input("x", 6), name="y"), path=path)
    done = run("net-run", "--model", "a.dvt,b.dvt", "--input-list", "list.txt,list.txt")
    assert done.code == 0, done.err
    assert Path("output/execution_metadata.yaml").is_file()
    assert Path("output/execution_metadata.yaml_1/Result_0/y.raw").is_file()
