"""Records of API calls: written, read and played; whatever they contain, nothing else happens."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from reference_backend import OPS, PACKAGE, ReferenceBackend

from dovetail import ir, runtime
from dovetail.errors import DovetailError, TraceError
from dovetail.ir import AxisScaleOffset, Blob, DType, Scalar, ScaleOffset, Tensor, TensorKind
from dovetail.ops import EVERYTHING, OpRegistry
from dovetail.plugins.events import ApiCall
from dovetail.plugins.hooks import hooks
from dovetail.runtime.calls import (
    CallRecord,
    CallRecorder,
    CompletionRecord,
    InstalledResolver,
    MemoryPayloads,
    Played,
    Player,
    Record,
    decode_record,
    differences,
)
from dovetail.testing.ops import PACKAGE as KIT_PACKAGE

X = np.arange(6, dtype=np.float32).reshape(2, 3)
RESOLVER = InstalledResolver({"reference": ReferenceBackend}, [PACKAGE])


class Tape:
    """Records of calls in memory."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.payloads = MemoryPayloads()
        self.recorder = CallRecorder(self.written.append, self.payloads)

    @property
    def lines(self) -> list[bytes]:
        return list(self.written)  # playing them records others

    @property
    def records(self) -> list[Record]:
        return [decode_record(line) for line in self.lines]

    def play(self) -> list[Played]:
        with Player(self.payloads.blobs, RESOLVER) as player:
            played = [player.play(decode_record(line)) for line in self.lines]
        return played

    def calls(self, function: str) -> list[CallRecord]:
        return [r for r in self.records if isinstance(r, CallRecord) and r.function == function]


@pytest.fixture
def tape() -> Iterator[Tape]:
    """Record while the test runs."""
    made = Tape()
    with hooks.registered(made.recorder):
        yield made


@pytest.fixture
def backend(tape: Tape) -> Iterator[runtime.Backend]:
    ops = OpRegistry.of(PACKAGE)  # of its own: tests register packages
    with runtime.Backend.create(ReferenceBackend, ops=ops) as made:
        yield made


def scale(
    backend: runtime.Backend, name: str = "net"
) -> tuple[runtime.Graph, runtime.Tensor, runtime.Tensor]:
    graph = backend.create_context().create_graph(name)
    x = graph.create_tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE)
    y = graph.create_tensor("y", DType.FLOAT_32, (2, 3), TensorKind.APP_READ)
    return graph, x, y


def scaled(backend: runtime.Backend) -> runtime.Graph:
    graph, x, y = scale(backend)
    graph.add_node("n", "test.ops", "Scale", [x], [y], {"factor": Scalar(DType.FLOAT_32, 3.0)})
    graph.finalize()
    return graph


def demand_same(tape: Tape) -> list[Played]:
    """Play the calls and compare each at once, since later ones may write its outputs."""
    played, found = [], []
    with Player(tape.payloads.blobs, RESOLVER) as player:
        for line in tape.lines:
            played.append(player.play(decode_record(line)))
            found += differences(played[-1])
    assert found == []
    return played


def test_arguments_are_announced_with_their_defaults(tape: Tape, backend: runtime.Backend) -> None:
    graph, x, y = scale(backend)
    graph.add_node("n", "test.ops", "Scale", inputs=[x], outputs=[y])
    (record,) = tape.calls("graph_add_node")
    assert record.owner == graph.id
    assert json.loads(bytes(record.arguments)) == {
        "name": "n",
        "package": "test.ops",
        "op_type": "Scale",
        "inputs": [x.id],
        "outputs": [y.id],
        "params": None,
        "sources": None,
    }


