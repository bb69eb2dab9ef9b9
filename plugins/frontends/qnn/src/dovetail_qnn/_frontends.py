"""The frontends for the files of QNN's converters."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import ClassVar

from dovetail.errors import ConfigError, DovetailError
from dovetail.ir import Graph
from dovetail.ops import OpRegistry, find_op_faults
from dovetail.ops.frontend import DryRun, FrontendOptions, OpUse
from dovetail.plugins.ops import installed_ops
from dovetail_qnn._json_reader import looks_like_json_model, read_json_model
from dovetail_qnn._options import apply_options


class QnnJsonFrontend:
    """Reads `X_net.json`, whose weights are in `X.bin`."""

    name: ClassVar[str] = "qnn-json"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    options_type: ClassVar[type[FrontendOptions]] = FrontendOptions

    def recognises(self, path: Path) -> bool:
        """Return whether a file looks like JSON of QNN's converters."""
        return looks_like_json_model(path)

    def read(
        self, path: Path, options: FrontendOptions | None = None, ops: OpRegistry | None = None
    ) -> tuple[Graph, ...]:
        """Return the graph of a file; see `dovetail.ops.frontend.Frontend`.

        Ops of all packages are read as they are. Weights are mapped.

        Raises:
            ConfigError: The options do not match the model (USAGE).
            FrontendError: The files have faults; all are listed.
        """
        graph = self._load(path)
        try:
            apply_options(graph, options or FrontendOptions())
        except ConfigError as error:
            error.where = str(path)
            raise
        return (graph,)

    def dry_run(
        self, path: Path, options: FrontendOptions | None = None, ops: OpRegistry | None = None
    ) -> DryRun:
        """Return a survey of a file; see `dovetail.ops.frontend.Frontend`."""
        (graph,) = self.read(path, options, ops)
        registry = installed_ops() if ops is None else ops
        counts = Counter((node.package, node.op_type) for node in graph.nodes)
        return DryRun(
            operators=tuple(
                OpUse(
                    domain=package,
                    op_type=op_type,
                    version=0,
                    count=count,
                    supported=_is_known(registry, package, op_type),
                )
                for (package, op_type), count in sorted(counts.items())
            ),
            problems=tuple(find_op_faults(graph, registry)),
            unused_inputs=tuple(t.name for t in graph.inputs if not graph.consumers(t)),
        )

    def _load(self, path: Path) -> Graph:
        return read_json_model(path)


def _is_known(ops: OpRegistry, package: str, op_type: str) -> bool:
    try:
        ops.find(package, op_type)
    except DovetailError:
        return False
    return True
