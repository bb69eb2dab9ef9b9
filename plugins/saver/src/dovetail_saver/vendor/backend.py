"""The backend of programs, which name none."""

DEFAULT_BACKEND = "htp"