def test_wrong_types_and_freed_handles_are_played_as_they_were(
    tape: Tape, backend: runtime.Backend
) -> None:
    graph = scaled(backend)
    calls: list[Callable[[], object]] = [
        lambda: graph.execute({"x": X}, profile=5),  # type: ignore[arg-type]
        lambda: graph.execute([X]),  # type: ignore[arg-type]
        lambda: graph.execute({"x": X.tolist()}),  # type: ignore[dict-item]
        lambda: graph.execute({"x": X}, {"y": X[:, ::-1].copy()[:, ::-1]}),
        lambda: graph.create_tensor("t", DType.INT_8, ["a"]),  # type: ignore[arg-type]
        lambda: backend.create_context(config={"context_priority": "hig"}),
        lambda: backend.create_context(config={"priority": {1, 2}}),
        lambda: backend.create_profile(2**80),
        lambda: runtime.Backend.create(ReferenceBackend, {"levle": 1}, OPS),
        graph.context.free,
        lambda: graph.execute({"x": X}),
    ]
    errors = []
    for call in calls:
        try:
            call()
        except DovetailError as error:
            errors.append(error)
    assert len(errors) == len(calls) - 1
    assert tape.calls("graph_execute")[0].unrecorded == {"profile": "int"}
    demand_same(tape)


def test_payloads_params_and_encodings(tape: Tape, backend: runtime.Backend) -> None:
    graph, x, y = scale(backend)
    axis = AxisScaleOffset(1, np.array([0.5, 1, 2], np.float32))
    graph.create_tensor("w", DType.SFIXED_POINT_8, (2, 3), TensorKind.STATIC, axis, X)
    blob = Blob(np.arange(24, dtype=np.uint8))
    graph.create_tensor(
        "b", DType.FLOAT_32, (2, 3), TensorKind.STATIC, None, blob, source="conv.bias"
    )
    one = ScaleOffset(0.25, -3)
    graph.create_tensor("q", DType.UFIXED_POINT_8, (1,), encoding=one, source_perm=(0,))
    params: dict[str, ir.Param] = {
        "factor": Scalar(DType.FLOAT_32, float("inf")),
        "table": Tensor.static("table", np.arange(3, dtype=np.int32)),
    }
    with pytest.raises(DovetailError):
        graph.add_node("n", "test.ops", "Scale", [x, None], [y], params)
    node = ir.Node("v", "test.ops", "Scale", [graph.ir.tensors["x"]], [graph.ir.tensors["y"]])
    assert backend.validate_op(node).ok
    played = [p for p in demand_same(tape) if isinstance(p.result, runtime.Tensor)]
    w, b, q = (p.result.ir for p in played[2:])  # type: ignore[attr-defined]
    assert w.encoding == axis
    assert w.data.bytes.tobytes() == X.astype(np.int8).tobytes()
    assert (b.data.hash, b.source) == (blob.hash, "conv.bias")
    assert (q.encoding, q.source_perm) == (one, (0,))


def test_registered_memory_and_asynchronous_ends(tape: Tape, backend: runtime.Backend) -> None:
    graph = scaled(backend)
    given, taken = X.copy(), np.zeros_like(X)
    inputs = {"x": graph.context.register_memory(given, DType.FLOAT_32)}
    outputs = {"y": graph.context.register_memory(taken, DType.FLOAT_32)}
    graph.execute(inputs, outputs)
    given += 1  # its content at each call is what counts
    graph.execute_async(inputs, outputs, notify=lambda error: None).wait(30)
    graph.context.free()
    np.testing.assert_array_equal(taken, (X + 1) * 3)
    kinds = [type(record) for record in tape.records]
    assert kinds.count(CompletionRecord) == 1
    last = [p for p in demand_same(tape) if isinstance(p.record, CompletionRecord)][-1]
    np.testing.assert_array_equal(last.result["y"], taken)  # type: ignore[index]


