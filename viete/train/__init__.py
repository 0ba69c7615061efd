"""Training: text in, a folder with a trained card out.

`setup` makes a `Job` from `settings`, and `loop` runs it. `inputs` finds what a card takes,
`fitting` and `dropout` rewrite the card for training, `tokens` and `batches` feed it from files.
`engines` compute a loss and its gradients by the card's equations; `autograd` and `sharded` do it
with the PyTorch `module` of a card. `processes` share a run. `optimiser` changes the weights.
`diagnosis`, `metrics`, `progress` and `plot` report. This folder knows no command line and no kind
of model.
"""
