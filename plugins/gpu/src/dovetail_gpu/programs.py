"""Programs: OpenCL C from templates, compiled once and kept on disk.

A program is a template's text after a head of definitions: numbers, names of types, and lines that
kernels make of closed tables. Nothing of a model enters it but numbers.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from dovetail.errors import BackendError
from dovetail.files import read_limited
from dovetail_gpu.caches import cache_folder, keep, sealed, unsealed
from dovetail_gpu.driver import Device, Reported, built, opencl
from dovetail_gpu.elements import Element

OPTIONS = ("-cl-std=CL1.2", "-cl-mad-enable")
_EXACT = "-cl-fp32-correctly-rounded-divide-sqrt"
_MORE_OPTIONS = ("PYOPENCL_BUILD_OPTIONS", "POCL_EXTRA_BUILD_FLAGS")  # of pyopencl and PoCL
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_MOST_BYTES = 1 << 26  # of a compiled program


@dataclass(frozen=True, slots=True)
class Source:
    """A program before it is compiled.

    Attributes:
        template: Text of the template.
        head: Lines before the template: definitions.
    """

    template: str
    head: str = ""

    @classmethod
    def of(
        cls,
        name: str | Sequence[str],
        defines: Mapping[str, int | str] | None = None,
        lines: str = "",
    ) -> Source:
        """Return a program of this package's template of a name.

        Args:
            name: Name of the file, without `.cl`; several are one program, in their order.
            defines: Macros: numbers, and names of types or functions.
            lines: Further definitions, made of closed tables.
        """
        names = (name,) if isinstance(name, str) else name
        return cls.from_text("".join(map(_template, names)), defines, lines)

    @classmethod
    def from_text(
        cls, template: str, defines: Mapping[str, int | str] | None = None, lines: str = ""
    ) -> Source:
        """Return a program of a template's text; see `of`."""
        head = []
        for key, value in (defines or {}).items():
            if not _NAME.fullmatch(key):
                raise AssertionError(f"not the name of a macro: {key}")
            head.append(f"#define {key} {value}")
        return cls(_template("prelude") + template, "\n".join((*head, lines, "")))

    @property
    def text(self) -> str:
        """The whole text."""
        return self.head + self.template


def type_defines(name: str, element: Element) -> dict[str, int | str]:
    """Return macros of another type of a program: its name, and NAME_FLOAT, NAME_HALF, ..."""
    return {name: element.text, f"{name}_{element.name}": 1}


def type_lines(element: Element) -> str:
    """Return the definitions of the type of real numbers in a program."""
    return f"#define S {element.text}\n#define S_{element.name} 1\n"


@functools.cache
def _template(name: str) -> str:
    return resources.files("dovetail_gpu").joinpath("templates", f"{name}.cl").read_text()


class Programs:
    """The compiled programs of a device.

    Args:
        device: The device.
        context: The context of pyopencl.
        folder: Folder of compiled programs; None for that of the user's cache.

    Attributes:
        compiled: Number of programs that were compiled, and not found on disk.
    """

    def __init__(self, device: Device, context: Any, folder: str | None) -> None:
        self.compiled = 0
        self._device, self._context = device, context
        self._options = [*OPTIONS, *((_EXACT,) if device.divides_exactly else ())]
        self._folder = cache_folder(folder)
        self._found: dict[Source, Any] = {}
        self._guard = threading.Lock()

    def kernel(self, source: Source, function: str) -> Any:
        """Return a new kernel object of a program.

        Raises:
            BackendError: The driver does not compile it.
        """
        with self._guard:
            program = self._found.get(source)
            if program is None:
                program = self._found[source] = self._program(source)
        with Reported(self._device, f"create the kernel '{function}'"):
            return opencl().Kernel(program, function)

    def _program(self, source: Source) -> Any:
        cl = opencl()
        text = source.text
        more = (os.environ.get(name, "") for name in _MORE_OPTIONS)
        facts = "\n".join((self._device.key, cl.VERSION_TEXT, *self._options, *more, text))
        path = self._folder and self._folder / f"{hashlib.sha256(facts.encode()).hexdigest()}.bin"
        if path and (program := self._restored(path)) is not None:
            return program
        try:
            program = built(cl.Program(self._context, text), self._options)
        except cl.RuntimeError as error:
            raise _compilation_error(self._device, error) from error
        self.compiled += 1
        if path:
            (binary,) = program.get_info(cl.program_info.BINARIES)
            keep(path, sealed(binary))
        return program

    def _restored(self, path: Path) -> Any:
        """Return the program of a file; None if there is none, or the driver rejects it."""
        cl = opencl()
        try:
            binary = unsealed(read_limited(path, _MOST_BYTES))
            if binary is None:
                return None
            return built(cl.Program(self._context, [self._device.handle], [binary]), self._options)
        except (OSError, cl.Error):
            return None


def _compilation_error(device: Device, error: Exception) -> BackendError:
    log = str(error).splitlines()
    text = "\n".join(line for line in log if line.strip())[:2000]
    return BackendError(
        f"the driver of {device} does not compile a kernel:\n{text}",
        hint="correct the kernel if it is an op package's; else update the driver, or run the "
        "model on other backends: --backend hetero:gpu,cpu",
    )
