"""Conversions between colour formats of images."""
