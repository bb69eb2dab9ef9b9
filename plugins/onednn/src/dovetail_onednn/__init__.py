"""Dovetail's binding to the oneDNN C library, as a library for CPU-side backends.

`onednn_kernels` gives kernels and `reorder` what `build_plan` needs to reconcile their layouts;
`checked_library` loads oneDNN and tries it, or says why it cannot be had. Importing this loads
nothing.
"""

from dovetail_onednn._library import Library, library
from dovetail_onednn.kernels import onednn_kernels
from dovetail_onednn.known_answer import Kind, checked_library
from dovetail_onednn.layouts import OneDnnLayout
from dovetail_onednn.precision import Precision, computing_in
from dovetail_onednn.reorder import reorder
from dovetail_onednn.threads import Activity, Computing, ReleaseGil

__all__ = [
    "Activity",
    "Computing",
    "Kind",
    "Library",
    "OneDnnLayout",
    "Precision",
    "ReleaseGil",
    "checked_library",
    "computing_in",
    "library",
    "onednn_kernels",
    "reorder",
]
