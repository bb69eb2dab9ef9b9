"""Tensors stacked, unstacked, repeated."""
