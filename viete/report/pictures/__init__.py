"""Pictures of answers: heat maps, bars and curves, as SVG and for a terminal.

`draw` chooses the kind by the axes of an answer. These modules know numbers and labels, and neither
runs nor cards.
"""
