"""The quantizer: from a float graph and samples of its inputs to a fixed-point graph."""
