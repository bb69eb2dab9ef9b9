"""Files of weights that change while a session on the backend `cpu` uses them, or is about to."""

from __future__ import annotations

from pathlib import Path

import forked
import numpy as np
import pytest
from onnx import TensorProto, helper

from dovetail.container import Model, Producer
from dovetail.ir import DType, Graph, Node, Tensor, TensorKind
from dovetail.plugins.ops import installed_ops

WIDTH = 256
X = np.ones((1, WIDTH), np.float32)

# Changes the file at the moment that it is called for, and prints what comes of it.
PROGRAM = """
import os, sys
import numpy as np
from dovetail.api.loading import load_model
from dovetail.errors import DovetailError
from dovetail.runtime import Backend

model_path, path, other, how, moment, mapped = sys.argv[1:]

def change(now):
    if now != moment:
        return
    if how == "overwrite":
        with open(path, "r+b") as file:
            file.write(open(other, "rb").read())
    elif how == "truncate":
        os.truncate(path, 4096)
    else:
        os.replace(other, path)

try:
    x = np.ones((1, 256), np.float32)
    model = load_model(model_path, map_weights=mapped == "mapped")
    change("loaded")
    with Backend.create("cpu") as backend:
        (graph,) = backend.create_context().compose(model)
        graph.finalize()
        change("finalized")
        print(int(graph.execute({"x": x})["y"].sum()))
except DovetailError as error:
    print(error.code, error.exit_code.name, error.hint != "")
"""


def save(path: Path, value: float, *, table: bool) -> None:
    """A matrix product, whose weights are packed; with a table that is read from the file."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, WIDTH), TensorKind.APP_WRITE))
    weights = graph.add_tensor(Tensor.static("w", np.full((WIDTH, WIDTH), value, np.float32)))
    last = graph.add_tensor(Tensor("t" if table else "y", DType.FLOAT_32, (1, WIDTH)))
    graph.add_node(Node("product", "qti.aisw", "MatMul", [x, weights], [last]))
    if table:
        values = np.full((WIDTH, WIDTH), value, np.float32)
        addend = graph.add_tensor(Tensor.static("table", values))
        y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (WIDTH, WIDTH)))
        graph.add_node(Node("sum", "qti.aisw", "ElementWiseAdd", [last, addend], [y]))
        last = y
    last.kind = TensorKind.APP_READ
    Model.of(graph, producer=Producer("test", "1"), registry=installed_ops()).save(path)


def outcome(folder: Path, how: str, moment: str, mapped: str, *, table: bool) -> str:
    save(folder / "net.dvt", 1, table=table)
    save(folder / "other.dvt", 2, table=table)
    return run(folder, "net.dvt", "net.dvt", "other.dvt", how, moment, mapped)


def run(folder: Path, *words: str) -> str:
    done = forked.run(["python", "-c", PROGRAM, *words], folder)
    assert done.returncode == 0, done.stderr  # a signal would be negative
    return done.stdout.strip()


CHANGED = "CONTAINER_CHANGED BAD_MODEL True"
PRODUCT = f"{WIDTH * WIDTH}"
SUM = f"{WIDTH * WIDTH * (WIDTH + 1)}"


@pytest.mark.parametrize("how", ["overwrite", "truncate"])
@pytest.mark.parametrize("moment", ["loaded", "finalized"])
def test_a_change_in_place_is_an_error(tmp_path: Path, how: str, moment: str) -> None:
    assert outcome(tmp_path, how, moment, "mapped", table=True) == CHANGED


@pytest.mark.parametrize("how", ["overwrite", "truncate"])
def test_packed_weights_outlive_the_file(tmp_path: Path, how: str) -> None:
    assert outcome(tmp_path, how, "finalized", "mapped", table=False) == PRODUCT


@pytest.mark.parametrize("how", ["overwrite", "truncate"])
@pytest.mark.parametrize("moment", ["loaded", "finalized"])
def test_weights_in_private_memory_do_not_change(tmp_path: Path, how: str, moment: str) -> None:
    assert outcome(tmp_path, how, moment, "private", table=True) == SUM


@pytest.mark.parametrize("moment", ["loaded", "finalized"])
def test_a_file_that_is_replaced_is_still_the_old_one(tmp_path: Path, moment: str) -> None:
    assert outcome(tmp_path, "replace", moment, "mapped", table=True) == SUM


def outcome_of_external_data(folder: Path, how: str, moment: str, mapped: str) -> str:
    weights = np.full((2, WIDTH, WIDTH), 1, np.float32)
    weights.tofile(folder / "net.bin")
    (weights * 2).tofile(folder / "other.bin")
    tensors = []
    for i, name in enumerate(("w", "table")):
        made = TensorProto(name=name, dims=[WIDTH, WIDTH], data_type=TensorProto.FLOAT)
        made.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "net.bin"), ("offset", str(i * weights[0].nbytes))):
            made.external_data.add(key=key, value=value)
        tensors.append(made)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"]),
        helper.make_node("Add", ["t", "table"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", [x], [y], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    return run(folder, "net.onnx", "net.bin", "other.bin", how, moment, mapped)


@pytest.mark.parametrize("how", ["overwrite", "truncate"])
@pytest.mark.parametrize("moment", ["loaded", "finalized"])
def test_a_change_of_external_data_is_an_error(tmp_path: Path, how: str, moment: str) -> None:
    assert outcome_of_external_data(tmp_path, how, moment, "mapped") == CHANGED
    assert outcome_of_external_data(tmp_path, how, moment, "private") == SUM


# A command, whose model is truncated as soon as the first handle of a graph is created.
COMMAND = """
import os, sys
from dovetail.cli import main
from dovetail.plugins.hooks import hooks
from dovetail.plugins.hookspecs import hookimpl

class Truncating:
    @hookimpl
    def dovetail_api_call(self, call):
        if call.function == "graph_create":
            os.truncate("net.dvt", 4096)

hooks.register(Truncating())
print(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("option", "code"), [([], 3), (["--no-map-weights"], 0)])
@pytest.mark.parametrize("command", ["net-run --model", "quantize -i"])
def test_commands_read_the_whole_file_on_request(
    tmp_path: Path, command: str, option: list[str], code: int
) -> None:
    save(tmp_path / "net.dvt", 1, table=True)
    X.tofile(tmp_path / "x.raw")
    (tmp_path / "list.txt").write_text("x.raw\n")
    words = [*command.split(), "net.dvt", "--input-list", "list.txt", *option]
    done = forked.run(["python", "-c", COMMAND, *words], tmp_path)
    assert done.stdout.splitlines()[-1:] == [str(code)], done.stderr
    assert ("error[CONTAINER_CHANGED]: net.dvt: " in done.stderr) == bool(code)
