"""Export of traces as Saver programs."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dovetail.csource.literals import braces, integer, text
from dovetail.files import staged_folder, unwritable
from dovetail.ir import Blob, Scalar, Tensor, TensorKind
from dovetail.ir.storage import pack
from dovetail.runtime.api_table import API
from dovetail.runtime.calls import CallRecord, CompletionRecord
from dovetail.runtime.calls.payloads import RecordedBlobs
from dovetail.runtime.calls.values import ArrayValue
from dovetail_saver.trace import Entry, OpaqueRecord, Trace
from dovetail_saver.trace.lines import encode_line
from dovetail_saver.vendor.configs import SIGNAL_TIMEOUT, write_configs
from dovetail_saver.vendor.forms import FORMS, Part, Slot
from dovetail_saver.vendor.program_file import ProgramFile
from dovetail_saver.vendor.recorded import RecordedArguments, recorded_arguments
from dovetail_saver.vendor.scope import UnsupportedError
from dovetail_saver.vendor.source import RECORD_COMMENT
from dovetail_saver.vendor.summary import Summary
from dovetail_saver.vendor.written_tensors import Buffer, TensorText

PROGRAM_NAME, PAYLOADS_NAME = "saver_output.c", "params.bin"


def export_program(
    trace: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    program_name: str = PROGRAM_NAME,
    payloads_name: str = PAYLOADS_NAME,
) -> Summary:
    """Write the calls of a trace as a Saver program: `saver_output.c` and `params.bin`.

    Results, times and threads are not in a program. What C cannot express is left out, with a
    comment that `import_program` reads back as an opaque record.

    Args:
        trace: The trace.
        folder: The folder of the files.
        program_name: Name of the program.
        payloads_name: Name of its payloads.

    Raises:
        TraceError: The trace is invalid.
        ContainerError: The files cannot be written.
    """
    names = [Path(program_name), Path(payloads_name)]
    recorded = Trace(trace)
    with staged_folder(Path(folder)) as staging:
        try:
            with (
                (staging.new / names[0]).open("xb") as program,
                (staging.new / names[1]).open("xb") as payloads,
            ):
                summary = _write(recorded, ProgramFile(program, payloads, payloads_name))
        except OSError as error:
            raise unwritable(Path(folder), error) from error
        staging.commit(names)
    return summary


def _write(trace: Trace, file: ProgramFile) -> Summary:
    exporter = _Exporter(trace, file)
    for entry in trace:
        exporter.take(entry)
    file.finish()
    return exporter.summary


class _Exporter:
    """Writes the statements of records."""

    def __init__(self, trace: Trace, file: ProgramFile) -> None:
        self.summary = Summary()
        self._trace = trace
        self._file = file
        self._where = ""
        self._text = TensorText(file, self._leave_out)
        self._variables: dict[int, str] = {}  # by handle
        self._counts: dict[str, int] = defaultdict(int)
        self._tensors: dict[int, dict[str, tuple[str, Tensor]]] = defaultdict(dict)  # by graph
        self._said: set[str] = set()

    def take(self, entry: Entry) -> None:
        """Write the statements of a record."""
        record, self._where = entry.record, entry.where
        if isinstance(record, CompletionRecord):
            return  # the program waits for nothing
        self._file.line()
        if isinstance(record, OpaqueRecord):
            self._comment(record, record.name)
            return
        try:
            statement = self._call(record, entry.where)
        except UnsupportedError as reason:
            said = f"left out: {reason}"
            opaque = OpaqueRecord(number=record.number, name=record.function, text=said)
            self._comment(opaque, f"{record.function}: {reason}")
        else:
            self._file.line(statement)
            self.summary.calls[record.function] += 1

    # -- calls -----------------------------------------------------------------------------------

    def _call(self, record: CallRecord, where: str) -> str:
        """Declare what a call needs and return its statement.

        Raises:
            UnsupportedError: C cannot express it. Nothing is written before this is certain, but
                declarations.
        """
        function = record.function
        parts = FORMS.get(function)
        if parts is None:
            raise UnsupportedError("no such call in a program")
        if record.unrecorded:
            raise UnsupportedError(f"argument '{min(record.unrecorded)}' was not recorded")
        blobs = RecordedBlobs(record.payloads, self._trace.payloads, where)
        given = recorded_arguments(record, blobs, where)
        arguments = [_WRITERS[part.slot](self, part, given) for part in parts]
        self._note_the_rest(given, parts)
        return f"VALIDATE(error, interface.{API[function].qnn}({', '.join(arguments)}));"

    def _note_the_rest(self, given: RecordedArguments, parts: tuple[Part, ...]) -> None:
        """Report the arguments that the form of a call has no room for."""
        for name in given.lost(parts):
            self._leave_out(f"{given.function}: argument '{name}'")

    def _owner(self, _: Part, given: RecordedArguments) -> str:
        return self._variable(given.owner)

    def _handle(self, part: Part, given: RecordedArguments) -> str:
        number = given.values[part.name]
        return "NULL" if number is None else self._variable(number)

    def _variable(self, number: int | None) -> str:
        if number is None or number not in self._variables:
            raise UnsupportedError("a handle is not created in the program")
        return self._variables[number]

    def _new(self, kind: str) -> str:
        name = f"{kind.replace(' ', '_')}_{self._counts[kind]}"
        self._counts[kind] += 1
        return name

    def _created(self, _: Part, given: RecordedArguments) -> str:
        kind = str(API[given.function].result.of)  # type: ignore[union-attr] # it creates a handle
        name = self._new(kind)
        self._file.line(f"Qnn_{kind.capitalize()}Handle_t {name};")
        self._remember(given, name)
        return f"&{name}"

    def _remember(self, given: RecordedArguments, name: str) -> None:
        if given.result is not None:
            self._variables[given.result] = name

    def _configs(self, _: Part, given: RecordedArguments) -> str:
        config = given.values["config"]
        if not config:
            return "NULL"
        options, unknown = write_configs(given.function, config)
        for key in unknown:
            self._leave_out(f"{given.function}: setting '{key}'")
        if not options:
            return "NULL"
        kind = f"{_CONFIG_TYPES[given.function]}_Config_t"
        return self._config_array(kind, options)

    def _config_array(self, kind: str, options: list[str]) -> str:
        names = []
        for option in options:
            names.append(self._new("config"))
            self._file.line(f"{kind} {names[-1]} = {{{option}}};")
        array = self._new("configs")
        pointers = braces([*(f"&{name}" for name in names), "NULL"])
        self._file.line(f"const {kind}* {array}[] = {pointers};")
        return array

    def _signal(self, _: Part, given: RecordedArguments) -> str:
        kind, timeout = int(given.values["kind"]), given.values["timeout_us"]
        option = f"(QnnSignal_ConfigOption_t){kind}"
        if kind == SIGNAL_TIMEOUT:
            option += f", .durationInUs = {timeout or 0}"
        return self._config_array("QnnSignal_Config_t", [option])

    def _string(self, part: Part, given: RecordedArguments) -> str:
        return text(given.values[part.name])

    def _number(self, part: Part, given: RecordedArguments) -> str:
        return (
            f"({_NUMBER_TYPES[part.name, given.function]}){integer(int(given.values[part.name]))}"
        )

    def _null(self, _: Part, __: RecordedArguments) -> str:
        return "NULL"

    def _result(self, part: Part, _: RecordedArguments) -> str:
        name = self._new("result")
        self._file.line(f"{part.name} {name};")
        return f"&{name}"

    # -- tensors ---------------------------------------------------------------------------------

    def _new_tensor(self, _: Part, given: RecordedArguments) -> str:
        tensor, buffer = given.tensor()
        name = self._create(tensor, buffer, given.owner)
        self._remember(given, name)
        return f"&{name}"

    def _create(self, tensor: Tensor, buffer: Buffer | None, graph: int | None) -> str:
        """Declare a tensor that is to be created and return its variable."""
        name = self._new("tensor")
        self._text.declare(name, tensor, buffer)
        if graph is not None:
            self._tensors[graph].setdefault(tensor.name, (name, tensor))
        return name

    def _node(self, _: Part, given: RecordedArguments) -> str:
        values, name = given.values, self._new("node")
        self._variable(given.owner)
        inputs = [self._use(number) for number in values["inputs"]]
        outputs = [self._use(number) for number in values["outputs"]]
        params = []
        for index, (key, param) in enumerate(given.params()):
            variable = f"{name}_param_{index}"
            if isinstance(param, Scalar):
                self._text.scalar(f"{variable}_scalar", param)
                value = f"(Qnn_ParamType_t)0, {text(key)}, .scalarParam = {variable}_scalar"
            else:
                used = self._param_tensor(param, key, given)
                value = f"(Qnn_ParamType_t)1, {text(key)}, .tensorParam = {used}"
            self._file.line(f"Qnn_Param_t {variable} = {{{value}}};")
            params.append(variable)
        arrays = [("Qnn_Param_t", "params", params), ("Qnn_Tensor_t", "inputs", inputs)]
        arrays.append(("Qnn_Tensor_t", "outputs", outputs))
        fields = [text(values[key]) for key in ("name", "package", "op_type")]
        for kind, suffix, items in arrays:
            if items:
                self._file.line(f"{kind} {name}_{suffix}[] = {braces(items)};")
            fields += [str(len(items)), f"{name}_{suffix}" if items else "NULL"]
        self._file.line(f"Qnn_OpConfigV1_t {name}_v1 = {braces(fields)};")
        self._file.line(f"Qnn_OpConfig_t {name} = {{(Qnn_OpConfigVersion_t)1, .v1 = {name}_v1}};")
        return name

    def _use(self, number: int | None) -> str:
        """Return the variable of a node's tensor; of one without a type for an omitted input."""
        if number is not None:
            return self._variable(number)
        name = self._new("omitted")
        fields = f'0, "", (Qnn_TensorType_t){int(TensorKind.NULL)}'
        self._file.line(f"Qnn_TensorV1_t {name}_v1 = {{{fields}}};")
        self._file.line(f"Qnn_Tensor_t {name} = {{(Qnn_TensorVersion_t)1, .v1 = {name}_v1}};")
        return name

    def _param_tensor(self, param: Tensor, key: str, given: RecordedArguments) -> str:
        """Return the variable of a param; it is created if the trace has not done so."""
        graph, owner = given.owner, self._variable(given.owner)
        known = self._tensors[-1 if graph is None else graph]
        found = known.get(param.name)
        if found is not None and _is_same(found[1], param):
            return found[0]
        if not param.name or found is not None:
            stem = f"{given.values['name']}_{key}"
            names = (f"{stem}_{i}" if i else stem for i in range(len(known) + 1))
            param.name = next(name for name in names if name not in known)
        buffer = None if param.data is None else Buffer(param.data.nbytes, param.data)
        name = self._create(param, buffer, graph)
        self._file.line(f"VALIDATE(error, interface.tensorCreateGraphTensor({owner}, &{name}));")
        return name

    # -- executions ------------------------------------------------------------------------------

    def _buffers(self, part: Part, given: RecordedArguments) -> str:
        self._variable(given.owner)
        known = self._tensors[-1 if given.owner is None else given.owner]
        found = given.values[part.name]
        if found is None:  # the call returns new arrays
            found = given.results or {}
        used = []
        for name, value in found.items():
            if name not in known:
                raise UnsupportedError(f"tensor '{name}' is not created in the program")
            used.append((*known[name], value, _bytes_of(known[name][1], value, given, part.name)))
        variables = []
        for like, tensor, value, buffer in used:
            variables.append(self._new("buffer"))
            self._text.declare(variables[-1], tensor, buffer, like, value.shape)
        given.counts.append(len(variables))
        if not variables:
            return "NULL"
        array = self._new("buffers")
        self._file.line(f"Qnn_Tensor_t {array}[] = {braces(variables)};")
        return array

    def _count(self, _: Part, given: RecordedArguments) -> str:
        return str(given.counts[-1])

    # -- what C does not have --------------------------------------------------------------------

    def _comment(self, record: OpaqueRecord, what: str) -> None:
        shown = msgspec.structs.replace(record, thread=0)
        self._file.line(f"{RECORD_COMMENT.decode()}{encode_line(shown).decode()}")
        self.summary.leave_out(lambda: self._where, what)

    def _leave_out(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self.summary.leave_out(lambda: self._where, what)


_WRITERS: Mapping[Slot, Callable[[_Exporter, Part, RecordedArguments], str]] = {
    Slot.OWNER: _Exporter._owner,
    Slot.HANDLE: _Exporter._handle,
    Slot.CREATED: _Exporter._created,
    Slot.CONFIGS: _Exporter._configs,
    Slot.SIGNAL: _Exporter._signal,
    Slot.TEXT: _Exporter._string,
    Slot.NUMBER: _Exporter._number,
    Slot.NEW_TENSOR: _Exporter._new_tensor,
    Slot.NODE: _Exporter._node,
    Slot.BUFFERS: _Exporter._buffers,
    Slot.COUNT: _Exporter._count,
    Slot.LOG: _Exporter._null,
    Slot.NULL: _Exporter._null,
    Slot.RESULT: _Exporter._result,
}
_CONFIG_TYPES = {
    "backend_create": "QnnBackend",
    "device_create": "QnnDevice",
    "context_create": "QnnContext",
    "graph_create": "QnnGraph",
    "graph_set_config": "QnnGraph",
}
_NUMBER_TYPES = {
    ("key", "backend_has_capability"): "QnnProperty_Key_t",
    ("level", "profile_create"): "QnnProfile_Level_t",
    ("level", "log_create"): "QnnLog_Level_t",
    ("level", "log_set_level"): "QnnLog_Level_t",
}


def _is_same(created: Tensor, param: Tensor) -> bool:
    def described(tensor: Tensor) -> tuple[object, ...]:
        data = None if tensor.data is None else tensor.data.hash
        return tensor.dtype, tensor.shape, tensor.kind, tensor.encoding, data

    return described(created) == described(param)


def _bytes_of(tensor: Tensor, value: Any, given: RecordedArguments, use: str) -> Buffer:
    """Return the buffer of an execution.

    Raises:
        UnsupportedError: It does not match its tensor, so that the recorded call has failed.
    """
    if not isinstance(value, ArrayValue):
        raise UnsupportedError(f"the buffer of '{tensor.name}' is not an array")
    fits = len(value.shape) == len(tensor.shape) and (
        tensor.dynamic or tuple(value.shape) == tensor.shape
    )
    if value.dtype != tensor.dtype.storage.str or not fits:
        raise UnsupportedError(f"the buffer of '{tensor.name}' does not match the tensor")
    data: Blob | None = None
    if use == "inputs" and value.payload is not None:
        data = given.blobs.find(value.payload)
    if data is not None and tensor.dtype.is_packed:
        stored = data.bytes.view(tensor.dtype.storage)
        data = pack(stored.reshape(value.shape), tensor.dtype)
    return Buffer(tensor.dtype.nbytes(tuple(value.shape)), data)
