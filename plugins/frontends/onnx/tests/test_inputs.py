"""Open dimensions: bound by options, defaulted to 1 in front, else all reported."""

from __future__ import annotations

import logging

import numpy as np
import onnx
import pytest
from onnx import helper

from dovetail import Session
from dovetail.errors import ConfigError, ExitCode, FrontendError
from dovetail_onnx import OnnxFrontend, OnnxOptions

N = helper.make_node
FLOAT = 1


@pytest.fixture
def shapes(model, read):
    """Read a model with these inputs, each through a Relu, and return their shapes."""

    def run(inputs, **options):
        nodes = [N("Relu", [name], [f"{name}_out"]) for name in inputs]
        declared = {name: (FLOAT, dims) for name, dims in inputs.items()}
        made = model(nodes, declared, [f"{name}_out" for name in inputs])
        graph = read(made, OnnxOptions(**options))
        return {t.name: t.shape for t in graph.inputs}

    return run


def test_an_open_first_dimension_becomes_one(shapes, caplog) -> None:
    with caplog.at_level(logging.WARNING, "dovetail.onnx"):
        assert shapes({"x": ["N", 3], "z": [None, 2]}) == {"x": (1, 3), "z": (1, 2)}
    assert "input 'x': its first dimension 'N' is open and becomes 1" in caplog.text
    assert "input 'z'" in caplog.text


def test_batch(shapes) -> None:
    found = shapes({"x": ["N", 3], "z": [1, 2], "s": []}, batch=4)
    assert found == {"x": (4, 3), "z": (4, 2), "s": ()}


def test_question_marks_are_no_symbol(shapes) -> None:
    assert shapes({"x": ["?", 3, "?", 5]}, input_dims={"x": (2, 3, 4, 5)}) == {"x": (2, 3, 4, 5)}
    assert shapes({"x": ["?", 3], "z": ["?", 2]}, input_dims={"x": (7, 3)})["z"] == (1, 2)


def test_symbols_hold_everywhere(shapes) -> None:
    inputs = {"x": ["N", "T"], "z": ["N", 8, "T"]}
    assert shapes(inputs, symbols={"T": 5, "N": 2}) == {"x": (2, 5), "z": (2, 8, 5)}


def test_input_dims_bind_symbols_of_other_inputs(shapes) -> None:
    inputs = {"x": ["N", "T"], "z": ["N", 8, "T"]}
    assert shapes(inputs, input_dims={"x": (3, 7)}) == {"x": (3, 7), "z": (3, 8, 7)}


def test_input_dims_win_over_the_file_and_the_batch(shapes) -> None:
    found = shapes({"x": [1, 3], "z": [1, 3]}, input_dims={"x": (2, 9)}, batch=6)
    assert found == {"x": (2, 9), "z": (6, 3)}


def test_all_open_dimensions_are_reported_with_the_option(shapes) -> None:
    with pytest.raises(FrontendError) as caught:
        shapes({"x": ["N", "T", 3], "z": [2, None], "r": None})
    assert caught.value.code == "MODEL_SHAPE_UNKNOWN"
    found = {(p.where, p.hint) for p in caught.value.problems}
    assert found == {
        ("input 'x'", "bind it: --define-symbol T VALUE"),
        ("input 'z'", "bind it: --input-dim z 2,VALUE"),
        ("input 'r'", "bind it: --input-dim r SHAPE"),
    }


def test_the_hint_names_the_command_and_the_python_options(shapes, tmp_path) -> None:
    with pytest.raises(FrontendError) as caught:
        shapes({"x": ["N", "H"], "z": ["N", None, "H"], "w": [1, "H"]}, symbols={"N": 4})
    path = tmp_path / "model.onnx"
    assert caught.value.hint == (
        f"convert it with their values: `dovetail convert -i {path} --input-dim z 4,VALUE,VALUE "
        "--define-symbol H VALUE` (in Python: OnnxOptions(symbols={'H': VALUE}, "
        "input_dims={'z': (4, VALUE, VALUE)})), or let the arrays of each run say: "
        "Session(..., specialize=['x', 'z', 'w'])"
    )


def test_an_input_of_unknown_rank_takes_its_dims(shapes) -> None:
    assert shapes({"r": None}, input_dims={"r": (2, 3)}) == {"r": (2, 3)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_dims": {"inptu": (1, 2)}}, "did you mean 'input'"),
        ({"symbols": {"widht": 3}}, "did you mean 'width'"),
        ({"input_dims": {"input": (1, 2, 3)}}, "--input-dim input: expected rank 2, got 3"),
        (
            {"input_dims": {"input": (-1, 2)}},
            "--input-dim input: impossible shape -1,2: sizes must be 0 to 2147483647",
        ),
        ({"symbols": {"width": -1}}, "impossible value"),
        ({"batch": 0}, "--batch: impossible value 0: the batch must be 1 to 2147483647"),
        ({"batch": -3}, "--batch: impossible value -3: the batch must be 1 to 2147483647"),
        (
            {"batch": 2**31},
            "--batch: impossible value 2147483648: the batch must be 1 to 2147483647",
        ),
        ({"out_names": ("inputout",)}, "did you mean 'input_out'"),
    ],
)
def test_options_that_do_not_fit(shapes, options, message) -> None:
    with pytest.raises(ConfigError) as caught:
        shapes({"input": ["N", "width"]}, **options)
    assert message in str(caught.value)
    assert (caught.value.code, caught.value.exit_code) == ("USAGE", ExitCode.USAGE)


