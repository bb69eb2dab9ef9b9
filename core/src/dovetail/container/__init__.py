"""The container file format of models and context binaries, and prepacked weights.

Summaries and comparisons are imported on first use: a process that runs a model does without.
"""

from typing import TYPE_CHECKING

from dovetail.container._format import Kind, is_container
from dovetail.container._mapping import MappedBlob, MappedFile
from dovetail.container._reader import kind_of
from dovetail.container._writer import BlobTable
from dovetail.container.context import ContextFile
from dovetail.container.context_content import (
    ContextContent,
    StoredContextGraph,
    graph_digest,
)
from dovetail.container.context_parts import ContextParts
from dovetail.container.embedded import embedded_model
from dovetail.container.lifetime import Anchor, Closing, Finalizer, anchor
from dovetail.container.memory import aligned_copy, aligned_empty, aligned_zeros, read_only
from dovetail.container.model import Model
from dovetail.container.producer import Producer, hash_source
from dovetail.container.weights import HOST, FormKey, MakeForm, Packed, WeightStore
from dovetail.lazy import lazy_names

if TYPE_CHECKING:
    from dovetail.container._verify import verify
    from dovetail.container.context_summary import (
        ContextSummary,
        PreparedSummary,
        summarize_context,
    )
    from dovetail.container.summarizing import summarize
    from dovetail.container.summary import GraphSummary, Summary, TensorSummary
    from dovetail.container.tensor_facts import (
        Difference,
        ValueComparison,
        compare_values,
        cosine_similarity,
        differences,
        form_differences,
    )
    from dovetail.container.weight_comparison import (
        TensorDifference,
        WeightComparison,
        Weights,
        compare_weights,
        constants_of,
        context_weights,
        only_graph,
        read_weights,
    )
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "dovetail.container._verify": ["verify"],
            "dovetail.container.context_summary": [
                "ContextSummary",
                "PreparedSummary",
                "summarize_context",
            ],
            "dovetail.container.summarizing": ["summarize"],
            "dovetail.container.summary": ["GraphSummary", "Summary", "TensorSummary"],
            "dovetail.container.tensor_facts": [
                "Difference",
                "ValueComparison",
                "compare_values",
                "cosine_similarity",
                "differences",
                "form_differences",
            ],
            "dovetail.container.weight_comparison": [
                "TensorDifference",
                "WeightComparison",
                "Weights",
                "compare_weights",
                "constants_of",
                "context_weights",
                "only_graph",
                "read_weights",
            ],
        },
    )

__all__ = [
    "HOST",
    "Anchor",
    "BlobTable",
    "Closing",
    "ContextContent",
    "ContextFile",
    "ContextParts",
    "ContextSummary",
    "Difference",
    "Finalizer",
    "FormKey",
    "GraphSummary",
    "Kind",
    "MakeForm",
    "MappedBlob",
    "MappedFile",
    "Model",
    "Packed",
    "PreparedSummary",
    "Producer",
    "StoredContextGraph",
    "Summary",
    "TensorDifference",
    "TensorSummary",
    "ValueComparison",
    "WeightComparison",
    "WeightStore",
    "Weights",
    "aligned_copy",
    "aligned_empty",
    "aligned_zeros",
    "anchor",
    "compare_values",
    "compare_weights",
    "constants_of",
    "context_weights",
    "cosine_similarity",
    "differences",
    "embedded_model",
    "form_differences",
    "graph_digest",
    "hash_source",
    "is_container",
    "kind_of",
    "only_graph",
    "read_only",
    "read_weights",
    "summarize",
    "summarize_context",
    "verify",
]
