"""Files of limited size."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.errors import FrontendError
from dovetail_qnn._reading import read_bytes


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_bytes(b"12345")
    assert read_bytes(path, 5) == b"12345"
    with pytest.raises(FrontendError, match="the file exceeds 4 bytes") as caught:
        read_bytes(path, 4)
    assert caught.value.where == str(path)
    with pytest.raises(FrontendError, match="cannot be read"):
        read_bytes(tmp_path, 5)
