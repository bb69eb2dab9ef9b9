"""Summaries of containers of all kinds."""

from __future__ import annotations

import os

from dovetail.container._format import Kind
from dovetail.container._manifest import ModelManifest
from dovetail.container._reader import kind_of, open_container
from dovetail.container.context import ContextFile
from dovetail.container.context_summary import ContextSummary, summarize_context
from dovetail.container.summary import Summary, summarize_model


def summarize(path: str | os.PathLike[str]) -> Summary | ContextSummary:
    """Return the summary of a container file; no weights are read.

    Raises:
        FrontendError: The file cannot be read.
        ContainerError: The file is not a container, has a newer format, or the parts that are read
            are damaged: header, manifest and padding, and plans and models of contexts.
    """
    kind = kind_of(path)
    if kind is Kind.MODEL:
        return summarize_model(open_container(path, kind, ModelManifest))
    return summarize_context(ContextFile.open(path, section=kind is Kind.SECTION))
