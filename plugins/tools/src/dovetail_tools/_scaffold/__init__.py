"""The dists that `dovetail new-plugin` writes: kinds, names and templates."""

from dovetail_tools._scaffold._kinds import KINDS, Kind, PluginKind
from dovetail_tools._scaffold._names import Names, claim_faults, form_faults
from dovetail_tools._scaffold._render import entry_points, project_files

__all__ = [
    "KINDS",
    "Kind",
    "Names",
    "PluginKind",
    "claim_faults",
    "entry_points",
    "form_faults",
    "project_files",
]
