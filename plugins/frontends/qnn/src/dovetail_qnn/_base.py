"""The base of frontends for files whose ops are those of graphs, and whose shapes are fixed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from dovetail.errors import ConfigError, DovetailError, FrontendError, Problem
from dovetail.ir import Graph
from dovetail.ops import OpRegistry, find_op_faults
from dovetail.ops.frontend import DryRun, FrontendOptions, OpUse
from dovetail.plugins.ops import installed_ops
from dovetail_qnn._options import apply_options


class GraphFileFrontend:
    """Reads files that hold graphs as they are."""

    stores_graphs: ClassVar[bool] = True
    options_type: ClassVar[type[FrontendOptions]] = FrontendOptions

    def read(
        self, path: Path, options: FrontendOptions | None = None, ops: OpRegistry | None = None
    ) -> Sequence[Graph]:
        """Return the graphs of a file; see `dovetail.ops.frontend.Frontend`.

        Ops of all packages are read as they are. Weights are mapped where the file permits.

        Args:
            path: The file.
            options: The user's options; by default none.
            ops: Finds the ops of a graph whose batch is changed; by default the installed ones.
                Otherwise, it has no effect: the file names the package of each op.

        Raises:
            ConfigError: The options do not match the model (USAGE).
            FrontendError: The file has faults; all are listed.
        """
        graphs = self._load(path)
        names = Counter(graph.name for graph in graphs)
        if twice := [name for name, count in names.items() if count > 1]:
            raise FrontendError(
                "graphs with the same name",
                where=str(path),
                problems=[Problem(f"{names[name]} graphs", f"graph '{name}'") for name in twice],
            )
        try:
            apply_options(graphs, options or FrontendOptions(), ops)
        except ConfigError as error:
            error.where = str(path)
            raise
        return graphs

    def input_names(self, path: Path) -> tuple[str, ...]:
        """Return the names of the inputs of all graphs, each once.

        Raises:
            FrontendError: The file has faults; all are listed.
        """
        graphs = self._load(path)
        return tuple(dict.fromkeys(tensor.name for graph in graphs for tensor in graph.inputs))

    def dry_run(
        self, path: Path, options: FrontendOptions | None = None, ops: OpRegistry | None = None
    ) -> DryRun:
        """Return a survey of a file; see `dovetail.ops.frontend.Frontend`."""
        graphs = self.read(path, options, ops)
        registry = installed_ops() if ops is None else ops
        counts = Counter((node.package, node.op_type) for g in graphs for node in g.nodes)
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
            problems=tuple(p for graph in graphs for p in find_op_faults(graph, registry)),
            unused_inputs=tuple(t.name for g in graphs for t in g.inputs if not g.is_read(t)),
        )

    def _load(self, path: Path) -> Sequence[Graph]:
        """Return the graphs of a file."""
        raise NotImplementedError


def _is_known(ops: OpRegistry, package: str, op_type: str) -> bool:
    try:
        ops.find(package, op_type)
    except DovetailError:
        return False
    return True
