"""Files of programs that declare each struct as a variable and assign its members."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from dovetail.errors import FrontendError
from dovetail.ir import DType, Graph, Scalar, ScaleOffset, TensorKind
from dovetail_qnn import QnnCppFrontend


def tensor(name: str, kind: str, shape: str, dtype: str, *more: str) -> str:
    lines = [
        "version = QNN_TENSOR_VERSION_1",
        "v1.id = 0",
        f'v1.name = "{name}"',
        f"v1.type = QNN_TENSOR_TYPE_{kind}",
        "v1.dataFormat = QNN_TENSOR_DATA_FORMAT_FLAT_BUFFER",
        f"v1.dataType = QNN_DATATYPE_{dtype}",
        *more,
        f"v1.rank = {shape.count(',') + 1}",
        f"v1.dimensions = dimensions_{name}",
        "v1.memType = QNN_TENSORMEMTYPE_RAW",
    ]
    text = f"  uint32_t dimensions_{name}[] = {{{shape}}};\n"
    return text + variable("Qnn_Tensor_t", f"tensor_{name}", lines)


def variable(kind: str, name: str, lines: list[str]) -> str:
    default = kind.removesuffix("_t").upper() + "_INIT"
    inner = "".join(f"  {name}.{line};\n" for line in lines)
    return f"  {kind} {name} = {default};\n  {{\n{inner}  }}\n"


ENCODED = (
    "v1.quantizeParams.encodingDefinition = QNN_DEFINITION_DEFINED",
    "v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET",
    "v1.quantizeParams.scaleOffsetEncoding.scale = 0.500000",
    "v1.quantizeParams.scaleOffsetEncoding.offset = -3",
)
# The order of these differs from the struct's.
VALUES = ("v1.clientBuf.data = data_ranges", "v1.clientBuf.dataSize = 24")
PROGRAM = f"""#include "QnnModel.hpp"
#include "QnnOpDef.h"
using namespace qnn_wrapper_api;
extern "C" {{
QNN_API
ModelError_t QnnModel_composeGraphs(Qnn_BackendHandle_t backendHandle, bool debug) {{
  ModelError_t err = MODEL_NO_ERROR;
  QnnModel net;
  VALIDATE(net.initialize(backendHandle, interface, contextHandle, "net", debug, 1, graphs), err);
{tensor("x", "APP_WRITE", "2, 3", "UFIXED_POINT_8", *ENCODED)}
  VALIDATE(net.addTensor("x", tensor_x), err);
{tensor("w", "STATIC", "3", "UFIXED_POINT_8", *ENCODED, "v1.clientBuf.data = BINVARSTART(w)")}
  VALIDATE(net.addTensor("w", tensor_w), err);
{tensor("s", "NATIVE", "2, 3", "UFIXED_POINT_8", *ENCODED)}
{
    variable("Qnn_Param_t", "param_operation_add", [
        "paramType = QNN_PARAMTYPE_SCALAR", 'name = "operation"',
        "scalarParam.dataType = QNN_DATATYPE_UINT_32", "scalarParam.uint32Value = 0",
    ])
}
  Qnn_Param_t params_add[] = {{param_operation_add}};
  const char * inputs_add[] = {{"x", "w"}};
  Qnn_Tensor_t outputs_add[] = {{tensor_s}};
  VALIDATE(net.addNode(QNN_OPCONFIG_VERSION_1, "add", "qti.aisw", "ElementWiseBinary", params_add,
    1, inputs_add, 2, outputs_add, 1), err);
  int data_ranges[] = {{0, 2, 1, 0, 3, 2}};
{tensor("ranges", "STATIC", "2, 3", "INT_32", *VALUES)}
{
    variable("Qnn_Param_t", "param_ranges_cut", [
        "paramType = QNN_PARAMTYPE_TENSOR", "tensorParam = tensor_ranges", 'name = "ranges"',
    ])
}
  Qnn_Param_t params_cut[] = {{param_ranges_cut}};
  const char * inputs_cut[] = {{"s"}};
{tensor("y", "APP_READ", "2, 2", "UFIXED_POINT_8", *ENCODED)}
  Qnn_Tensor_t outputs_cut[] = {{tensor_y}};
  VALIDATE(net.addNode(QNN_OPCONFIG_VERSION_1, "cut", "qti.aisw", "StridedSlice", params_cut, 1,
    inputs_cut, 1, outputs_cut, 1), err);
  *numGraphsInfo = numModels;
  return err;
}}
}}
"""  # fmt: skip


def read(folder: Path, text: str) -> Graph:
    path = folder / "net.cpp"
    path.write_text(text, "utf-8")
    (folder / "w.raw").write_bytes(bytes([4, 5, 6]))
    with tarfile.open(folder / "net.bin", "w") as tar:
        tar.add(folder / "w.raw", "w.raw")
    (graph,) = QnnCppFrontend().read(path)
    return graph


def test_members_that_are_assigned(tmp_path: Path) -> None:
    graph = read(tmp_path, PROGRAM)
    kinds = [(t.name, t.kind, t.shape, t.encoding) for t in graph.tensors.values()]
    encoding = ScaleOffset(0.5, -3)
    assert kinds == [
        ("x", TensorKind.APP_WRITE, (2, 3), encoding),
        ("w", TensorKind.STATIC, (3,), encoding),
        ("s", TensorKind.NATIVE, (2, 3), encoding),
        ("y", TensorKind.APP_READ, (2, 2), encoding),
    ]
    assert graph.tensor("w").values().tolist() == [4, 5, 6]
    add, cut = graph.nodes
    assert add.params == {"operation": Scalar(DType.UINT_32, 0)}
    ranges = cut.params["ranges"]
    assert not isinstance(ranges, Scalar)
    np.testing.assert_array_equal(ranges.values(), [[0, 2, 1], [0, 3, 2]])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("{tensor_s}", "{tensor_t}", "expected a Qnn_Tensor_t, got tensor_t"),
        ("{tensor_s}", "{param_operation_add}", "expected a Qnn_Tensor_t, got param_operation"),
        ("tensorParam = tensor_ranges", "tensorParam = tensor_range", "got tensor_range"),
        ("Qnn_Tensor_t tensor_s ", "Qnn_Tensor_t tensor_x ", "'tensor_x' is declared twice"),
        ("_x.v1.id = 0", "_x.v1.id = 0, 1", "'tensor_x': 'id' is not assigned one value"),
        ("_x.v1.id = 0", "_x.v1 = 0", "'tensor_x': 'v1' is assigned in parts, too"),
        ("_x.v1.id = 0", "_x.v1.rank = 2", "'tensor_x': 'rank' is assigned twice; use a variable"),
        ("_x.v1.id = 0", "_x.v1.id |= 1", "'tensor_x' is changed, not only declared"),
        ("_x.v1.id = 0", "_x.v1.dimensions[0] = 1", "'tensor_x' is changed, not only declared"),
        (
            "  VALIDATE(net.addTensor",
            "  dimensions_x[1] = 4;\n  VALIDATE(net.addTensor",
            "'dimensions_x'",
        ),
        (
            "  VALIDATE(net.addTensor",
            "  tensor_x = tensor_y;\n  VALIDATE(net.addTensor",
            "'tensor_x' is",
        ),
        ("_x.v1.id = 0", "_x" + ".a" * 100_000 + " = 0", "members are nested too deeply"),
        ("  {\n  tensor_x.v", "  { { {\n  tensor_x.v", "a statement cannot be read"),
    ],
)
def test_faults(tmp_path: Path, old: str, new: str, reason: str) -> None:
    assert old in PROGRAM
    with pytest.raises(FrontendError) as caught:
        read(tmp_path, PROGRAM.replace(old, new, 1))
    assert reason in str(caught.value)


def test_references_to_variables_are_bounded(tmp_path: Path) -> None:
    members = f"t.v1.{'a' * 50_000} = {{}};\n"
    uses = ", ".join(["t"] * 1_000)
    text = f"""ModelError_t QnnModel_composeGraphs() {{ Qnn_Tensor_t t = QNN_TENSOR_INIT;
      t.version = 1; t.v1.name = "t"; t.v1.dataType = 562; {members}
      Qnn_Tensor_t outputs[] = {{{uses}}}; const char* none[] = {{}};
      VALIDATE(m.addNode(1, "n", "p", "o", nullptr, 0, none, 0, outputs, 1000), e); }}"""
    with pytest.raises(FrontendError, match="faults") as caught:
        read(tmp_path, text)
    assert "too often" in str(caught.value)
