"""The command line: one thin command a file, all work done in the rooms above."""
