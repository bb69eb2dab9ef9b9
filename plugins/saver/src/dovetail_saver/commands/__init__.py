"""Commands of dovetail-saver: `dovetail replay`, and `dovetail trace` with its subcommands.

Each module has one command. What a command needs is imported when it runs, so that its help
imports little.
"""
