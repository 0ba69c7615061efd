"""Text ⇄ expression trees.

`expr` holds the trees, `lexer` and `parser` read the three spellings (plain, LaTeX, Unicode) into
them, `printer` writes them back. Nothing here knows shapes, numbers, cards or files; everything
else may import from here.
"""
