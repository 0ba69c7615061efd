"""Tensor files in, safetensors out.

`files` is the way in: `open_tensors` looks at a file's first bytes and hands it to the one small
module that reads its format (`safetensors_file`, `npz_file`, `pickled`, `onnx_file`,
`gguf_file`); `tensors` holds what those share. Only names, shapes, dtypes and numbers are known
here: nothing of cards, equations or models. May import `viete.errors`, nothing else of Viète.
"""
