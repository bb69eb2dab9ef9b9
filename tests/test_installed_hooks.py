"""Hooks of installed plugins: they observe each command and each call of the Python API."""

from __future__ import annotations

from pathlib import Path

import forked
import pytest
from one_node_model import write_model

import dovetail as dt

SOURCE = """
from dovetail.plugins.hookspecs import hookimpl

def note(text):
    with open("events.txt", "a") as file:
        print(text, file=file)

@hookimpl
def dovetail_api_call(call):
    note(call.function)

@hookimpl
def dovetail_pass_finished(event):
    note("pass " + event.name)

@hookimpl
def dovetail_progress(event):
    note("progress " + event.task)
"""
QUANTIZER = """
from dovetail.plugins.events import Progress
from dovetail.plugins.hooks import hooks
from dovetail.quantization import Quantized

class Quantizer:
    def quantize(self, model, calibration, options, ops):
        if hooks.active:
            hooks.progress(Progress("guessing", 1))
        return Quantized(model, ())

    def configured(self, options):
        return options

    def state_encodings(self, model, options, ops):
        return model, ()

    def write_encodings(self, model, model_path):
        return ()

    def read_encodings(self, path, graph, ops):
        return {}

    def encoding_for(self, tensor, values):
        return tensor.encoding

    def save_encodings(self, graph, encodings, path, ops):
        pass
"""
QUANTIZE = """
import numpy as np
import dovetail as dt
dt.quantize("net.onnx", [np.ones((1, 4), np.float32)])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, an input list, and the dist `watcher` in `site`."""
    write_model(tmp_path)
    info = tmp_path / "site" / "watcher-1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "site" / "watcher.py").write_text(SOURCE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: watcher\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dovetail.hooks]\nwatcher = watcher\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "events"),
    [
        (["dovetail", "convert", "-i", "net.onnx"], {"pass dead-code"}),
        (
            ["dovetail", "quantize", "-i", "net.onnx", "--input-list", "list.txt"],
            {"pass dead-code", "backend_create", "graph_execute", "progress calibrating"},
        ),
        (
            ["python", "-c", QUANTIZE],
            {"pass dead-code", "backend_create", "graph_execute", "progress calibrating"},
        ),
    ],
)
def test_events_of_a_command(folder: Path, command: list[str], events: set[str]) -> None:
    done = forked.run(command, folder, path=[folder / "site"])
    assert done.returncode == 0, done.stderr
    seen = (folder / "events.txt").read_text().splitlines()
    assert events <= set(seen), sorted(set(seen))


def test_a_process_whose_only_event_is_progress(folder: Path) -> None:
    dt.convert(folder / "net.onnx").save(folder / "net.dvt")
    (folder / "site" / "guess.py").write_text(QUANTIZER)
    entries = folder / "site" / "watcher-1.0.dist-info" / "entry_points.txt"
    entries.write_text(f"{entries.read_text()}[dovetail.quantizers]\ndefault = guess:Quantizer\n")
    command = ["python", "-c", QUANTIZE.replace(".onnx", ".dvt")]
    done = forked.run(
        command, folder, path=[folder / "site"], DOVETAIL_PLUGINS="watcher,dovetail-opset"
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "events.txt").read_text() == "progress guessing\n"
