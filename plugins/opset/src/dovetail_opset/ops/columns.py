"""Windows as columns, and back."""
