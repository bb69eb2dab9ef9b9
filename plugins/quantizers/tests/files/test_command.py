"""`dovetail encodings`: what it prints, writes and exits with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import Run, runner
from onnx import TensorProto, helper, numpy_helper

from dovetail.api import convert


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `dovetail --json encodings` in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return runner(capsys, "--json", "encodings")


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `dovetail encodings`, which prints for people; `run` sets the folder."""
    return runner(capsys, "encodings")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """conv (4 filters) -> batchnorm -> relu -> transposed conv (2 filters) -> flatten -> matmul."""
    weights = {"w": (4, 3, 1, 1), "u": (4, 2, 1, 1), "m": (8, 6), "b": (4,), "g": (4,)}
    rng = np.random.default_rng(0)
    made = {n: rng.standard_normal(s).astype(np.float32) for n, s in weights.items()}
    made["v"] = np.ones(4, np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"]),
            helper.make_node("BatchNormalization", ["c", "g", "g", "g", "v"], ["n"]),
            helper.make_node("Relu", ["n"], ["r"]),
            helper.make_node("ConvTranspose", ["r", "u"], ["t"]),
            helper.make_node("Flatten", ["t"], ["f"]),
            helper.make_node("MatMul", ["f", "m"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 2, 2))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 6))],
        [numpy_helper.from_array(array, name) for name, array in made.items()],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def channels(name: str, count: int) -> dict[str, Any]:
    return {
        "name": name,
        "dtype": "INT",
        "enc_type": "PER_CHANNEL",
        "bw": 8,
        "is_sym": True,
        "scale": [0.1 * (i + 1) for i in range(count)],
        "offset": [-128.0] * count,
    }


