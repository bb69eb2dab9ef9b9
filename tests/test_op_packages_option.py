"""`--op-packages` on every command that needs ops, and packages that are installed as well."""

from __future__ import annotations

import subprocess
from pathlib import Path

import forked
import numpy as np
import onnx
import pytest
from one_node_model import write_model
from onnx import TensorProto, helper

import dovetail

PACKAGE = """
from dovetail.ir import DType
from dovetail.ops import In, Op, OpPackage
from dovetail.runtime.plan import KernelRegistry

PACKAGE = OpPackage("my.ops")
KERNELS = KernelRegistry("cpu")

@PACKAGE.op("Times")
class Times(Op):
    inputs = (In("x"),)

    def infer(self, x, out):
        return x

    def reference(self, x):
        return {factor} * x

@KERNELS.register("my.ops", "Times")
def times(call):
    if call.spec(0).dtype is not DType.FLOAT_32:
        return None
    call.read(0)
    call.write()
    return call.array_step(lambda x, out: out.__setitem__(..., {factor} * x))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model with the op my.ops::Times, a list of one input, and ops.py, where it triples."""
    write_model(tmp_path, "Times", "my.ops")
    (tmp_path / "ops.py").write_text(PACKAGE.format(factor=3))
    return tmp_path


@pytest.fixture
def site(folder: Path) -> Path:
    """A folder with an installed op package of the same name, where the op doubles."""
    info = folder / "site" / "my_ops-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "site" / "my_ops.py").write_text(PACKAGE.format(factor=2))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-ops\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[dovetail.op_packages]\nmy.ops = my_ops:PACKAGE\n"
        "[dovetail.kernels]\ncpu:my.ops = my_ops:KERNELS\n"
    )
    return folder / "site"


