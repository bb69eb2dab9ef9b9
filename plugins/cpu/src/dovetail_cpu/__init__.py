"""The float CPU backend of Dovetail."""
