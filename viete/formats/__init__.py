"""Tensor files and the hub: formats in, safetensors out. Knows names, shapes and numbers, no card.

`files` is the way in: `open_tensors` looks at a file's first bytes and hands it to the one small
module that reads its format (`safetensors_file`, `npz_file`, `pickled`, `onnx_file`,
`gguf_file`, `llama2c_file`); `tensors` holds what those share; `hub` fetches files by id and
revision.
"""
