"""Views for algorithms: statistics of the float graph, and both networks layer by layer."""
