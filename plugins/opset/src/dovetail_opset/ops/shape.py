"""Shapes as values."""
