"""Formats that the suffix of a file selects, and the files that commands name."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import dovetail as dt
from dovetail.cli import main
from dovetail.errors import ConfigError

DIGITS = str(Path(__file__).parents[1] / "examples/digits/digits.onnx")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[str], str]:
    assert main(["--json", *arguments]) == 0
    shown = capsys.readouterr()
    data: dict[str, Any] = json.loads(shown.out)
    assert data["file_bytes"] == sum(Path(name).stat().st_size for name in data["files"])
    return data["files"], shown.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("target", "files"),
    [
        ("m.dlc", ["m.dlc"]),
        ("m.onnx", ["m.onnx"]),
        ("m_net.json", ["m_net.json", "m.bin"]),
        ("m.cpp", ["m.cpp", "m.bin", "m_net.json"]),
    ],
)
@pytest.mark.parametrize("command", ["export", "convert"])
def test_the_suffix_selects_the_format(
    command: str, target: str, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found, line = written(capsys, command, DIGITS, "-o", target)
    assert found == files
    assert {path.name for path in Path().iterdir()} == set(files)
    *first, last = files
    named = f"{', '.join(first)} and {last}" if first else last
    assert f" -> {named}: " in line


def test_quantize_and_external_data_name_their_files(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("-i", DIGITS, "--float-bitwidth", "16", "-o", "h_net.json")
    assert written(capsys, "quantize", *given)[0] == ["h_net.json", "h.bin"]
    found, _ = written(capsys, "export", DIGITS, "-o", "e.onnx", "--external-data")
    assert found == ["e.onnx", "e.onnx.data"]


def test_python_takes_the_suffix_too() -> None:
    dt.export(DIGITS, "m.dlc")
    assert zipfile.is_zipfile("m.dlc")


@pytest.mark.parametrize(
    ("target", "text", "hint"),
    [("m.dvt", "no exporter writes .dvt files", "convert"), ("m.xyz", ".json, .onnx", "m.onnx")],
)
def test_other_suffixes(target: str, text: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        dt.export(DIGITS, target)
    assert hint in caught.value.hint


def test_nodes_of_a_file_with_a_graph_are_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "convert", DIGITS, "-o", "m.dlc"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["source_nodes"] > made["nodes"]  # some were fused
    assert main(["--json", "convert", "m.dlc", "-o", "m.dvt"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["source_nodes"] == again["nodes"] == made["nodes"]
