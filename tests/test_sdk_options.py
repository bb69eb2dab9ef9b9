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


def test_what_the_converters_still_lack(options: list[dict[str, Any]]) -> None:
    """The list shrinks; an option that is not in it must not disappear."""
    missing = {
        o["option"]
        for o in options
        if o["sdk"] in ("qnn-onnx-converter", "qairt-converter") and o["verdict"] == "missing"
    }
    assert missing <= {
        "--arch_checker",
        "--keep_quant_nodes",
        "--saved_model_signature_key",
        "--saved_model_tag",
        "--tf_no_optimization",
        "--tf_saved_model_signature_key",
        "--tf_saved_model_tag",
        "--tf_show_unconsumed_nodes",
        "--tf_validate_models",
        "--tflite_signature_name",
        "--use_native_output_files",
    }
