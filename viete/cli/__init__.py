"""The command line: thin commands, a file for each; the other folders do the work."""
