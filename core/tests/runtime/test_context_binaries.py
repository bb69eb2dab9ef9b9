"""Context binaries: verdicts, and their bytes."""

from __future__ import annotations

import tracemalloc

import pytest

from dovetail.errors import ContainerError
from dovetail.runtime import Verdict
from dovetail.runtime.binary_parts import written
from dovetail.runtime.compatibility import judge, used_facts


def test_reasons_of_verdicts() -> None:
    here = {"backend": "cpu", "version": "2", "threads": "4"}
    here |= {"op package a": "1", "kernels of b": "1"}
    assert judge(here, here).verdict is Verdict.OPTIMAL
    for found, verdict, facts in (
        ({"threads": "2"}, Verdict.USABLE, ["threads"]),
        ({"version": "1"}, Verdict.RECOMPILE, ["version"]),
        ({"version": "1", "threads": "2"}, Verdict.RECOMPILE, ["version", "threads"]),
        ({"backend": "htp"}, Verdict.UNSUPPORTED, ["backend"]),
        ({"op package a": "2"}, Verdict.RECOMPILE, ["op package a"]),
        ({"op package c": "1"}, Verdict.UNSUPPORTED, ["op package c"]),
    ):
        judged = judge({**here, **found}, here)
        assert judged.verdict is verdict
        assert [reason.fact for reason in judged.reasons] == facts
    # packages that no graph uses do not matter
    assert used_facts(here, ["a"]).keys() == here.keys() - {"kernels of b"}
    assert judge(used_facts(here, ()), here).verdict is Verdict.OPTIMAL
    # members of a placement have an index before their facts
    members = {f"0/{name}": value for name, value in here.items()}
    assert judge({**members, "0/threads": "9"}, members).verdict is Verdict.USABLE
    assert judge(used_facts(members, ()), members).verdict is Verdict.OPTIMAL


@pytest.mark.parametrize(
    ("changed", "is_config"),
    [
        ({"processor": "a of b"}, True),
        ({"processor": "b", "option arch": '"v75"', "1/option arch": '"v73"'}, True),
        ({"processor": "b", "version": "2"}, False),
        ({"plan format": "2"}, False),
        ({"processor": "b", "backend": "other"}, False),
    ],
)
def test_the_hint_names_the_config_if_it_decides(changed: dict[str, str], is_config: bool) -> None:
    here = {"backend": "one", "processor": "a", "version": "1", "plan format": "1"}
    with pytest.raises(ContainerError, match="created elsewhere") as caught:
        judge(here | changed, here).require(Verdict.USABLE, "c.bin", has_model=True)
    assert ("--config-file" in caught.value.hint) is is_config
    if "backend" not in changed:
        assert "dovetail context upgrade" in caught.value.hint


def test_a_binary_is_in_memory_once() -> None:
    parts = [memoryview(bytes([i]) * 2**20) for i in range(3)]
    tracemalloc.start()
    try:
        made = written(iter(parts), None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made.tobytes() == b"".join(parts)
    assert not made.flags.writeable
    assert peak < 1.5 * made.nbytes
