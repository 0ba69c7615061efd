"""The notation: text to expression trees and back.

`tree` holds the trees. `lexer` and `parser` read the three spellings (plain, LaTeX, Unicode),
`printer` writes them, and `typst` and `mathml` write those formats. This folder knows no shapes,
numbers, cards or files; every other folder may import from it.
"""

from viete.notation import mathml as mathml
from viete.notation import typst as typst
