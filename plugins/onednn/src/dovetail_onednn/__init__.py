"""Dovetail's binding to the oneDNN C library, for CPU backends.

`onednn_kernels` returns kernels, `reorder` converts between their layouts for `build_plan`, and
`checked_library` loads oneDNN and checks its results, or says why it cannot be used. Importing this
package loads neither oneDNN nor the kernels.
"""

from dovetail_onednn._library import Library, library
from dovetail_onednn.choice import (
    EngineChoice,
    about,
    choose_engine,
    choose_precision,
    is_onednn,
    onednn_kernels,
)
from dovetail_onednn.known_answer import Kind, checked_library
from dovetail_onednn.layouts import OneDnnLayout
from dovetail_onednn.precision import Precision, computing_in
from dovetail_onednn.processors import usable_processors
from dovetail_onednn.reorder import reorder
from dovetail_onednn.threads import Activity, Computing, ReleaseGil, threads_note

__all__ = [
    "Activity",
    "Computing",
    "EngineChoice",
    "Kind",
    "Library",
    "OneDnnLayout",
    "Precision",
    "ReleaseGil",
    "about",
    "checked_library",
    "choose_engine",
    "choose_precision",
    "computing_in",
    "is_onednn",
    "library",
    "onednn_kernels",
    "reorder",
    "threads_note",
    "usable_processors",
]
