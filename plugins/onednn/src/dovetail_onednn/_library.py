"""Finding and loading oneDNN, at first use, once per process.

Three places are tried in this order: the library that the dist `onednn-cpu-gomp` installed (asked
of its metadata, since where a dist's data files lie is the installer's business), the system's, and
the file that the environment variable DOVETAIL_ONEDNN names.

Functions are called through `ctypes.CDLL`, which lets other Python threads run meanwhile; for
executing there is a second form that does not.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dovetail.errors import PluginError, Problem
from dovetail_onednn._api import declare

DIST = "onednn-cpu-gomp"
SONAME = "libdnnl.so.3"
VARIABLE = "DOVETAIL_ONEDNN"
OLDEST = (3, 2)  # what the tests run with; 3.x promises to stay compatible
# Source: oneDNN 3.2, dnnl_types.h, dnnl_cpu_isa_t
_INSTRUCTION_SETS = {
    0x1: "SSE4.1",
    0x3: "AVX",
    0x7: "AVX2",
    0xF: "AVX2 with VNNI",
    0x1F: "AVX2 with VNNI 2",
    0x27: "AVX-512",
    0x67: "AVX-512 with VNNI",
    0xE7: "AVX-512 with VNNI and BF16",
    0x1EF: "AVX-512 with FP16",
    0xFEF: "AVX-512 with FP16 and AMX",
    0x1FEF: "AVX-512 with FP16 and AMX FP16",
}
_BFLOAT16, _AMX = 0xE7, 0xFEF  # the bits of all sets that have it
_LOADING = threading.Lock()
_LOADED: list[Library] = []  # looked at without the lock, which would be most of a call's time


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """A loaded oneDNN.

    Attributes:
        path: Where it came from.
        version: Major, minor, patch.
        instruction_set: oneDNN's number of the set that it makes code for.
        functions: By name without the prefix `dnnl_`; `primitive_execute_held` is the same as
            `primitive_execute`, but lets no other Python thread run.
        set_threads: Sets how many threads what the calling thread starts will use; None where the
            library's threads are not OpenMP's.
        own_threads: How many it uses by itself; 0 where that is not known.
        get_threads: Gives what `set_threads` set in the calling thread; None like that.
    """

    path: str
    version: tuple[int, int, int]
    instruction_set: int
    functions: dict[str, Any]
    set_threads: Any = None
    own_threads: int = 0
    get_threads: Any = None

    @property
    def version_text(self) -> str:
        """The version as people write it."""
        return ".".join(map(str, self.version))

    @property
    def instruction_set_name(self) -> str:
        """What the instruction set is called."""
        return _INSTRUCTION_SETS.get(self.instruction_set, f"set {self.instruction_set:x}")

    @property
    def has_bfloat16(self) -> bool:
        """Whether the instruction set is one with bfloat16."""
        return self.instruction_set & _BFLOAT16 == _BFLOAT16

    @property
    def has_amx(self) -> bool:
        """Whether the instruction set is one with AMX."""
        return self.instruction_set & _AMX == _AMX

    @property
    def fingerprint(self) -> str:
        """What data in layouts of the library's choice are valid for: this version and set."""
        return f"onednn-{self.version_text}-isa{self.instruction_set:x}"


def library() -> Library:
    """Return oneDNN, loaded at the first call.

    Raises:
        PluginError: There is none that can be used; lists every place tried.
    """
    if not _LOADED:
        with _LOADING:  # two threads must not load it twice
            if not _LOADED:
                _LOADED.append(_first())
    return _LOADED[0]


def _first() -> Library:
    """Load the first candidate that can be used."""
    faults: list[PluginError] = []
    for path in candidates():
        try:
            return load(path)
        except PluginError as error:
            faults.append(error)
    absent = all(fault.code == "PLUGIN_MISSING" for fault in faults)
    raise PluginError(
        "oneDNN is not installed" if absent else "oneDNN is installed but cannot be used",
        code="PLUGIN_MISSING" if absent else "PLUGIN_BROKEN",
        where="dovetail_onednn",
        hint=f"install {DIST} (Linux, x86-64), or name a {SONAME} in {VARIABLE}",
        problems=[Problem(fault.message, fault.where, fault.hint) for fault in faults],
    )


def candidates() -> Iterator[str]:
    """Return what to load, best first."""
    try:
        files = importlib.metadata.distribution(DIST).files or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.name == SONAME:
            yield str(os.path.normpath(str(file.locate())))
    yield SONAME
    if named := os.environ.get(VARIABLE):
        yield named


def _openmp(held: ctypes.PyDLL) -> tuple[Any, int, Any]:
    """Return what sets the threads of a library's OpenMP, their own number, and what tells it."""
    try:
        # looked up in what the library depends on, too
        set_number, number = held.omp_set_num_threads, held.omp_get_max_threads
    except AttributeError:
        return None, 0, None
    set_number.restype, set_number.argtypes = None, (ctypes.c_int,)
    number.restype, number.argtypes = ctypes.c_int, ()
    return set_number, int(number()), number


def _execute(loaded: ctypes.CDLL) -> Any:
    """Return what executes a primitive: (primitive, stream, number of arguments, arguments).

    It is called with ctypes' own values, made once. Types declared for it would be looked at in
    every call, and that takes longer than all the rest of the call.
    """
    function = loaded.dnnl_primitive_execute
    function.restype = ctypes.c_int
    return function


def load(path: str) -> Library:
    """Load a library and checks that it is one that can be used.

    Raises:
        PluginError: It is not there, cannot be loaded, or is too old or too new.
    """
    try:
        found = ctypes.CDLL(path)
        held = ctypes.PyDLL(path)  # its calls keep the interpreter to themselves
        functions = declare(found)
        functions["primitive_execute"] = _execute(found)
        functions["primitive_execute_held"] = _execute(held)
    except OSError as error:
        reason = str(error)
        if reason.startswith(f"{path}: cannot open"):
            raise PluginError("is not there", code="PLUGIN_MISSING", where=path) from error
        hint = "install the system's OpenMP runtime (Debian package libgomp1)"
        raise PluginError(
            f"cannot be loaded: {reason}", where=path, hint=hint if "libgomp" in reason else ""
        ) from error
    except AttributeError as error:
        raise PluginError(f"is not oneDNN 3: {error}", where=path) from error
    about = functions["version"]().contents
    version = (int(about.major), int(about.minor), int(about.patch))
    if version[0] != OLDEST[0] or version[:2] < OLDEST:
        raise PluginError(
            f"is oneDNN {'.'.join(map(str, version))}, but 3.2 or a later 3.x is needed",
            code="PLUGIN_INCOMPATIBLE",
            where=path,
        )
    isa = int(functions["get_effective_cpu_isa"]())
    return Library(path, version, isa, functions, *_openmp(held))
