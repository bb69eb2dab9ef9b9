"""Choice: the backend `auto`, which runs each graph on the fastest of several backends.

`backend` is loaded by its entry point; `options` are read by config files.
"""
