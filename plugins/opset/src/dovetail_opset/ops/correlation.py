"""Correlation of two images."""