def test_all_options_that_do_not_fit_are_told_at_once(shapes, tmp_path) -> None:
    with pytest.raises(ConfigError) as caught:
        shapes(
            {"input": ["N", "width"]},
            input_dims={"inptu": (1, 2), "input": (1,)},
            symbols={"widht": -3},
            batch=0,
            out_names=("never",),
        )
    wheres = [p.where for p in caught.value.problems]
    assert wheres == [
        "--input-dim inptu",
        "--input-dim input",
        "--define-symbol widht",
        "--define-symbol widht",
        "--batch",
        "--out-name never",
    ]
    # the mistake is the user's: nothing sends him back to the file
    assert caught.value.hint == ""
    with pytest.raises(ConfigError):
        OnnxFrontend().dry_run(tmp_path / "model.onnx", OnnxOptions(batch=0))


def test_dims_of_an_input_that_is_cut_away_are_no_mistake(shapes) -> None:
    inputs = {"x": ["N", 3], "z": ["N", "T"]}
    options = {"input_dims": {"z": (2, 2)}, "symbols": {"T": 2}, "out_names": ("x_out",)}
    assert shapes(inputs, **options) == {"x": (1, 3)}


def test_options_that_contradict_each_other(shapes) -> None:
    with pytest.raises(ConfigError, match="'T' would be 7 here, but 5 elsewhere") as caught:
        shapes({"x": ["N", "T"]}, input_dims={"x": (1, 7)}, symbols={"T": 5})
    assert caught.value.code == "USAGE"


def test_inputs_with_a_default_are_constants(model, read) -> None:
    w = np.ones(3, np.float32)
    made = model([N("Add", ["x", "w"], ["y"])], {"x": w, "w": w}, ["y"], {"w": w})
    assert [t.name for t in read(made).inputs] == ["x"]


@pytest.fixture
def idle(model):
    """Return a model with an input of these dims, or of this type, that nothing reads."""

    def make(dims=(2, "T"), kind=FLOAT):
        x = (FLOAT, ["N", 3])
        return model([N("Relu", ["x"], ["y"])], {"idle": (kind, dims), "x": x}, ["y"])

    return make


def test_a_session_is_specialized_for_inputs_of_the_model(model, tmp_path) -> None:
    made = model([N("Add", ["x", "w"], ["y"])], {"x": (FLOAT, ["N"]), "w": (FLOAT, [1])}, ["y"])
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1, np.float32), "w"))
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    assert OnnxFrontend().input_names(path) == ("x",)
    with pytest.raises(ConfigError) as caught:
        Session(path, specialize=["xx", "w"])
    assert "input 'xx' not found in the model (did you mean 'x'?)" in str(caught.value)
    assert "input 'w' not found in the model" in str(caught.value)
    with Session(path, specialize=["x"]) as session:
        assert session.run({"x": np.ones(3, np.float32)})["y"].tolist() == [2, 2, 2]


def test_inputs_that_nothing_reads_stay_in_the_interface(idle, read, caplog) -> None:
    with caplog.at_level(logging.WARNING, "dovetail.onnx"):
        graph = read(idle(), OnnxOptions(symbols={"T": 4}))
    assert {t.name: t.shape for t in graph.inputs} == {"idle": (2, 4), "x": (1, 3)}
    assert [t.name for t in graph.inputs] == ["idle", "x"]
    assert "input 'idle': no output depends on it; values are ignored" in caplog.text


def test_their_dimensions_bind_symbols_of_other_inputs(idle, read) -> None:
    graph = read(idle(("N", 2)), OnnxOptions(input_dims={"idle": (5, 2)}))
    assert {t.name: t.shape for t in graph.inputs} == {"idle": (5, 2), "x": (5, 3)}


@pytest.mark.parametrize(
    "unknown", [{}, {"dims": None}, {"dims": (2, None)}, {"kind": onnx.TensorProto.STRING}]
)
def test_they_are_left_out_where_type_or_shape_is_unknown(idle, read, caplog, unknown) -> None:
    with caplog.at_level(logging.WARNING, "dovetail.onnx"):
        graph = read(idle(**unknown))
    assert [t.name for t in graph.inputs] == ["x"]
    assert "input 'idle': no output depends on it; left out" in caplog.text


def test_inputs_that_a_cut_leaves_behind_are_left_out(model, read) -> None:
    nodes = [N("Relu", ["x"], ["a"]), N("Add", ["a", "z"], ["y"])]
    made = model(nodes, {"x": np.ones(3, np.float32), "z": np.ones(3, np.float32)}, ["y"])
    assert [t.name for t in read(made, OnnxOptions(out_names=("a",))).inputs] == ["x"]
