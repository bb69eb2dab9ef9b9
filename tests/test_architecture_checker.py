"""`dovetail architecture-checker`, and the file that `convert --arch-checker` writes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import forked
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

CHECK = "dovetail architecture-checker"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Conv of 3 channels, PRelu, division by -4: the change of elwisediv is exact."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.normal(size=(40, 3, 3, 3)),
        "slope": np.full((40, 1, 1), 0.25),
        "d": np.array(-4.0),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("PRelu", ["c", "slope"], ["p"], name="act"),
        helper.make_node("Div", ["p", "d"], ["y"], name="scale"),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, n, 8, 8])
        for name, n in (("x", 3), ("y", 40))
    ]
    weights = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in constants.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "net.onnx")
    rng.normal(size=(1, 3, 8, 8)).astype("<f4").tofile(tmp_path / "x.raw")
    (tmp_path / "list.txt").write_text("x:=x.raw\n")
    return tmp_path


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def outputs(folder: Path, network: str) -> np.ndarray:
    done = forked.run(
        f"dovetail net-run --model {network} --input-list list.txt --output-dir out", folder
    )
    assert done.returncode == 0, done.stderr
    return np.fromfile(folder / "out/Result_0/y.raw", "<f4")


def test_the_file_has_each_issue_with_its_node(model: Path) -> None:
    done = forked.run(f"{CHECK} net.onnx", model)
    assert done.returncode == 0, done.stderr
    found = rows(model / "net_architecture_checker.csv")
    assert [row["Graph/Node_name"] for row in found] == ["conv", "act", "scale"]
    assert [row[""] for row in found] == ["1", "2", "3"]
    act = found[1]
    assert act["Type"] == "Prelu"
    assert "slope: [1, 1, 1, 40]" in act["Input_tensor_name:[dims]"]
    assert (act["Previous node"], act["Next nodes"]) == ("conv", "scale")
    assert (act["Modification"], act["Modification_info"]) == ("N/A", "N/A")
    assert [p.name for p in sorted(model.iterdir())] == [
        "list.txt",
        "net.onnx",
        "net_architecture_checker.csv",
        "x.raw",
    ]


def test_a_modified_model_is_written_in_the_format_of_the_model(model: Path) -> None:
    assert forked.run("dovetail convert net.onnx -o net_net.json", model).returncode == 0
    done = forked.run(f"{CHECK} -i net_net.json -o out --modify apply=elwisediv", model)
    assert done.returncode == 0, done.stderr
    assert {p.name for p in (model / "out").iterdir()} == {
        "net_architecture_checker.csv",
        "net_modified.bin",
        "net_modified_net.json",
    }
    found = rows(model / "out/net_architecture_checker.csv")
    assert [row["Modification"] for row in found] == ["N/A", "N/A", "elwisediv"]
    np.testing.assert_array_equal(
        outputs(model, "out/net_modified_net.json"), outputs(model, "net_net.json")
    )
    done = forked.run(f"{CHECK} out/net_modified_net.json --json", model)
    issues = json.loads(done.stdout)["issues"]
    assert [issue["rule"] for issue in issues] == ["channels", "prelu"]


def test_the_converter_writes_the_file_next_to_its_model(model: Path) -> None:
    command = "dovetail convert net.onnx -o made/net.dlc --arch-checker"
    (model / "made").mkdir()
    done = forked.run(command, model)
    assert done.returncode == 0, done.stderr
    assert "made/net_architecture_checker.csv" in done.stderr
    assert len(rows(model / "made/net_architecture_checker.csv")) == 3


def test_the_converter_writes_no_model_without_the_file(model: Path) -> None:
    kept = model / "net_architecture_checker.csv"
    kept.mkdir()
    (kept / "mine.txt").write_text("kept")
    done = forked.run("dovetail convert net.onnx -o net.dlc --arch-checker", model)
    assert done.returncode != 0
    assert "net_architecture_checker.csv" in done.stderr
    assert not (model / "net.dlc").exists()
    assert (kept / "mine.txt").read_text() == "kept"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", ["missing model"]),
        ("a.onnx -i b.onnx", ["two models"]),
        ("net.onnx --modify some", ["unknown value 'some'", "show, all or"]),
        (
            "net.onnx --modify apply=elwisdiv,channels",
            ["did you mean 'elwisediv'", "rule 'channels' modifies nothing"],
        ),
        ("net.onnx --modify apply=", ["apply= names no rule"]),
    ],
)
def test_faults_of_the_command_line(model: Path, arguments: str, says: list[str]) -> None:
    done = forked.run(f"{CHECK} {arguments}", model)
    assert done.returncode == 2
    assert all(text in done.stderr for text in says), done.stderr
    assert not list(model.glob("*.csv"))


def test_nothing_is_left_if_the_folder_cannot_be_written(model: Path) -> None:
    (model / "out").write_text("a file")
    done = forked.run(f"{CHECK} net.onnx -o out --modify all", model)
    assert done.returncode == 3, done.stderr
    assert "out" in done.stderr
    assert not list(model.glob("*.csv"))
