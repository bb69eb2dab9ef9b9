"""Call sets are numbers, ranges and API names."""

import pytest

from dovetail.errors import ConfigError
from dovetail_saver.call_sets import parse_call_set


def test_numbers_ranges_and_names_mix() -> None:
    chosen = parse_call_set("0-2, 7,graph_execute,90-")
    found = [i for i in range(100) if chosen.has(i, "graph_create")]
    assert found == [0, 1, 2, 7, *range(90, 100)]
    assert chosen.has(50, "graph_execute")


def test_every_fault_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_call_set("graph_exec,5-2,x-y,1")
    texts = [str(problem) for problem in caught.value.problems]
    assert len(texts) == 3
    assert "graph_exec" in texts[0]
    assert "graph_execute" in texts[0]
    assert "5-2" in texts[1]
    assert "x-y" in texts[2]
