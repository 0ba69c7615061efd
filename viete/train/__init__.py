"""Training: text in, a folder with a trained card out.

`setup` makes a `Job` of `settings`, and `loop` is the run. `inputs` says what a card takes,
`fitting` and `dropout` rewrite it for that, `tokens` and `batches` make it of files. `engines`
compute a loss and its gradients by the card's equations, `autograd` and `sharded` by the `module`
of a card in PyTorch; `processes` are several that share a run. `optimiser` changes the weights;
`diagnosis`, `metrics`, `progress` and `plot` say how it goes. Nothing here knows a command line or
a kind of model.
"""
