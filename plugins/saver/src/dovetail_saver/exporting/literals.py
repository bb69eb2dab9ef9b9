"""Python expressions for the arguments of recorded calls, and files for their data."""

from __future__ import annotations

import enum
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from keyword import iskeyword
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dovetail import ir
from dovetail.ir import Array, Blob
from dovetail.ops import Observed
from dovetail.runtime.calls import BackendReference, OpsReference, PackageReference
from dovetail.runtime.calls.decoding import Ignored
from dovetail.runtime.handle import Handle

_SMALL = 8  # elements of an array that is written into the script
_IR = {getattr(ir, name) for name in ir.__all__ if inspect.isclass(getattr(ir, name))}


class Named(Handle):
    """A replacement for a handle: the variable that has it in the script."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class Referenced:
    """A resolver that returns expressions for op packages."""

    def backend(self, reference: BackendReference, options: Any) -> Any:
        """Return the name of a backend."""
        return reference.name, options

    def op_package(self, reference: PackageReference) -> Any:
        """Return the reference of an op package."""
        return reference

    def ops(self, reference: OpsReference) -> Any:
        """Return the reference of an op registry."""
        return reference


class Data:
    """The files of a script's arrays, each written once.

    Args:
        folder: The folder, which exists.

    Raises:
        OSError: A file cannot be written; by its methods.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[tuple[str, str, tuple[int, ...]], str] = {}
        self._used: set[str] = set()

    def array(self, array: Array, hint: str) -> str:
        """Return the expression of an array."""
        blob = Blob(np.ascontiguousarray(array))
        return f"load({self._file(array, blob, hint)!r})"

    def blob(self, blob: Blob, hint: str) -> str:
        """Return the expression of a blob."""
        return f"Blob(load({self._file(blob.bytes, blob, hint)!r}))"

    def _file(self, array: Array, blob: Blob, hint: str) -> str:
        key = (blob.hash, array.dtype.str, array.shape)
        name = self._names.get(key)
        if name is None:
            name = unique(identifier(hint), self._used) + ".npy"
            np.save(self._folder / name, np.asarray(array), allow_pickle=False)
            self._names[key] = name
        return name


class Literals:
    """Returns expressions of values, and notes the names that they use.

    Args:
        data: Receives arrays and blobs.

    Attributes:
        names: Names from `dovetail.ir` in expressions so far.
    """

    def __init__(self, data: Data) -> None:
        self.names: set[str] = set()
        self._data = data

    def of(self, value: object, hint: str) -> str:
        """Return the expression of a value.

        Args:
            value: A value that `decode_arguments` returns.
            hint: The name of the file if it needs one.
        """
        for kinds, write in self._writers():
            if isinstance(value, kinds):
                return write(value, hint)
        if type(value) in _IR:
            return self._object(value, hint)
        return repr(value)

    def _writers(self) -> Iterable[tuple[Any, Callable[[Any, str], str]]]:
        return (
            (Named, lambda value, _: value.name),
            (enum.IntEnum, lambda value, _: self._enum(value)),
            (float, lambda value, _: _number(value)),
            (np.ndarray, self._array),
            (Blob, self._blob),
            (Mapping, self._mapping),
            ((list, tuple), self._sequence),
            (BackendReference, lambda value, _: repr(value.name)),
            (PackageReference, lambda value, _: f"package({_fields(value)})"),
            (OpsReference, lambda value, _: f"op_registry({_fields(value)})"),
            (Observed, lambda value, _: self._observed(value)),
            (Ignored, lambda *_: "Ignored()"),
        )

    def _enum(self, value: enum.IntEnum) -> str:
        name = type(value).__name__
        self.names.add(name)
        return f"{name}.{value.name}"

    def _array(self, value: Array, hint: str) -> str:
        if value.size <= _SMALL and value.ndim == 1 and value.dtype.kind in "biuf":
            texts = [_number(each) for each in value.tolist()]
            return f"np.array([{', '.join(texts)}], {value.dtype.str!r})"
        return self._data.array(value, hint)

    def _blob(self, value: Blob, hint: str) -> str:
        self.names.add("Blob")
        return self._data.blob(value, hint)

    def _mapping(self, value: Mapping[Any, Any], hint: str) -> str:
        items = (f"{k!r}: {self.of(v, f'{hint}_{k}')}" for k, v in value.items())
        return f"{{{', '.join(items)}}}"

    def _sequence(self, value: Iterable[Any], hint: str) -> str:
        return f"[{', '.join(self.of(each, hint) for each in value)}]"

    def _observed(self, value: Observed) -> str:
        self.names.add("Observed")
        return f"Observed(frozenset({sorted(value.names)!r}), {value.everything!r})"

    def _object(self, value: object, hint: str) -> str:
        """Return the call of a class of `dovetail.ir`, without arguments that are the defaults."""
        name = type(value).__name__
        self.names.add(name)
        texts: list[str] = []
        for parameter in inspect.signature(type(value)).parameters.values():
            given = getattr(value, parameter.name)
            is_empty = given is None or (isinstance(given, tuple) and not given)
            is_usual = is_empty or given is parameter.default or parameter.name == "source"
            if is_usual and parameter.default is not parameter.empty:
                continue
            texts.append(f"{parameter.name}={self.of(given, f'{hint}_{parameter.name}')}")
        return f"{name}({', '.join(texts)})"


def identifier(text: str) -> str:
    """Return a text as an identifier of ASCII characters."""
    found = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:60].lower()
    if not found or found[0].isdigit() or iskeyword(found):
        found = f"_{found}"
    return found


def unique(name: str, used: set[str]) -> str:
    """Return a name that is not in use, and add it."""
    found, count = name, 1
    while found in used:
        count += 1
        found = f"{name}_{count}"
    used.add(found)
    return found


def _number(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _fields(value: msgspec.Struct) -> str:
    return repr(msgspec.to_builtins(value))
