"""`dovetail cache`: the prepared contexts that sessions with `cache` keep."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from dovetail.api.context_cache import ContextCache
from dovetail.cli.output import current_output, table
from dovetail.container import ContextFile
from dovetail.errors import ConfigError, DovetailError, counted
from dovetail.files import CachedFile, FileCache

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

Folder = Annotated[
    Path | None, typer.Option(help="The folder; by default `contexts` in the user's cache.")
]
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


@app.callback()
def cache() -> None:
    """Manage the prepared contexts that `Session(..., cache=True)` keeps.

    The folder is `contexts` in $DOVETAIL_CACHE, or in `dovetail` in $XDG_CACHE_HOME or ~/.cache.
    """


@app.command("list")
def list_contexts(folder: Folder = None) -> None:
    """List the contexts, those used most recently first, and the limit of their size."""
    contexts = _existing(folder)
    files = _files(contexts)
    entries = [_described(file) for file in contexts.entries()]
    size = sum(file.nbytes for file in files.files())
    keys = ("used", "bytes", "backend", "graphs", "file")
    shown = table(
        tuple(key.upper() for key in keys),
        ([", ".join(e[k]) if k == "graphs" else e[k] for k in keys] for e in entries),
    )
    limit = files.limit_bytes
    text = f"{shown}\n\n{size:,} of {limit:,} bytes in {files.folder}"
    data = {"folder": str(files.folder), "bytes": size, "limit_bytes": limit, "contexts": entries}
    current_output().data(data, text)


@app.command()
def clear(folder: Folder = None) -> None:
    """Remove all contexts."""
    files = _files(_existing(folder))
    size = sum(file.nbytes for file in files.files())
    count = files.clear()
    current_output().data(
        {"folder": str(files.folder), "files": count, "bytes": size},
        f"removed {counted(count, 'file')} of {counted(size, 'byte')} from {files.folder}",
    )


@app.command()
def limit(
    size: Annotated[str, typer.Argument(help="Bytes, or a number with K, M, G or T: 512M, 8G.")],
    folder: Folder = None,
) -> None:
    """Limit the size of the folder, for all programs; the default is 4G.

    What was used least recently is removed when the contexts are larger.
    """
    found = _SIZE.fullmatch(size.strip())
    if found is None:
        raise ConfigError(
            f"'{size}' is not a size",
            code="USAGE",
            where="dovetail cache limit",
            hint="give bytes, or a number with K, M, G or T, such as 8G",
        )
    files = _files(ContextCache(folder))
    files.set_limit(int(float(found[1]) * 2 ** _UNITS[found[2].upper()]))
    current_output().data(
        {"folder": str(files.folder), "limit_bytes": files.limit_bytes},
        f"{files.folder} keeps at most {files.limit_bytes:,} bytes",
    )


def _existing(folder: Path | None) -> ContextCache:
    """Return the cache in a folder; the user's may still be without one.

    Raises:
        ConfigError: The given folder does not exist.
    """
    if folder is not None and not os.path.isdir(folder):  # pathlib's raises if a name is too long
        what = "is not a folder" if os.path.lexists(folder) else "does not exist"
        raise ConfigError(f"the folder {what}", code="USAGE", where=f"--folder {folder}")
    return ContextCache(folder)


def _files(contexts: ContextCache) -> FileCache:
    """Return the files of a cache.

    Raises:
        ConfigError: There is no folder for them.
    """
    if contexts.files is None:
        raise ConfigError(
            "no folder for a cache",
            code="USAGE",
            where="DOVETAIL_CACHE",
            hint="unset DOVETAIL_CACHE, set it to a folder that can be written, or give --folder",
        )
    return contexts.files


def _described(file: CachedFile) -> dict[str, Any]:
    """Return what the file of a context says about itself."""
    used = datetime.fromtimestamp(file.used_ns // 10**9, UTC)
    found: dict[str, Any] = {"file": file.path.name, "bytes": file.nbytes}
    found["used"] = used.strftime("%Y-%m-%d %H:%M:%S UTC")
    try:
        manifest = ContextFile.open(file.path).manifest
    except DovetailError as error:  # it is prepared again when it is needed
        return found | {"backend": error.code, "graphs": []}
    return found | {"backend": manifest.backend, "graphs": [g.name for g in manifest.graphs]}
