"""Measurements of Dovetail and its peers; `python -m benchmarks` runs them."""
