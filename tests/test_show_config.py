"""`--config-file` and `--show-config` of commands that quantize."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dovetail as dt
from dovetail.cli import main

DIGITS = str(Path(__file__).parents[1] / "examples/digits/digits.onnx")
FILE = """
aimet_quantizer:
  datasets: {d: {dataloader_callback: data.load}}
  adaround: {dataset: d, num_batches: 2}
"""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("q.yaml")
    path.write_text(FILE)
    return path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, tuple[Any, str]]:
    assert main(["--json", *arguments, "--show-config"]) == 0
    rows = json.loads(capsys.readouterr().out)["options"]
    return {row["option"]: (row["value"], row["origin"]) for row in rows}


@pytest.mark.parametrize("command", ["convert", "quantize"])
def test_each_value_has_an_origin(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("-i", "none.onnx", "--config-file", "q.yaml", "--algorithms", "cle")
    rows = shown(capsys, command, *given, "--act_bw", "16", "--lenient")
    assert rows["--act-bitwidth"] == (16, "command line")
    assert rows["--lenient"] == (True, "command line")
    assert rows["--float-bitwidth"] == (32, "default")
    file = "config file q.yaml"
    assert rows["--algorithms"] == (["cle", "adaround"], f"command line and {file}")
    assert rows["--algorithm-param adaround.samples"] == (2, file)


def test_values_of_a_pair_and_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    own = ("--algorithms", "adaround", "--algorithm-param", "adaround.samples=7")
    given = (DIGITS, "-d", "image", "1,1,8,8", "--config-file", "q.yaml", *own)
    rows = shown(capsys, "convert", *given)
    assert rows["model"] == (DIGITS, "command line")
    assert rows["--input-dim"] == (["image 1,1,8,8"], "command line")
    assert rows["--algorithms"] == (["adaround"], "command line")
    assert rows["--algorithm-param adaround.samples"] == ("7", "command line")
    assert not list(Path().glob("*.dvt"))


def test_a_converted_model_is_quantized_by_the_config(capsys: pytest.CaptureFixture[str]) -> None:
    np.random.default_rng(3).random(64, np.float32).tofile("x.raw")
    Path("list.txt").write_text("x.raw\nx.raw\n")
    given = ("--input-list", "list.txt", "--weights-bitwidth", "4", "--skip-algorithm-check")
    weights = []
    for more in ([], ["--config-file", "q.yaml"], ["--algorithms", "adaround"]):
        params = ["--algorithm-param", "adaround.samples=2"] if "--algorithms" in more else []
        code = main(["convert", DIGITS, "-o", "q.dvt", *given, *more, *params])
        assert code == 0, capsys.readouterr().err
        graph = dt.load("q.dvt").graphs["digits"]
        weights.append([t.stored().tobytes() for t in graph.tensors.values() if t.data is not None])
    assert weights[1] == weights[2] != weights[0]


def test_a_wrong_config_is_reported(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text("aimet_quantizer: {adaround: {dataset: e}}")
    assert main(["convert", DIGITS, "--config-file", "q.yaml", "--show-config"]) == 2
    assert "data set 'e' not found" in capsys.readouterr().err
