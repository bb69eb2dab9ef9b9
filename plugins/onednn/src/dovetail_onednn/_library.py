"""Finding and loading oneDNN, at first use, once per process.

Three files are tried in this order: the library that the dist `onednn-cpu-gomp` installed (its path
is read from the dist's metadata, since installers choose it), the system's library, and the file
that the environment variable DOVETAIL_ONEDNN names.

Functions are called through `ctypes.CDLL`, which lets other Python threads run meanwhile; executing
a primitive has a second form that does not.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import threading
from collections.abc import Iterator
from typing import Any

import msgspec

from dovetail.errors import PluginError, Problem
from dovetail_onednn._api import declare
from dovetail_onednn.contention import Contention, contention_of
from dovetail_onednn.openmp import short_spin
from dovetail_onednn.processors import usable_processors

DIST = "onednn-cpu-gomp"
SONAME = "libdnnl.so.3"
VARIABLE = "DOVETAIL_ONEDNN"
OLDEST = (3, 2)  # the version that the tests run with; 3.x promises to stay compatible
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
_AVX2, _AVX512, _BFLOAT16, _AMX = 0x7, 0x27, 0xE7, 0xFEF  # bits that all sets with it have
_VNNI = 0x48  # bits of which every set with VNNI has one
_LOADING = threading.Lock()
_LOADED: list[Library] = []  # read without the lock, which would take most of a call's time


class Library(msgspec.Struct, frozen=True, eq=False):
    """A loaded oneDNN.

    Attributes:
        path: Its file.
        version: Major, minor, patch.
        instruction_set: oneDNN's number of the set that it generates code for.
        functions: By name without the prefix `dnnl_`; `primitive_execute_held` is the same as
            `primitive_execute`, but lets no other Python thread run.
        set_threads: Sets the number of threads for work that the calling thread starts; None if
            the library's threads are not OpenMP's.
        own_threads: The default number of threads; 0 where that is not known.
        get_threads: Returns the number of threads of the calling thread; None like `set_threads`.
        contention: Watches for other work on the processors; None if that is not possible.
        openmp_came_first: Whether another package had loaded OpenMP's runtime library before.
    """

    path: str
    version: tuple[int, int, int]
    instruction_set: int
    functions: dict[str, Any]
    set_threads: Any = None
    own_threads: int = 0
    get_threads: Any = None
    contention: Contention | None = None
    openmp_came_first: bool = False

    @property
    def version_text(self) -> str:
        """The version, dotted."""
        return ".".join(map(str, self.version))

    @property
    def instruction_set_name(self) -> str:
        """The name of the instruction set."""
        return _INSTRUCTION_SETS.get(self.instruction_set, f"set {self.instruction_set:#x}")

    @property
    def has_avx512(self) -> bool:
        """True if the instruction set includes AVX-512."""
        return self.instruction_set & _AVX512 == _AVX512

    @property
    def has_bfloat16(self) -> bool:
        """True if the instruction set includes bfloat16."""
        return self.instruction_set & _BFLOAT16 == _BFLOAT16

    @property
    def has_vnni(self) -> bool:
        """True if sums of products of bytes are exact; other sets have code that saturates."""
        return bool(self.instruction_set & _VNNI)

    @property
    def has_amx(self) -> bool:
        """True if the instruction set includes AMX."""
        return self.instruction_set & _AMX == _AMX

    @property
    def fingerprint(self) -> str:
        """Identifier of this version and instruction set, for which packed layouts are valid."""
        return f"onednn-{self.version_text}-isa{self.instruction_set:x}"


def library() -> Library:
    """Return oneDNN, loaded at the first call.

    Raises:
        PluginError: No library can be used; lists every file tried.
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
            found = load(path)
        except PluginError as error:
            faults.append(error)
        else:
            _check_processor(found)
            return found
    code, hint = "PLUGIN_MISSING", f"set {VARIABLE} to the path of a {SONAME}"
    if present := [fault for fault in faults if fault.code != code]:
        code = present[0].code
        message = f"oneDNN cannot be used: {present[0].message}"
    elif _is_packaged():
        message, hint = "oneDNN is not installed", f"install {DIST}, or {hint}"
    else:
        message = f"oneDNN is not packaged for {platform.system()} on {platform.machine()}"
    raise PluginError(
        message,
        code=code,
        where="dovetail_onednn",
        hint=hint,
        problems=[Problem(fault.message, fault.where, fault.hint) for fault in faults],
    )


def _check_processor(found: Library) -> None:
    """Raise if NumPy's kernels are the better choice on this processor."""
    if found.instruction_set & _AVX2 != _AVX2:
        raise PluginError(
            f"oneDNN is used from AVX2 on, and this processor has {found.instruction_set_name}",
            code="PLUGIN_INCOMPATIBLE",
            where=found.path,
        )


def _is_packaged() -> bool:
    """Return whether `DIST` exists for this platform."""
    return (platform.system(), platform.machine()) == ("Linux", "x86_64")


def candidates() -> Iterator[str]:
    """Yield the files to try, best first."""
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
    """Return OpenMP's setter of the number of threads, the default number, and the getter."""
    try:
        # found in the libraries that oneDNN depends on, too
        set_number, number = held.omp_set_num_threads, held.omp_get_max_threads
    except AttributeError:
        return None, 0, None
    # The argument's type is not declared: a call takes 0.1 us instead of 0.4, and runs make two.
    set_number.restype = None
    number.restype, number.argtypes = ctypes.c_int, ()
    default = int(number())
    if "OMP_NUM_THREADS" not in os.environ:
        default = min(default, usable_processors())  # OpenMP does not read quotas
    return set_number, default, number


def _execute(loaded: ctypes.CDLL) -> Any:
    """Return the function of (primitive, stream, number of arguments, arguments) that executes.

    Its arguments are ctypes' own form of parameters, created once. Declared types would be checked
    in every call, which takes longer than all the rest of the call.
    """
    function = loaded.dnnl_primitive_execute
    function.restype = ctypes.c_int
    return function


def load(path: str) -> Library:
    """Load a library and check that it can be used.

    Raises:
        PluginError: It does not exist, cannot be loaded, or is too old or too new.
    """
    try:
        with short_spin() as openmp_came_first:
            found = ctypes.CDLL(path)
        held = ctypes.PyDLL(path)  # its calls keep the interpreter to themselves
        functions = declare(found)
        functions["primitive_execute"] = _execute(found)
        functions["primitive_execute_held"] = _execute(held)
    except OSError as error:
        lacks_openmp = "libgomp" in str(error)
        # a name without a folder is searched for by the system
        if not lacks_openmp and not (os.path.dirname(path) and os.path.exists(path)):
            raise PluginError("library not found", code="PLUGIN_MISSING", where=path) from error
        hint = "install the system's OpenMP runtime (Debian package libgomp1)"
        raise PluginError(
            f"cannot load the library: {error}", where=path, hint=hint if lacks_openmp else ""
        ) from error
    except AttributeError as error:
        raise PluginError(f"the library is not oneDNN 3: {error}", where=path) from error
    about = functions["version"]().contents
    version = (int(about.major), int(about.minor), int(about.patch))
    if version[0] != OLDEST[0] or version[:2] < OLDEST:
        raise PluginError(
            f"oneDNN {'.'.join(map(str, version))} is not supported; expected 3.2 or a later 3.x",
            code="PLUGIN_INCOMPATIBLE",
            where=path,
        )
    isa = int(functions["get_effective_cpu_isa"]())
    contention = contention_of(found)
    return Library(path, version, isa, functions, *_openmp(held), contention, openmp_came_first)
