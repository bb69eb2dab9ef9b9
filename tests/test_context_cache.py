"""The cache of prepared contexts: what is found again, and what is prepared again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from onnx import TensorProto, helper, numpy_helper

import dovetail as dt
from dovetail.api import loading
from dovetail.api.context_cache import ContextCache
from dovetail.errors import ConfigError, FrontendError
from dovetail.ir import Array
from dovetail.ops import Observed
from dovetail_cpu import CpuBackend

OLD_NS = 10**18  # a modification time long ago: hashes of such files are remembered


def write_model(path: Path, scale: float = 1.0, *, external: str = "") -> Path:
    """Write a model with one product, its weights perhaps in another file."""
    weights = (scale * np.arange(4096, dtype=np.float32)).reshape(64, 64)
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, 64)) for n in "xy")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    graph = helper.make_graph([node], "net", [x], [y], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    if external:
        (path.parent / external).unlink(missing_ok=True)  # or the data would be appended
        onnx.save_model(model, path, save_as_external_data=True, location=external)
        os.utime(path.parent / external, ns=(OLD_NS, OLD_NS))
    else:
        onnx.save(model, path)
    os.utime(path, ns=(OLD_NS, OLD_NS))
    return path


def result(model: Any, folder: Path, backend: str = "cpu", **options: Any) -> Array:
    """Return the output of a session with a cache."""
    with dt.Session(model, backend, cache=folder, **options) as made:
        return made.run(np.ones((2, 64), np.float32))["y"]


def binaries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.bin"))


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are converted."""
    found: list[str] = []
    load = loading.load_model

    def noted(path: Any, *args: Any, **kwargs: Any) -> dt.Model:
        found.append(Path(path).name)
        return load(path, *args, **kwargs)

    monkeypatch.setattr(loading, "load_model", noted)
    return found


