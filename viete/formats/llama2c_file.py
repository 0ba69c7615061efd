"""llama2.c's `.bin`: seven sizes, then float32 numbers in a row, of tensors without names.

Which tensors there are the card `llama2c` says by its table, and in what order by its facts
``order`` and ``order of version 1``: a file of version 1 begins with a magic word, an older one
with its sizes.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Any

from viete.formats.tensors import Bytes, Stored, TensorFile, TensorInfo, byte_count

CARD = "llama2c"
MAGIC = b"24ka"  # 0x616b3432 as it lies in the file
KEYS = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len")
LARGEST = 2**20
_TENSOR = re.compile(r"(\w+)\s*(?:\(([^)]*)\))?")


def is_one(head: bytes) -> bool:
    """Whether a file begins as one: with the magic word, or with seven sizes that go together."""
    if head.startswith(MAGIC):
        return True
    if len(head) < 28:
        return False
    dim, hidden, layers, heads, groups, vocabulary, length = struct.unpack_from("<7i", head)
    sizes = (dim, hidden, layers, heads, groups, abs(vocabulary), length)
    return all(0 < n < LARGEST for n in sizes) and dim % heads == 0 and heads % groups == 0


def read(file: TensorFile, data: Bytes) -> None:
    """Every tensor's place in the file; together they must fill it exactly."""
    from viete.cards.catalogue import find
    from viete.cards.config import Config
    from viete.cards.reader import read as read_card
    from viete.model.mapping import expected_tensors

    settings, start, order = header(data[:256].tobytes())
    file.metadata["config"] = settings
    model = read_card(find(CARD), Config(settings, name=str(file.path)))
    wanted = expected_tensors(model)
    at = start
    for name, said in _TENSOR.findall(dict(model.facts)[order]):
        if name in wanted:
            shape = wanted[name].shape
        elif said:
            shape = tuple(shape_of(model, said))
        else:
            continue  # a tied matrix
        stop = at + byte_count(name, shape, 4)
        info = TensorInfo(name, shape, "float32")
        if stop > data.size:
            raise ValueError(f"tensor '{name}' {list(shape)} ends at byte {stop} of {data.size}")
        assert file.mapped is not None
        file.add(info, Stored(file.mapped, at, stop, info))
        at = stop
    if at != data.size:
        raise ValueError(f"its tensors end at byte {at} and the file has {data.size}")


def header(head: bytes) -> tuple[dict[str, Any], int, str]:
    """The sizes, where the numbers start, and which fact of the card has their order."""
    start, order, at = 28, "order", 0
    if head.startswith(MAGIC):
        (version,) = struct.unpack_from("<i", head, 4)
        if version != 1:
            raise ValueError(
                f"it is of version {version}, with quantised numbers; export it as version 0 or 1"
            )
        start, order, at = 256, "order of version 1", 8
    sizes = dict(zip(KEYS, struct.unpack_from("<7i", head, at), strict=True))
    # Of old, a negative vocabulary says that the unembedding is a matrix of its own.
    shared = bool(head[36]) if at else sizes["vocab_size"] > 0
    sizes["vocab_size"] = abs(sizes["vocab_size"])
    if not all(0 < n < LARGEST for n in sizes.values()):
        raise ValueError(f"its sizes are impossible: {sizes}")
    return {"model_type": CARD, **sizes, "shared_classifier": shared}, start, order


def shape_of(model: Any, said: str) -> list[int]:
    """``$n_max × d_k / 2$`` as numbers."""
    from viete.cards.choices import scope_of
    from viete.errors import Text
    from viete.notation.parser import parse

    sizes = [model.size(parse(Text(part), scope_of(model))) for part in said.strip("$ ").split("×")]
    return [math.floor(size.evaluate(model.greatest)) for size in sizes]
