"""JAX functions of a dictionary of parameters: `forward`, `loss` and its gradients, jit-able."""

from __future__ import annotations

from viete.code.functions import word
from viete.code.initial import renamed
from viete.code.layout import docstring
from viete.code.target import Target
from viete.evaluate.schedule import program

XAVIER = [
    "",
    "    def xavier(*shape):",
    "        bound = math.sqrt(6 / (shape[-2] + shape[-1]))",
    "        return jax.random.uniform(next(keys), shape, minval=-bound, maxval=bound)",
    "",
]


class JaxFunctions(Target):
    """A card as JAX functions."""

    library, what, lists = "jax", "in JAX", True
    reserved = frozenset(
        "initial renamed forward loss gradients keys xavier params weights shapes complete".split()
    )

    def imports(self, code: str) -> list[str]:
        return [*(["import jax"] if word("jax", code) else []), "import jax.numpy as jnp"]

    def summary(self, loss: bool) -> str:
        return f"{self.p.output.key} of one sequence" + ("; with targets also the loss" * loss)

    def closing(self) -> list[str]:
        return [f"    return {self.output}, {self.loss}"]

    def text(self) -> str:
        forward = self.forward()
        keys = f"    keys = iter(jax.random.split(key, {len(program(self.model).parameters)}))"
        parts = [self.drawing("key", [keys], XAVIER), renamed(self.body), *self.complete(), forward]
        if self.p.more:
            said = "The loss as a function of the parameters; inputs as `forward` takes them"
            parts += [
                ["def loss(params, *inputs):", *docstring([said], 1),
                 "    return forward(*inputs, **params)[1]"],
                ["gradients = jax.jit(jax.value_and_grad(loss))"],
            ]  # fmt: skip
        return self.file(
            parts, ["Functions of a dictionary of parameters; jax.vmap makes them take a batch."]
        )
