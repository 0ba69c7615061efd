"""ONNX: the initialisers of a model's graph, in the file or in a data file beside it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from viete.formats.tensors import (
    SIZES,
    Bytes,
    Mapped,
    TensorFile,
    TensorInfo,
    byte_count,
    from_array,
    from_bytes,
    require,
    sibling,
)


def read(file: TensorFile, data: Bytes) -> None:
    """The graph's initialisers; neither its nodes nor its subgraphs."""
    onnx = require("onnx", f"{file.path}: to read an ONNX file")
    model = onnx.ModelProto.FromString(data.tobytes())
    if not model.ir_version or not model.HasField("graph"):
        raise ValueError("it holds no graph")
    for sparse in model.graph.sparse_initializer:
        file.refuse(sparse.values.name, "it is sparse")
    beside: dict[Path, Bytes] = {}
    for proto in model.graph.initializer:
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(proto.data_type).name
        except KeyError:
            dtype = f"number {proto.data_type}"
        if dtype not in SIZES:
            file.refuse(proto.name, f"it is of dtype {dtype}")
            continue
        info = TensorInfo(proto.name, tuple(proto.dims), dtype)
        size = byte_count(info.name, info.shape, SIZES[dtype])
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            where = {entry.key: entry.value for entry in proto.external_data}
            part = sibling(file.path, where.get("location"))
            if part not in beside:
                beside[part] = Mapped(part).bytes if part.stat().st_size else np.empty(0, np.uint8)
            start, length = int(where.get("offset") or 0), int(where.get("length") or size)
            raw = beside[part][start : start + length] if start >= 0 else beside[part][:0]
        elif proto.HasField("raw_data"):
            raw, length = np.frombuffer(proto.raw_data, np.uint8), size
        else:
            file.add(info, partial(_load, onnx, proto, info))
            continue
        if not raw.size == length == size:
            raise ValueError(f"tensor '{info.name}' has {raw.size} bytes and needs {size}")
        file.add(info, partial(from_bytes, raw, info))


def _load(onnx: Any, proto: Any, info: TensorInfo, framework: str) -> Any:
    return from_array(onnx.numpy_helper.to_array(proto), info, framework)
