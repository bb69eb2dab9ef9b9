"""The SDK's tools and their options, compared with the installed commands.

`data/sdk_options.json` has the names, of the public pages on the SDK's tools, version 2.25.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from dovetail.cli._options import dashed


@dataclass(frozen=True, slots=True)
class SdkTool:
    """A tool of the SDK.

    Attributes:
        name: Its name.
        command: Our command.
        frontend: The frontend that the command needs; None if any will do.
        options: Its options as it spells them.
    """

    name: str
    command: str
    frontend: str | None
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on an option of the SDK.

    Attributes:
        tool: The SDK's tool.
        option: Its option.
        command: Our command.
        offered: Our spelling; empty if there is none.
        reason: Why the option has no meaning here; empty if it has, or might.
        lack: What a missing option waits for; empty if that is not known, or it is not missing.
    """

    tool: str
    option: str
    command: str
    offered: str = ""
    reason: str = ""
    lack: str = ""

    @property
    def text(self) -> str:
        """The verdict in words."""
        if self.offered:
            return f"offered as {self.offered}"
        if self.reason:
            return f"meaningless here: {self.reason}"
        return f"missing: {self.lack}" if self.lack else "missing"


# The only reasons for which an option has no meaning on a workstation.
DEVICE = "concerns a device that runs models, and here this machine does"
ADB = "concerns the connection to an Android device"
NDK = "concerns compilers for devices, and here nothing is compiled for one"
RELAY = "writes a form of models that only the SDK's converters use"
REASONS = (DEVICE, ADB, NDK, RELAY)

# Option of the SDK -> its reason, for all tools that have it.
MEANINGLESS: Mapping[str, str] = {
    "--coreVersion": DEVICE,
    "--deviceId": ADB,
    "--dsp_type": DEVICE,
    "--dump_relay": RELAY,
    "--libVersion": DEVICE,
    "--remoteHost": ADB,
    "--targetPath": ADB,
    "--testBackend": DEVICE,
}
# Options that concern one framework, in tools for several and in its own.
_FRAMEWORKS: Mapping[str, str] = {
    "--tf_": "tensorflow",
    "--saved_model_": "tensorflow",
    "--tflite_": "tflite",
    "--pytorch_": "pytorch",
}
_OF_OWN_TOOLS = (
    "--allow_unconsumed_nodes",
    "--dump_out_names",
    "--show_unconsumed_nodes",
    "--signature_name",
)
_NO_OUTPUTS = "selects the type of files of outputs, and the command writes none"
# Command -> missing options of the SDK, and what they wait for or why nothing can be done.
_LACKS: Mapping[str, Mapping[str, str]] = {
    "convert": {
        "--use_native_output_files": _NO_OUTPUTS,
    },
    "quantize": {"--use_native_output_files": _NO_OUTPUTS},
    "op-package-generator": {
        "--converter_op_package": "every package has shape rules for converters",
    },
    "net-run": {
        "--binary_file": "on that page only in an example of qnn-context-binary-generator",
    },
}
# Command -> options of the SDK that it spells otherwise.
_SPELLED: Mapping[str, Mapping[str, str]] = {
    "*": {"--debug": "--log-level", "--verbose": "--log-level"},
}


def sdk_tools() -> tuple[SdkTool, ...]:
    """Return the SDK's tools, in the order of the data."""
    text = files("dovetail.cli").joinpath("data/sdk_options.json").read_text("utf-8")
    data: dict[str, dict[str, Any]] = json.loads(text)
    return tuple(
        SdkTool(name, each["command"], each["frontend"], tuple(each["options"]))
        for name, each in data.items()
    )


def verdicts(
    tool: SdkTool, declared: Collection[str], frontends: Collection[str] = ()
) -> tuple[Verdict, ...]:
    """Return a verdict on each option of a tool.

    Args:
        tool: The tool.
        declared: The options of our command and of the shell, with dashes.
        frontends: Names of the installed frontends.
    """
    spelled = {**_SPELLED["*"], **_SPELLED.get(tool.command, {})}
    found = []
    for option in tool.options:
        own = dashed(option)
        if own not in declared:
            own = spelled.get(option, "")
        offered = own if own in declared else ""
        reason = "" if offered else MEANINGLESS.get(option, "")
        lack = "" if offered or reason else _lack(tool, option, frontends)
        found.append(Verdict(tool.name, option, tool.command, offered, reason, lack))
    return tuple(found)


def _lack(tool: SdkTool, option: str, frontends: Collection[str]) -> str:
    """Return what a missing option waits for; empty if that is not known."""
    named = next((f for prefix, f in _FRAMEWORKS.items() if option.startswith(prefix)), None)
    frontend = tool.frontend if option in _OF_OWN_TOOLS else named
    if frontend is not None and frontend not in frontends:
        return f"needs the frontend '{frontend}'"
    return _LACKS.get(tool.command, {}).get(option, "")
