"""`dovetail trace dump`: the calls of a trace as text."""

from __future__ import annotations

from dovetail_saver.commands.options import Calls, TracePath


def dump(path: TracePath, calls: Calls = None) -> None:
    """Print the calls of a trace with their arguments and results.

    The columns are the number of the call, the thread, and the call. With --json, print one JSON
    object for each line.
    """
    # imported here: the help needs no runtime
    import json
    import sys

    from dovetail.cli.output import current_output, write
    from dovetail_saver.call_sets import call_name, parse_call_set
    from dovetail_saver.describing import HandleNames, describe
    from dovetail_saver.trace import Trace

    chosen = None if calls is None else parse_call_set(calls)
    names = HandleNames()
    is_json, found = current_output().json, False
    for entry in Trace(path):
        record = entry.record
        name = call_name(record)
        text = describe(record, names)
        if chosen is not None and not chosen.has(entry.index, name):
            continue
        found = True
        if is_json:
            shown = json.dumps(
                {"call": entry.index, "thread": record.thread, "name": name, "text": text}
            )
        else:
            shown = f"{entry.index:6} {record.thread:3}  {text}"
        write(sys.stdout, f"{shown}\n")
    if chosen is not None and not found:
        raise chosen.empty_error(str(path))
