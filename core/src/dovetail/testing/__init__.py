"""The conformance kit: requirements on every backend and op package, as data and checks.

It needs no test runner: `run_check`, `run_case` and `run_aspect` return an `Outcome`. The pytest
plugin `dovetail.testing.plugin` runs them as a suite and prints the report.
"""

from dovetail.testing.bench import Bench
from dovetail.testing.binding import BoundCase, bind, encoding_of
from dovetail.testing.case import Call, Encoded, OpCase, typed
from dovetail.testing.checks import CHECKS, Check, run_check
from dovetail.testing.outcome import Outcome, Status
from dovetail.testing.packages import ASPECTS, OpSubject, quantized_cases, run_aspect, subjects
from dovetail.testing.preparing import open_context, prepare
from dovetail.testing.report import Report, Row
from dovetail.testing.runner import run_case

__all__ = [
    "ASPECTS",
    "CHECKS",
    "Bench",
    "BoundCase",
    "Call",
    "Check",
    "Encoded",
    "OpCase",
    "OpSubject",
    "Outcome",
    "Report",
    "Row",
    "Status",
    "bind",
    "encoding_of",
    "open_context",
    "prepare",
    "quantized_cases",
    "run_aspect",
    "run_case",
    "run_check",
    "subjects",
    "typed",
]
