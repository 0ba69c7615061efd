"""Recording and replay: equations become nodes, nodes become steps in memory, steps become calls.

Training plans (`engine`), runs (`replay`) and sampling steps share one recorded form. This folder
knows the evaluator and its arrays, and no particular card.
"""
