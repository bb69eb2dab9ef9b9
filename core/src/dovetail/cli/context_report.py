"""A context binary or section, for `dovetail inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dovetail.api.preparation import Preparer, Recorded
from dovetail.cli.graph_text import graph_text, settings_text, summary_lines, tensor_table
from dovetail.cli.output import current_output, table
from dovetail.cli.sharing_text import sharing_text
from dovetail.container import ContextFile, ContextSummary, summarize_context
from dovetail.runtime import Compatibility, backend_name, sharing_report
from dovetail.runtime.names import without_arch


def show_context(
    path: Path, file: ContextFile, backend: str | None, *, similarity: bool, verified: bool
) -> None:
    """Print the summary of a context binary or section, and what its graphs share.

    Args:
        path: Its path.
        file: The file.
        backend: Name of a backend whose verdict is printed; None for none.
        similarity: Whether the similarity of weights that are not shared is printed.
        verified: Whether every byte was checked.

    Raises:
        DovetailError: The file is damaged, or the backend cannot be created.
    """
    summary = summarize_context(file)
    parts = ["\n".join(_head(path, summary))]
    data: dict[str, Any] = {
        "file": str(path),
        "verified": verified,
        **msgspec.to_builtins(summary),
    }
    if summary.tensors:
        parts.append(tensor_table([("context", summary.tensors)]))
    parts += map(graph_text, summary.graphs)
    if len(summary.graphs) > 1 and not file.is_section:
        report = sharing_report(file, similarity=similarity)
        parts.append(sharing_text(report))
        data["sharing"] = msgspec.to_builtins(report)
    if backend is not None:
        found = verdict_on(file, backend)
        parts.append(verdict_text(found, backend))
        data["compatibility"] = verdict_data(found, backend)
    current_output().data(data, "\n\n".join(parts))


def verdict_on(file: ContextFile, backend: str) -> Compatibility:
    """Return how well a context binary suits a backend, with the options and device of the binary.

    Raises:
        DovetailError: The backend cannot be created, or cannot state what its graphs depend on.
    """
    name, manifest = backend_name(backend), file.manifest
    is_same = without_arch(name) == manifest.backend
    # another architecture after the backend's name contradicts the device
    recorded = Recorded(manifest.options, manifest.device if name == manifest.backend else {})
    preparer = Preparer(name, recorded=recorded if is_same else None)
    with preparer.backend:
        return preparer.compatibility(file)


def verdict_data(found: Compatibility, backend: str) -> dict[str, Any]:
    """Return a verdict as data."""
    return {
        "backend": backend,
        "verdict": found.verdict.name,
        "reasons": [
            {"fact": r.fact, "found": r.found, "here": r.here, "verdict": r.verdict.name}
            for r in found.reasons
        ],
    }


def verdict_text(found: Compatibility, backend: str) -> str:
    """Return a verdict as text."""
    line = f"on {backend} here: {found.verdict.name}"
    if not found.reasons:
        return line
    rows = [
        (r.fact, r.found or "unknown", r.here or "unknown", r.verdict.name) for r in found.reasons
    ]
    return f"{line}\n\n{table(('FACT', 'BINARY', 'HERE', 'VERDICT'), rows)}"


def _head(path: Path, summary: ContextSummary) -> list[str]:
    whole = ["graphs: restored together only"] if summary.is_whole else []
    return [
        *summary_lines(path, summary),
        f"backend: {summary.backend}, options: {settings_text(summary.options)}, "
        f"device: {settings_text(summary.device)}",
        f"prepared with: {settings_text(summary.fingerprint)}",
        *whole,
    ]
