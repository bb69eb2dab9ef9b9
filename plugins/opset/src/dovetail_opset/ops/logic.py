"""Comparisons and logic of two tensors."""
