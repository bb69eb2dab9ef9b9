"""Ops that remember earlier calls or draw random numbers."""
