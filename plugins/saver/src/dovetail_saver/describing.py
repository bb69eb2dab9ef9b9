"""Calls as text for people: names of handles instead of numbers, and no defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from dovetail.ir import DataFormat, DType, MemoryType
from dovetail.runtime.api_table import API, ArgKind, Value
from dovetail.runtime.calls import CallRecord, CompletionRecord
from dovetail_saver.trace import OpaqueRecord

# Defaults that say nothing.
_USUAL = {"memory_type": int(MemoryType.RAW), "data_format": int(DataFormat.DENSE)}
# NumPy's names of the types that records have as codes such as `|u1`.
_DTYPE_NAMES = {
    np.dtype(code).str: np.dtype(code).name for code in ["?", *np.typecodes["AllInteger"], *"efd"]
}
_LONGEST = 200  # characters of one argument
_decode = msgspec.json.Decoder().decode


class HandleNames:
    """Names of the handles of a trace, learned from its records."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._counts: dict[str, int] = {}  # of handles of one kind or name

    def note(self, record: CallRecord) -> None:
        """Remember the handle that a call has returned."""
        result = API[record.function].result
        if result is None or result.kind is not ArgKind.HANDLE or record.error is not None:
            return
        number, arguments = _plain(record.result), _plain(record.arguments)
        if not isinstance(number, int) or number in self._names or not isinstance(arguments, dict):
            return
        name = arguments.get("name")
        name = name.get("name") if isinstance(name, dict) else name
        text = f"{result.of} {name!r}" if name else str(result.of)
        count = self._counts[text] = self._counts.get(text, 0) + 1
        self._names[number] = f"{text} {count}" if count > 1 or not name else text

    def of(self, number: object) -> str:
        """Return the name of a handle."""
        found = self._names.get(number) if isinstance(number, int) else None
        return found or f"handle {number}"


def describe(
    record: CallRecord | CompletionRecord | OpaqueRecord, names: HandleNames, limit: int = _LONGEST
) -> str:
    """Return a call with its arguments and its result or error.

    Args:
        record: The record.
        names: Names of the handles; that of the result is added.
        limit: Maximum length of one argument's text.
    """
    call = describe_call(record, names, limit)
    if isinstance(record, OpaqueRecord):
        return call
    value = API[record.function].result if isinstance(record, CallRecord) else None
    return call + _outcome(record, value, names, limit)


def describe_call(
    record: CallRecord | CompletionRecord | OpaqueRecord, names: HandleNames, limit: int = _LONGEST
) -> str:
    """Return a call with its arguments; as `describe`."""
    if isinstance(record, OpaqueRecord):
        return _shortened(f"{record.name}: {record.text}".rstrip(": "), limit)
    if isinstance(record, CompletionRecord):
        return "end of the execution"
    names.note(record)
    function = API[record.function]
    arguments = _plain(record.arguments)
    texts = [] if record.owner is None else [names.of(record.owner)]
    for name, value in function.args.items():
        given = arguments.get(name) if isinstance(arguments, dict) else None
        if given not in (None, [], {}) and given != _USUAL.get(name):
            text = _value(value, given, names)
            texts.append(f"{name}={_shortened(text, limit)}")
    texts += [f"{name}=<{kind}>" for name, kind in record.unrecorded.items()]
    return f"{record.function}({', '.join(texts)})"


def _outcome(
    record: CallRecord | CompletionRecord, value: Value | None, names: HandleNames, limit: int
) -> str:
    if record.error is not None:
        kind = _shortened(f"{record.error.type} {record.error.code}".strip(), limit)
        return f" -> {kind}: {_shortened(record.error.message, limit)}"
    result = _plain(record.result)
    if result is None:
        return ""
    text = _arrays(result) if value is None else _value(value, result, names)
    return f" -> {_shortened(text, limit)}"


def _value(value: Value, given: Any, names: HandleNames) -> str:
    if value.many and isinstance(given, list):
        one = Value(value.kind, value.of)
        return f"[{', '.join(_value(one, each, names) for each in given)}]"
    if given is None:
        return "None"
    if value.kind is ArgKind.HANDLE:
        return names.of(given)
    if value.kind is ArgKind.ENUM and isinstance(value.of, type):
        known = {int(member): member.name for member in value.of}
        return known.get(given, str(given)) if isinstance(given, int) else str(given)
    if value.kind in (ArgKind.INPUTS, ArgKind.OUTPUTS, ArgKind.RESULTS):
        return _arrays(given, names)
    if value.kind is ArgKind.PARAMS and isinstance(given, list):
        return f"{{{', '.join(_param(each) for each in given)}}}"
    if value.kind in (ArgKind.ARRAY, ArgKind.DATA) and isinstance(given, dict):
        return _array(given)
    if value.kind is ArgKind.BACKEND and isinstance(given, dict):
        return repr(given.get("name"))
    if value.kind is ArgKind.CALLBACK:
        return "<callback>"
    return repr(given)


def _arrays(given: object, names: HandleNames | None = None) -> str:
    if not isinstance(given, dict):
        return repr(given)
    return f"{{{', '.join(f'{k}: {_array(v, names)}' for k, v in given.items())}}}"


def _array(given: object, names: HandleNames | None = None) -> str:
    if not isinstance(given, Mapping):
        return repr(given)
    if "handle" in given:
        return names.of(given["handle"]) if names is not None else f"handle {given['handle']}"
    if "dtype" in given and "shape" in given:
        dtype = given["dtype"]
        return f"{_DTYPE_NAMES.get(str(dtype), dtype)}{given['shape']}"
    return f"<{given.get('is', 'data')}>"


def _param(given: object) -> str:
    if not isinstance(given, dict):
        return repr(given)
    scalar, tensor = given.get("scalar"), given.get("tensor")
    if isinstance(scalar, dict):
        return f"{given.get('name')}={scalar.get('value')!r}"
    if isinstance(tensor, dict):
        known = {int(dtype): dtype.name for dtype in DType}
        dtype = tensor.get("dtype", 0)
        return f"{given.get('name')}={known.get(dtype, dtype)}{tensor.get('shape')}"
    return repr(given)


def _shortened(text: str, limit: int) -> str:
    text = text if text.isprintable() else text.encode("unicode_escape").decode()
    return text if len(text) <= limit else f"{text[:limit]}..."


def _plain(raw: msgspec.Raw) -> Any:
    """Return JSON as plain data; None for what is not JSON."""
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
