"""`dovetail inspect` of encodings files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import runner

ACTIVATION = {"bitwidth": 8, "dtype": "int", "is_symmetric": "False", "min": -1.0, "max": 2.0,
              "offset": -85, "scale": 3 / 255}  # fmt: skip
CHANNEL = {"bitwidth": 8, "dtype": "int", "is_symmetric": "True", "offset": -128}
FILE = {
    "version": "0.6.1",
    "activation_encodings": {"x": [ACTIVATION]},
    "param_encodings": {
        "w": [
            CHANNEL | {"scale": scale, "min": -128 * scale, "max": 127 * scale}
            for scale in (0.25, 0.5)
        ]
    },
}


@pytest.mark.parametrize("comment", ["", "// by hand\n"])
def test_an_encodings_file_is_shown_with_its_entries(
    comment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.json"
    path.write_text(comment + json.dumps(FILE))
    found = runner(capsys, "--json")("inspect", path).data
    assert (found["kind"], found["version"]) == ("encodings", "0.6.1")
    x, w = found["entries"]
    assert (x["tensor"], x["use"], x["bitwidth"]) == ("x", "activation", 8)
    assert x["offsets"] == {"number": 1, "minimum": -85, "maximum": -85}
    assert (w["form"], w["symmetric"]) == ("PER_CHANNEL", True)
    assert w["scales"] == {"number": 2, "minimum": 0.25, "maximum": 0.5}
    lines = runner(capsys)("inspect", path).out.splitlines()
    assert lines[1] == "entries: 1 of activations, 1 of parameters"
    assert lines[-1].split("  ")[0] == "w"
    assert "0.25 to 0.5 (2)" in lines[-1]


def test_faults_are_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.json"
    wrong = FILE | {"activation_encodings": {"x": [ACTIVATION | {"scale": -1.0}]}}
    path.write_text(json.dumps(wrong))
    done = runner(capsys)("inspect", path)
    assert (done.code, "x" in done.err) == (3, True)


@pytest.mark.parametrize("text", ["", "[1, 2]", '{"graph": {"tensors": {}}}', '"encodings":'])
def test_other_files_are_not_recognised(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.txt"
    path.write_text(text)
    done = runner(capsys)("inspect", path)
    assert (done.code, "encodings" in done.err) == (3, False)
