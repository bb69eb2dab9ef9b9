"""The quantizer: what turns a float graph and samples of its inputs into a fixed-point graph."""
