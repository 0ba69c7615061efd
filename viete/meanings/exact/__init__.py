"""The exact meaning: every value of a card as a number with a definition, nothing rounded.

`numbers` is the number system (docs/guides/exact.md gives its reasons), built on `polynomials` in
`atoms`, `deciding`, `decimals` and `spelling`. The evaluator runs on `namespace`, and `run` is a
run. `derivation` is the same run as unevaluated expressions.
"""
