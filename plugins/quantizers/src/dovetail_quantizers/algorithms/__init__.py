"""The algorithms that come with the quantizer: one file each, found by entry points."""
