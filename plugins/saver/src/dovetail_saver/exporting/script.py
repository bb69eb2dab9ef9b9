"""A trace as a script of API calls, with its data in files next to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dovetail.errors import TraceError
from dovetail.files import staged_folder, unwritable
from dovetail.ir import DataFormat, MemoryType
from dovetail.ops import NOTHING
from dovetail.runtime.api_table import API, ArgKind
from dovetail.runtime.calls import CallRecord, CompletionRecord
from dovetail.runtime.calls.decoding import Scene, decode_arguments
from dovetail.runtime.calls.payloads import RecordedBlobs
from dovetail.runtime.calls.player import LIMIT_BYTES
from dovetail.runtime.calls.values import MemoryValue, recorded_result, typed_arguments
from dovetail_saver.exporting.literals import Data, Literals, Named, Referenced, identifier, unique
from dovetail_saver.trace import Entry, OpaqueRecord, Trace
from dovetail_saver.uses import EXECUTES, returned_handle

SCRIPT_NAME = "replay.py"
DATA_NAME = "data"
_CLASSES = {"backend_create": "Backend", "log_create": "Log"}
# Defaults that no call needs to name.
_USUAL = {
    "memory_type": MemoryType.RAW,
    "data_format": DataFormat.DENSE,
    "observed": NOTHING,
}
_RESERVED = frozenset({"np", "main", "load", "expect", "fails", "fill", "package", "op_registry"})
_IMPORTED = {
    "Observed": "dovetail.ops",
    "LogLevel": "dovetail.runtime.enums",
    "SignalKind": "dovetail.runtime.enums",
}

_HEAD = '''"""The calls of a trace, written by `dovetail trace export python`.

The exit status is 1 if a call does something else than was recorded.
"""

import sys
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np

{imports}

DATA = Path(__file__).parent / "{data}"
FAULTS = []
RESOLVER = InstalledResolver({resolver})


def load(name):
    """Return an array of the folder of data."""
    return np.load(DATA / name)


def expect(call, found, recorded):
    """Compare outputs with the recorded ones."""
    for name, array in recorded.items():
        if found[name].tobytes() != array.tobytes():
            FAULTS.append(f"call {{call}}: output '{{name}}' differs")


@contextmanager
def fails(call, code):
    """Expect an error."""
    try:
        yield
    except Exception as error:
        found = getattr(error, "code", type(error).__name__)
        if found != code:
            FAULTS.append(f"call {{call}}: expected {{code}}, got {{found}}")
    else:
        FAULTS.append(f"call {{call}}: expected {{code}}, but it succeeds")


def fill(memory, array):
    """Write the recorded content into registered memory."""
    memory.descriptor.array[...] = array


def package(reference):
    """Return an op package."""
    return RESOLVER.op_package(msgspec.convert(reference, PackageReference))


def op_registry(reference):
    """Return a registry of op packages."""
    return RESOLVER.ops(msgspec.convert(reference, OpsReference))


def main():
'''
_TAIL = """

if __name__ == "__main__":
    main()
    print("\\n".join(FAULTS) or "as recorded")
    sys.exit(bool(FAULTS))
