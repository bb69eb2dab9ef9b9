"""The device of a config, for a context binary that is prepared, checked and loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
    for more in ((), ("--config-file", "v79.json")):
        assert main([*given, *more]) == 5
        error = capsys.readouterr().err
        assert "the binary's is htp v75" in error
        assert "--config-file" in error
