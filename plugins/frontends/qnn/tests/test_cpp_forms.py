"""Forms of `X.cpp` that converters write, and faults: each is an error of the model."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from dovetail.errors import FrontendError
from dovetail.ir import AxisScaleOffset, DType, Graph, Scalar, ScaleOffset, TensorKind
from dovetail_qnn import QnnCppFrontend

UNDEFINED = """{ QNN_DEFINITION_UNDEFINED, QNN_QUANTIZATION_ENCODING_UNDEFINED,
  {.scaleOffsetEncoding= {.scale= 0.0000000000000000f, .offset= 0}}}"""


def tensor(
    name: str,
    kind: str,
    rank: int = 4,
    *,
    dtype: str = "FLOAT_32",
    quant: str = UNDEFINED,
    data: str = "{ .data=nullptr, .dataSize=0}",
    version: int = 2,
) -> str:
    tail = (
        """, .isDynamicDimensions= nullptr,
      .sparseParams= { QNN_SPARSE_LAYOUT_UNDEFINED, .hybridCoo= {.numSpecifiedElements= 0,
      .numSparseDimensions= 0}}, .isProduced= 0"""
        if version == 2
        else ""
    )
    return f"""(Qnn_Tensor_t) {{
     .version= QNN_TENSOR_VERSION_{version},
     {{.v{version}= {{
       .id=0,
       .name= "{name}",
       .type= QNN_TENSOR_TYPE_{kind},
       .dataFormat= QNN_TENSOR_DATA_FORMAT_FLAT_BUFFER,
       .dataType= QNN_DATATYPE_{dtype},
       .quantizeParams= {quant},
       .rank= {rank},
       .dimensions=dimensions_{name},
       .memType= QNN_TENSORMEMTYPE_RAW,
       {{.clientBuf= {data}}}{tail}}}}}}}"""  # fmt: skip


BINARY = "{{ .data=BINVARSTART({0}), .dataSize=BINLEN({0})}}"
PER_AXIS = """{ QNN_DEFINITION_DEFINED, QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET,
  {.axisScaleOffsetEncoding= {.axis= 3, .numScaleOffsets= 2, .scaleOffset=axis_w}}}"""
PER_TENSOR = """{ QNN_DEFINITION_DEFINED, QNN_QUANTIZATION_ENCODING_SCALE_OFFSET,
  {.scaleOffsetEncoding= {.scale= 0.0500000007450580596923828125f, .offset= -3}}}"""


def body(version: int, model: str) -> dict[str, str]:
    """Return the statements of each tensor and node: a convolution with an activation."""
    stride = tensor("conv_stride", "STATIC", 1, dtype="UINT_32", version=version,
                    data="{ .data=(uint8_t*)conv_stride, .dataSize=8}")  # fmt: skip
    u8 = {"dtype": "UFIXED_POINT_8", "quant": PER_TENSOR, "version": version}
    weight = tensor("w", "STATIC", dtype="SFIXED_POINT_8", quant=PER_AXIS, version=version,
                    data=BINARY.format("w"))  # fmt: skip
    return {
        "addTensor_x": f"""
  uint32_t dimensions_x[] = {{1, 4, 4, 3}};
  VALIDATE({model}.addTensor("x", // Tensor Name
    {tensor("x", "APP_WRITE", **u8)}
  ), err);""",
        "addTensor_w": f"""
  uint32_t dimensions_w[] = {{3, 3, 3, 2}};
  Qnn_ScaleOffset_t axis_w[] = {{{{.scale= 0.1f, .offset= 0}}, {{.scale= 2e-1f, .offset= 1}}}};
  VALIDATE({model}.addTensor("w", {weight}), err);""",
        "addNode_conv": f"""
  /* ADDING NODE FOR conv; a comment with a brace }} and "quotes */
  uint32_t dimensions_conv_stride[] = {{2}};
  uint32_t conv_stride[] = {{1, 1}};
  Qnn_Param_t params_conv[] = {{
    {{.paramType=QNN_PARAMTYPE_TENSOR, .name="stride", {{.tensorParam= {stride}}}}},
    {{.paramType=QNN_PARAMTYPE_SCALAR, .name="group", {{.scalarParam= (Qnn_Scalar_t)
      {{QNN_DATATYPE_UINT_32, {{.uint32Value = 1}}}}}}}}
  }};
  const char*  inputs_conv[] = {{
    "x", "w"
  }};
  uint32_t dimensions_c[] = {{1, 2, 2, 2}};
  Qnn_Tensor_t outputs_conv[] = {{
    {tensor("c", "NATIVE", **u8)}
  }};
  VALIDATE({model}.addNode(QNN_OPCONFIG_VERSION_1, // Op_Config_t Version
    "conv", // Node Name
    "qti.aisw", "Conv2d", params_conv, 2, inputs_conv, 2, outputs_conv, 1), err);""",
        "addNode_act": f"""
  const char* inputs_act[] = {{"c"}};
  uint32_t dimensions_y[] = {{1, 2, 2, 2}};
  Qnn_Tensor_t outputs_act[] = {{{tensor("y", "APP_READ", **u8)}}};
  VALIDATE({model}.addNode(QNN_OPCONFIG_VERSION_1, "act", "qti.aisw", "Relu", nullptr, 0,
    inputs_act, 1, outputs_act, 1), err);""",
    }


HEAD = """/* a copyright; ModelError_t in(a comment){ */
/* Command Line used: converter; input_network=net.onnx */
#include "QnnOpDef.h"
#include "QnnModel.hpp"
// Flag of validation
#define DO_GRAPH_NODE_VALIDATIONS 1
using namespace qnn_wrapper_api;
const __attribute__((visibility("default"))) char* QNN_SDK_VERSION = "qaisw-v2.27.0.1";
extern "C" {
"""
COMPOSE = """QNN_API
ModelError_t QnnModel_composeGraphs(Qnn_BackendHandle_t backendHandle,
    QNN_INTERFACE_VER_TYPE interface, const GraphConfigInfo_t** graphsConfigInfo, bool debug) {
  ModelError_t err = MODEL_NO_ERROR;
  /* model/graph for net */
  QnnModel net;
  const QnnGraph_Config_t** graphConfigs = nullptr;
  VALIDATE(getQnnGraphConfigFromInfo("net", graphsConfigInfo, numGraphsConfigInfo, graphConfigs), err);
  VALIDATE(net.initialize(backendHandle, interface, contextHandle, "net", debug,
    DO_GRAPH_NODE_VALIDATIONS, graphConfigs), err);
"""  # noqa: E501 - a line of C++
END = """
  QnnModel* models [] = {&net};
  uint32_t numModels = 1;
  VALIDATE(getGraphInfoFromModels(*models, numModels, graphsInfo), err);
  *numGraphsInfo = numModels;
  if (debug) { for (int i = 0; i < 3; i++) { log("a } brace"); } }
  return err;
} // PREPARE_GRAPHS
QNN_API
ModelError_t QnnModel_freeGraphsInfo(GraphInfoPtr_t** graphsInfo, uint32_t numGraphsInfo){
  return qnn_wrapper_api::freeGraphsInfo(graphsInfo, numGraphsInfo);
}
}
"""


def program(version: int) -> str:
    if version == 1:
        return HEAD + COMPOSE + "".join(body(1, "net").values()) + END
    functions = "".join(
        f"static ModelError_t {name}(QnnModel& model){{\n  ModelError_t err = MODEL_NO_ERROR;{text}"
        "\n  return err;\n}\n\n"
        for name, text in body(2, "model").items()
    )
    calls = "".join(f"  VALIDATE({name}(net), err);\n" for name in body(2, "model"))
    return HEAD + functions + COMPOSE + calls + END


def read(folder: Path, text: str, *, weights: bytes = bytes(range(54))) -> tuple[Graph, ...]:
    path = folder / "net.cpp"
    path.write_text(text, "utf-8")
    (folder / "w.raw").write_bytes(weights)
    with tarfile.open(folder / "net.bin", "w") as tar:
        tar.add(folder / "w.raw", "w.raw")
    return QnnCppFrontend().read(path)


@pytest.mark.parametrize("version", [1, 2])
def test_forms_of_converters(tmp_path: Path, version: int) -> None:
    (graph,) = read(tmp_path, program(version))
    assert graph.name == "net"
    kinds = [(t.name, t.kind) for t in graph.tensors.values()]
    assert kinds == [
        ("x", TensorKind.APP_WRITE),
        ("w", TensorKind.STATIC),
        ("c", TensorKind.NATIVE),
        ("y", TensorKind.APP_READ),
    ]
    weight = graph.tensor("w")
    expected = AxisScaleOffset(3, np.float32([0.1, 0.2]), np.int32([0, 1]))
    assert weight.encoding == expected
    assert weight.values().reshape(-1).tolist() == list(range(54))
    assert graph.tensor("x").encoding == ScaleOffset(0.05, -3)
    conv, act = graph.nodes
    assert (conv.op_type, [t.name for t in conv.inputs if t]) == ("Conv2d", ["x", "w"])
    assert conv.params["group"] == Scalar(DType.UINT_32, 1)
    stride = conv.params["stride"]
    assert not isinstance(stride, Scalar)
    assert (stride.name, stride.values().tolist()) == ("conv.stride", [1, 1])
    assert (act.op_type, act.params) == ("Relu", {})


def test_several_models_of_one_file(tmp_path: Path) -> None:
    text = program(2).replace("  QnnModel* models", """
  VALIDATE(other.initialize(a, b, c, "other", debug, 1, d), err);
  VALIDATE(add_input(other), err);
  QnnModel* models""")  # fmt: skip
    simple = tensor("i", "APP_WRITE", 1)
    text += f"""static ModelError_t add_input(QnnModel& m) {{
  uint32_t dimensions_i[] = {{4}};
  VALIDATE(m.addTensor("i", {simple}), err);
}}"""
    assert [graph.name for graph in read(tmp_path, text)] == ["net", "other"]
    with pytest.raises(FrontendError, match="graphs with the same name") as caught:
        read(tmp_path, text.replace('"other"', '"net"'))
    assert [str(problem) for problem in caught.value.problems] == ["graph 'net': 2 graphs"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("QnnModel_composeGraphs", "compose", "no function 'QnnModel_composeGraphs'"),
        ('"x", // Tensor Name', '"x', "a statement cannot be read"),
        ("/* model/graph for net */", "/* no end", "a comment without an end"),
        ("VALIDATE(addTensor_w(net), err);", "VALIDATE(addTensor_x(net), err);", "called twice"),
        ("VALIDATE(addTensor_w(net), err);", "VALIDATE(addTensor_w(%), err);", "unexpected '%'"),
        ("VALIDATE(addTensor_w(net), err);", "", "tensor 'w' is not defined"),
        ("static ModelError_t addTensor_w", "static ModelError_t addTensor_x", "defined twice"),
        (".dimensions=dimensions_w", ".dimensions=nowhere", "expected an array, got nowhere"),
        (".rank= 1,", ".rank= 2,", "1 dimensions where 2 are stated"),
        ("{1, 4, 4, 3}", "{1, -4, 4, 3}", "not a number of 32 bits"),
        ("{1, 4, 4, 3}", "{4294967295, 4294967295, 4294967295, 3}", "impossible shape"),
        ("{3, 3, 3, 2}", "{3, 3, 3, 4}", "has 54 bytes of data, but SFIXED_POINT_8"),
        (
            "uint32_t conv_stride[] = {1, 1}",
            "int32_t conv_stride[] = {1, 1}",
            "has the type 'int32_t', expected 'uint32_t'",
        ),
        ("uint32_t conv_stride[] = {1, 1}", "uint32_t conv_stride[] = {1, 1, 1}", "12 bytes"),
        ("uint32_t conv_stride[] = {1, 1}", "uint32_t conv_stride[] = {1, -1}", "fit uint32"),
        ("QNN_DATATYPE_UINT_32, {.uint32Value = 1}", "3, {.uint32Value = 1}", "3 is not a valid"),
        ("params_conv, 2,", "params_conv, 3,", "has 2 params where 3 are stated"),
        (".numScaleOffsets= 2", ".numScaleOffsets= 3", "2 scales or offsets where 3"),
        ("ENCODING_SCALE_OFFSET", "ENCODING_BLOCK", "form of the encoding BLOCK"),
        (".version= QNN_TENSOR_VERSION_2", ".version= 7", "unsupported version 7"),
        ("nullptr, 0,\n", "nullptr,\n", "expected 10 values, got 9"),
        ('"c"', "c", "must be text"),
        ("{.scale= 0.1f, .offset= 0}", "{" * 40 + "}" * 40, "nested too deeply"),
    ],
)
def test_faults(tmp_path: Path, old: str, new: str, reason: str) -> None:
    text = program(2)
    assert old in text
    with pytest.raises(FrontendError) as caught:
        read(tmp_path, text.replace(old, new))
    assert reason in str(caught.value)
    assert "net.cpp" in caught.value.where


def test_all_faults_of_a_graph_are_listed(tmp_path: Path) -> None:
    text = program(2).replace("{1, 4, 4, 3}", "{1, 4, 4, -3}").replace(".axis= 3", ".axis= x")
    with pytest.raises(FrontendError) as caught:
        read(tmp_path, text)
    assert "addTensor(\"x\", ...): tensor 'x': a dimension" in str(caught.value)
    assert "tensor 'w': expected an integer, got x" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "ModelError_t a(" * 50_000,
        "ModelError_t f(){" + "VALIDATE(m.f(" * 50_000,
        "ModelError_t f(){ a" + "\"'" * 50_000,
        "ModelError_t f(){ if (" + "(" * 100_000,
        "/*" * 100_000,
        "#" + "\\\n" * 100_000,
        "ModelError_t f(){ VALIDATE(m.f(" + "), e" * 50_000 + ";",
        "ModelError_t f(){" + "static " * 100_000,
    ],
)
def test_text_that_would_take_long_is_read_in_linear_time(tmp_path: Path, text: str) -> None:
    """A pattern that backtracks would take minutes for these."""
    with pytest.raises(FrontendError):
        read(tmp_path, text)


def test_references_to_references_are_bounded(tmp_path: Path) -> None:
    sizes = ", ".join(["1"] * 20_000)
    uses = "".join(
        f'VALIDATE(m.addTensor("t{i}", (Qnn_Tensor_t){{.version= 1, {{.v1= {{0, "t{i}", 0, 0, 562, '
        f"{{0, 0}}, 20000, big}}}}}}), e);\n"
        for i in range(100)
    )
    text = f"ModelError_t QnnModel_composeGraphs() {{ uint32_t big[] = {{{sizes}}}; {uses} }}"
    with pytest.raises(FrontendError) as caught:
        read(tmp_path, text)
    assert len(caught.value.problems) == 100
    assert "too often" in str(caught.value.problems[-1])


def test_a_damaged_comment_of_ours_is_an_error(tmp_path: Path) -> None:
    for comment in ("// dovetail {", '// dovetail {"net": {"version": 3}}'):
        with pytest.raises(FrontendError, match=r"not JSON|version"):
            read(tmp_path, f"{comment}\n{program(2)}")


def test_only_source_of_converters_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "net.txt"
    path.write_text(program(1), "utf-8")
    assert QnnCppFrontend().recognises(path)
    path.write_text("int main() {}", "utf-8")
    assert not QnnCppFrontend().recognises(path)
