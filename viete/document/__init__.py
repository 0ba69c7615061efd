"""One document tree and its writers: what a card, a report or a lesson is before it has a format.

`tree` has the nodes, `rendering` the table of formats. There is a file for each format, with its
writer, its one escaper and, where cards are read from it, its reader: text for the terminal,
Markdown, LaTeX, Typst, HTML. Nothing here knows what a card is.
"""
