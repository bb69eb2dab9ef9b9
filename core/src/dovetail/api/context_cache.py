"""Cache of prepared contexts: a folder of context binaries by what they were prepared from."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import dovetail
from dovetail.api.preparation import Preparer
from dovetail.arguments import check_arguments
from dovetail.container import ContextFile, Model, graph_digest, hash_source
from dovetail.errors import ConfigError, DovetailError
from dovetail.files import (
    CachedFile,
    FileCache,
    FileFacts,
    FileState,
    PathLike,
    recorded_reads,
    unreadable,
    user_cache,
)
from dovetail.ops import Observed
from dovetail.plugins import list_plugins
from dovetail.runtime import Context, Profile
from dovetail.runtime.context_binaries import facts_of

log = logging.getLogger("dovetail.cache")

Source = Model | str | os.PathLike[str]

FOLDER = "contexts"  # in the user's cache
BINARY = ".bin"
_RECORD = ".json"
_FORMAT = 1  # of the keys and records
_MAX_RECORD_BYTES = 1 << 20
# Plugins that take part in conversions; those that backends use are in their fingerprints.
_CONVERTING = ("dovetail.frontends", "dovetail.importers", "dovetail.passes")
# Settings that choose what is loaded of a context binary, and how; not part of what is prepared.
_LOADING = (
    "enable_graphs",
    "memory_limit_hint",
    "is_persistent_binary",
    "cache_compatibility_mode",
)


class Request(msgspec.Struct, frozen=True):
    """The models that a context is prepared from, and how.

    Attributes:
        sources: Models, or paths of model files.
        preparer: The backend and its config.
        input_format: Name of the frontend that reads model files; None to find it.
        observed: Tensors that watches receive.
    """

    sources: Sequence[Source]
    preparer: Preparer
    input_format: str | None
    observed: Observed


class ContextCache:
    """A folder of prepared contexts, which processes share.

    A context is found by the content of its model and of the files that the model refers to, and by
    all else that determines it: versions, backend, options, config and the backend's fingerprint.
    Damaged or incompatible files are replaced. What was used least recently is removed when the
    folder exceeds its limit.

    Args:
        folder: The folder; by default `contexts` in the user's cache folder (see
            `dovetail.files.user_cache`).

    Attributes:
        files: The files; None if there is no such folder.
    """

    @check_arguments
    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        path = user_cache(FOLDER) if folder is None else Path(folder)
        self.files = None if path is None else FileCache(path, (BINARY, _RECORD))

    def context(
        self,
        request: Request,
        load: Callable[[], Sequence[Model]],
        prepare: Callable[[Sequence[Model]], Context],
        profile: Profile | None,
    ) -> Context:
        """Return a context with the graphs of a request, ready to run.

        Args:
            request: The request.
            load: Returns the models.
            prepare: Prepares them.
            profile: Records the duration of loading a context.

        Raises:
            DovetailError: As for `load` and `prepare`.
        """
        backend = request.preparer.backend
        if self.files is None or not backend.capabilities.caching:
            why = f"'{backend.name}' has no context binaries"
            log.warning("not cached: %s", "no folder for them" if self.files is None else why)
            return prepare(load())
        entry = _Entry(self.files, request)
        found = entry.load(profile)
        if found is not None:
            return found
        with recorded_reads() as reads:
            models = load()
        context = prepare(models)
        entry.store(context, reads)
        return context

    def entries(self) -> list[CachedFile]:
        """Return the contexts, those used most recently first."""
        files = [] if self.files is None else self.files.files()
        return [file for file in files if file.path.suffix == BINARY]


def chosen_cache(
    cache: bool | PathLike | ContextCache, specialize: Sequence[str]
) -> ContextCache | None:
    """Return the cache that a session uses; None if it uses none.

    Raises:
        ConfigError: The session specializes graphs, too.
    """
    if cache is False:
        return None
    if specialize:
        raise ConfigError(
            "`cache` and `specialize` are mutually exclusive",
            code="USAGE",
            hint="convert the model for the shapes that you need, and cache these sessions",
        )
    if isinstance(cache, ContextCache):
        return cache
    return ContextCache() if cache is True else ContextCache(cache)


class _Entry:
    """The file of one context, found by its key.

    The files that a model refers to are known once it was converted: a record with their names is
    found by the key of all else, and their hashes are part of the key of the context.

    Args:
        files: The folder.
        request: What the context is prepared from.

    Raises:
        FrontendError: A model file cannot be read.
    """

    def __init__(self, files: FileCache, request: Request) -> None:
        self._files = files
        self._hashes = FileFacts(files, "sha256")
        self._preparer = request.preparer
        self._states: dict[str, FileState] = {}
        self._folders: list[Path] = []
        models = [self._model(source) for source in request.sources]
        self._key = _digest([models, _facts(request)])

    def load(self, profile: Profile | None) -> Context | None:
        """Return the context; None if there is none that can be used."""
        name = self._name()
        path = None if name is None else self._files.find(name)
        if name is None or path is None:
            return None
        try:
            FileFacts(self._files, "intact").of(path, lambda: _checked(path))
            return self._preparer.load(path, profile, is_whole=True)
        except (DovetailError, OSError) as error:
            log.warning("%s is prepared again: %s", path, error)
            return None

    def store(self, context: Context, reads: Mapping[str, FileState]) -> None:
        """Write the context, unless a file that it was prepared from has changed meanwhile.

        Args:
            context: The context.
            reads: The files that were read to load the models.
        """
        companions = [
            (i, os.path.relpath(path, folder))
            for path in sorted(reads.keys() - self._states.keys())
            for i, folder in enumerate(self._folders)
            if Path(path).is_relative_to(folder)
        ]
        try:
            changed = [p for p, s in {**self._states, **reads}.items() if _state(p) != s]
            if changed:
                log.warning("the context is not cached: %s has changed meanwhile", changed[0])
                return
            self._files.write(f"{self._key}{_RECORD}", msgspec.json.encode(companions))
            name = self._name()
            if name is not None:
                self._files.write(name, context.get_binary().data)
        except (DovetailError, OSError) as error:
            log.warning("the context is not cached: %s", error)

    def _model(self, source: Source) -> Any:
        """Return the identity of a model; remember the state of its file."""
        if isinstance(source, Model):
            return [graph_digest(graph) for graph in source.graphs.values()]
        path = Path(source)
        try:
            digest, state = self._hashes.of(path, lambda: hash_source(path))
        except OSError as error:
            raise unreadable(path, error) from error
        # as `recorded_reads` has it: the file itself is no file that it refers to
        self._states[os.path.abspath(path)] = state
        self._folders.append(Path(os.path.realpath(path.parent)))
        return [path.name, digest]  # graphs are named after the file

    def _name(self) -> str | None:
        """Return the name of the context's file; None if a file of a model is not known."""
        data = self._files.read(f"{self._key}{_RECORD}", _MAX_RECORD_BYTES)
        try:
            known = None if data is None else msgspec.json.decode(data, type=list[tuple[int, str]])
            if known is None:
                return None
            hashes = [self._companion(self._folders[i] / name) for i, name in known]
        except (msgspec.DecodeError, RecursionError, OSError, ValueError, IndexError):
            return None
        except DovetailError:
            return None
        return f"{_digest([self._key, known, hashes])}{BINARY}"

    def _companion(self, path: Path) -> str:
        return self._hashes.of(path, lambda: hash_source(path))[0]


def _facts(request: Request) -> Any:
    """Return all that determines the context besides the models, of JSON types."""
    preparer, observed = request.preparer, request.observed
    backend, config = preparer.backend, preparer.config
    context = msgspec.to_builtins(config.context)
    return {
        "format": _FORMAT,
        "version": dovetail.__version__,
        "plugins": [[p.group, p.name, p.version] for g in _CONVERTING for p in list_plugins(g)],
        "input_format": request.input_format,
        "backend": backend.name,
        "options": msgspec.to_builtins(backend.options),
        "device": msgspec.to_builtins(config.device),
        "context": {key: value for key, value in context.items() if key not in _LOADING},
        "graphs": [[s.names, msgspec.to_builtins(s.config)] for s in config.graphs],
        "fingerprint": facts_of(backend, config.device),
        "observed": [sorted(observed.names), observed.everything],
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _state(path: str) -> FileState:
    return FileState.of(os.stat(path))


def _checked(path: Path) -> str:
    """Return a text if every byte of a context binary is as it was written.

    Raises:
        ContainerError: The file is damaged.
    """
    ContextFile.open(path).verify()
    return "intact"
