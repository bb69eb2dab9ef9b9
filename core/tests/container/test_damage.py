"""Damaged files: found, named, and never more than that."""

from __future__ import annotations

import os
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail.container import Model, is_container, kind_of, summarize, verify
from dovetail.container.producer import hash_source
from dovetail.errors import ConfigError, ContainerError, DovetailError, ExitCode, FrontendError
from dovetail.ir import Tensor

from .conftest import HEADER, Forge, manifest_of, pack_header

CHUNK = 4 << 20


def spans(path: Path) -> tuple[int, list[tuple[int, int]]]:
    """The first byte after the manifest; the first byte and the size of each blob."""
    end = manifest_end = 64 + HEADER.unpack(path.read_bytes()[:64])[4]
    blobs = []
    for blob in manifest_of(path)["blobs"]:
        start = -(-end // 64) * 64
        blobs.append((start, blob["size"]))
        end = start + blob["size"]
    return manifest_end, blobs


def padding_of(path: Path) -> list[int]:
    end, blobs = spans(path)
    used = set(range(end))
    for start, size in blobs:
        used |= set(range(start, start + size))
    return sorted(set(range(path.stat().st_size)) - used)


def flip(path: Path, position: int, bits: int = 1) -> Path:
    raw = bytearray(path.read_bytes())
    raw[position] ^= bits
    damaged = path.with_name("damaged.dvt")
    damaged.write_bytes(raw)
    return damaged


def refusal(path: Path) -> DovetailError:
    with pytest.raises(ContainerError) as caught:
        Model.load(path)
    assert str(path) in caught.value.where
    return caught.value


def blob_of(path: Path, tensor: str) -> tuple[int, int]:
    entries = manifest_of(path)["graphs"][0]["tensors"]
    [index] = [t["data"] for t in entries if t["name"] == tensor]
    return spans(path)[1][index]


@pytest.mark.parametrize("position", range(64))
def test_a_flipped_bit_in_any_byte_of_the_header_is_found(saved: Path, position: int) -> None:
    damaged = flip(saved, position, 1 << position % 8)
    error = refusal(damaged)
    assert error.code == ("CONTAINER_NOT_ONE" if position < 8 else "CONTAINER_DAMAGED")
    assert error.exit_code is ExitCode.BAD_MODEL


def test_a_flipped_bit_in_the_manifest_is_found(saved: Path) -> None:
    end, _ = spans(saved)
    for position in [64, end - 1, *range(65, end, 997)]:
        assert refusal(flip(saved, position)).message.startswith("the manifest is damaged")


def test_a_flipped_bit_in_any_padding_is_found(saved: Path) -> None:
    positions = padding_of(saved)
    assert len(positions) > 100
    assert positions[-1] == saved.stat().st_size - 1  # the file's end is padded too
    for position in positions[:: len(positions) // 40] + positions[-1:]:
        damaged = flip(saved, position, 0x80)
        assert "padding" in refusal(damaged).message
        with pytest.raises(ContainerError, match="padding"):
            summarize(damaged)


def test_a_file_cut_short_anywhere_is_refused(saved: Path) -> None:
    raw = saved.read_bytes()
    cut = saved.with_name("cut.dvt")
    for length in [*range(70), *range(70, len(raw), 509), len(raw) - 1]:
        cut.write_bytes(raw[:length])
        error = refusal(cut)
        assert error.code == ("CONTAINER_DAMAGED" if length else "CONTAINER_NOT_ONE")
        assert error.exit_code is ExitCode.BAD_MODEL


def test_a_file_with_something_behind_it_is_refused(saved: Path) -> None:
    with saved.open("ab") as file:
        file.write(bytes(64))
    assert "were written" in refusal(saved).message


@pytest.mark.parametrize(
    "content", [b"", b"\x08\x07\x12\x07pytorch", b"PK\x03\x04" * 50, b"\x89PNG\r\n"]
)
def test_another_file_is_not_a_container(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other.dvt"
    path.write_bytes(content)
    assert refusal(path).code == "CONTAINER_NOT_ONE"
    for look in (verify, summarize):
        with pytest.raises(ContainerError) as caught:
            look(path)
        assert caught.value.code == "CONTAINER_NOT_ONE"


def test_a_file_that_is_not_there_or_is_a_folder_is_unreadable(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.dvt", tmp_path):
        with pytest.raises(FrontendError) as caught:
            Model.load(path)
        assert caught.value.code == "FILE_UNREADABLE"


@pytest.mark.parametrize("name", ["model.dvt", "model.onnx", "model"])
def test_pipes_and_devices_are_no_models(name: str, tmp_path: Path) -> None:
    """Nothing waits for a writer, and nothing reads what has no end."""
    pipe, device = tmp_path / name, tmp_path / f"endless.{name}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        for read in (Model.load, kind_of, hash_source, dovetail.load_model):
            with pytest.raises(FrontendError, match="not a regular file") as caught:
                read(path)
            assert caught.value.code == "FILE_UNREADABLE"
        assert not is_container(path)


def test_a_newer_format_is_told_apart_from_damage(forge: Forge, saved: Path) -> None:
    # its manifest may be anything, as long as the header is whole
    path = forge(manifest_of(saved) | {"from": "the future"}, version=2)
    for look in (Model.load, verify, summarize):
        with pytest.raises(ContainerError, match="format version 2") as caught:
            look(path)
        assert caught.value.code == "CONTAINER_VERSION"
        assert caught.value.exit_code is ExitCode.INCOMPATIBLE


def test_a_context_is_no_model(forge: Forge, saved: Path) -> None:
    path = forge(manifest_of(saved), kind=2)
    with pytest.raises(ContainerError, match="container with a model, got a context") as caught:
        Model.load(path)
    assert caught.value.code == "CONTAINER_KIND"
    assert "`net-run --retrieve-context`" in (caught.value.hint or "")
    with pytest.raises(ContainerError, match="`backend`") as caught:
        summarize(path)
    assert caught.value.code == "CONTAINER_INVALID"
    assert any("`backend`" in fault.message for fault in verify(path))


def test_damage_in_a_blob_is_found_when_it_is_bound_and_not_before(saved: Path) -> None:
    start, size = blob_of(saved, "weights")
    for position in (start, start + size // 2, start + size - 1):
        loaded = Model.load(flip(saved, position))
        prefill, decode = (graph.tensors for graph in loaded.graphs.values())
        prefill["axis"].values()  # another blob is whole
        for tensor in (prefill["weights"], decode["weights"], prefill["weights"]):
            with pytest.raises(ContainerError, match=r"blob \d is damaged") as caught:
                tensor.values()
            assert caught.value.code == "CONTAINER_DAMAGED"
            assert caught.value.where.endswith("damaged.dvt")


def test_integrity_manifest_leaves_blobs_unchecked(saved: Path) -> None:
    start, _ = blob_of(saved, "weights")
    right = Model.load(saved).graphs["decode"].tensors["weights"].values()
    loaded = Model.load(flip(saved, start), integrity="manifest")
    wrong = loaded.graphs["decode"].tensors["weights"].values()
    assert np.count_nonzero(right != wrong) == 1


def test_an_unknown_integrity_is_refused(saved: Path) -> None:
    with pytest.raises(ConfigError, match="'binds'") as caught:
        Model.load(saved, integrity="binds")  # type: ignore[arg-type]
    assert "'bind'" in caught.value.hint


def test_damaged_text_is_found_at_loading(saved: Path) -> None:
    start, _ = blob_of(saved, "text")
    assert refusal(flip(saved, start)).code == "CONTAINER_DAMAGED"


def test_damaged_scales_are_found_at_loading(saved: Path) -> None:
    entries = manifest_of(saved)["graphs"][0]["tensors"]
    [index] = [t["encoding"]["scales"]["blob"] for t in entries if t["name"] == "axis"]
    start, _ = spans(saved)[1][index]
    assert refusal(flip(saved, start)).code == "CONTAINER_DAMAGED"


def test_a_whole_file_verifies(saved: Path) -> None:
    assert verify(saved) == ()


def test_verify_finds_every_fault(saved: Path) -> None:
    padding = padding_of(saved)[0]
    damaged = saved
    for position in (blob_of(saved, "axis")[0], blob_of(saved, "weights")[0], padding):
        damaged = flip(damaged, position)
    messages = [p.message for p in verify(damaged)]
    assert len(messages) == 3
    assert sum("padding" in m for m in messages) == 1
    assert sum("blob" in m for m in messages) == 2


def test_verify_names_the_chunk(tmp_path: Path, model: Model) -> None:
    model.graphs["decode"].add_tensor(
        Tensor.static("large", np.arange(CHUNK * 2 + 5, dtype=np.uint8))
    )
    path = tmp_path / "large.dvt"
    model.save(path)
    [(start, size)] = [span for span in spans(path)[1] if span[1] > CHUNK]
    assert [len(b["crc32"]) for b in manifest_of(path)["blobs"] if b["size"] == size] == [3]
    damaged = flip(flip(path, start + CHUNK), start + size - 1)
    assert [p.message.partition("bytes ")[2] for p in verify(damaged)] == [
        f"{start + CHUNK} to {start + 2 * CHUNK - 1}",
        f"{start + 2 * CHUNK} to {start + size - 1}",
    ]


@pytest.mark.parametrize("position", [20, 100])
def test_verify_reports_damage_that_ends_the_search(saved: Path, position: int) -> None:
    [problem] = verify(flip(saved, position))
    assert "checksum" in problem.message


def test_verify_finds_a_blob_under_a_false_hash(saved: Path, forge: Forge) -> None:
    manifest = manifest_of(saved)
    manifest["blobs"][0]["sha256"] = "f" * 64
    [problem] = verify(forge(manifest))
    assert "hash" in problem.message


def test_verify_finds_an_impossible_graph(saved: Path, forge: Forge) -> None:
    manifest = manifest_of(saved)
    manifest["graphs"][1]["nodes"][0]["outputs"] = []
    problems = verify(forge(manifest))
    assert any("has no outputs" in p.message for p in problems)


def test_every_flipped_byte_of_a_file_is_found_by_verify(saved: Path) -> None:
    # any byte at all, so that no byte of the file means nothing
    positions = random.Random(1).sample(range(saved.stat().st_size), 300)
    for position in positions:
        damaged = flip(saved, position, 0x10)
        try:
            found: Any = verify(damaged)
        except ContainerError as error:
            found = error
        assert found, position


@pytest.mark.parametrize(
    ("manifest_bytes", "file_bytes"), [(2**63, 64), (2**40, 2**41), (1, 64), (0, 2**64 - 1)]
)
def test_sizes_are_judged_before_anything_is_read(
    manifest_bytes: int, file_bytes: int, tmp_path: Path
) -> None:
    path = tmp_path / "huge.dvt"
    header = bytearray(pack_header(b"", 64))
    header[16:32] = struct.pack("<QQ", manifest_bytes, file_bytes)
    header[12:16] = struct.pack("<I", zlib.crc32(header[:12] + header[16:]))
    path.write_bytes(header)
    error = refusal(path)
    fits = file_bytes == 64
    assert error.code == ("CONTAINER_INVALID" if fits else "CONTAINER_DAMAGED")
    assert str(manifest_bytes if fits else file_bytes) in error.message
