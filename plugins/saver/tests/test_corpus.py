"""Traces of this and older versions of the format are read and replayed."""

from pathlib import Path

import msgspec
import pytest

from dovetail.ir import DType
from dovetail.runtime.calls import CallRecord, CompletionRecord, differences
from dovetail.runtime.calls.values import typed_arguments
from dovetail_saver.replay import replay
from dovetail_saver.trace import Trace
from dovetail_saver.trace.header import MINOR, VERSION
from dovetail_saver.verifying import verify

CORPUS = Path(__file__).parent / "corpus"
TRACES = sorted(path.parent for path in CORPUS.glob("*/*/trace.json"))


def test_the_corpus_has_traces_of_this_version() -> None:
    assert {path.parent.name for path in TRACES} >= {f"{VERSION}.{MINOR}"}
    assert len(TRACES) >= 3


@pytest.mark.parametrize("path", TRACES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_trace_of_the_corpus_is_replayed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the Saver writes a trace there
    assert verify(path) == Trace(path).count() > 9
    # each at once: later calls write into the same registered memory
    found = [differences(played) for played in replay(Trace(path))]
    assert found == [()] * len(found)


def records(name: str) -> list[CallRecord]:
    found = [entry.record for entry in Trace(CORPUS / "1.0" / name)]
    return [record for record in found if isinstance(record, CallRecord)]


def test_executions_have_what_they_claim() -> None:
    found = records("executions-all")
    functions = [record.function for record in found]
    assert functions.count("context_create") == 2
    assert functions.count("memory_register") == 2
    assert sum(record.error is not None for record in found) == 6
    assert any(isinstance(e.record, CompletionRecord) for e in Trace(CORPUS / "1.0/executions-all"))
    contents = [
        msgspec.json.decode(record.arguments)["inputs"]["x"]
        for record in found
        if record.function == "graph_execute" and b'"memory"' in bytes(record.arguments)
    ]
    assert [each["is"] for each in contents] == ["memory"] * 4
    hashed = Trace(CORPUS / "1.0" / "executions-outputs-hash")
    keys = {key for entry in hashed for key in getattr(entry.record, "payloads", ())}
    assert "" not in keys
    assert keys > set(hashed.payloads.lines)


def test_arguments_with_defaults_may_be_missing() -> None:
    whole, lacking = records("executions-all"), records("executions-without-defaults")
    for record, other in zip(whole, lacking, strict=True):
        given, rest = (msgspec.json.decode(each.arguments) for each in (record, other))
        assert given.items() >= rest.items()
        assert typed_arguments(record, "") == typed_arguments(other, "")
    assert sum(len(bytes(each.arguments)) for each in lacking) < sum(
        len(bytes(each.arguments)) for each in whole
    )


def test_graphs_have_what_they_claim() -> None:
    arguments = [msgspec.json.decode(r.arguments) for r in records("graphs")]
    created = {a["name"]: a for a in arguments if "dtype" in a}
    assert created["x"]["dynamic"] == [False, True, True, False]
    assert created["x"]["dtype"] == DType.UFIXED_POINT_8
    kinds = {name: each["encoding"]["encoding"] for name, each in created.items()}
    assert len(set(kinds.values())) == 4
    assert [a["package"] for a in arguments if "op_type" in a] == ["not.installed"]
