"""Array libraries as code: how each library names its functions and writes array operations.

`SPELLINGS` is the one table of functions that a library provides, or that people write in a
particular way; every other function is generated from its definition. A `Dialect` writes operations
as NumPy does, and its subclasses hold what JAX and PyTorch write differently. `lowering` decides
which operation a formula needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from viete.code.expression import ATOM, LEAD, Axes, Code, bare, together
from viete.evaluate.labelled import COL, ROW
from viete.notation.lexer import ELEMENTARY

HAND = "def"  # there is a function in `idioms`, which goes into the file
# Of each function, in NumPy, JAX, PyTorch: a form of its arguments {0}, {1}; or that it is by HAND.
# `…_some` is the form where some targets are none, `…_each` the one for members of a family.
SPELLINGS: dict[str, tuple[str, str, str]] = {
    "softmax": (HAND, "jax.nn.softmax({0})", "functional.softmax({0}, -1)"),
    "logsumexp": (
        HAND, "jax.nn.logsumexp({0}, {axis}{keep})", "torch.logsumexp({0}, {axis}{keep})",
    ),
    "length": ("", "", "torch.linalg.vector_norm({0}, dim={axis}{keep})"),  # of 0 its slope is 0
    "logsoftmax": (HAND, "jax.nn.log_softmax({0})", "functional.log_softmax({0}, -1)"),
    "top": (HAND, HAND, HAND),
    "held": ("{0}", "jax.lax.stop_gradient({0})", "{0}.detach()"),
    "cross_entropy": (HAND, HAND, HAND),
    "cross_entropy_some": (HAND, HAND, ""),
    "weighted_loss": ("", "", HAND),
    "over_targets": ("", "", HAND),
    "sigmoid": ("", "jax.nn.sigmoid({0})", "torch.sigmoid({0})"),
    "ReLU": ("", "jax.nn.relu({0})", "functional.relu({0})"),
    "GELU": ("", "jax.nn.gelu({0}, approximate=False)", "functional.gelu({0})"),
    "GELU_tanh": ("", "jax.nn.gelu({0})", 'functional.gelu({0}, approximate="tanh")'),
    "SiLU": ("", "jax.nn.silu({0})", "functional.silu({0})"),
    "softplus": (
        "np.logaddexp({0}, 0)", "jax.nn.softplus({0})", "functional.softplus({0}, threshold=40)",
    ),
    "RoPE": ("", "", HAND),
    "rotate": ("", "", HAND),
    "onehot": ("np.eye({1})[{0}]", "jax.nn.one_hot({0}, {1})", ""),
    "onehot_some": ("np.equal.outer({0}, np.arange({1})).astype(float)", "", ""),
    "gathered": (HAND, "", ""),
    "gathered_each": (HAND, "", ""),
    "placed": (HAND, "", ""),
    "placed_each": (HAND, "", ""),
    "beside": (HAND, HAND, HAND),
    "entries": (HAND, HAND, HAND),
    "erf": (HAND, "", ""),
    "inside": (HAND, HAND, HAND),
    "linear": ("", "", HAND),
    "within": (HAND, HAND, HAND),
    "checked": (HAND, HAND, HAND),
}  # fmt: skip
# Those that are not functions of the notation.
HELPERS = ("beside", "checked", "entries", "erf", "inside", "linear", "over_targets", "within")


class Dialect:
    """An array library as code; the base class writes NumPy's.

    ``xp`` is the name it is imported by; ``batched``: values may have further axes in front, so
    that axes are counted from the end; ``casts``: a table of numbers has to be given the dtype and
    the device of what it meets. ``library`` is its column in `SPELLINGS`.
    """

    library = 0
    name, xp = "numpy", "np"
    keep, concatenate, axis = "keepdims", "concatenate", "axis"
    move_axis, take_along, broadcast = "moveaxis", "take_along_axis", "broadcast_arrays"
    batched = casts = False
    counts = True  # `len` of an array may be written
    reductions: Mapping[str, str] = {}
    calls = {name: f"np.{name}" for name in (*ELEMENTARY, "abs", "floor") if name != "erf"} | {
        "max": "np.maximum",
        "min": "np.minimum",
    }

    brings = False  # the file's array library has what is by hand too

    def form(self, function: str) -> str:
        """The library's call for a named function; '' if it has none or it is hand-written."""
        found = SPELLINGS.get(function, ("", "", ""))[self.library]
        return "" if found == HAND else found

    def by_hand(self, function: str) -> bool:
        """Whether `idioms` has a version of a function."""
        return function in SPELLINGS and SPELLINGS[function][self.library] == HAND

    # -- axes --------------------------------------------------------------------------------------

    def index(self, code: Code, label: str, text: str, checked: bool = False) -> str:
        """``code[…]`` with an index for one axis."""
        k = code.axis(label)
        if k < 0 and LEAD in code.axes:
            items = ["...", text, *[":"] * (-k - 1)]
        else:
            items = [":"] * (k % len(code.axes)) + [text]
        return self.indexed(code.at(ATOM), ", ".join(items), checked)

    def indexed(self, array: str, items: str, checked: bool) -> str:
        return f"{array}[{items}]"

    def brought(self, code: Code, target: Axes, fully: bool = False) -> str:
        """The code with its axes in the order of ``target``, and size 1 for missing axes.

        What is missing in front broadcasts by itself, and is left out unless ``fully``.
        """
        have = tuple(a for a in target if a in code.axes)
        code = self.permuted(code, have)
        first = target.index(have[0]) if have and not fully else 0
        wanted = target[first:] if have else ()
        return code.text if wanted == have else self.inserted(code, wanted)

    def inserted(self, code: Code, wanted: Axes) -> str:
        """The code with an axis of size 1 for each label that it lacks."""
        items = [":" if a in code.axes else "None" for a in wanted]
        if wanted[0] == LEAD:
            items[0] = "..."
        while items[-1] == ":" and items[0] != "...":
            items.pop()
        return f"{code.at(ATOM)}[{', '.join(items)}]"

    def permuted(self, code: Code, order: Axes) -> Code:
        """The code with its axes in another order."""
        if code.axes == order:
            return code
        moved = [k for k, (a, b) in enumerate(zip(code.axes, order, strict=True)) if a != b]
        n = len(order)
        if len(moved) == 2:
            i, j = (k - n for k in moved)
            swap = ".mT" if (i, j) == (-2, -1) else f".swapaxes({i}, {j})"
            return code.as_atom(code.at(ATOM) + swap, axes=order)
        source = [code.axes.index(order[k]) - n for k in moved]
        return code.as_atom(self.moved(code.text, source, [k - n for k in moved]), axes=order)

    def moved(self, text: str, source: Sequence[int], goal: Sequence[int]) -> str:
        """Axes moved to other places."""
        return f"{self.xp}.{self.move_axis}({text}, {bare(source)}, {bare(goal)})"

    def fitted(self, code: Code, target: Axes, fully: bool = False) -> Code:
        """As `brought`, but with the same binding strength if nothing had to be done."""
        text = self.brought(code, target, fully)
        return code if text == code.text else code.as_atom(text)

    def aligned(self, codes: Sequence[Code]) -> tuple[list[Code], Axes]:
        """Codes that broadcast together, and their common axes."""
        target = together([c.axes for c in codes])
        return [self.fitted(c, target) if c.axes else c for c in codes], target

    def fold(self, op: str, code: Code, label: str, keep: bool = False) -> Code:
        """An axis reduced; the sums of rows keep it with size 1."""
        name = self.reductions.get(op, op)
        more = f", {self.keep}=True" if keep else ""
        text = f"{code.at(ATOM)}.{name}({code.axis(label)}{more})"
        whole = op == "argmax" or (code.whole and op in ("sum", "max", "min"))
        return Code(text, axes=code.axes if keep else code.without(label), const=code.const,
                    whole=whole)  # fmt: skip

    def merge(self, v: Code, label: str) -> Code:
        """An axis joined with the columns."""
        order = (*(a for a in v.axes if a not in (label, COL)), label, COL)
        if v.axes == (label, ROW, COL) and not self.casts:
            return Code(f"{self.xp}.concatenate({v.text}, axis=-1)", axes=(ROW, COL), whole=v.whole)
        v = self.permuted(v, order)
        return v.as_atom(self.flat(v.at(ATOM)), axes=(*order[:-2], COL))

    def flat(self, array: str) -> str:
        """The last two axes as one."""
        return f"{array}.reshape(*{array}.shape[:-2], -1)"

    # -- kinds of numbers --------------------------------------------------------------------------

    def whole_numbers(self, code: Code) -> Code:
        """Truth values, or floats that are whole, as whole numbers."""
        if code.python:
            return Code(f"int({code.text})", whole=True, python=True)
        return code.as_atom(f"{code.at(ATOM)}.{self.to_whole()}", whole=True)

    def to_whole(self) -> str:
        return "astype(int)"

    def real_numbers(self, code: Code, like: str) -> Code:
        """Whole numbers as the run's floats; a constant keeps all its digits."""
        if code.const and not code.axes:
            return code
        if code.python:
            return Code(f"float({code.text})", python=True)
        return code.as_atom(f"{code.at(ATOM)}.{self.to_real(code.const, like)}", whole=False)

    def to_real(self, const: bool, like: str) -> str:
        return "astype(float)"

    def as_argument(self, code: Code, real: bool, inline: bool) -> Code:
        """A plain number in the form that the library's own functions take."""
        if inline and real and code.whole:
            return code.as_atom(f"float({code.text})", whole=False)
        return code

    def cast(self, codes: Sequence[Code], like: str) -> list[Code]:
        """Tables of numbers with the dtype and device of the arrays they meet."""
        return list(codes)


