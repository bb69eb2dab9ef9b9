"""The container file format of models, and prepacked weights."""

from dovetail.container._format import is_container
from dovetail.container._mapping import MappedBlob, MappedFile
from dovetail.container._verify import verify
from dovetail.container._writer import BlobTable
from dovetail.container.image import ImageContent, pack_image, unpack_image
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
    "Finalizer",
    "FormKey",
    "GraphSummary",
    "ImageContent",
    "MakeForm",
    "MappedBlob",
    "MappedFile",
    "Model",
    "Packed",
    "Producer",
    "Summary",
    "TensorSummary",
    "WeightStore",
    "aligned_copy",
    "aligned_empty",
    "hash_source",
    "is_container",
    "pack_image",
    "read_only",
    "summarize",
    "unpack_image",
    "verify",
]
