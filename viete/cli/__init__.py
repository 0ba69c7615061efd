"""The command line: thin commands, a file for each; the other rooms do the work."""
