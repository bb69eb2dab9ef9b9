"""The device of a config, for a context binary that is prepared, checked and loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dovetail
from dovetail.cli import main

DIGITS = str(Path(__file__).parents[1] / "examples/digits/digits.onnx")


@pytest.mark.parametrize("option", [(), ("--validate-binary",)])
def test_the_device_of_the_config_counts(
    option: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    np.zeros(64, "<f4").tofile("x.raw")
    Path("list.txt").write_text("x.raw\n")
    for arch in ("v75", "v79"):
        Path(f"{arch}.json").write_text(f'{{"devices": [{{"dsp_arch": "{arch}"}}]}}')
    generate = ("--backend", "htp", "--binary-file", "d", "--config-file", "v75.json")
    assert main(["context-binary-generator", "--model", DIGITS, *generate]) == 0
    run = ("net-run", "--retrieve-context", "output/d.bin", "--backend", "htp")
    given = [*run, "--input-list", "list.txt", *option]
    assert main([*given, "--config-file", "v75.json"]) == 0
    capsys.readouterr()
    assert main([*given, "--config-file", "v79.json"]) == 5
    error = capsys.readouterr().err
    assert "the binary's is htp v75" in error
    assert "--config-file" in error


def test_the_device_of_the_preparation_counts_without_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.zeros(64, "<f4").tofile("x.raw")
    Path("list.txt").write_text("x.raw\n")
    Path("soc.json").write_text('{"devices": [{"soc_model": 43, "dsp_arch": "v73"}]}')
    Path("perf.json").write_text('{"devices": [{"cores": [{"perf_profile": "burst"}]}]}')
    generate = ("--backend", "htp", "--config-file", "soc.json", "--model", DIGITS)
    assert main(["context-binary-generator", *generate, "--binary-file", "d"]) == 0
    run = ["net-run", "--retrieve-context", "output/d.bin", "--input-list", "list.txt"]
    for more in ([], ["--backend", "htp"], ["--config-file", "perf.json", "--validate-binary"]):
        assert main([*run, *more]) == 0
    with dovetail.Session.from_context("output/d.bin") as session:
        assert session.run({"image": np.zeros((1, 1, 8, 8), np.float32)})
    capsys.readouterr()
    assert main(["inspect", "output/d.bin", "--backend", "htp"]) == 0
    said = capsys.readouterr().out
    assert "device: dsp_arch v73, soc_model 43" in said
    assert "OPTIMAL" in said
    assert main(["context", "upgrade", "output/d.bin", "-o", "again.bin"]) == 0
    assert Path("again.bin").read_bytes() == Path("output/d.bin").read_bytes()
