"""Tables of importers: which function converts which version of which operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dovetail.errors import PluginError
from dovetail_opset.importing.constant import Result

if TYPE_CHECKING:
    from dovetail_onnx._context import OpContext

Importer = Callable[["OpContext"], Result | Sequence[Result | None]]

GROUP = "dovetail.importers"


class Importers:
    """The importers of one operator domain, which an entry point of `dovetail.importers` loads.

        MINE = Importers("com.example")

        @MINE.importer("Wobble", versions=(1,))
        def wobble(op: OpContext) -> Tensor:
            depth = op.attr.integer("depth", 1)
            return op.emit("Wobble", [op.tensor(0)], package=PACKAGE, depth=depth)

    The entry point's name is `onnx:` and the domain.

    Args:
        domain: Domain of the operators; empty for ONNX's own.
    """

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self._table: dict[str, dict[int, Importer]] = {}

    def importer(self, op_type: str, *, versions: Sequence[int]) -> Callable[[Importer], Importer]:
        """Register the decorated function for an operator.

        Args:
            op_type: The operator.
            versions: The versions that the function converts: those of its schema where ONNX has
                one, since a later version may mean something else.

        Raises:
            PluginError: A version is taken.
        """

        def register(function: Importer) -> Importer:
            known = self._table.setdefault(op_type, {})
            if taken := known.keys() & set(versions):
                raise PluginError(
                    f"two importers convert version {min(taken)} of '{op_type}'",
                    code="PLUGIN_CONFLICT",
                    where=f"{GROUP} 'onnx:{self.domain}'",
                )
            known.update(dict.fromkeys(versions, function))
            return function

        return register

    def find(self, op_type: str, version: int) -> Importer | None:
        """Return the importer of exactly this version of an operator, if there is one."""
        return self._table.get(op_type, {}).get(version)

    def versions(self, op_type: str) -> tuple[int, ...]:
        """Return the versions of an operator that can be converted, in order."""
        return tuple(sorted(self._table.get(op_type, ())))

    @property
    def operators(self) -> Mapping[str, tuple[int, ...]]:
        """Every operator with its versions."""
        return {op_type: self.versions(op_type) for op_type in sorted(self._table)}
