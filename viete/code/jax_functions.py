"""JAX functions of a dictionary of parameters: `forward`, `loss` and its gradients, jit-able."""

from __future__ import annotations

from viete.code.body import Body
from viete.code.dialects import DIALECTS
from viete.code.functions import word
from viete.code.initial import Initial, per_block, renamed, size_of_program
from viete.code.layout import docstring, joined
from viete.code.lowering import CodeEnv
from viete.code.numpy_script import about, entry, targets
from viete.code.prepared import Prepared
from viete.code.torch_module import required
from viete.notation.tree import Ref

RESERVED = frozenset("initial renamed forward loss gradients keys xavier params weights".split())
XAVIER = [
    "",
    "    def xavier(*shape):",
    "        bound = math.sqrt(6 / (shape[-2] + shape[-1]))",
    "        return jax.random.uniform(next(keys), shape, minval=-bound, maxval=bound)",
    "",
]


def write(p: Prepared) -> str:
    """The functions, as text."""
    return JaxFunctions(p).text()


class JaxFunctions:
    """One model as JAX functions."""

    def __init__(self, p: Prepared) -> None:
        self.p, self.model = p, p.model
        self.body = Body(p.model, DIALECTS["jax"], [p.forward, p.more], [], self.parameter,
                         RESERVED)  # fmt: skip
        self.initial = Initial(self.body)

    def parameter(self, e: Ref, places: tuple[str, ...], env: CodeEnv) -> str:
        name = self.body.names.symbol(e.symbol)
        return f"{name}[{', '.join(places)}]" if places else name

    def text(self) -> str:
        forward = self.forward()
        parts = [self.initial_lines(), renamed(self.body), forward, self.loss()]
        functions = [line for f in self.body.functions.written.values() for line in ["", "", *f]]
        code = [*functions, *(line for part in parts for line in part)]
        dims = self.body.dimensions(code)
        how = "Functions of a dictionary of parameters; jax.vmap makes them take a batch."
        out = [*docstring([*about(self.p, "in JAX"), how]), ""]
        out += ["import math", ""] if any(word("math", x) for x in [*code, *dims]) else []
        bare = "\n".join(line.split("#")[0] for line in code)
        out += ["import jax"] if word("jax", bare) else []
        out += ["import jax.numpy as jnp", "", *dims, *functions]
        for part in parts:
            out += ["", "", *part] if part else []
        return "\n".join(out) + "\n"

    def initial_lines(self) -> list[str]:
        rows = []
        for q in self.model.parameters:
            made = per_block(self.body, q, self.initial.of(q))
            rows += entry(f"{self.body.names.symbol(q.symbol)}={made}", 2)
        many = "".join(rows).count("next(keys)") + "".join(rows).count("xavier(")
        lines = ["def initial(key):", *docstring(["Parameters to begin with"], 1)]
        if many:
            lines += [f"    keys = iter(jax.random.split(key, {size_of_program(self.model)}))"]
        lines += XAVIER if self.initial.xavier else []
        return [*lines, "    return dict(", *rows, "    )"]

    def forward(self) -> list[str]:
        p, body = self.p, self.body
        first = body.statements(0, 1)
        second = body.statements(1, 1) if p.more else []
        optional, every = targets(p), p.inputs((*p.forward, *p.more))
        names = [body.names.symbol(i.symbol) + ("" if required(i, optional) else "=None")
                 for i in sorted(every, key=lambda i: not required(i, optional))]  # fmt: skip
        bare = "\n".join(line.split("#")[0] for line in [*first, *second])
        used = [n for q in self.model.parameters if word(n := body.names.symbol(q.symbol), bare)]
        rest = ["**_"] if len(used) < len(self.model.parameters) else []
        said = f"{p.output.key} of one sequence" + ("; with targets also the loss" * bool(second))
        star = ["*"] if used else []
        out = [*joined([*names, *star, *used, *rest], "def forward(", "):"), *docstring([said], 1)]
        limits = body.limits([i for i in every if i not in optional], 1)
        out += [*body.preparations([*limits, *first, *second], every, 1), *limits]
        output = self.output()
        if not second:
            return [*out, *first, f"    return {output}"]
        assert p.loss is not None
        early = []
        if optional:
            none = " or ".join(f"{body.names.symbol(i.symbol)} is None" for i in optional)
            early = ["", f"    if {none}:", f"        return {output}"]
        return [*out, *first, *early, *second,
                f"    return {output}, {body.names.symbol(p.loss.symbol)}"]  # fmt: skip

    def output(self) -> str:
        p = self.p
        places = tuple(x for s, x in zip(p.output.symbol.slots, p.output.index, strict=True)
                       if s in self.model.loop_letters)  # fmt: skip
        return self.body.variable(p.output, places, self.body.lowering.env)[0]

    def loss(self) -> list[str]:
        """The loss as a function of the parameters, and its gradients."""
        if not self.p.more:
            return []
        said = "The loss as a function of the parameters; inputs as `forward` takes them"
        return [
            "def loss(params, *inputs):",
            *docstring([said], 1),
            "    return forward(*inputs, **params)[1]",
            "",
            "",
            "gradients = jax.jit(jax.value_and_grad(loss))",
        ]
