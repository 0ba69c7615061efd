"""Features of transcoders and autoencoders: who makes each, and what each does on a corpus.

They are found in a card's equations, whatever put them there. Files of features are read in
`viete/model/`, pages written in `viete/report/`.
"""