def run(folder: Path, command: str, *path: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = forked.run(f"dovetail {command}", folder, path=path)
    assert done.returncode == code, done.stderr
    return done


def result(folder: Path) -> list[float]:
    values: list[float] = np.fromfile(folder / "output" / "Result_0" / "y.raw", np.float32).tolist()
    return values


QUANTIZE = "quantize -i net.dvt --input-list list.txt --act-bitwidth 16"
RUN = "net-run --model net.quantized.dvt --input-list list.txt"


def test_package_that_is_not_installed(folder: Path) -> None:
    refused = run(folder, "convert -i net.onnx", code=4).stderr
    assert "--op-packages" in refused
    assert "--op-package-config" in refused
    option = "--op-packages ops.py:PACKAGE"
    run(folder, f"convert -i net.onnx {option}")
    refused = run(folder, QUANTIZE, code=4).stderr
    assert "--op-packages" in refused
    run(folder, f"{QUANTIZE} {option}")
    done = run(folder, f"{RUN} {option}")
    np.testing.assert_allclose(result(folder), [0, 3, 6, 9], atol=1e-3)  # 16 bits
    assert "note:" not in done.stderr


DEFINITION = """
<OpDefCollection PackageName="my.ops" Domain="my.ops" Version="1.0"><OpDefList><OpDef>
<Name>Times</Name>
<Input><Name>x</Name><Mandatory>true</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
<Shape><Rank>ND</Rank><Text>[m, n]</Text></Shape></Input>
<Output><Name>y</Name><Mandatory>true</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
<Shape><Rank>ND</Rank><Text>[m, n]</Text></Shape></Output>
</OpDef></OpDefList></OpDefCollection>
"""


@pytest.mark.parametrize("option", ["-opl ops.py", "-opc ops.xml"])
def test_the_library_of_a_model_with_ops_of_others(folder: Path, option: str) -> None:
    """As from qnn-onnx-converter with a package, through its C++ to a run."""
    (folder / "ops.xml").write_text(DEFINITION)
    run(folder, "convert -i net.onnx -o net.cpp --op-packages ops.py")
    make = "model-lib-generator -c net.cpp -t x86"
    assert "--op-packages" in run(folder, make, code=4).stderr
    run(folder, f"{make} {option}")
    model = "--model lib/x86/libqnn_model.so --op-packages ops.py"
    run(folder, f"net-run {model} --input-list list.txt")
    assert result(folder) == [0, 3, 6, 9]


def test_package_of_the_command_line_wins_over_the_installed_one(folder: Path, site: Path) -> None:
    option = "--op-packages ops.py:PACKAGE"
    for command in ("convert -i net.onnx", QUANTIZE, RUN):
        assert "note:" not in run(folder, command, site).stderr
    np.testing.assert_allclose(result(folder), [0, 2, 4, 6], atol=1e-3)  # 16 bits
    for command in ("convert -i net.onnx", QUANTIZE, RUN):
        assert run(folder, f"{command} {option}", site).stderr.startswith(
            "note: op package 'my.ops' of the command line replaces the installed one "
            "(dist my-ops 1.0) and its kernels\n"
        )
    np.testing.assert_allclose(result(folder), [0, 3, 6, 9], atol=1e-3)  # 16 bits
    # the installed package itself, by its module, replaces nothing
    done = run(folder, f"{RUN} --op-packages my_ops:PACKAGE", site)
    assert "note:" not in done.stderr


def test_a_context_binary_states_the_package(folder: Path, site: Path) -> None:
    option = "--op-packages ops.py:PACKAGE"
    run(folder, f"convert -i net.onnx {option}")
    run(folder, f"context-binary-generator --model net.dvt --binary-file c {option}")
    load = "net-run --retrieve-context output/c.bin --input-list list.txt"
    run(folder, f"{load} {option}")
    assert result(folder) == [0, 3, 6, 9]
    for command in (load, f"{load} --validate-binary"):
        done = run(folder, command, code=5)
        assert "op package my.ops is unknown, the binary's is 1.0.0, not installed" in done.stderr
        assert "pass it with --op-packages" in done.stderr
        done = run(folder, command, site, code=5)  # an installed one is another package
        assert "op package my.ops is 1.0, the binary's is 1.0.0, not installed" in done.stderr
    done = run(folder, "inspect output/c.bin --backend cpu")
    assert "on cpu here: UNSUPPORTED" in done.stdout


DEFINITIONS = """
<OpDefCollection PackageName="my.ops" Domain="org.me" Version="1">
  <OpDefList>
    <OpDef><Name>Times</Name>
      <Input><Name>x</Name><Datatype>BACKEND_SPECIFIC</Datatype></Input>
      <Output><Name>y</Name><Datatype>BACKEND_SPECIFIC</Datatype></Output></OpDef>{more}
  </OpDefList>
</OpDefCollection>
"""
MORE = """
    <OpDef><Name>Plus</Name>
      <Input><Name>x</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype></Input>
      <Output><Name>y</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype></Output></OpDef>"""


@pytest.mark.parametrize("is_installed", [False, True])
def test_definitions_take_the_code_of_a_package(
    folder: Path, site: Path, is_installed: bool
) -> None:
    """As scripts for the SDK pass both: the XML for the conversion, the library to quantize."""
    model = onnx.load(folder / "net.onnx")
    model.graph.node[0].domain = model.opset_import[1].domain = "org.me"
    onnx.save(model, folder / "net.onnx")
    (folder / "ops.xml").write_text(DEFINITIONS.format(more=""))
    path = (site,) if is_installed else ()
    code = "" if is_installed else "-opl ops.py:PACKAGE"
    command = "convert -i net.onnx -opc ops.xml -o net.quantized.dvt --input-list list.txt"
    done = run(folder, f"{command} --act-bitwidth 16 {code}", *path)
    assert "note: op package" not in done.stderr
    run(folder, f"{RUN} {code}", *path)
    factor = 2 if is_installed else 3
    np.testing.assert_allclose(result(folder), factor * np.arange(4), atol=1e-3)  # 16 bits
    # an op that the package lacks
    (folder / "ops.xml").write_text(DEFINITIONS.format(more=MORE))
    if is_installed:
        done = run(folder, "convert -i net.onnx -opc ops.xml -o float.dvt", *path)
        assert "of the command line replaces the installed one" in done.stderr
    else:
        done = run(folder, f"{command} {code}", code=6)
        assert "error[PLUGIN_CONFLICT]: duplicate op package 'my.ops'" in done.stderr


def test_two_packages_of_one_name_on_the_command_line_conflict(folder: Path) -> None:
    (folder / "more.py").write_text((folder / "ops.py").read_text())
    done = run(folder, "convert -i net.onnx --op-packages ops.py:PACKAGE,more.py:PACKAGE", code=6)
    assert "error[PLUGIN_CONFLICT]: duplicate op package 'my.ops'" in done.stderr


def test_spellings_of_the_sdk(folder: Path) -> None:
    """What an op infers replaces what the model declares, and both options add packages."""
    model = onnx.load(folder / "net.onnx")
    second = helper.make_node("Twice", ["y"], ["z"], domain="your.ops")
    model.graph.node.append(second)
    model.graph.value_info.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2]))
    model.graph.output[0].name = "z"
    model.opset_import.append(helper.make_opsetid("your.ops", 1))
    onnx.save(model, folder / "net.onnx")
    text = PACKAGE.format(factor=5).replace("my.ops", "your.ops").replace("Times", "Twice")
    (folder / "more.py").write_text(text)
    run(folder, "convert -i net.onnx -opl ops.py:PACKAGE -cpl more.py:PACKAGE")
    (graph,) = dovetail.load(folder / "net.dvt").graphs.values()
    assert [node.package for node in graph.nodes] == ["my.ops", "your.ops"]
    assert graph.tensor("y").shape == (1, 4)
    option = "--op_package_lib ops.py:PACKAGE --converter_op_package_lib ops.py:PACKAGE,more.py"
    run(folder, f"convert -i net.onnx {option}:PACKAGE -o again.dvt")
    (again,) = dovetail.load(folder / "again.dvt").graphs.values()
    assert [node.op_type for node in again.nodes] == ["Times", "Twice"]


def test_native_samples(folder: Path) -> None:
    """An input of bytes: the file is read as bytes, so that its range is that of its values."""
    ends = [helper.make_tensor_value_info("x", TensorProto.UINT8, [4])]
    ends += [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])]
    nodes = [
        helper.make_node("Cast", ["x"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Sigmoid", ["c"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "net.onnx")
    np.array([0, 1, 2, 200], np.uint8).tofile(folder / "x.raw")
    command = "convert -i net.onnx --input-list list.txt"
    assert "x.raw" in run(folder, command, code=3).stderr
    run(folder, f"{command} --use_native_dtype")
    (made,) = dovetail.load(folder / "net.dvt").graphs.values()
    assert made.tensor("y").dtype.is_fixed_point
