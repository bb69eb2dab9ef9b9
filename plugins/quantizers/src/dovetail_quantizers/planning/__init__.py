"""Planning: which tensor gets which encoding, and what must be observed to choose it."""
