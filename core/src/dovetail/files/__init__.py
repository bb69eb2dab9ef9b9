"""Files: atomic writing of files and folders, contained paths, safe names."""

from dovetail.files._cache import user_cache
from dovetail.files._paths import (
    check_suffix,
    contained,
    safe_name,
    unreadable,
    unwritable,
    with_suffix,
)
from dovetail.files._reading import open_regular, read_limited
from dovetail.files._writing import Staging, atomic_write, staged_folder

__all__ = [
    "Staging",
    "atomic_write",
    "check_suffix",
    "contained",
    "open_regular",
    "read_limited",
    "safe_name",
    "staged_folder",
    "unreadable",
    "unwritable",
    "user_cache",
    "with_suffix",
]
