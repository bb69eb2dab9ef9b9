"""Forms of Saver programs beside those of the whole programs."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dovetail.container.entries import ArrayReader, load_encoding
from dovetail.errors import TraceError
from dovetail.ir import AxisScaleOffset, DType, Encoding
from dovetail.runtime.calls import CallRecord
from dovetail.runtime.calls.payloads import RecordedBlobs
from dovetail.runtime.calls.values import arguments_decoder
from dovetail_saver.trace import OpaqueRecord, Trace
from dovetail_saver.vendor.importer import import_program
from dovetail_saver.vendor.summary import Summary

BEGIN = """
int main(int argc, char** argv) {
  FILE* fp = fopen("params.bin", "rb");
  Qnn_BackendHandle_t b; VALIDATE(error, interface.backendCreate(NULL, NULL, &b));
  Qnn_ContextHandle_t c; VALIDATE(error, interface.contextCreate(b, NULL, NULL, &c));
  Qnn_GraphHandle_t g; VALIDATE(error, interface.graphCreate(c, "g", NULL, &g));
"""
DIMS = "uint32_t dims[] = {2, 3};"
UNDEFINED = "{(Qnn_Definition_t)2147483647, QNN_QUANTIZATION_ENCODING_UNDEFINED, {0.0, 0}}"
CREATE = "VALIDATE(error, interface.tensorCreateGraphTensor(g, &t));"

Import = Callable[..., tuple[Trace, Summary]]


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    """Imports the statements of a program."""

    def run(text: str | bytes, params: bytes = b"") -> tuple[Trace, Summary]:
        body = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "a.c").write_bytes(BEGIN.encode() + body + b"\n  return 0;\n}\n")
        (tmp_path / "a.bin").write_bytes(params)
        summary = import_program(tmp_path / "a.c", tmp_path / "a.bin", tmp_path / "trace")
        return Trace(tmp_path / "trace"), summary

    return run


def last_call(trace: Trace) -> CallRecord:
    record = [e.record for e in trace if isinstance(e.record, CallRecord)][-1]
    assert isinstance(record, CallRecord)
    return record


def tensor(
    quantization: str = UNDEFINED, *, dtype: int = 562, kind: int = 4, buffer: str = "{NULL, 0}"
) -> str:
    fields = f'0, "t", (Qnn_TensorType_t){kind}, 0, (Qnn_DataType_t){dtype}, {quantization}'
    return f"""{DIMS} Qnn_TensorV1_t v1 = {{{fields}, 2, dims, (Qnn_TensorMemType_t)0, {buffer}}};
    Qnn_Tensor_t t = {{QNN_TENSOR_VERSION_1, .v1 = v1}}; {CREATE}"""


def encoding_of(trace: Trace) -> Encoding:
    record = last_call(trace)
    found = arguments_decoder(record.function).decode(record.arguments).encoding
    return load_encoding(found, ArrayReader(RecordedBlobs(record.payloads, trace.payloads, ""), ""))


def test_a_tensor_of_version_2_has_dynamic_axes(imported: Import) -> None:
    text = f"""{DIMS} static uint8_t marks[] = {{1, 0}};
    Qnn_TensorV2_t v2 = {{.name = "t", .type = QNN_TENSOR_TYPE_APP_WRITE,
      .dataType = QNN_DATATYPE_FLOAT_32, .rank = 2, .dimensions = dims,
      .isDynamicDimensions = marks, .sparseParams = {{(Qnn_SparseLayoutType_t)2147483647}}}};
    Qnn_Tensor_t t = {{(Qnn_TensorVersion_t)2, .v2 = v2}}; {CREATE}"""
    trace, summary = imported(text)
    values = msgspec.json.decode(last_call(trace).arguments)
    assert (values["dynamic"], values["kind"]) == ([True, False], 0)
    assert summary.left_out == []


def test_params_of_sparsity_are_reported(imported: Import) -> None:
    text = f"""{DIMS} Qnn_TensorV2_t v2 = {{0, "t", 3, QNN_TENSOR_DATA_FORMAT_SPARSE, 562,
      {UNDEFINED}, 2, dims, 0, {{NULL, 0}}, NULL, {{0, .hybridCoo = {{3, 2}}}}, 0}};
    Qnn_Tensor_t t = {{2, .v2 = v2}}; {CREATE}"""
    trace, summary = imported(text)
    assert msgspec.json.decode(last_call(trace).arguments)["data_format"] == 1
    assert "sparsity" in summary.left_out[0][1]


def test_narrow_integers_have_their_sign(imported: Import) -> None:
    quantization = "{1, QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET, .e = bw}"
    text = f"""float scales[] = {{0.5, 0.25, 1e-3f}};
    Qnn_BwAxisScaleOffset_t bw = {{4, 1, 3, scales, NULL}};
    static int8_t data[6]; fread(data, 1, 6, fp);
    {tensor(quantization, dtype=776, buffer="{(void*)data, 6}")}"""
    trace, _ = imported(text, bytes([0, 7, 8, 15, 9, 1]))
    assert encoding_of(trace) == AxisScaleOffset(
        1, np.array([0.5, 0.25, 1e-3], np.float32), None, 4
    )
    data = trace.payloads.get(last_call(trace).payloads[-1])
    assert data is not None
    assert data.bytes.view(np.int8).tolist() == [0, 7, -8, -1, -7, 1]


def test_a_static_array_that_is_not_read_is_zero(imported: Import) -> None:
    trace, _ = imported(f"static float z[6]; {tensor(buffer='{(void*)z, 24}')}")
    values = arguments_decoder("graph_create_tensor").decode(last_call(trace).arguments)
    assert values.data.payload is None
    assert (values.data.dtype, values.data.shape) == ("<f4", (2, 3))


def test_comments_and_layout_do_not_matter(imported: Import) -> None:
    text = tensor().replace("Qnn_Tensor_t t =", "Qnn_Tensor_t /* ; */ t\n=// } ;\n")
    trace, _ = imported(text.replace("error, interface.", "error /*,*/ , interface . "))
    assert last_call(trace).function == "graph_create_tensor"
    assert DType(msgspec.json.decode(last_call(trace).arguments)["dtype"]) is DType.FLOAT_32


def test_an_unknown_statement_is_reported(imported: Import) -> None:
    _, summary = imported("memcpy(a, b, 3);")
    assert summary.left_out[0][1] == "memcpy(a, b, 3);"


def test_the_first_unknown_statements_are_listed(imported: Import) -> None:
    _, summary = imported("memcpy(a, b, 3);\n" * 300)
    assert (len(summary.left_out), summary.left_out_count) == (20, 300)
    assert summary.left_out[-1][0].endswith("a.c:26")
    assert summary.lines("not in the program")[-1] == "  ... and 280 more"


def test_an_unknown_config_is_reported(imported: Import) -> None:
    trace, summary = imported("""
    QnnContext_Config_t oem = {QNN_CONTEXT_CONFIG_OPTION_OEM_STRING, .oemString = "x"};
    QnnContext_Config_t low = {QNN_CONTEXT_CONFIG_OPTION_PRIORITY, .priority = QNN_PRIORITY_LOW};
    QnnContext_Config_t deep = {QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH, {0, 7}};
    const QnnContext_Config_t* all[] = {&oem, &low, &deep, NULL};
    Qnn_ContextHandle_t d; VALIDATE(error, interface.contextCreate(b, NULL, all, &d));""")
    config = msgspec.json.decode(last_call(trace).arguments)["config"]
    assert config == {"context_priority": "low", "async_execute_queue_depth": 7}
    assert summary.left_out[0][1] == "contextCreate: QnnContext_Config_t: option 3"
    assert any(isinstance(e.record, OpaqueRecord) for e in trace)


def test_signals_and_logs(imported: Import) -> None:
    trace, _ = imported("""
    Qnn_LogHandle_t l; VALIDATE(error, interface.logCreate(NULL, QNN_LOG_LEVEL_INFO, &l));
    QnnSignal_Config_t s = {QNN_SIGNAL_CONFIG_OPTION_TIMEOUT, .durationInUs = 50};
    const QnnSignal_Config_t* all[] = {&s, NULL};
    Qnn_SignalHandle_t n; VALIDATE(error, interface.signalCreate(b, all, &n));""")
    values = msgspec.json.decode(last_call(trace).arguments)
    assert values == {"kind": 2, "timeout_us": 50}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Qnn_Tensor_t t = t; " + CREATE, "'t' is not declared"),
        ("Qnn_Tensor_t p = q; Qnn_Tensor_t q = p; Qnn_Tensor_t t = q; " + CREATE, "not declared"),
        ("".join(f"Qnn_Tensor_t t{i + 1} = t{i};" for i in range(20)) + CREATE.replace("t)", "t20)")
         + "Qnn_Tensor_t t0;", "too deeply|not declared"),
        ("Qnn_Tensor_t t = {1, " + "{" * 1000 + "}" * 1000 + "};" + CREATE, "nested too deeply"),
        (tensor().replace("{2, 3}", "{2, 99999999999}"), "number of 32 bits"),
        (tensor().replace(", 2, dims", ", 4000000000, dims"), "rank 4000000000"),
        (tensor().replace('"t"', "t"), "expected text"),
        (tensor().replace('"t"', '"' + "9" * 10 + "\\xff" + '"'), "not UTF-8"),
        (tensor() + tensor(), "declared twice"),
        (tensor().replace("2, dims", "99" * 4000 + ", dims"), "a number is too long"),
        ("static float x[1]; fread(x, 4, 99999999999999999999, fp);", "do not fit"),
        ("fread(x, 4, 1, fp);", "'x' is not declared"),
        ('uint32_t x = "unfinished;', "cannot be read|without an end"),
        ("VALIDATE(error, interface.graphFinalize(g, NULL, NULL);", "not a call"),
        ("x /* " * 200_000, "without an end"),  # linear: a quadratic scan would take minutes
        ("if (x) { /* " * 200_000, "without an end"),
        ('if (x) { "' + '\\"' * 300_000, "without an end"),
        ("if (1) { static float x[1]; fread(x, 4, 1, fp); }", "read in a block"),
        ('// dovetail-record {"record":"opaque"}\n', "not a record"),
    ],
)  # fmt: skip
def test_hostile_text_is_refused(imported: Import, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        imported(text)


def test_references_to_references_end(imported: Import) -> None:
    many = ", ".join(['{0, "p", {562, .floatValue = 1}}'] * 20) + " " * 60_000
    text = f"Qnn_Param_t params[] = {{{many}}};"
    for i in range(100):
        text += f"""Qnn_OpConfig_t n{i} = {{1, {{"n", "p", "o", 20, params, 0, NULL, 0, NULL}}}};
        VALIDATE(error, interface.graphAddNode(g, n{i}));"""
    with pytest.raises(TraceError, match="too often"):
        imported(text)


def test_invalid_bytes_are_refused(imported: Import) -> None:
    with pytest.raises(TraceError, match="UTF-8"):
        imported(tensor().encode().replace(b'"t"', b'"\xff\xfe"'))


def test_a_missing_file_is_an_error_of_the_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        import_program(tmp_path / "none.c", tmp_path / "none.bin", tmp_path / "trace")