def test_a_second_session_neither_converts_nor_prepares(
    tmp_path: Path, converted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, folder = write_model(tmp_path / "net.onnx"), tmp_path / "cache"
    wanted = result(model, folder)
    np.testing.assert_array_equal(wanted[0], np.arange(4096.0).reshape(64, 64).sum(0))
    monkeypatch.setattr(dt.runtime.Graph, "finalize", None)
    np.testing.assert_array_equal(result(model, folder), wanted)
    # another path, the same content and name
    (tmp_path / "copy").mkdir()
    copy = Path(shutil.copy(model, tmp_path / "copy"))
    np.testing.assert_array_equal(result(copy, folder), wanted)
    assert converted == ["net.onnx"]
    assert len(binaries(folder)) == 1


def test_everything_that_matters_is_part_of_the_key(tmp_path: Path, converted: list[str]) -> None:
    model, folder = write_model(tmp_path / "net.onnx"), tmp_path / "cache"
    wanted = result(model, folder)
    differing: list[Callable[[], Array]] = [
        lambda: result(model, folder, options={"num_threads": 2}),
        lambda: result(model, folder, backend="hetero:cpu"),
        lambda: result(model, folder, observed=Observed(frozenset({"y"}))),
        lambda: result(
            model, folder, config={"graph": [{"graph_name": "net", "graph_priority": "low"}]}
        ),
        lambda: result(shutil.copy(model, tmp_path / "other.onnx"), folder),
    ]
    for i, run in enumerate(differing, 2):
        np.testing.assert_array_equal(run(), wanted)
        assert len(converted) == i
    for run in differing:
        np.testing.assert_array_equal(run(), wanted)
    assert len(converted) == len(differing) + 1
    assert len(binaries(folder)) == len(differing) + 1
    # what only says how a context is loaded
    config = {"context": {"enable_graphs": ["net"], "memory_limit_hint": 0}}
    np.testing.assert_array_equal(result(model, folder, config=config), wanted)
    assert len(converted) == len(differing) + 1


@pytest.mark.parametrize("external", ["", "weights.bin"])
def test_a_changed_file_is_noticed(tmp_path: Path, converted: list[str], external: str) -> None:
    model, folder = tmp_path / "net.onnx", tmp_path / "cache"
    for count, scale in enumerate((1.0, 2.0, 1.0, 2.0)):
        write_model(model, scale, external=external)
        if external:  # the model itself is the same
            os.utime(tmp_path / external, ns=(OLD_NS + count, OLD_NS + count))
        else:
            os.utime(model, ns=(OLD_NS + count, OLD_NS + count))
        wanted = scale * np.arange(4096, dtype=np.float32).reshape(64, 64).sum(0)
        np.testing.assert_array_equal(result(model, folder)[0], wanted)
    assert len(converted) == 2
    assert len(binaries(folder)) == 2


def test_a_file_that_changed_just_now_is_hashed_again(tmp_path: Path) -> None:
    """Its size and modification time might be those of another content."""
    model, folder = write_model(tmp_path / "net.onnx"), tmp_path / "cache"
    state = model.stat()
    os.utime(model)
    now = model.stat().st_mtime_ns
    first = result(model, folder)
    write_model(model, 3.0)
    os.utime(model, ns=(now, now))
    assert model.stat().st_size == state.st_size
    np.testing.assert_array_equal(result(model, folder), 3 * first)


def test_a_missing_companion_is_the_error_of_a_conversion(tmp_path: Path) -> None:
    model, folder = write_model(tmp_path / "net.onnx", external="w.bin"), tmp_path / "cache"
    result(model, folder)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(FrontendError, match=r"w\.bin"):
        result(model, folder)
    with pytest.raises(FrontendError, match="cannot be read"):
        result(tmp_path / "none.onnx", folder)


def test_models_in_memory_are_found_by_their_content(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    made = [dt.convert(write_model(tmp_path / "net.onnx", scale)) for scale in (1.0, 1.0, 2.0)]
    first, same, other = (result(model, folder) for model in made)
    np.testing.assert_array_equal(first, same)
    np.testing.assert_array_equal(other, 2 * first)
    assert len(binaries(folder)) == 2
    made[0].save(tmp_path / "net.dvt")
    np.testing.assert_array_equal(result(tmp_path / "net.dvt", folder), first)
    assert len(binaries(folder)) == 3


@pytest.mark.parametrize("damage", ["flip", "cut", "foreign", "section", "empty"])
def test_damaged_files_are_replaced(
    tmp_path: Path, converted: list[str], damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    model, folder = write_model(tmp_path / "net.onnx"), tmp_path / "cache"
    wanted = result(model, folder)
    (path,) = binaries(folder)
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[-100] ^= 1  # in the weights
    elif damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "section":
        data[8:12] = b"\3\0\0\0"
    path.write_bytes({"foreign": b"PK\3\4" * 100, "empty": b""}.get(damage, bytes(data)))
    np.testing.assert_array_equal(result(model, folder), wanted)
    assert converted == ["net.onnx"] * 2
    assert "is prepared again" in caplog.text
    np.testing.assert_array_equal(result(model, folder), wanted)
    assert len(converted) == 2


def test_damaged_records_are_replaced(tmp_path: Path, converted: list[str]) -> None:
    model, folder = write_model(tmp_path / "net.onnx", external="w.bin"), tmp_path / "cache"
    wanted = result(model, folder)
    hostile = (b"", b"{", b"[" * 50_000, b'[[9,"w.bin"]]', b'[[0,"no"]]', b'[[-1,"a\\u0000b"]]')
    for i, text in enumerate(hostile, 2):
        for path in folder.glob("*.json"):
            path.write_bytes(text)
        np.testing.assert_array_equal(result(model, folder), wanted)
        assert len(converted) == i
        np.testing.assert_array_equal(result(model, folder), wanted)
        assert len(converted) == i


def test_a_folder_that_cannot_be_written_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, file = write_model(tmp_path / "net.onnx"), tmp_path / "file"
    file.write_text("not a folder")
    wanted = result(model, tmp_path / "cache")
    np.testing.assert_array_equal(result(model, file), wanted)
    assert "cannot write to the cache" in caplog.text
    assert file.read_text() == "not a folder"


def test_without_a_folder_or_binaries_nothing_is_cached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, folder = write_model(tmp_path / "net.onnx"), tmp_path / "cache"
    monkeypatch.setenv("DOVETAIL_CACHE", "")
    with dt.Session(model, cache=True) as made:
        wanted = made.run(np.ones((2, 64), np.float32))["y"]
    assert "not cached: no folder" in caplog.text
    able = CpuBackend.capabilities
    monkeypatch.setattr(
        CpuBackend, "capabilities", lambda self: replace(able(self), caching=False, updates=False)
    )
    np.testing.assert_array_equal(result(model, folder), wanted)
    assert "not cached: 'cpu' has no context binaries" in caplog.text
    assert not folder.exists()


@pytest.mark.parametrize("backend", ["htp", "saver", "hetero:htp,cpu", "auto:cpu"])
def test_backends_restore_from_the_cache(
    tmp_path: Path, backend: str, converted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOVETAIL_CACHE", str(tmp_path / "decisions"))
    monkeypatch.chdir(tmp_path)  # the Saver writes there
    model, folder = write_model(tmp_path / "net.onnx"), tmp_path / "cache"
    wanted = result(model, folder, backend)
    np.testing.assert_array_equal(result(model, folder, backend), wanted)
    assert len(converted) == 1


def test_cache_and_specialize_are_exclusive(tmp_path: Path) -> None:
    model = write_model(tmp_path / "net.onnx")
    with pytest.raises(ConfigError, match="mutually exclusive"):
        dt.Session(model, cache=tmp_path, specialize="x")
    with pytest.raises(ConfigError, match="cache"):
        dt.Session(model, cache=3)  # type: ignore[arg-type]


def test_what_was_used_least_recently_is_removed(tmp_path: Path) -> None:
    folder, cache = tmp_path / "cache", ContextCache(tmp_path / "cache")
    models = [write_model(tmp_path / f"{name}.onnx", i) for i, name in enumerate("abc", 1)]
    for model in models:
        result(model, folder)
    assert cache.files is not None
    for file in cache.files.files():  # as if written long ago, all at the same time
        os.utime(file.path, ns=(OLD_NS, OLD_NS))
    result(models[1], folder)  # not that of its writing
    size = max(file.nbytes for file in cache.entries())
    cache.files.set_limit(size + (32 << 10))
    (kept,) = cache.entries()
    with dt.Session(models[1], cache=folder) as made:
        assert tuple(made.graphs) == ("b",)
        assert cache.entries()[0].path == kept.path
    cache.files.set_limit(size - 1)  # too small for any
    assert cache.entries() == []
    result(models[0], folder)
    assert cache.entries() == []


def test_files_of_the_user_in_the_folder_are_kept(tmp_path: Path) -> None:
    model, folder = write_model(tmp_path / "net.onnx"), tmp_path / "contexts"
    folder.mkdir()
    own = [folder / name for name in ("net.bin", "net.json", f"{'0' * 63}.bin", f"x{'0' * 64}.bin")]
    for path in own:
        path.write_bytes(b"mine")
        os.utime(path, ns=(OLD_NS, OLD_NS))
    result(model, folder)
    cache = ContextCache(folder)
    assert len(cache.entries()) == 1
    assert cache.files is not None
    cache.files.set_limit(1)
    assert cache.entries() == []
    cache.files.set_limit(1 << 30)
    result(model, folder)
    assert cache.files.clear() >= 2
    assert sorted(folder.iterdir()) == sorted([*own, folder / "limit"])
    assert all(path.read_bytes() == b"mine" for path in own)


def test_a_removed_context_stays_usable(tmp_path: Path) -> None:
    model, folder = write_model(tmp_path / "net.onnx"), tmp_path / "cache"
    wanted = result(model, folder)
    with dt.Session(model, cache=folder) as made:
        shutil.rmtree(folder)
        np.testing.assert_array_equal(made.run(np.ones((2, 64), np.float32))["y"], wanted)


# Forked: a start of an interpreter takes longer than all sessions.
_WORKERS = """
import os, sys, time, traceback, numpy as np, dovetail as dt
from dovetail.api.context_cache import ContextCache

def work():
    for i in range(6):
        with dt.Session(sys.argv[1], cache=sys.argv[2]) as made:
            found = made.run(np.ones((2, 64), np.float32))["y"]
        assert found[0, 0] == np.arange(4096.0).reshape(64, 64).sum(0)[0], found

workers = []
for _ in range(3):
    workers.append(os.fork())
    if workers[-1] == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
cleared = 0
while workers:
    pid, status = os.waitpid(workers[0], os.WNOHANG)
    if pid:
        assert status == 0, status
        del workers[0]
    cleared += ContextCache(sys.argv[2]).files.clear()
    time.sleep(0.01)
print(cleared)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes")
def test_processes_share_a_folder(tmp_path: Path) -> None:
    """Three miss at once, and the folder is cleared while they read and write."""
    model, folder = write_model(tmp_path / "net.onnx"), tmp_path / "cache"
    done = forked.run(["python", "-c", _WORKERS, str(model), str(folder)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 2
    assert not list(folder.glob("*.part"))


def test_the_command(tmp_path: Path) -> None:
    model, folder = write_model(tmp_path / "net.onnx"), tmp_path / "cache"
    result(model, folder)
    (path,) = binaries(folder)

    def run(*arguments: str) -> Any:
        done = forked.run(
            ["dovetail", "cache", *arguments, "--folder", str(folder), "--json"], tmp_path
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    listed = run("list")
    (entry,) = listed["contexts"]
    assert entry["file"] == path.name
    assert entry["backend"] == "cpu"
    assert entry["graphs"] == ["net"]
    assert entry["bytes"] == path.stat().st_size <= listed["bytes"]
    assert listed["limit_bytes"] == 4 << 30
    assert run("limit", "1.5M")["limit_bytes"] == 3 << 19
    assert run("list")["limit_bytes"] == 3 << 19
    path.write_bytes(b"damaged")
    assert run("list")["contexts"][0]["backend"] == "CONTAINER_NOT_ONE"
    assert run("clear")["files"] >= 2
    assert run("list")["contexts"] == []
    assert run("limit", "100")["limit_bytes"] == 100
    wrong = forked.run(["dovetail", "cache", "limit", "many"], tmp_path)
    assert wrong.returncode == 2
    assert "is not a size" in wrong.stderr
