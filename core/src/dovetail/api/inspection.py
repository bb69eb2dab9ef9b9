"""Contract of inspectors, which summarize files that are no models.

An inspector is a class that an entry point of `dovetail.inspectors` loads. It is created without
arguments. Containers, and models that a frontend reads, need none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, runtime_checkable

from dovetail.plugins import load_all

if TYPE_CHECKING:
    from dovetail.ir import Tensor

GROUP = "dovetail.inspectors"


@dataclass(frozen=True, slots=True)
class FileSummary:
    """The summary of a file.

    Attributes:
        text: For people.
        data: The same as plain data: mappings, sequences, strings, numbers.
    """

    text: str
    data: Mapping[str, Any]


@runtime_checkable
class Inspector(Protocol):
    """Summarizes the files of one kind.

    Attributes:
        name: Name of its entry point.
    """

    name: ClassVar[str]

    def recognises(self, path: Path) -> bool:
        """Return whether a file or folder appears to be of this kind; must not raise.

        It is called for every file that is inspected, models too: only few bytes are read.
        """

    def summary(self, path: Path) -> FileSummary:
        """Return the summary of a file or folder that was recognised.

        Raises:
            DovetailError: It is damaged.
        """


@runtime_checkable
class WeightsReader(Protocol):
    """An inspector of files that have weights alone, for `dovetail weights compare`."""

    def weights(self, path: Path) -> Mapping[str, Tensor]:
        """Return the weights of a file that was recognised, by name, as bytes: UINT_8, one axis.

        Raises:
            DovetailError: It is damaged.
        """


def find_inspector(path: Path) -> Inspector | None:
    """Return the inspector for a file or folder; None if no installed one recognises it."""
    for loaded in load_all(GROUP).values():
        inspector = cast("type[Inspector]", loaded)()
        if inspector.recognises(path):
            return inspector
    return None
