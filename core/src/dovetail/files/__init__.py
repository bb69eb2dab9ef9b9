"""Files: atomic writing of files and folders, contained paths, safe names."""

from dovetail.files._cache import user_cache
from dovetail.files._file_cache import CachedFile, FileCache
from dovetail.files._file_facts import FileFacts
from dovetail.files._paths import (
    PathLike,
    check_suffix,
    contained,
    identifier,
    safe_name,
    unreadable,
    unwritable,
    with_suffix,
)
from dovetail.files._reading import open_regular, read_limited, read_start
from dovetail.files._reads import FileState, note_read, recorded_reads
from dovetail.files._writing import (
    Staging,
    atomic_write,
    created_folder,
    recorded_writes,
    staged_folder,
)

__all__ = [
    "CachedFile",
    "FileCache",
    "FileFacts",
    "FileState",
    "PathLike",
    "Staging",
    "atomic_write",
    "check_suffix",
    "contained",
    "created_folder",
    "identifier",
    "note_read",
    "open_regular",
    "read_limited",
    "read_start",
    "recorded_reads",
    "recorded_writes",
    "safe_name",
    "staged_folder",
    "unreadable",
    "unwritable",
    "user_cache",
    "with_suffix",
]
