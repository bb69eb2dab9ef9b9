"""Netron's rendering of files that Dovetail writes, read from a headless Chromium."""
