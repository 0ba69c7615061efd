"""The two nouns and their methods: `Card`, equations, and `Model`, a card with weights.

A verb is a method of a line or two here, which calls the folder that does the work. This folder may
import any other when a verb is called; only the command line imports this one.
"""
