"""Blocks of space, batch and channels exchanged."""
