"""Replay of traces: the same calls again, on any backend."""

from dovetail_saver.choices import Threads, Timing
from dovetail_saver.replay.playing import Step, Stepper, replay
from dovetail_saver.replay.retargeting import Retarget
from dovetail_saver.replay.session import Report, Request, Session

__all__ = [
    "Report",
    "Request",
    "Retarget",
    "Session",
    "Step",
    "Stepper",
    "Threads",
    "Timing",
    "replay",
]
