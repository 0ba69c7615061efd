"""Recording and replay: equations as nodes, nodes as steps in memory, steps as calls on arrays.

Training plans (`engine`), runs (`replay`) and steps of sampling are made of one recorded form. It
knows the evaluator and its arrays, and no card by name.
"""
