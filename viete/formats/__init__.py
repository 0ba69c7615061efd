"""Tensor files and the Hugging Face hub: reads all formats, writes safetensors; knows no cards.

`files` is the way in: `open_tensors` looks at a file's first bytes and hands it to the reader of
its format, in `safetensors_file`, `pickled` (PyTorch), `gguf_file` or `readers` (NumPy, ONNX,
llama2.c). `tensors` holds what those share; `hub` fetches files by id and revision.
"""