X = {
    "name": "x",
    "dtype": "INT",
    "enc_type": "PER_TENSOR",
    "bw": 8,
    "is_sym": False,
    "scale": [0.1],
    "offset": [-61.0],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    data = {
        "version": "1.0.0",
        "activation_encodings": [X],
        "param_encodings": [channels("w", 4), channels("u", 2), channels("m", 6)],
    }
    path = tmp_path / "a.encodings"
    path.write_text(json.dumps(data), "utf-8")
    return path


def edited(path: Path, name: str, change: Callable[[Any], None]) -> Path:
    data = json.loads(path.read_text("utf-8"))
    change(data)
    made = path.parent / name
    made.write_text(json.dumps(data), "utf-8")
    return made


# -- convert ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("converted", [False, True])
def test_a_model_tells_the_axes_of_channels(
    run: Any, file: Path, model: Path, converted: bool
) -> None:
    if converted:
        convert(model).save("net.dvt")
        model = Path("net.dvt")
    done = run("convert", file, "b.json", "--to", "2.0.0", "--model", model)
    assert done.code == 0
    assert done.data["entries"] == 4
    made = {e["name"]: e for e in json.loads(Path("b.json").read_text())["encodings"]}
    # Conv (out, in, h, w); ConvTranspose (in, out, h, w); MatMul (in, out)
    assert {name: e.get("axis") for name, e in made.items()} == {
        "x": None,
        "w": 0,
        "u": 1,
        "m": 1,
    }
    assert run("diff", file, "b.json").code == 0


def test_a_bias_that_was_folded_goes_by_its_name_in_the_graph(
    run: Any, file: Path, model: Path
) -> None:
    graph = next(iter(convert(model).graphs.values()))
    (bias,) = (t for t in graph.tensors.values() if t.kind.is_static and t.source in ("n", "b"))

    def change(data: Any) -> None:
        data["param_encodings"].append(channels(bias.name, 4))

    made = edited(file, "b.json", change)
    done = run("convert", made, "c.json", "--to", "2.0.0", "--model", model)
    assert (done.code, done.data["entries"]) == (0, 5)
    assert run("lint", made, "--model", model).data["remarks"] == []
    # the activation that it was folded out of is not covered by it
    assert "n" in run("coverage", made, model).data["activations_missing"]


def test_without_a_model_a_missing_axis_is_an_error(run: Any, file: Path) -> None:
    done = run("convert", file, "b.json", "--to", "2.0.0")
    assert done.code == 3
    assert [p["where"] for p in done.error["problems"]] == ["'w'", "'u'", "'m'"]
    assert not Path("b.json").exists()
    done = run("convert", file, "b.json", "--to", "2.0.0", "--lossy")
    assert done.code == 0
    assert len(done.data["left_out"]) == 3
    assert "left out: 'w'" in done.err


def test_numbers_that_do_not_fit_the_model(run: Any, file: Path, model: Path) -> None:
    wrong = edited(file, "w.json", lambda d: d["param_encodings"].append(channels("b", 3)))
    done = run("convert", wrong, "b.json", "--to", "2.0.0", "--model", model)
    assert done.code == 3
    assert "3 scales for the 4 channels" in done.error["problems"][0]["message"]
    done = run("convert", wrong, "b.json", "--to", "2.0.0", "--model", model, "--lossy")
    assert (done.code, done.data["entries"]) == (0, 4)


@pytest.mark.parametrize(
    ("args", "code", "part"),
    [
        (["convert", "a.encodings", "b", "--to", "1.1"], 2, "one of 0.6.1"),
        (["convert", "a.encodings", "b"], 2, "--to"),
        (["convert", "none", "b", "--to", "1.0.0"], 3, "none"),
        (["convert", "a.encodings", "no/b", "--to", "1.0.0"], 3, "cannot be written"),
        (["diff", "a.encodings", "a.encodings", "--rtol", "nan"], 2, "not a valid tolerance"),
        (["coverage", "a.encodings", "none.onnx"], 3, "none.onnx"),
        (["lint", "a.encodings", "--model", "none.dvt"], 3, "none.dvt"),
        (["mend", "a.encodings"], 2, "mend"),
    ],
)
def test_refusals(run: Any, file: Path, args: list[str], code: int, part: str) -> None:
    done = run(*args)
    assert done.code == code
    assert part in f"{done.error['where']} {done.error['message']} {done.error['hint']}"


# -- diff ------------------------------------------------------------------------------------------


def test_diff_names_what_changed(run: Any, file: Path, shown: Run) -> None:
    def change(data: Any) -> None:
        data["activation_encodings"][0] |= {"offset": [-60], "scale": [0.1000001]}
        data["param_encodings"][0] |= {"bw": 4, "offset": [-8] * 4}
        data["param_encodings"][2]["name"] = "other"

    second = edited(file, "b.json", change)
    done = run("diff", file, second)
    assert done.code == 1
    assert (done.data["added"], done.data["removed"], done.data["same"]) == (["other"], ["m"], 1)
    assert done.data["changed"]["w"] == ["int8 became int4"]
    scale, offset = done.data["changed"]["x"]
    assert "0.1 became 0.1000001" in scale
    assert offset == "offset 0 -61 became -60"
    loose = run("diff", file, second, "--rtol", "1e-5")
    assert loose.data["changed"]["x"] == [offset]
    text = shown("diff", file, second).out
    assert "4 differ, 1 are the same" in text


def test_a_file_is_like_itself(run: Any, file: Path, shown: Run) -> None:
    done = shown("diff", file, file)
    assert (done.code, done.out) == (0, "0 differ, 4 are the same\n")


# -- lint ------------------------------------------------------------------------------------------


def test_lint_shows_faults_and_goes_on(run: Any, file: Path, model: Path, shown: Run) -> None:
    assert run("lint", file, "--model", model).data["remarks"] == []

    def change(data: Any) -> None:
        data["param_encodings"][0]["scale"][2] = -1
        data["param_encodings"][1]["offset"] = [-128, 0]
        data["activation_encodings"][0]["name"] = "X1"

    wrong = edited(file, "b.json", change)
    done = run("lint", wrong, "--model", model)
    assert done.code == 1
    # an asymmetric weight smells by itself, and fits no tensor of a model
    assert [(r["level"], r["rule"]) for r in done.data["remarks"]] == [
        ("fault", "format"),
        ("fault", "unknown-tensor"),
        ("fault", "misfit"),
        ("smell", "asymmetric-per-channel"),
    ]
    assert (done.data["faults"], done.data["smells"], done.data["notes"]) == (3, 1, 0)
    text = shown("lint", wrong).out
    assert "fault[format]: 'w' at $.param_encodings[0].scale: -1.0 (at 2 of 4)" in text


def test_smells_fail_only_if_asked(run: Any, file: Path) -> None:
    def change(data: Any) -> None:
        data["param_encodings"][1]["offset"] = [-128, 0]

    odd = edited(file, "b.json", change)
    assert run("lint", odd).code == 0
    assert run("lint", odd, "--strict").code == 1


# -- coverage --------------------------------------------------------------------------------------


def test_coverage_counts_both_ways(run: Any, file: Path, model: Path) -> None:
    def change(data: Any) -> None:
        data["activation_encodings"] += [X | {"name": "xx"}, X | {"name": "r"}, X | {"name": "y"}]
        data["activation_encodings"].append(X | {"name": "c"})

    done = run("coverage", edited(file, "b.json", change), model)
    assert done.code == 0
    assert set(done.data["covered"]) == {"x", "r", "y", "w", "u", "m"}
    assert done.data["params_missing"] == ["b"]
    assert {"n", "t"} <= set(done.data["activations_missing"])
    assert done.data["gone"] == ["c"]
    assert [(p["where"], p["hint"]) for p in done.data["unmatched"]] == [
        ("'xx'", "did you mean 'x'?")
    ]
    assert not done.data["complete"]


def test_coverage_that_must_be_complete(run: Any, file: Path, model: Path) -> None:
    assert run("coverage", file, model, "--strict").code == 1
    every = run("coverage", file, model).data

    def change(data: Any) -> None:
        for name in every["activations_missing"]:
            data["activation_encodings"].append(X | {"name": name})
        data["param_encodings"].append(channels("b", 4))

    done = run("coverage", edited(file, "b.json", change), model, "--strict")
    assert (done.code, done.data["complete"]) == (0, True)


def test_coverage_in_words(run: Any, file: Path, model: Path, shown: Run) -> None:
    out = shown("coverage", file, model).out
    assert "weight or bias without an entry  b" in out
    assert "without a tensor" in out.splitlines()[-1]
