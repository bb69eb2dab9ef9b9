"""Dovetail's binding to the oneDNN C library, as a library for CPU-side backends."""
