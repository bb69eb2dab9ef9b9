"""Detection heads: boxes decoded and the best of them kept."""