def test_memory_that_is_no_array_is_played_as_one(tape: Tape, backend: runtime.Backend) -> None:
    graph = scaled(backend)
    given, taken = bytearray(X.tobytes()), bytearray(X.nbytes)
    x = graph.context.register_memory(given, DType.FLOAT_32, X.shape)
    y = graph.context.register_memory(taken, DType.FLOAT_32, X.shape)
    run = graph.execute_async({"x": x}, {"y": y})
    x.deregister()
    y.deregister()
    run.wait(30)
    given += b"more"  # BufferError while anything refers to it
    graph.context.free()
    last = [p for p in demand_same(tape) if isinstance(p.record, CompletionRecord)][-1]
    np.testing.assert_array_equal(last.result["y"], X * 3)  # type: ignore[index]


def test_text_that_json_cannot_express_is_not_recorded(
    tape: Tape, backend: runtime.Backend
) -> None:
    backend.create_context().create_graph("\ud800", {"graph_priority": "low"})
    (record,) = tape.calls("graph_create")
    assert record.unrecorded == {"name": "str"}
    assert json.loads(bytes(record.arguments)) == {"config": {"graph_priority": "low"}}


def test_a_class_that_is_no_backend_is_not_recorded(tape: Tape) -> None:
    with pytest.raises(DovetailError):
        runtime.Backend.create(int)  # type: ignore[arg-type]
    (record,) = tape.calls("backend_create")
    assert record.unrecorded == {"name": "type"}
    assert tape.play()[0].error is not None


def test_an_end_is_recorded_after_its_call() -> None:
    tape = Tape()
    call = ApiCall.begin("graph_execute_async", {}, None)
    named = dict.fromkeys(("inputs", "outputs", "profile", "signal", "notify"))
    call = msgspec.structs.replace(call, arguments=named)
    tape.recorder.dovetail_api_call(call)
    tape.recorder.dovetail_api_complete(call.returned({"y": X}))
    tape.recorder.dovetail_api_return(call.returned(object()))
    assert [type(record) for record in tape.records] == [CallRecord, CompletionRecord]


def test_differences_are_found(tape: Tape, backend: runtime.Backend) -> None:
    graph = scaled(backend)
    graph.execute({"x": X})
    played = tape.play()[-1]
    assert isinstance(played.result, dict)
    (other,) = differences(Played(played.record, {"y": played.result["y"] + 1}))
    assert other == "output 'y' has other values"
    (missing,) = differences(Played(played.record, {}))
    assert missing == "output 'y' is missing"
    (failed,) = differences(Played(played.record, error=ValueError("no")))
    assert failed == "expected no error, got ValueError: no"


@pytest.fixture
def lines(tape: Tape, backend: runtime.Backend) -> list[bytes]:
    """The records of a session."""
    graph = scaled(backend)
    profile = backend.create_profile()
    other, x, y = scale(backend, "other")
    other.add_node("n", "test.ops", "Scale", [x], [y])
    other.finalize(profile, observed=EVERYTHING)
    graph.execute({"x": X}, profile=profile)
    graph.execute_async({"x": X}, {"y": np.zeros_like(X)}).wait(30)
    assert profile.events
    graph.context.free()
    return tape.lines


def changed(lines: list[bytes], function: str, changes: dict[str, Any]) -> list[bytes]:
    """Return the records up to the first of a function, with changes of its arguments or fields."""
    index = next(i for i, line in enumerate(lines) if f'"{function}"'.encode() in line)
    data = json.loads(lines[index])
    for name, value in changes.items():
        (data["arguments"] if name in data["arguments"] else data)[name] = value
    return [*lines[:index], json.dumps(data).encode()]


def play_all(lines: list[bytes], payloads: MemoryPayloads) -> None:
    with Player(payloads.blobs, RESOLVER, limit_bytes=1 << 20) as player:
        for line in lines:
            differences(player.play(decode_record(line)))


ARRAY = {"is": "array", "dtype": "<f4", "shape": [2, 3]}


