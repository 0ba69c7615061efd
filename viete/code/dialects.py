"""What the array libraries call things, as data; how formulas become calls is in `lowering`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from viete.notation.lexer import ELEMENTARY


@dataclass(frozen=True)
class Dialect:
    """One array library.

    ``xp`` is the name it is imported by; ``batched``: values may have further axes in front, so
    that axes are counted from the end; ``casts``: a table of numbers has to be given the dtype and
    the device of what it meets.
    ``inline`` are forms of named functions that the library has.
    """

    name: str
    xp: str
    keep: str = "keepdims"
    concat: str = "concatenate"
    axis: str = "axis"
    batched: bool = False
    casts: bool = False
    reductions: Mapping[str, str] = field(default_factory=dict)
    calls: Mapping[str, str] = field(default_factory=dict)
    inline: Mapping[str, str] = field(default_factory=dict)


CALLS = {name: name for name in (*ELEMENTARY, "abs", "floor")} | {
    "max": "maximum",
    "min": "minimum",
}

NUMPY = Dialect(
    "numpy",
    "np",
    calls=CALLS,
    inline={
        "softplus": "np.logaddexp({0}, 0)",
        "onehot": "np.eye({1})[{0}]",
        "onehot_some": "np.equal.outer({0}, np.arange({1})).astype(float)",
    },
)

JAX = Dialect(
    "jax", "jnp", calls=CALLS | {"erf": "jax.scipy.special.erf"},
    inline={
        "softmax": "jax.nn.softmax({0})",
        "logsumexp": "jax.nn.logsumexp({0}, {axis}{keep})",
        "logsoftmax": "jax.nn.log_softmax({0})",
        "sigmoid": "jax.nn.sigmoid({0})",
        "ReLU": "jax.nn.relu({0})",
        "GELU": "jax.nn.gelu({0}, approximate=False)",
        "GELU_tanh": "jax.nn.gelu({0})",
        "SiLU": "jax.nn.silu({0})",
        "softplus": "jax.nn.softplus({0})",
        "onehot": "jax.nn.one_hot({0}, {1})",
    },
)  # fmt: skip

TORCH = Dialect(
    "torch", "torch", keep="keepdim", concat="cat", axis="dim", batched=True, casts=True,
    reductions={"max": "amax", "min": "amin"},
    calls=CALLS,
    inline={
        "softmax": "functional.softmax({0}, -1)",
        "logsumexp": "torch.logsumexp({0}, {axis}{keep})",
        "logsoftmax": "functional.log_softmax({0}, -1)",
        "sigmoid": "torch.sigmoid({0})",
        "ReLU": "functional.relu({0})",
        "GELU": "functional.gelu({0})",
        "GELU_tanh": 'functional.gelu({0}, approximate="tanh")',
        "SiLU": "functional.silu({0})",
        "softplus": "functional.softplus({0}, threshold=40)",
    },
)  # fmt: skip
DIALECTS = {d.name: d for d in (NUMPY, JAX, TORCH)}
