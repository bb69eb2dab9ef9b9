"""The inspector of files of weights, for `dovetail inspect` and `dovetail weights compare`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from dovetail.api.inspection import FileSummary
    from dovetail.ir import Tensor
    from dovetail_qnn._tar import Weights

_SUFFIX = ".bin"
_MAGIC, _MAGIC_AT = b"ustar", 257  # of a tar file


class WeightsInspector:
    """Summarizes `X.bin`, the tar file with the weights of a model."""

    name: ClassVar[str] = "qnn-weights"

    def recognises(self, path: Path) -> bool:
        """Return whether a file has the suffix of weights and begins as a tar file."""
        try:
            if path.suffix.lower() != _SUFFIX or not path.is_file():
                return False
            with path.open("rb") as file:
                start = file.read(_MAGIC_AT + len(_MAGIC))
        except OSError:
            return False
        return start[_MAGIC_AT:] == _MAGIC

    def summary(self, path: Path) -> FileSummary:
        """Return the tensors in a file of weights, and their sizes.

        Raises:
            FrontendError: It cannot be read, or has faults; all are listed.
        """
        # imported here: most inspected files are no files of weights
        from dovetail.api.inspection import FileSummary
        from dovetail.cli.output import table
        from dovetail.errors import counted

        sizes = _read(path).sizes
        total = sum(sizes.values())
        head = f"{path}: weights of {counted(len(sizes), 'tensor')}, {total:,} bytes"
        rows = table(("TENSOR", "BYTES"), ((n, f"{size:,}") for n, size in sizes.items()))
        tensors = [{"name": name, "bytes": size} for name, size in sizes.items()]
        return FileSummary(f"{head}\n\n{rows}", {"bytes": total, "tensors": tensors})

    def weights(self, path: Path) -> Mapping[str, Tensor]:
        """Return the weights in a file by name, mapped, as bytes.

        Raises:
            FrontendError: It cannot be read, or has faults; all are listed.
        """
        from dovetail.ir import DType, Tensor, TensorKind

        weights = _read(path)
        return {
            name: Tensor(name, DType.UINT_8, (size,), TensorKind.STATIC, data=weights.blob(name))
            for name, size in weights.sizes.items()
        }


def _read(path: Path) -> Weights:
    from dovetail.errors import FrontendError
    from dovetail_qnn._tar import Weights

    weights = Weights(path)
    if weights.problems:
        raise FrontendError(
            "the file of weights is damaged",
            code="MODEL_INVALID",
            where=str(path),
            problems=weights.problems,
        )
    return weights
