"""Wheels that carry a model: a package with the file, and an entry point with its path."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from zipfile import ZipFile, ZipInfo

import dovetail
from dovetail.plugins.models import GROUP

_PREFIX = "dovetail-model-"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can state
_INIT = '''"""The model `{name}`, which `dovetail.load("{name}")` finds."""

from pathlib import Path

MODEL = Path(__file__).with_name("{file}")
'''
_WHEEL = "Wheel-Version: 1.0\nGenerator: dovetail\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@dataclass(frozen=True, slots=True)
class ModelWheel:
    """A wheel with one model.

    Attributes:
        name: Name of the model.
        version: Version of the dist.
    """

    name: str
    version: str

    @property
    def dist(self) -> str:
        """Name of the dist."""
        return _PREFIX + re.sub(r"[-_.]+", "-", self.name).lower()

    @property
    def module(self) -> str:
        """Name of the package."""
        return self.dist.replace("-", "_")

    @property
    def file_name(self) -> str:
        """Name of the wheel."""
        return f"{self.module}-{self.version}-py3-none-any.whl"

    def write(self, file: IO[bytes], content: Path) -> None:
        """Write the wheel; equal models produce equal bytes.

        Args:
            file: Receives it.
            content: The model as a `.dvt`.

        Raises:
            OSError: A file cannot be read or written.
        """
        model = f"{self.name}.dvt"
        info = f"{self.module}-{self.version}.dist-info"
        texts = {
            f"{self.module}/__init__.py": _INIT.format(name=self.name, file=model),
            f"{info}/METADATA": self._metadata(),
            f"{info}/WHEEL": _WHEEL,
            f"{info}/entry_points.txt": f"[{GROUP}]\n{self.name} = {self.module}:MODEL\n",
        }
        packed = f"{self.module}/{model}"
        with content.open("rb") as data:
            digest = hashlib.file_digest(data, "sha256").digest()
        lines = [_record(packed, digest, content.stat().st_size)]
        lines += [_record(n, _digest(text), len(text.encode())) for n, text in texts.items()]
        record = f"{info}/RECORD"
        texts[record] = "".join([*sorted(lines), f"{record},,\n"])
        with ZipFile(file, "w") as archive:
            _write_file(archive, packed, content)
            _write_texts(archive, texts)

    def _metadata(self) -> str:
        major, minor = dovetail.__version__.split(".")[:2]
        core = f"dovetail-core>={major}.{minor},<{major}.{int(minor) + 1}"
        return (
            "Metadata-Version: 2.1\n"
            f"Name: {self.dist}\n"
            f"Version: {self.version}\n"
            f"Summary: The model {self.name} for Dovetail\n"
            "Requires-Python: >=3.11\n"
            f"Requires-Dist: {core}\n"
        )


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _record(name: str, digest: bytes, size: int) -> str:
    text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return f"{name},sha256={text},{size}\n"


def _entry(name: str) -> ZipInfo:
    """Return an entry without time, system or user."""
    entry = ZipInfo(name, _EPOCH)
    entry.create_system = 3  # Unix, on any
    entry.external_attr = 0o644 << 16
    return entry


def _write_file(archive: ZipFile, name: str, path: Path) -> None:
    entry = _entry(name)
    entry.file_size = path.stat().st_size  # decides whether sizes take 64 bits
    with path.open("rb") as source, archive.open(entry, "w") as target:
        shutil.copyfileobj(source, target, 1 << 20)


def _write_texts(archive: ZipFile, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        archive.writestr(_entry(name), text.encode())
