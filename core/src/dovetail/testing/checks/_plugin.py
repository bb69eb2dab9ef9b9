"""Use of a backend plugin's own methods, as core uses them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Mapping
from typing import TypeVar

from dovetail import runtime
from dovetail.errors import BackendError, DovetailError
from dovetail.ir import Array, Graph, TensorKind
from dovetail.ops import OpSchema
from dovetail.runtime.contract import Prepared, RunControl
from dovetail.testing.bench import Bench, stored_blob
from dovetail.testing.outcome import Failure, Unsupported, demand
from dovetail.testing.preparing import prepare

_PATIENCE_S = 30.0
E = TypeVar("E", bound=DovetailError)
# Codes that a backend's methods may use for a missing capability: QNN's names for it.
_UNSUPPORTED = ("_UNSUPPORTED_FEATURE", "_NOT_SUPPORTED")


def prepared_on(backend: runtime.Backend, graph: Graph) -> Prepared:
    """Prepare a graph in a context of its own."""
    return prepare(backend.plugin, graph, backend.ops)


def run_sample(
    bench: Bench,
    prepared: Prepared,
    *,
    shift: int = 0,
    control: RunControl | None = None,
    static: Container[str] = (),
) -> dict[str, Array]:
    """Run a prepared sample as core does, and return its outputs.

    Args:
        bench: Provides the sample.
        prepared: The graph to run.
        shift: As for `Bench.feeds`.
        control: The control of the run; by default one that never stops it.
        static: Names of inputs that are constants of the graph.
    """
    given, outputs = bench.feeds(shift), bench.outputs()
    inputs = {name: array for name, array in given.items() if name not in static}
    prepared.run(inputs, outputs, control or RunControl())
    return outputs


def constant_sample(bench: Bench, schema: OpSchema, shift: int, kind: TensorKind) -> Graph:
    """Return a copy of the sample's graph whose first input is a constant.

    Args:
        bench: Provides the sample.
        schema: Of the sample's op.
        shift: As for `Bench.feeds`, for the data of the first input.
        kind: Kind of the constant.
    """
    made = bench.sample.graph(schema, "constant")
    tensor = made.tensors[min(bench.feeds())]
    tensor.kind, tensor.data = kind, stored_blob(bench.feeds(shift)[tensor.name], tensor)
    return made


def updateable_sample(bench: Bench, schema: OpSchema, shift: int) -> Graph:
    """Return a copy of the sample's graph whose first input is UPDATEABLE_STATIC."""
    return constant_sample(bench, schema, shift, TensorKind.UPDATEABLE_STATIC)


def update(prepared: Prepared, graph: Graph, source: Graph) -> None:
    """Update the UPDATEABLE tensors of a graph with the data and encodings of another's."""
    changed = [tensor for tensor in graph.tensors.values() if tensor.kind.is_updateable]
    for tensor in changed:
        other = source.tensors[tensor.name]
        tensor.data, tensor.encoding = other.data, other.encoding
    prepared.update(changed)


def require_support(backend: runtime.Backend, graph: Graph) -> None:
    """Raise Unsupported, with the reason, if the backend does not support a graph's first node."""
    support = backend.validate_op(graph.nodes[0])
    if not support.ok:
        raise Unsupported(str(support))


def demand_rejection(call: Callable[[], object]) -> None:
    """Raise a Failure unless a method raises an error for a missing capability."""
    error = demand_error(call, BackendError, "a missing capability")
    demand(is_unsupported(error), f"raised {error.code}: {error}")


def is_unsupported(error: DovetailError) -> bool:
    """Return whether an error reports a missing capability."""
    return error.code.endswith(_UNSUPPORTED)


def demand_error(call: Callable[[], object], kind: type[E], what: str) -> E:
    """Raise a Failure unless a method raises an error of a kind, and return the error.

    Args:
        call: Calls the method.
        kind: The kind of error.
        what: The reason why it must fail, for the message.
    """
    try:
        call()
    except kind as error:
        return error
    except Exception as error:
        raise Failure(f"{what}: expected a {kind.__name__}, got {error!r}") from error
    raise Failure(f"{what}: expected a {kind.__name__}, but the call succeeded")


class SubmittedRun:
    """A submitted run.

    Attributes:
        outputs: Its outputs.
        errors: What `done` received, in order.
    """

    def __init__(
        self,
        prepared: Prepared,
        inputs: Mapping[str, Array],
        outputs: dict[str, Array],
        control: RunControl | None = None,
    ) -> None:
        self.outputs = outputs
        self.errors: list[BaseException | None] = []
        self._ended = threading.Event()
        try:
            prepared.submit(inputs, outputs, control or RunControl(), self._done)
        except Exception as error:
            raise Failure(f"`submit` raised {error!r} instead of passing it to `done`") from error

    def wait(self) -> None:
        """Wait for the end.

        Raises:
            Failure: It does not come.
        """
        demand(self._ended.wait(_PATIENCE_S), "`done` is not called")

    def _done(self, error: BaseException | None) -> None:
        self.errors.append(error)
        self._ended.set()

    def demand_error(self, code: str) -> None:
        """Raise a Failure unless the run ends with an error of a code."""
        self.wait()
        (error,) = self.errors
        demand(isinstance(error, BackendError), f"a failing run ended with {error!r}")
        found = getattr(error, "code", "")
        demand(found == code, f"expected the error {code}, got {found}: {error}")
