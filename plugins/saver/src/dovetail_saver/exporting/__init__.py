"""Other forms of traces: models, and scripts of API calls."""
