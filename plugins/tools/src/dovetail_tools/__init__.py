"""The command-line tools of Dovetail: convert and net-run."""
