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
    """

    tool: str
    option: str
    command: str
    offered: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        """The verdict in words."""
        if self.offered:
            return f"offered as {self.offered}"
        return f"meaningless here: {self.reason}" if self.reason else "missing"


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


def verdicts(tool: SdkTool, declared: Collection[str]) -> tuple[Verdict, ...]:
    """Return a verdict on each option of a tool.

    Args:
        tool: The tool.
        declared: The options of our command and of the shell, with dashes.
    """
    spelled = {**_SPELLED["*"], **_SPELLED.get(tool.command, {})}
    found = []
    for option in tool.options:
        own = dashed(option)
        if own not in declared:
            own = spelled.get(option, "")
        offered = own if own in declared else ""
        reason = "" if offered else MEANINGLESS.get(option, "")
        found.append(Verdict(tool.name, option, tool.command, offered, reason))
    return tuple(found)
