"""Features of transcoders and autoencoders: what causes each, and what each does on a corpus.

They are found in a card's equations, however they got there. `viete/model/` reads files of
features, and `viete/report/` writes pages of them.
"""
