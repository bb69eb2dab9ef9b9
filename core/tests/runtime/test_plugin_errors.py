"""Exceptions raised by the code of backends."""

from __future__ import annotations

import pytest

from dovetail.errors import BackendError
from dovetail.runtime.plugin_errors import translate_errors


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (ValueError("no room"), "GRAPH_ERROR_FINALIZE_FAILED", "ValueError: no room"),
        (MemoryError("Unable to allocate 9 TiB"), "CONTEXT_ERROR_MEM_ALLOC", "allocate 9 TiB"),
        (MemoryError(), "CONTEXT_ERROR_MEM_ALLOC", "not enough memory"),
    ],
)
def test_missing_memory_has_a_code_of_its_own(raised: Exception, code: str, message: str) -> None:
    with (
        pytest.raises(BackendError, match=message) as caught,
        translate_errors("cpu", "`prepare` failed", "GRAPH_ERROR_FINALIZE_FAILED"),
    ):
        raise raised
    assert caught.value.code == code
    assert ("smaller batch" in (caught.value.hint or "")) == isinstance(raised, MemoryError)
