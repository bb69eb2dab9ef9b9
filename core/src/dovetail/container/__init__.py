"""The container file format of models and context binaries, and prepacked weights."""

from dovetail.container._format import is_container
from dovetail.container._mapping import MappedBlob, MappedFile
from dovetail.container._verify import verify
from dovetail.container._writer import BlobTable
from dovetail.container.context import (
    ContextContent,
    ContextFile,
    StoredContextGraph,
    graph_digest,
)
from dovetail.container.lifetime import Closing, Finalizer
from dovetail.container.memory import aligned_copy, aligned_empty, read_only
from dovetail.container.model import Model
from dovetail.container.producer import Producer, hash_source
from dovetail.container.summary import GraphSummary, Summary, TensorSummary, summarize
from dovetail.container.weights import HOST, FormKey, MakeForm, Packed, WeightStore

__all__ = [
    "HOST",
    "BlobTable",
    "Closing",
    "ContextContent",
    "ContextFile",
    "Finalizer",
    "FormKey",
    "GraphSummary",
    "MakeForm",
    "MappedBlob",
    "MappedFile",
    "Model",
    "Packed",
    "Producer",
    "StoredContextGraph",
    "Summary",
    "TensorSummary",
    "WeightStore",
    "aligned_copy",
    "aligned_empty",
    "graph_digest",
    "hash_source",
    "is_container",
    "read_only",
    "summarize",
    "verify",
]
