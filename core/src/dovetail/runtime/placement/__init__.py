"""Placement: the backend `hetero`, which runs the parts of a graph on several backends.

`backend` is loaded by its entry point; this package exports what others read.
"""

from dovetail.runtime.placement.report import Candidate, Choice, Moved, Placement, Share

__all__ = ["Candidate", "Choice", "Moved", "Placement", "Share"]
