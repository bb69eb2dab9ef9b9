"""Planning: the encoding of each tensor, and the observations that it needs."""
