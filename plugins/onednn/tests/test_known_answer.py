"""The check of the library before its first use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dovetail.errors import PluginError
from dovetail_onednn import checked_library, known_answer, library


@pytest.fixture
def unchecked() -> Iterator[None]:
    known_answer._checked.cache_clear()
    yield
    known_answer._checked.cache_clear()


@pytest.mark.usefixtures("unchecked")
def test_the_library_passes_and_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked_library() is library()
    monkeypatch.setattr(known_answer, "_holds", lambda *_: False)
    assert checked_library() is library()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("place", [0, -1])
def test_one_wrong_element_is_found(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    right = known_answer._convolved

    def wrong(*given: Any) -> Any:
        answer = right(*given)
        answer.reshape(-1)[place] += np.float32(1)
        return answer

    monkeypatch.setattr(known_answer, "_convolved", wrong)
    with pytest.raises(PluginError, match="its answer is wrong") as caught:
        checked_library()
    assert library().path in str(caught.value.where)
