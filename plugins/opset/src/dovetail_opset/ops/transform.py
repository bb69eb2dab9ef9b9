"""Transforms along the last axes: Hadamard, short-time Fourier, rotary embedding."""
