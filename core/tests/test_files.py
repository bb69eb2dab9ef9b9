"""Files: all or nothing, inside their folder, under safe names."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import ConfigError, ContainerError, FrontendError, TraceError
from dovetail.files import (
    atomic_write,
    check_suffix,
    contained,
    read_limited,
    read_start,
    safe_name,
    staged_folder,
    unreadable,
    unwritable,
    with_suffix,
)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_file_appears_only_when_all_of_it_is_written(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    with atomic_write(target) as file:
        file.write(b"one")
        file.flush()
        assert not target.exists()
        assert len(names(tmp_path)) == 1  # beside it, so that the rename is atomic
    assert target.read_bytes() == b"one"
    assert names(tmp_path) == ["out.bin"]


def test_an_existing_file_is_whole_at_any_time(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    with atomic_write(str(target)) as file:
        file.write(b"new and longer")
        file.flush()
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new and longer"


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("old", [None, b"old"])
def test_after_an_error_nothing_is_left(
    tmp_path: Path, error: BaseException, old: bytes | None
) -> None:
    target = tmp_path / "out.bin"
    if old is not None:
        target.write_bytes(old)

    def write() -> None:
        with atomic_write(target) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)) as caught:
        write()
    assert caught.value is error
    assert names(tmp_path) == ([] if old is None else ["out.bin"])
    assert old is None or target.read_bytes() == old


def test_a_full_disk_is_an_error_about_the_target(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    with pytest.raises(ContainerError, match="No space left") as caught, atomic_write(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert (caught.value.code, caught.value.where) == ("FILE_UNWRITABLE", str(target))
    assert names(tmp_path) == []


def test_an_error_about_another_file_is_not_blamed_on_the_target(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "out.bin") as file:
        file.write(missing.read_bytes())
    assert caught.value.filename == str(missing)
    assert names(tmp_path) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    target = tmp_path / "none" / "out.bin"
    with pytest.raises(ContainerError, match="No such file") as caught, atomic_write(target):
        pytest.fail("the block must not run")
    assert (caught.value.code, caught.value.where) == ("FILE_UNWRITABLE", str(target))
    assert caught.value.hint


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for target in (pipe, folder):
        with pytest.raises(ContainerError, match="not a file"), atomic_write(target):
            pytest.fail("the block must not run")
    assert pipe.is_fifo()
    assert names(tmp_path) == ["folder", "pipe"]


def test_only_regular_files_of_limited_size_are_read(tmp_path: Path) -> None:
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_bytes(b"12345")
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(pipe)
    for path in (file, tmp_path / "link"):
        assert read_limited(path, 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_limited(file, 4)
    for path in (pipe, tmp_path, Path(os.devnull)):
        with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
            read_limited(path, 5)
    with pytest.raises(FileNotFoundError):
        read_limited(tmp_path / "missing", 5)


def test_the_start_of_any_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert [read_start(tmp_path / "file", count) for count in (4, 6)] == [b"1234", b"12345"]
    assert read_start(Path("/dev/zero"), 3) == bytes(3)  # which has no end
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(FrontendError) as caught:
            read_start(path, 1)
        assert (caught.value.code, caught.value.where) == ("FILE_UNREADABLE", str(path))


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 255)
    with atomic_write(target) as file:
        file.write(b"x")
    assert target.read_bytes() == b"x"


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_are_those_of_any_new_file(tmp_path: Path, mask: int) -> None:
    os.umask(mask)
    with atomic_write(tmp_path / "out.bin") as file:
        file.write(b"x")
    assert (tmp_path / "out.bin").stat().st_mode & 0o777 == 0o666 & ~mask
    assert os.umask(0) == mask  # left as it was


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    (made / "data").mkdir(parents=True)
    (tmp_path / "model-secret").mkdir()
    (tmp_path / "secret").write_text("s")
    (made / "out").symlink_to(tmp_path)
    (made / "leak").symlink_to(tmp_path / "secret")
    (made / "near").symlink_to("data")
    (made / "loop").symlink_to("loop")
    return made


@pytest.mark.parametrize(
    ("relative", "inside"),
    [
        ("w.bin", "w.bin"),
        ("data/w.bin", "data/w.bin"),
        ("./data/../w.bin", "w.bin"),
        ("near/w.bin", "data/w.bin"),
        ("..data", "..data"),
        ("größe", "größe"),
    ],
)
def test_a_path_inside(folder: Path, relative: str, inside: str) -> None:
    assert contained(folder, relative) == folder.resolve() / inside


@pytest.mark.parametrize(
    "relative",
    [
        "..",
        "../secret",
        "data/../../secret",
        "../model-secret/w.bin",  # the folder's name is only a prefix of it
        "/etc/passwd",
        "out/secret",
        "out",
        "leak",
        "w\0.bin",
        "\0",
        "\ud800",
    ],
)
def test_a_path_that_leads_outside_is_refused(folder: Path, relative: str) -> None:
    with pytest.raises(FrontendError, match="leads outside the folder") as caught:
        contained(folder, relative)
    assert caught.value.where == str(folder)
    assert "\0" not in str(caught.value)
    with pytest.raises(TraceError):
        contained(folder, relative, error=TraceError)


def test_a_loop_of_links_ends(folder: Path) -> None:
    path = contained(folder, "loop/w.bin")
    assert path.is_relative_to(folder.resolve())
    with pytest.raises(OSError):  # noqa: PT011 - whatever the system says of a loop
        path.read_bytes()


def test_a_folder_behind_a_link_contains_its_files(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert contained(link, "w.bin") == folder.resolve() / "w.bin"


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("conv1.weight", "conv1.weight"),
        ("/a/Conv:0", "_a_Conv_0"),
        ("../../etc/passwd", "_._.._etc_passwd"),
        ("..", "_."),
        ("a b\tc\\d", "a_b_c_d"),
        ("größe", "gr__e"),
        ("x-1_Y", "x-1_Y"),
    ],
)
def test_names_as_the_sdk_writes_them(name: str, safe: str) -> None:
    assert safe_name(name) == safe


@given(name=st.text(min_size=1))
def test_a_safe_name_is_one_plain_file(name: str) -> None:
    safe = safe_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", safe)
    assert not safe.startswith(".")
    assert safe_name(safe) == safe
    assert len(safe) == len(name)


def test_errors_of_the_system_keep_their_reason(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for make, code in ((unreadable, "FILE_UNREADABLE"), (unwritable, "FILE_UNWRITABLE")):
        error = make(path, PermissionError(errno.EACCES, "Permission denied"))
        assert (error.code, error.where) == (code, str(path))
        assert "Permission denied" in error.message
        assert "without an errno" in make(path, OSError("without an errno")).message


@pytest.mark.parametrize(
    ("given", "better"),
    [
        ("net", "net.dvt"),
        ("a/net.v1.onnx", "a/net.v1.dvt"),
        (".", "NAME.dvt"),
        ("..", "../NAME.dvt"),
        ("a/..", "a/../NAME.dvt"),
        ("/", "/NAME.dvt"),
    ],
)
def test_a_name_without_the_suffix_is_refused(given: str, better: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_suffix(Path(given), ".dvt", "a model is a .dvt file", "--output")
    assert caught.value.code == "USAGE"
    assert caught.value.where == f"--output {given}"
    assert caught.value.hint == f"use --output {better}"
    check_suffix(Path(better), ".dvt", "a model is a .dvt file", "--output")


def test_a_suffix_counts_in_any_case() -> None:
    check_suffix(Path("NET.DVT"), ".dvt", "a model is a .dvt file", "--output")


def test_only_a_name_gets_another_suffix() -> None:
    assert with_suffix(Path("a/net.onnx"), ".b.dvt") == Path("a/net.b.dvt")
    assert [with_suffix(Path(p), ".dvt") for p in (".", "..", "/", "a/..")] == [None] * 4


def start_writer(target: Path) -> subprocess.Popen[str]:
    """A process that has begun to write a file and waits."""
    code = (
        "import sys\n"
        "from dovetail.files import atomic_write\n"
        "with atomic_write(sys.argv[1]) as file:\n"
        "    file.write(b'half')\n"
        "    file.flush()\n"
        "    print(flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(target)]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    writer.stdout.readline()
    return writer


@pytest.mark.skipif(sys.platform == "win32", reason="no locks that end with a process")
def test_only_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    with start_writer(tmp_path / "killed") as killed, start_writer(tmp_path / "live") as live:
        killed.kill()
        killed.wait()
        assert len(names(tmp_path)) == 2
        with atomic_write(tmp_path / "out.bin") as file:
            file.write(b"x")
        assert len(names(tmp_path)) == 2  # the live writer's, and the new one
        live.communicate("")
    assert names(tmp_path) == ["live", "out.bin"]
    assert (tmp_path / "live").read_bytes() == b"half"


def test_a_writer_in_the_same_process_is_left_alone(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as first:
        first.write(b"1")
        with atomic_write(tmp_path / "b") as second:
            second.write(b"2")
    assert names(tmp_path) == ["a", "b"]


def test_a_private_folder_of_another_user_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / ".dovetail-0.part"
    private.mkdir()
    stat = os.stat

    def refuse(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        if str(path) == str(private / "lock"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, *args, **kwargs)

    monkeypatch.setattr(os, "stat", refuse)
    with atomic_write(tmp_path / "out.bin") as file:
        file.write(b"x")
    assert names(tmp_path) == [private.name, "out.bin"]


def test_without_locks_files_are_written_and_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.files._writing._HAS_LOCKS", False)
    (tmp_path / ".dovetail-0.part").write_bytes(b"old")
    with atomic_write(tmp_path / "out.bin") as file:
        file.write(b"x")
    assert names(tmp_path) == [".dovetail-0.part", "out.bin"]


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    (tmp_path / ".dovetail-0.part").write_bytes(b"old")
    with atomic_write(tmp_path / "out.bin") as file:
        file.write(b"x")
    assert names(tmp_path) == [".dovetail-0.part", "out.bin"]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    (folder / "old.bin").write_bytes(b"old")
    for name in ("old.bin", "new.bin"):
        link = tmp_path / f"link-{name}"
        link.symlink_to(folder / name)
        with atomic_write(link) as file:
            file.write(b"new")
            assert names(folder)[0].endswith(".part")  # there the rename is atomic
        assert link.is_symlink()
        assert (folder / name).read_bytes() == b"new"


def test_a_link_to_itself_is_not_replaced(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(ContainerError, match="symbolic links"), atomic_write(loop):
        pytest.fail("the block must not run")
    assert names(tmp_path) == ["loop"]


def test_errors_in_a_staged_folder_name_what_it_would_become(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    with pytest.raises(ContainerError, match="No space") as caught, staged_folder(folder):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.where == str(folder)
    with pytest.raises(ContainerError) as caught, staged_folder(folder) as staging:
        (staging.new / "sub" / "file").write_bytes(b"")
    assert caught.value.where == str(folder / "sub" / "file")
    with pytest.raises(ContainerError) as caught, staged_folder(folder) as staging:
        atomic_write(staging.new).__enter__()  # a folder has the name
    assert caught.value.where == str(folder)
    with pytest.raises(FileNotFoundError), staged_folder(folder):
        (tmp_path / "other").read_bytes()
    assert not folder.exists()


def test_a_staged_folder_appears_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "out"
    with staged_folder(folder) as staging:
        (staging.new / "a").write_bytes(b"1")
    assert names(tmp_path) == []  # without commit nothing is left, and no folder
    for data in (b"1", b"2"):
        with staged_folder(folder) as staging:
            (staging.new / "a").write_bytes(data)
            (staging.new / "sub").mkdir()
            (staging.new / "sub" / "b").write_bytes(data)
            staging.commit(
                [Path("a"), Path("sub/b")], outdated=[Path("c")], renamed={Path("a"): Path("a.old")}
            )
            (folder / "c").touch()
    assert names(folder) == ["a", "a.old", "c", "sub"]
    assert [(folder / n).read_bytes() for n in ("a", "a.old", "sub/b")] == [b"2", b"1", b"2"]


def test_a_commit_that_fails_changes_nothing(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"old")
    with staged_folder(tmp_path) as staging:
        (staging.new / "a").write_bytes(b"new")
        with pytest.raises(ContainerError) as caught:  # nothing new is there for b
            staging.commit([Path("a"), Path("b")])
    assert caught.value.where == str(tmp_path / "b")
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == b"old"
