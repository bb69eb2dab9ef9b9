"""Scattering, and one-hot vectors."""
