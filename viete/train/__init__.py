"""Training: text in, a folder with a trained card out.

`data` and `vocabulary` turn files into `batches`; `fitting` and `dropout` rewrite a card for them;
`engines` compute a loss and its gradients; `optimiser` and `schedule` change the weights;
`checkpoints`, `metrics` and `plot` keep what a run was; `setup` puts all of that together from
`settings`, and `loop` is the run. `module` makes a card a PyTorch module, `autograd` and `sharded`
are engines of it, and `processes` are several that share a run. Nothing here knows a command line
or a kind of model.
"""
