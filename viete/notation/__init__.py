"""Text ⇄ expression trees.

`tree` holds the trees, `lexer` and `parser` read the three spellings (plain, LaTeX, Unicode) into
them, `printer` writes them back, and `typst` and `mathml` as those formats have them. Nothing here
knows shapes, numbers, cards or files; everything else may import from here.
"""

from viete.notation import mathml as mathml
from viete.notation import typst as typst
