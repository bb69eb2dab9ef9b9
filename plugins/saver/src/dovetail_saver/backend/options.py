"""Options of the backend `saver`, and the SDK's configs of its Saver."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from dovetail.runtime.config import SdkConfig
from dovetail.runtime.contract import Options
from dovetail.runtime.installed import without_files
from dovetail.typed import NO_EFFECT, effect

OUTPUT = "saver_output"
_FileName = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-][A-Za-z0-9_.-]*\Z")]


class ProgramNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Names of the files of a C program, without folders.

    Attributes:
        model_file_name: Name of the program.
        data_file_name: Name of its payloads.
    """

    model_file_name: _FileName = "saver_output.c"
    data_file_name: _FileName = "params.bin"

    def with_time(self) -> ProgramNames:
        """Return the names with the time before their suffixes."""
        now = time.strftime("%Y%m%d-%H%M%S")

        def named(name: str) -> str:
            stem, dot, suffix = name.rpartition(".")
            return f"{stem}_{now}.{suffix}" if dot else f"{name}_{now}"

        return ProgramNames(named(self.model_file_name), named(self.data_file_name))


class SaverOptions(Options, frozen=True):
    """Options of the backend `saver`.

    Attributes:
        output: Folder of the trace, relative to the working folder. If it has a trace already, the
            new one is in `process-PID` in it. None records nothing.
        payloads: Payloads that are kept; outputs never are, since nothing is computed.
        target: A backend whose verdicts on ops, capabilities and platform are given, instead of
            those of a backend that accepts everything; `htp:v73` names its architecture, too.
        target_options: The options of that backend.
        program: Files of a C program that is written into `output` at the end, as the SDK's Saver
            does; the trace is in `trace` in it then. None for no program.
        append_timestamp: Whether the names of these files contain the time.
    """

    output: str | None = OUTPUT
    payloads: Literal["inputs", "none"] = "inputs"
    target: str = ""
    target_options: dict[str, Any] = msgspec.field(default_factory=dict)
    program: ProgramNames | None = None
    append_timestamp: bool = False

    @classmethod
    def without_files(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return recorded options for a Saver that records nothing."""
        found = {**options, "output": None, "program": None}
        target = found.get("target")
        if isinstance(target, str) and target:
            found["target_options"] = without_files(target, found.get("target_options"))
        return found


class SaverSdkConfig(SdkConfig, frozen=True, rename=str.upper):
    """The SDK's configs of its Saver.

    Source: QnnSaver_ConfigOption_t and QnnSaver_FileConfig_t of the SDK's public header.

    Attributes:
        output_directory: Folder of the files.
        append_timestamp: Whether the names of the files contain the time.
        backend_id: The backend whose custom configs are recorded; ours are recorded in any case.
        file_config: Names of the files; not with `append_timestamp`.
    """

    output_directory: Annotated[str, effect("folder of the files")] = OUTPUT
    append_timestamp: Annotated[bool | Literal[0, 1], effect("adds the time to names")] = False
    backend_id: Annotated[int | None, NO_EFFECT] = None
    file_config: Annotated[ProgramNames | None, effect("names of the files")] = None

    def __post_init__(self) -> None:
        if self.append_timestamp and self.file_config is not None:
            raise ValueError("APPEND_TIMESTAMP and FILE_CONFIG are mutually exclusive")

    def options(self) -> dict[str, Any]:
        """Return the options of the backend."""
        return {
            "output": self.output_directory,
            "append_timestamp": bool(self.append_timestamp),
            "program": msgspec.to_builtins(self.file_config or ProgramNames()),
        }