class JavaScriptDialect(Dialect):
    """NumPy's dialect, to print as JavaScript; its arrays include every hand-written function."""

    name = "javascript"
    brings = True
    calls = Dialect.calls | {"erf": "np.erf"}

    def form(self, function: str) -> str:
        if function in ("onehot", "onehot_some"):
            return "np.onehot({0}, {1})"
        return super().form(function)


class JaxDialect(Dialect):
    """JAX, whose indexing clamps to the nearest entry."""

    library, counts = 1, False  # a length may be a symbol
    name, xp = "jax", "jnp"
    calls = {name: f"j{call}" for name, call in Dialect.calls.items()} | {
        "erf": "jax.scipy.special.erf"
    }

    def indexed(self, array: str, items: str, checked: bool) -> str:
        return f'{array}.at[{items}].get(mode="fill")' if checked else f"{array}[{items}]"


class TorchDialect(Dialect):
    """PyTorch, for a batch of sequences at once, in any precision and on any device."""

    library = 2
    name, xp = "torch", "torch"
    keep, concatenate, axis = "keepdim", "cat", "dim"
    move_axis, take_along, broadcast = "movedim", "take_along_dim", "broadcast_tensors"
    batched, casts, counts = True, True, False
    reductions: Mapping[str, str] = {"max": "amax", "min": "amin"}
    calls = {name: call.replace("np.", "torch.") for name, call in Dialect.calls.items()} | {
        "erf": "torch.erf"
    }

    def inserted(self, code: Code, wanted: Axes) -> str:
        missing = [k for k, a in enumerate(wanted) if a not in code.axes]
        if len(missing) == 1:
            return f"{code.at(ATOM)}.unsqueeze({missing[0] - len(wanted)})"
        return super().inserted(code, wanted)

    def flat(self, array: str) -> str:
        return f"{array}.flatten(-2)"

    def to_whole(self) -> str:
        return "long()"

    def to_real(self, const: bool, like: str) -> str:
        return "double()" if const else f"to({like})"

    def as_argument(self, code: Code, real: bool, inline: bool) -> Code:
        kind = ", dtype=torch.float64" if real or not code.whole else ""
        return code.as_atom(f"torch.tensor({code.text}{kind})")

    def cast(self, codes: Sequence[Code], like: str) -> list[Code]:
        if all(c.const for c in codes) or all(c.whole for c in codes):
            return list(codes)
        like = next((c.text for c in codes if not c.const and not c.whole and c.level == ATOM
                     and c.text.isidentifier()), like)  # fmt: skip
        return [c.as_atom(f"{c.at(ATOM)}.to({like})") if c.const and c.axes else c for c in codes]


DIALECTS = {d.name: d for d in (Dialect(), JaxDialect(), TorchDialect(), JavaScriptDialect())}
