"""Annotation: writing the decisions of a plan into its graph."""
