"""The inspector of encodings files, for `dovetail inspect`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from dovetail.api.inspection import FileSummary
    from dovetail_quantizers.files import TensorEncoding

_READ_BYTES = 1 << 16
_SECTION = re.compile(rb'"(?:(?:activation|param)_)?encodings"\s*:')
_GRAPH = re.compile(rb'"graph"\s*:')  # a frontend reads a `model_net.json`


class EncodingsInspector:
    """Summarizes encodings files."""

    name: ClassVar[str] = "encodings"

    def recognises(self, path: Path) -> bool:
        """Return whether a file begins as JSON with a section of encodings, and has no graph."""
        try:
            if not path.is_file():
                return False
            with path.open("rb") as file:
                start = file.read(_READ_BYTES)
        except OSError:
            return False
        is_json = start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"/")  # or a comment
        return is_json and bool(_SECTION.search(start)) and not _GRAPH.search(start)

    def summary(self, path: Path) -> FileSummary:
        """Return the version of an encodings file, and its entries.

        Raises:
            DovetailError: It cannot be read, or has faults; all are listed.
        """
        # imported here: most inspected files are no encodings files
        from dovetail.api.inspection import FileSummary
        from dovetail.cli.output import table
        from dovetail_quantizers.files import read_encodings

        file = read_encodings(path)
        params = file.params.keys()
        entries = [_entry(entry, name in params) for name, entry in file.entries.items()]
        head = [
            f"{path}: encodings, version {file.version}",
            f"entries: {len(file.activations)} of activations, {len(params)} of parameters",
        ]
        if file.excluded_layers:
            head.append(f"excluded layers: {', '.join(file.excluded_layers)}")
        headings = ("TENSOR", "USE", "TYPE", "FORM", "SCALES", "OFFSETS")
        rows = table(headings, (_row(entry) for entry in entries))
        data: dict[str, Any] = {
            "version": file.version,
            "producer": file.producer,
            "quantizer_args": file.quantizer_args,
            "excluded_layers": list(file.excluded_layers),
            "entries": entries,
        }
        return FileSummary("\n".join([*head, "", rows]), data)


def _entry(entry: TensorEncoding, is_param: bool) -> dict[str, Any]:
    """Return an entry as data; the limits of its scales and offsets, not all of them."""
    found: dict[str, Any] = {
        "tensor": entry.name,
        "use": "parameter" if is_param else "activation",
        "kind": entry.kind,
        "bitwidth": entry.bitwidth,
        "symmetric": entry.symmetric,
        "form": entry.form.value,
        "axis": entry.axis,
        "block_size": entry.block_size,
    }
    for name, values in (("scales", entry.scales), ("offsets", entry.offsets)):
        if values is None or not values.size:
            found[name] = None
        else:
            limits = {"minimum": values.min().item(), "maximum": values.max().item()}
            found[name] = {"number": values.size, **limits}
    return found


def _row(entry: dict[str, Any]) -> list[str]:
    sign = " symmetric" if entry["symmetric"] else ""
    axis = "" if entry["axis"] is None else f" on axis {entry['axis']}"
    blocks = "" if entry["block_size"] is None else f", blocks of {entry['block_size']}"
    return [
        entry["tensor"],
        entry["use"],
        f"{entry['kind']}{entry['bitwidth']}{sign}",
        f"{entry['form']}{axis}{blocks}",
        _limits(entry["scales"]),
        _limits(entry["offsets"]),
    ]


def _limits(found: dict[str, Any] | None) -> str:
    if found is None:
        return "none"
    low, high = found["minimum"], found["maximum"]
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g} ({found['number']})"