"""


def export_script(path: Path, folder: Path, packages: Sequence[str] = ()) -> int:
    """Write a trace as a script, and return the number of its calls.

    Args:
        path: The trace.
        folder: Receives `replay.py` and the folder `data`; earlier ones are replaced.
        packages: Op packages that the script loads, as `--op-packages` names them.

    Raises:
        TraceError: The trace is invalid.
        ContainerError: The folder cannot be written.
    """
    trace = Trace(path)
    with staged_folder(folder) as staging:
        try:
            data = staging.new / DATA_NAME
            data.mkdir()
            script = _Script(trace, Data(data), packages)
            lines = [line for entry in trace for line in script.lines(entry)]
            text = script.head() + "".join(f"    {line}\n" for line in lines or ["pass"]) + _TAIL
            (staging.new / SCRIPT_NAME).write_text(text, "utf-8")
        except OSError as error:
            raise unwritable(folder, error) from error
        staging.commit([Path(SCRIPT_NAME), Path(DATA_NAME)])
    return script.calls


class _Script:
    """Writes the lines of calls, one after another."""

    def __init__(self, trace: Trace, data: Data, packages: Sequence[str]) -> None:
        self.calls = 0
        self._packages = list(packages)
        self._trace = trace
        self._data = data
        self._literals = Literals(data)
        self._handles: dict[int, Named] = {}
        self._variables: set[str] = set(_RESERVED)
        self._classes: set[str] = set()
        self._running: dict[int, str] = {}

    def head(self) -> str:
        """Return the beginning of the script."""
        modules: dict[str, set[str]] = {"dovetail.runtime": set(self._classes)}
        for name in self._literals.names:
            modules.setdefault(_IMPORTED.get(name, "dovetail.ir"), set()).add(name)
        modules["dovetail.runtime.calls"] = {
            "InstalledResolver",
            "OpsReference",
            "PackageReference",
        }
        modules["dovetail.runtime.calls.decoding"] = {"Ignored"}
        resolver = ""
        if self._packages:
            modules["dovetail.cli.op_packages"] = {"load_op_packages"}
            resolver = f"packages=load_op_packages({self._packages!r})"
        lines = [
            f"from {module} import {', '.join(sorted(names))}"
            for module, names in sorted(modules.items())
            if names
        ]
        return _HEAD.format(imports="\n".join(lines), data=DATA_NAME, resolver=resolver)

    def lines(self, entry: Entry) -> Iterator[str]:
        """Yield the lines of a call.

        Raises:
            TraceError: The record is invalid.
        """
        record = entry.record
        if isinstance(record, CompletionRecord):
            yield from self._completion(record, entry)
            return
        self.calls += 1
        if isinstance(record, OpaqueRecord):
            yield f"# call {entry.index} is not one of this API: {record.name!r}"
        elif record.unrecorded:
            yield f"# call {entry.index}, {record.function}, has arguments that were not recorded"
        else:
            yield from self._call(record, entry)

    def _call(self, record: CallRecord, entry: Entry) -> Iterator[str]:
        function, where = API[record.function], entry.where
        blobs = RecordedBlobs(record.payloads, self._trace.payloads, where)
        scene = Scene(self._handles, blobs, Referenced(), LIMIT_BYTES, where)
        arguments = decode_arguments(record, scene)
        if record.function in EXECUTES:
            yield from self._fills(record, blobs, where)
        call = self._expression(record, entry, arguments)
        if record.error is not None:
            yield f"with fails({entry.index}, {record.error.code or record.error.type!r}):"
            yield f"    {call}"
            return
        number = returned_handle(record, where)
        if number is not None and number not in self._handles:
            kind = "" if function.result is None else str(function.result.of)
            name = arguments.get("name")
            name = name if isinstance(name, str) else kind
            variable = unique(identifier(name), self._variables)
            self._handles[number] = Named(variable)
            yield f"{variable} = {call}"
        elif function.ends_later:
            yield from self._begin(record, entry, arguments)
        elif record.function in EXECUTES and (wanted := self._recorded(record, entry)):
            yield f"outputs = {call}"
            yield f"expect({entry.index}, outputs, {wanted})"
        else:
            yield call

    def _begin(self, record: CallRecord, entry: Entry, arguments: dict[str, Any]) -> Iterator[str]:
        """Yield the lines of an asynchronous execution, whose outputs are read at its end."""
        self._running[record.number] = f"run_{entry.index}"
        outputs = f"outputs_{entry.index}"
        yield f"{outputs} = {self._outputs(arguments['outputs'])}"
        named = {**arguments, "outputs": Named(outputs)}
        yield f"run_{entry.index} = {self._expression(record, entry, named)}"

    def _completion(self, record: CompletionRecord, entry: Entry) -> Iterator[str]:
        run = self._running.pop(record.number, None)
        if run is None:
            return
        if record.error is not None:
            yield f"with fails({entry.index}, {record.error.code or record.error.type!r}):"
            yield f"    {run}.wait()"
            return
        yield f"{run}.wait()"
        if wanted := self._recorded(record, entry):
            yield f"expect({entry.index}, outputs_{entry.index}, {wanted})"

    def _expression(self, record: CallRecord, entry: Entry, arguments: dict[str, Any]) -> str:
        function = API[record.function]
        texts: list[str] = []
        for name, value in function.args.items():
            given = arguments[name]
            is_empty = given is None or (isinstance(given, tuple | dict) and not given)
            if is_empty and (value.nullable or name in ("dynamic", "outputs")):
                continue
            if name in _USUAL and given == _USUAL[name]:
                continue
            if value.kind is ArgKind.OUTPUTS and isinstance(given, dict):
                texts.append(f"{name}={self._outputs(given)}")
            else:
                hint = f"{identifier(str(arguments.get('name', record.function)))}_{name}"
                texts.append(f"{name}={self._literals.of(given, hint)}")
        owner = self._owner(record, entry.where)
        return f"{owner}.{function.method}({', '.join(texts)})"

    def _owner(self, record: CallRecord, where: str) -> str:
        if record.function in _CLASSES:
            self._classes.add(_CLASSES[record.function])
            return _CLASSES[record.function]
        owner = self._handles.get(-1 if record.owner is None else record.owner)
        if owner is None:
            raise TraceError(f"no call has returned the handle {record.owner}", where=where)
        return owner.name

    def _outputs(self, given: Mapping[str, Any]) -> str:
        texts = []
        for name, value in given.items():
            is_handle = isinstance(value, Named)
            text = value.name if is_handle else f"np.empty({value.shape!r}, {value.dtype.str!r})"
            texts.append(f"{name!r}: {text}")
        return f"{{{', '.join(texts)}}}"

    def _fills(self, record: CallRecord, blobs: RecordedBlobs, where: str) -> Iterator[str]:
        """Yield the lines that write the inputs in registered memory."""
        for name, value in typed_arguments(record, where).inputs.items():
            if not isinstance(value, MemoryValue) or value.payload is None:
                continue
            blob, memory = blobs.find(value.payload), self._handles.get(value.handle)
            if blob is not None and memory is not None:
                array = f"{memory.name}.descriptor.array"
                data = self._data.array(blob.bytes, f"{memory.name}_{name}")
                yield f"fill({memory.name}, {data}.view({array}.dtype).reshape({array}.shape))"

    def _recorded(self, record: CallRecord | CompletionRecord, entry: Entry) -> str:
        """Return the expression of the recorded outputs; empty if there are none."""
        result = recorded_result(record, entry.where)
        blobs = RecordedBlobs(record.payloads, self._trace.payloads, entry.where)
        texts: list[str] = []
        for name, value in result.items() if isinstance(result, dict) else ():
            key = "" if value.payload is None else record.payloads[value.payload]
            blob = self._trace.payloads.get(key) if key else None
            if blob is not None and value.payload is not None:
                array = blobs[value.payload].bytes.view(value.dtype).reshape(value.shape)
                file = self._data.array(array, f"call_{entry.index}_{name}")
                texts.append(f"{name!r}: {file}")
        return f"{{{', '.join(texts)}}}" if texts else ""
