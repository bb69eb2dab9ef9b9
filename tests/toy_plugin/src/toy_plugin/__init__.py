"""A third party's plugin: what it needs of Dovetail is core, and what finds it is entry points."""
