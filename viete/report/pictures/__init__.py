"""Pictures of answers: heat maps, bars and curves, as SVG and for a terminal.

`draw` chooses which by the axes of an answer. What is drawn knows numbers and labels, and nothing
of runs and cards.
"""
