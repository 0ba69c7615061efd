"""Tensor files in, safetensors out; and a card's parameters in them.

`files` is the way in: `open_tensors` looks at a file's first bytes and hands it to the one small
module that reads its format (`safetensors_file`, `npz_file`, `pickled`, `onnx_file`,
`gguf_file`); `tensors` holds what those share. Only names, shapes, dtypes and numbers are known
there: nothing of cards, equations or models. They may import `viete.errors` and `viete.atomic`.

`mapping` says which tensor holds which parameter of a card, and loads and saves weights; `compare`
holds a card to a file (with `suggest`, for names it does not know) and to recorded values (with
`recorded`). These know models and the float interpreter, and never how a file is laid out.
"""
