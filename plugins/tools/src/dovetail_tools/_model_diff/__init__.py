"""Comparison of two models: structure and weights, for `dovetail diff`."""
