"""Finding oneDNN, and saying why it cannot be had."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail.errors import PluginError
from dovetail_onednn import _library, library
from dovetail_onednn._api import declare
from dovetail_onednn._library import DIST, SONAME, VARIABLE, candidates, load


@pytest.fixture
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "_LOADED", [])


def test_the_dist_s_own_library_is_used() -> None:
    found = library()
    assert Path(found.path).is_absolute()
    assert Path(found.path).name == SONAME
    assert found.version[0] == 3
    assert found.version >= (3, 2)
    assert found is library()
    assert found.fingerprint.startswith(f"onednn-{found.version[0]}.{found.version[1]}.")


def test_places_are_tried_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/some/where.so")
    installed, *others = candidates()
    assert Path(installed).is_file()
    assert others == [SONAME, "/some/where.so"]
    monkeypatch.setattr(_library, "DIST", "no-such-dist")
    assert list(candidates()) == others


@pytest.mark.usefixtures("nothing_loaded")
def test_what_is_absent_everywhere_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    absent = [str(tmp_path / "one.so"), str(tmp_path / "two.so")]
    monkeypatch.setattr(_library, "candidates", lambda: iter(absent))
    with pytest.raises(PluginError) as caught:
        library()
    assert caught.value.code == "PLUGIN_MISSING"
    assert [p.where for p in caught.value.problems] == absent
    assert DIST in caught.value.hint
    assert VARIABLE in caught.value.hint


@pytest.mark.usefixtures("nothing_loaded")
def test_the_first_that_can_be_used_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / SONAME
    broken.write_bytes(b"no library at all")
    real = next(iter(candidates()))
    monkeypatch.setattr(_library, "candidates", lambda: iter([str(broken), real]))
    assert library().path == real


@pytest.mark.usefixtures("nothing_loaded")
def test_a_file_that_is_no_library_is_broken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / SONAME
    broken.write_bytes(b"no library at all")
    monkeypatch.setattr(_library, "candidates", lambda: iter([str(broken)]))
    with pytest.raises(PluginError, match="cannot load the library") as caught:
        library()
    assert caught.value.code == "PLUGIN_BROKEN"
    assert str(broken) in str(caught.value)


def test_another_library_is_not_taken_for_it() -> None:
    with pytest.raises(PluginError, match="the library is not oneDNN 3"):
        load("libc.so.6")


@pytest.mark.parametrize("version", [(2, 7, 0), (3, 1, 9), (4, 0, 0)])
def test_other_versions_are_refused(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int]
) -> None:
    about = _library.library().functions["version"]().contents
    other = type(about)(*version)

    def declare(_: ctypes.CDLL) -> dict[str, Any]:
        return {"version": lambda: ctypes.pointer(other), "get_effective_cpu_isa": lambda: 1}

    monkeypatch.setattr(_library, "declare", declare)
    with pytest.raises(PluginError, match=r"oneDNN \d\.\d\.\d is not supported; expected 3\.2"):
        load(library().path)


@pytest.mark.usefixtures("nothing_loaded")
def test_another_platform_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(_library, "candidates", lambda: iter(["libno-such.so.3"]))
    with pytest.raises(PluginError, match=r"oneDNN is not packaged for .* on aarch64") as caught:
        library()
    assert caught.value.code == "PLUGIN_MISSING"
    assert "install" not in caught.value.hint


@pytest.mark.usefixtures("nothing_loaded")
def test_an_old_instruction_set_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(iter(candidates()))

    def declared(loaded: ctypes.CDLL) -> dict[str, Any]:
        return declare(loaded) | {"get_effective_cpu_isa": lambda: 0x3}

    monkeypatch.setattr(_library, "declare", declared)
    monkeypatch.setattr(_library, "candidates", lambda: iter([path, "libno-such.so.3"]))
    with pytest.raises(PluginError, match="from AVX2 on, and this processor has AVX") as caught:
        library()
    assert caught.value.code == "PLUGIN_INCOMPATIBLE"


def test_a_missing_openmp_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str, **_: object) -> None:
        raise OSError("libgomp.so.1: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(_library.ctypes, "CDLL", fail)
    with pytest.raises(PluginError) as caught:
        load("/any/libdnnl.so.3")
    assert caught.value.code == "PLUGIN_BROKEN"
    assert "libgomp1" in caught.value.hint


def test_importing_loads_nothing() -> None:
    program = "import dovetail_onednn as d\nprint('libdnnl' in open('/proc/self/maps').read(), d)\n"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split(maxsplit=1)[0] == "False"
