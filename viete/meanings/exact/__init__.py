"""The exact meaning: every value of a card as a number with a definition, nothing rounded.

`numbers` is the number system (docs/guides/exact.md says why it is as it is), over `polynomials` in
`atoms`, `deciding`, `decimals` and `spelling`; `namespace` is what the evaluator runs on, `run` a
run, and `derivation` the same run as expressions that have not been carried out.
"""
