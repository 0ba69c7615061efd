"""One document tree and its writers: a card, report or lesson before it has a format.

`tree` has the nodes and `rendering` the table of formats. Each format has one file with its writer,
its escaper and, where cards are read from it, its reader: text for the terminal, Markdown, LaTeX,
Typst, HTML. This room does not know what a card is.
"""
