"""Markdown (LaTeX, JSON) ⇄ card, and the shipped cards as Markdown files.

`document` and its neighbours read and write headings, tables and lists; `reader` and `writer` turn
those into a `CardData` and back; `catalogue` finds the shipped cards. May import from every room
above; knows nothing of arrays.
"""
