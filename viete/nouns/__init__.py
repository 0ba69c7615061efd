"""The two nouns: `Card`, equations, and `Model`, a card with weights; what one does with either.

A verb is a method of a line or two here, and lives in a room below. This room may open any of them,
when a verb is called for; none of them knows it.
"""
