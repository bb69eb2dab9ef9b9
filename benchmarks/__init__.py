"""Measurements side by side with peers; `python -m benchmarks` runs them."""
