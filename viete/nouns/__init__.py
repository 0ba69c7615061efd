"""The two nouns and their methods: `Card`, equations, and `Model`, a card with weights.

A verb is a method of a line or two here, and lives in a room below. This room may open any of them,
when a verb is called for; none of them knows it.
"""
