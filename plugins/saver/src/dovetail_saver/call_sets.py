"""Call sets: which calls of a trace a command is about.

A set is a list of numbers, ranges and API names, such as `0-100,200,graph_execute`. `7-` is every
call from 7 on. A call belongs to the set if one of them names it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.runtime.api_table import API
from dovetail.runtime.calls import CallRecord, CompletionRecord
from dovetail_saver.trace import OpaqueRecord

_RANGE = re.compile(r"(\d{1,18})(-(\d{1,18})?)?", re.ASCII)
_LAST = 2**63 - 1
_ENDS_LATER = next(name for name, function in API.items() if function.ends_later)


@dataclass(frozen=True, slots=True)
class CallSet:
    """A set of calls.

    Attributes:
        text: As the user wrote it.
        ranges: First and last number of each range.
        names: Names of API calls.
    """

    text: str
    ranges: tuple[tuple[int, int], ...] = ()
    names: frozenset[str] = frozenset()

    def has(self, index: int, name: str) -> bool:
        """Return whether a call is in the set.

        Args:
            index: Number of the call in its trace, from 0.
            name: Name of the call in the API table, or of an opaque one.
        """
        return name in self.names or any(first <= index <= last for first, last in self.ranges)

    def empty_error(self, where: str) -> ConfigError:
        """Return the error for a set that no call of a trace belongs to."""
        return ConfigError(
            f"no call of the trace is in the set '{self.text}'",
            code="USAGE",
            where=where,
            hint="see the calls in `dovetail trace dump`, their names in `dovetail trace stats`",
        )


def parse_call_set(text: str) -> CallSet:
    """Return the call set of a text such as `0-100,200,graph_execute`.

    Raises:
        ConfigError: An item is neither a number, a range nor an API name; all such are listed.
    """
    ranges: list[tuple[int, int]] = []
    names: list[str] = []
    problems: list[Problem] = []
    for item in (part.strip() for part in text.split(",")):
        found = _RANGE.fullmatch(item)
        if found is None:
            names.append(item)
            if item not in API:
                problems.append(Problem(f"unknown call '{item}'", hint=suggest_name(item, API)))
            continue
        first = int(found[1])
        last = first if found[2] is None else int(found[3] or _LAST)
        ranges.append((first, last))
        if last < first:
            problems.append(Problem(f"the range '{item}' ends before it begins"))
    if problems:
        raise ConfigError(
            "invalid call set",
            code="USAGE",
            where=f"--calls {text}",
            hint="write numbers, ranges and API names, such as 0-100,200,graph_execute",
            problems=problems,
        )
    return CallSet(text, tuple(ranges), frozenset(names))


def call_name(record: CallRecord | CompletionRecord | OpaqueRecord) -> str:
    """Return the name of the call that a record is about, also at its asynchronous end."""
    if isinstance(record, CallRecord):
        return record.function
    return record.name if isinstance(record, OpaqueRecord) else _ENDS_LATER