@pytest.mark.parametrize(
    ("function", "changes", "message"),
    [
        ("graph_create", {"function": "os_system"}, "unknown call 'os_system'"),
        ("graph_create", {"function": "graph_finalize"}, "is not a call of"),
        ("graph_create", {"owner": 10**9}, "no call has returned the handle 1000000000"),
        ("graph_create", {"owner": None}, "'graph_create' has no owner"),
        ("graph_create", {"owner": -1}, "not a record of a call"),
        ("graph_create", {"name": 5}, "wrong arguments"),
        ("graph_create", {"arguments": {}}, "'name' is missing"),
        ("graph_create", {"unrecorded": {"name": "int"}}, "given twice"),
        ("graph_create", {"unrecorded": {"nam": "int"}}, "has no argument 'nam'"),
        ("graph_create", {"unheard_of": 1}, "not a record of a call"),
        ("graph_create", {"result": "x"}, "wrong result"),
        ("graph_create", {"payloads": ["0" * 65]}, "not a record of a call"),
        ("graph_execute", {"payloads": ["../../etc/passwd"]}, "passwd is missing"),
        ("graph_create_tensor", {"dtype": 7}, "wrong arguments"),
        ("graph_create_tensor", {"shape": [2**63]}, "wrong arguments"),
        ("graph_create_tensor", {"data": {"is": "blob", "payload": 3}}, "no payload 3"),
        ("graph_create_tensor", {"data": {**ARRAY, "dtype": "O"}}, "wrong arguments"),
        ("graph_create_tensor", {"data": {**ARRAY, "shape": [2**40]}}, "exceeds the limit"),
        ("graph_create_tensor", {"data": {**ARRAY, "shape": [0, 2**62]}}, "exceeds the limit"),
        ("graph_execute", {"inputs": {"x": {**ARRAY, "shape": [7], "payload": 0}}}, "is no <f4"),
        ("graph_execute", {"payloads": ["0" * 64, "1" * 64]}, "is missing"),
        ("graph_execute", {"payloads": []}, "has no payload 0"),
    ],
)
def test_impossible_records_are_refused(
    tape: Tape, lines: list[bytes], function: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        play_all(changed(lines, function, changes), tape.payloads)


@pytest.mark.parametrize("function", sorted({"graph_create_tensor", "graph_finalize"}))
def test_arguments_that_older_records_lack_have_defaults(
    tape: Tape, lines: list[bytes], function: str
) -> None:
    found = []
    for line in lines:
        data = json.loads(line)
        if data.get("function") == function:
            lacking = ("source", "source_perm", "dynamic", "memory_type", "data_format", "outputs")
            for name in (*lacking, "profile", "signal"):
                data["arguments"].pop(name, None)
        found.append(json.dumps(data).encode())
    assert found != lines
    play_all(found, tape.payloads)


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"\xff", b'"' + b"\\ud800" + b'"', b"[" * 10**5, b'{"record":"x"}']
)
def test_other_lines_are_refused(line: bytes) -> None:
    with pytest.raises(TraceError):
        decode_record(line, "calls.jsonl:3")


def test_a_package_is_never_loaded_from_a_recorded_path(
    tmp_path: Path, tape: Tape, backend: runtime.Backend
) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('loaded')")
    package = {"name": "evil", "version": "1", "path": str(tmp_path / "evil.py")}
    backend.register_op_package(KIT_PACKAGE)
    lines = changed(tape.lines, "backend_register_op_package", {"package": package})
    with pytest.raises(TraceError, match="op package 'evil' 1 not found") as caught:
        play_all(lines, tape.payloads)
    assert package["path"] in caught.value.hint


def test_mutated_records_are_played_or_refused(tape: Tape, lines: list[bytes]) -> None:
    rng = random.Random(14)
    refused = 0
    for _ in range(400):
        index = rng.randrange(len(lines))
        line = bytearray(lines[index])
        for _ in range(rng.randrange(1, 4)):
            line[rng.randrange(len(line))] = rng.choice(b'0123456789-{}[]",:aelnrstu\\\xff')
        try:
            play_all([*lines[:index], bytes(line), *lines[index + 1 :]], tape.payloads)
        except TraceError:
            refused += 1
    assert refused > 100
