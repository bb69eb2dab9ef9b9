"""The command-line tools of Dovetail: convert, export, net-run and the writers of plugins."""
