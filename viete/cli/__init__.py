"""The command line: thin commands, a file for each subject, all work done in the rooms above."""
