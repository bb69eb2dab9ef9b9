"""Session: a model ready to run, in one object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from dovetail.api.context_cache import ContextCache, Request, chosen_cache
from dovetail.api.loading import given_models, load_models
from dovetail.api.preparation import Preparer, backend_of
from dovetail.api.running import chosen_graph, inputs_by_name, run_graph
from dovetail.api.session_log import SessionLog
from dovetail.api.specialization import (
    MAX_SPECIALIZATIONS,
    Specializer,
    check_limit,
    sole_source,
)
from dovetail.arguments import check_arguments
from dovetail.container import Closing, Model
from dovetail.errors import BackendError
from dovetail.files import PathLike
from dovetail.ir import Array
from dovetail.ops import NOTHING, Observed, OpRegistry
from dovetail.runtime import Backend, Context, Graph, Profile, ProfileLevel, Signal, backend_name

if TYPE_CHECKING:
    from dovetail.api.adapting import Adapters, AppliedAdapter


class Session(Closing):
    """A model ready to run on a backend; a context manager.

    Args:
        model: A `Model`, the path of a `.dvt` or of a file that a frontend reads, or a list of
            these, whose graphs share one context and its packed weights.
        backend: Name of the backend; `hetero:a,b` runs each node on the first of the backends a and
            b that supports it, `auto:a,b` all on the fastest of them, which a short trial finds.
        config: Path of a config file, or a mapping in the form of our TOML.
        ops: The ops; by default those of all installed op packages.
        specialize: Names of inputs of a model file that a frontend reads. Their shapes are taken
            from the arrays passed to a run, whatever the file says; so are the values of inputs
            that determine shapes or attributes. The file is converted at the first run with new
            shapes or values; errors in the file or in a name are raised then.
        max_specializations: Maximum number of graphs kept for `specialize`; the least recently used
            one is freed.
        map_weights: Whether weights that the backend does not repack are read from the mapped file,
            a `.dvt` file or external data, which must not be changed in place. Otherwise the whole
            file is read into memory.
        observed: Tensors that a watch of `graphs` receives besides the outputs; kernels that would
            compute them only inside are not used.
        options: Options of the backend, such as `{"num_threads": 2}`; they replace those of the
            config.
        input_format: Name of the frontend that reads model files; by default it is found by suffix,
            then by content.
        profile_log: Path of a profile log, to which the preparation of graphs and all runs without
            a profile of their own are appended, as far as the config's limits of profiling admit;
            see docs/profiling.md.
        profile_level: Level of the log: a `ProfileLevel`, or one of the backend's own.
        cache: Whether the prepared graphs are kept in a folder, from which later sessions with the
            same model, options and versions load them in a fraction of the time: True for the
            user's cache folder, or the path of a folder, or a `ContextCache`.

    Raises:
        DovetailError: The model cannot be loaded, or the backend does not run it.
    """

    _specializer: Specializer | None
    _log: SessionLog | None

    @check_arguments
    def __init__(
        self,
        model: Model | PathLike | Sequence[Model | PathLike],
        backend: str = "cpu",
        config: PathLike | Mapping[str, Any] | None = None,
        *,
        ops: OpRegistry | None = None,
        specialize: str | Iterable[str] = (),
        max_specializations: int = MAX_SPECIALIZATIONS,
        map_weights: bool = True,
        observed: Observed = NOTHING,
        options: Mapping[str, Any] | None = None,
        input_format: str | None = None,
        profile_log: PathLike | None = None,
        profile_level: int = ProfileLevel.BASIC,
        cache: bool | PathLike | ContextCache = False,
    ) -> None:
        check_limit(max_specializations)
        given = given_models(model)
        names = [specialize] if isinstance(specialize, str) else list(specialize)
        path = sole_source(given) if names else None
        contexts = chosen_cache(cache, names)

        def load() -> list[Model]:
            return load_models(given, ops, map_weights=map_weights, input_format=input_format)

        models = load() if path is None and contexts is None else []
        self._preparer = Preparer(backend, config, options, ops)
        self._start(profile_log, profile_level)
        self._observed = observed
        known = self._preparer.config
        with self._closed_on_error():
            if path is not None:
                known.require_graphs([path.stem])
                self._specializer = Specializer(
                    path, names, self._prepared, ops, max_specializations, input_format
                )
            elif contexts is not None:
                request = Request(given, self._preparer, input_format, observed)
                context = contexts.context(request, load, self._checked, self._profile)
                known.require_graphs(context.graphs)
                self._keep(context)
            else:
                self._keep(self._checked(models))

    @classmethod
    @check_arguments
    def from_context(
        cls,
        binary: PathLike | bytes,
        backend: str | None = None,
        config: PathLike | Mapping[str, Any] | None = None,
        *,
        ops: OpRegistry | None = None,
        options: Mapping[str, Any] | None = None,
        profile_log: PathLike | None = None,
        profile_level: int = ProfileLevel.BASIC,
    ) -> Session:
        """Return a session with the graphs of a context binary, which are not prepared again.

        Args:
            binary: The path of a context binary, which is mapped and must not be changed in place
                while the session is open; or its bytes.
            backend: Name of the backend; by default the one that the binary is for.
            config: As for a new session; settings of the device that it leaves out are those of
                the binary, unless it has some of them.
            ops: As for a new session.
            options: Options of the backend; by default those of the binary, unless the config has
                some.
            profile_log: As for a new session.
            profile_level: As for a new session.

        Raises:
            DovetailError: The binary is damaged, or does not suit the backend.
        """
        session = cls.__new__(cls)
        name, known = backend_of(binary)
        given = backend or name
        recorded = known if backend_name(given) == name else None
        session._preparer = Preparer(given, config, options, ops, recorded=recorded)
        session._start(profile_log, profile_level)
        with session._closed_on_error():
            context = session._preparer.load(binary, session._profile)
            session._preparer.config.require_graphs(context.graphs)
            session._keep(context)
        return session

    def save_context(self, path: PathLike, *, embed_model: bool = True) -> None:
        """Write the prepared graphs to a context binary, for `from_context`.

        Args:
            path: The file; it is replaced at the end of writing.
            embed_model: Whether the file has the models, too; see `Context.get_binary`.

        Raises:
            BackendError: The backend has no context binaries, or the session specializes graphs.
            ContainerError: The file cannot be written.
        """
        if self._specializer is not None:
            raise BackendError(
                "a session that specializes graphs has no context to save",
                code="CONTEXT_ERROR_UNSUPPORTED_FEATURE",
                hint="create a session for each shape, or pass models of fixed shapes",
            )
        self._fixed.save(path, embed_model=embed_model)

    def _start(self, profile_log: PathLike | None, level: int) -> None:
        """Begin without graphs."""
        self._observed = NOTHING
        self._specializer = None
        self._log = None
        with self._closed_on_error():
            if profile_log is not None:
                max_events = self._preparer.config.profile.num_max_events
                self._log = SessionLog(profile_log, self.backend, level, max_events)

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _keep(self, context: Context) -> None:
        """Use a context's graphs."""
        self._fixed = context
        graphs = tuple(context.graphs.values())
        self._sole = graphs[0] if len(graphs) == 1 else None  # read at every run

    @property
    def graphs(self) -> Mapping[str, Graph]:
        """The graphs by name, as handles of `dovetail.runtime`.

        With `specialize`, only the graph that ran last; none before the first run.
        """
        context = self._specializer.latest if self._specializer else self._fixed
        return {} if context is None else context.graphs

    @property
    def backend(self) -> Backend:
        """The backend, as a handle of `dovetail.runtime`."""
        return self._preparer.backend

    @property
    def constant_inputs(self) -> tuple[str, ...]:
        """The inputs of `specialize` whose values conversions have needed so far."""
        return self._specializer.constant_inputs if self._specializer else ()

    def run(
        self,
        inputs: Mapping[str, Any] | Any,
        *,
        graph: str | None = None,
        native: bool = False,
        profile: Profile | None = None,
        signal: Signal | None = None,
    ) -> dict[str, Array]:
        """Run the model once.

        Args:
            inputs: By input name, anything that NumPy converts to an array of the input's shape;
                for a graph with one input also that array alone. Real values, converted to the
                input's type; with `native`, stored values, except for inputs whose values become
                constants.
            graph: Name of the graph if there are several.
            native: Whether inputs and outputs are stored values of the graph's types.
            profile: Records the times, instead of the session's log.
            signal: Stops the run.

        Returns:
            The outputs by name: float32 for fixed-point types and floats of all widths (FLOAT_64 is
            rounded), integers and bools unchanged; with `native`, stored values.

        Raises:
            BackendError: Inputs do not match the graph (every mismatch is listed), or the run
                failed.
            ContainerError: A file that the run reads weights from has changed.
        """
        if self._specializer is None:
            handle = self._sole
            if handle is None or graph is not None or handle.is_freed:
                self._require_open()
                handle = chosen_graph(self._fixed, graph)
            if not isinstance(inputs, dict):
                inputs = inputs_by_name(inputs, tuple(handle.interface.inputs))
            if profile is None and self._log is not None:
                profile = self._log.profile_of(handle)
            return run_graph(handle, inputs, profile, signal, native=native)
        self._require_open()
        inputs = inputs_by_name(inputs, self._specializer.names)
        with self._specializer.context(inputs) as context:
            handle = chosen_graph(context, graph)
            known, constant = handle.interface.inputs, self._specializer.names
            given = {n: v for n, v in inputs.items() if n in known or n not in constant}
            if profile is None and self._log is not None:
                profile = self._log.profile_of(handle)
            return run_graph(handle, given, profile, signal, native=native)

    @check_arguments
    @contextmanager
    def specialized(self, inputs: Mapping[str, Any]) -> Iterator[Graph]:
        """Return the graph for these inputs; it stays alive during the `with` block.

        Args:
            inputs: Real values, by name; they include the inputs named in `specialize`.

        Raises:
            BackendError: One of these inputs is missing, or there are several graphs.
            DovetailError: The model cannot be converted or prepared for them.
        """
        self._require_open()
        found = self._specializer.context(inputs) if self._specializer else nullcontext(self._fixed)
        with found as context:
            yield chosen_graph(context, None)

    @check_arguments
    def apply_adapter(
        self,
        adapter: PathLike,
        name: str | None = None,
        *,
        scale: float = 1.0,
        names: Mapping[str, str] | None = None,
    ) -> AppliedAdapter:
        """Use an adapter (LoRA): replace the updateable weights and encodings of the graphs.

        Runs that are executing end with the old weights. If the adapter does not match, nothing
        changes. See docs/lora.md.

        Args:
            adapter: Path of a config of adapters or of a .safetensors file; or the name of an
                adapter in a config that an earlier call read.
            name: Name of the adapter in the config; None for the only one.
            scale: Strength of the adapter, which multiplies its second factors (lora_B).
            names: New names of the arrays, by the names in the .safetensors file.

        Returns:
            What was updated, with the new encodings of inputs and outputs.

        Raises:
            ConfigError: The adapter is unknown, or its config has faults.
            FrontendError: A file cannot be read, or does not match a graph; lists every mismatch.
            QuantizationError: Encodings do not match.
            BackendError: The backend does not support updates.
        """
        found = self._adapters.find(adapter, name)
        return self._adapters.apply(found, self._updateable(), scale, names, self._profile)

    def remove_adapter(self) -> AppliedAdapter:
        """Use the weights and encodings of the model again.

        Raises:
            BackendError: The backend does not support updates.
        """
        return self._adapters.remove(self._updateable(), self._profile)

    @cached_property
    def _adapters(self) -> Adapters:
        # imported here for a fast start: most sessions have no adapters
        from dovetail.api.adapting import Adapters

        return Adapters(self.backend.ops)

    def _updateable(self) -> Mapping[str, Graph]:
        """Return the graphs, which must not change with the inputs.

        Raises:
            BackendError: They do.
        """
        self._require_open()
        if self._specializer is not None:
            raise BackendError(
                "adapters require graphs with fixed shapes",
                code="GRAPH_ERROR_UNSUPPORTED_FEATURE",
                hint="create the session without `specialize`",
            )
        return self._fixed.graphs

    def _require_open(self) -> None:
        """Raise if the session was closed.

        Raises:
            BackendError: It was.
        """
        if self.backend.is_freed:
            raise BackendError(
                "the session was closed",
                code=self.backend.invalid_code,
                hint="create another session, from a model or by `from_context`",
            )

    def __repr__(self) -> str:
        state = ", ".join(self.graphs) or ("closed" if self.backend.is_freed else "no graph yet")
        return f"<Session on {self.backend.name}: {state}>"

    def close(self) -> None:
        """Free everything; a second call does nothing."""
        self.backend.close()
        if self._log is not None:
            self._log.close()

    def __reduce__(self) -> NoReturn:
        raise BackendError(
            "a session cannot be pickled or copied",
            code="COMMON_ERROR_OPERATION_NOT_PERMITTED",
            hint="pass the model or its path, and create a session in each process",
        )

    @property
    def _profile(self) -> Profile | None:
        """The profile of the log; None without a log."""
        return None if self._log is None else self._log.profile

    def _checked(self, models: Sequence[Model]) -> Context:
        """Return a context with the models' graphs, after checking that the config is for them."""
        self._preparer.config.require_graphs(name for each in models for name in each.graphs)
        return self._prepared(*models)

    def _prepared(self, *models: Model) -> Context:
        """Return a context with the models' graphs, finalized."""

        def finalize(graph: Graph) -> None:
            graph.finalize(self._profile, observed=self._observed)

        return self._preparer.prepare(models, finalize)
