"""The HTP's key for weight sharing: for context binaries, not for models that a run prepares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dovetail.cli import main

DIGITS = str(Path(__file__).parents[1] / "examples/digits/digits.onnx")
CONFIG = '{"context": {"weight_sharing_enabled": %s}}'


def test_only_a_context_binary_shares_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.zeros(64, "<f4").tofile("x.raw")
    Path("list.txt").write_text("x.raw\n")
    for key in ("true", "false"):
        Path(f"{key}.json").write_text(CONFIG % key)
    given = ("--backend", "htp", "--input-list", "list.txt", "--config-file")
    for more in ((), ("--cache", "kept")):
        assert main(["net-run", "--model", DIGITS, *given, "true.json", *more]) == 2
        assert "context.weight_sharing_enabled" in capsys.readouterr().err
    assert not Path("kept").exists()
    assert main(["net-run", "--model", DIGITS, *given, "false.json"]) == 0
    generate = ("--backend", "htp", "--binary-file", "d", "--config-file", "true.json")
    assert main(["context-binary-generator", "--model", DIGITS, *generate]) == 0
    assert main(["net-run", "--retrieve-context", "output/d.bin", *given, "true.json"]) == 0
