"""Reads and writes cards (Markdown, LaTeX, JSON), and holds the shipped cards.

`viete.document` reads and writes headings, tables and lists; `reader` and `writer` translate
between those and a `CardData`; `catalogue` finds the shipped cards. This folder knows no
arrays.
"""
