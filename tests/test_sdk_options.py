"""Options of the SDK's converters and quantizer: each that is said to be offered is accepted."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

CONVERTERS = ("qnn-onnx-converter", "qairt-converter", "qairt-quantizer")


@pytest.fixture(scope="module")
def options() -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "dovetail", "--json", "explain", "compat"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found: list[dict[str, Any]] = json.loads(done.stdout)["options"]
    return found


def test_each_offered_option_is_in_the_help_of_its_command(options: list[dict[str, Any]]) -> None:
    offered = [o for o in options if o["offered"] and o["sdk"] in CONVERTERS]
    assert len(offered) > 60
    for command in {o["command"] for o in offered}:
        call = [sys.executable, "-m", "dovetail", command, "--help"]
        text = subprocess.run(call, capture_output=True, text=True, check=True, timeout=60).stdout
        shown = {word.strip(",") for word in text.split()} | {"--log-level"}
        assert {o["offered"] for o in offered if o["command"] == command} <= shown


def test_what_the_installed_commands_still_lack(options: list[dict[str, Any]]) -> None:
    """The list shrinks; options that wait for a frontend are not in it."""
    missing = [o for o in options if o["verdict"].startswith("missing")]
    waiting = [o for o in missing if "needs the frontend" in o["lack"]]
    assert {o["lack"] for o in waiting if o["sdk"] == "qairt-converter"} == {
        "needs the frontend 'tensorflow'",
        "needs the frontend 'tflite'",
    }
    assert {(o["command"], o["option"]) for o in missing if o not in waiting} <= {
        ("convert", "--use_native_output_files"),
        ("quantize", "--use_native_output_files"),
        ("op-package-generator", "--converter_op_package"),
        ("net-run", "--binary_file"),
    }
