"""Minimization: the smallest trace that still fails."""

from dovetail_saver.minimizing.checks import CommandCheck, Verdict
from dovetail_saver.minimizing.minimizer import Minimized, minimize

__all__ = ["CommandCheck", "Minimized", "Verdict", "minimize"]
