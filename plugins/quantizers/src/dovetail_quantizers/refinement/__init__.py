"""What algorithms are given: statistics of the float graph, and both networks layer by layer."""
