"""The exact meaning: every value of a card as a number with a definition, nothing rounded.

`numbers` is the number system (docs/exact.md says why it is as it is), `namespace` and `meaning`
run a card's equations in it, `spelling` and `decimals` write its numbers down.
"""
