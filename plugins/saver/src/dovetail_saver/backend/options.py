"""Options of the backend `saver`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dovetail.runtime.contract import Options

OUTPUT = "saver_output"


class SaverOptions(Options, frozen=True):
    """Options of the backend `saver`.

    Attributes:
        output: Folder of the trace, relative to the working folder. If it has a trace already, the
            new one is in `process-PID` in it.
        payloads: Payloads that are kept; outputs never are, since nothing is computed.
        target: A backend whose verdicts on ops, capabilities and platform are given, instead of
            those of a backend that accepts everything; `htp:v73` names its architecture, too.
        target_options: The options of that backend.
    """

    output: str = OUTPUT
    payloads: Literal["inputs", "none"] = "inputs"
    target: str = ""
    target_options: dict[str, Any] = msgspec.field(default_factory=dict)
