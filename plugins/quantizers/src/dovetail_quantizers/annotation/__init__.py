"""Annotation: a plan's decisions written into the graph."""
