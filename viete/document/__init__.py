"""The document tree and its writers: cards, reports and lessons are trees until a format is chosen.

`tree` has the nodes and `rendering` the table of formats. Each format has one file with its writer,
its escaper and, where cards are read from it, its reader: text for the terminal, Markdown, LaTeX,
Typst, HTML. This folder does not know what a card is.
"""
