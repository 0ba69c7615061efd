"""A NumPy script: forward, loss, backward equation by equation, Adam, a small training loop."""

from __future__ import annotations

from collections.abc import Mapping

from viete.code import numpy_text
from viete.code.initial import renamed
from viete.code.layout import STEP, docstring, joined, statement
from viete.code.numpy_text import Corpus
from viete.code.prepared import Prepared
from viete.code.target import Target, largest
from viete.errors import VieteError
from viete.graph.dependence import names_read
from viete.notation.tree import Ref
from viete.rewrite.adjoint.shares import partial

XAVIER = [
    "    def xavier(*shape):",
    "        return rng.uniform(-1, 1, shape) * math.sqrt(6 / sum(shape[-2:]))",
]
ADAM = '''def adam(params, grads, state, rate=0.01, beta_1=0.9, beta_2=0.999, tiny=1e-8):
    """One step of Adam (Kingma & Ba 2015, algorithm 1), in place."""
    k = state["k"] = state.get("k", 0) + 1
    for name, g in {each}:
        m, v = state.setdefault(name, (np.zeros_like(g), np.zeros_like(g)))
        m += (1 - beta_1) * (g - m)
        v += (1 - beta_2) * (g * g - v)
        {target} -= rate * m / (1 - beta_1**k) / (np.sqrt(v / (1 - beta_2**k)) + tiny)'''
BLOCKS = '''def arrays(tree):
    """Every array with its name, (name, block) where each block has its own."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from (((name, i), array) for i, array in value.items())
        else:
            yield name, value'''


class NumpyScript(Target):
    """A card as a NumPy script; with a ``corpus`` the script learns it and answers."""

    library, what = "numpy", "in NumPy"
    reserved = frozenset(
        "initial renamed forward backward adam train params grads kept rng rate sys xavier keys "
        "loss weights gradients shapes complete".split()
    )

    def __init__(self, p: Prepared, corpus: Corpus | None = None) -> None:
        self.corpus = corpus
        self.reserved |= numpy_text.RESERVED if corpus else frozenset()
        made = {partial(q.symbol).key for q in p.model.parameters}
        super().__init__(p, {e.name for e in p.backward if e.name in made} | {p.output.key})

    def text(self) -> str:
        forward, backward = self.forward(), self.backward()
        drawn = self.drawing("seed=0", ["    rng = np.random.default_rng(seed)"], XAVIER)
        learning = [self.train()] if self.corpus is None else self.answering(self.corpus)
        main = ['if __name__ == "__main__":', *self.main()]
        return self.file(
            [
                drawn,
                renamed(self.body),
                *self.complete(),
                forward,
                backward,
                self.adam(),
                *learning,
                main,
            ]
        )

    def imports(self, code: str) -> list[str]:
        texts = [] if self.corpus is None else ["", *numpy_text.head(self.corpus)]
        return ["import numpy as np", *texts]

    # -- forward and backward ----------------------------------------------------------------------

    @property
    def output(self) -> str:
        return self.body.names.symbol(self.p.output.symbol)

    def summary(self, loss: bool) -> str:
        return f"{self.output}; with targets also the loss and what `backward` needs"

    def closing(self) -> list[str]:
        kept = self.saved_values()
        end = ",)" if len(kept) == 1 else ")"
        return joined(kept, f"return {self.output}, {self.loss}, (", end, 1)

    def without_targets(self, none: str, second: list[str]) -> tuple[list[str], list[str]]:
        start = f"    {self.loss} = "
        if len(self.p.more) == 1 and second[-1].startswith(start):
            code = f"None if {none} else {second[-1].removeprefix(start)}"
            return [], [*second[:-1], *statement(f"{self.loss} = {code}", 1)]
        return super().without_targets(none, second)

    def scores(self, depth: int) -> list[str]:
        return [f"{STEP * depth}return {self.output}, None, None"]

    def saved_values(self) -> list[str]:
        """Names of the forward values that the backward equations read."""
        keys = names_read(self.p.backward)
        found = [e for e in (*self.p.forward, *self.p.more) if e.name in keys]
        return list(dict.fromkeys(self.body.names.symbol(e.left.symbol) for e in found))

    def gradients(self) -> dict[str, str]:
        """The variables of the parameters' derivatives, by the variables of the parameters."""
        name = self.body.names.symbol
        by_key = {e.name: name(e.left.symbol) for e in self.p.backward}
        return {name(q.symbol): by_key[key] for q in self.p.model.parameters
                if (key := partial(q.symbol).key) in by_key}  # fmt: skip

    def backward(
        self, name: str = "backward", result: Mapping[str, str] | None = None
    ) -> list[str]:
        """The function with the backward equations; its ``result`` is the gradients by default."""
        lines = self.body.statements(2, 1)
        found = self.gradients() if result is None else result
        closing = joined([f"{a}={b}" for a, b in found.items()], "return dict(", ")", 1)
        kept = self.saved_values()
        long = len(", ".join(kept)) > 84
        after = ")" if long else "," if len(kept) == 1 else ""
        unpack = joined(kept, "(" if long else "", f"{after} = kept", 1) if kept else []
        said = f"The derivatives of {self.loss} with respect to the parameters"
        ready = self.ready([*lines, *closing])
        return [*self.signature(name, lines, ["kept"]), *docstring([said], 1), *unpack,
                *ready, *lines, *closing]  # fmt: skip

    # -- learning ----------------------------------------------------------------------------------

    def adam(self) -> list[str]:
        if not any(self.model.blocks_of(p.symbol) for p in self.model.parameters):
            return ADAM.format(each="grads.items()", target="params[name]").split("\n")
        text = ADAM.format(each="arrays(grads)", target="weights[name]")
        whole = "    weights = dict(arrays(params))\n"
        text = text.replace("    for name, g", f"{whole}    for name, g")
        return [*BLOCKS.split("\n"), "", "", *text.split("\n")]

    def train(self) -> list[str]:
        p = self.p
        given = []
        for i in p.inputs((*p.forward, *p.more)):
            if i.default is not None:
                continue
            if i.high is None or len(i.shape) != 1:
                shape = ", ".join(self.body.lowering.integer(e, self.body.lowering.env)
                                  for e in i.shape)  # fmt: skip
                raise VieteError(f"the input {i.name} of shape ({shape}) is not made of tokens, "
                                 f"so a script cannot train on them")  # fmt: skip
            given.append("y" if i in self.targets else "x")
        args = ", ".join([*sorted(given), "**params"])  # targets last
        tokens = "tokens, " if given else ""
        said = "Learn one sequence, each token from those before it" if given else "Lower the loss"
        split = "    x, y = tokens[:-1], tokens[1:]" if "y" in given else "    x = tokens[:-1]"
        lines = [f"def train({tokens}steps=200, rate=0.01):", *docstring([said], 1)]
        lines += [
            "    params, state = initial(), {}",
            *([split] if given else []),
            "    for step in range(1, steps + 1):",
            f"        _, loss, kept = forward({args})",
            f"        adam(params, backward(kept, {args}), state, rate)",
            "        if step == 1 or step % 20 == 0:",
            '            print(f"step {step:4}  loss {loss:.6f}")',
            "    return params",
        ]
        return lines

    def answering(self, corpus: Corpus) -> list[list[str]]:
        """Functions that learn a corpus and continue a prompt.

        Raises VieteError for a card whose scores are not one row for each character of one text.
        """
        p, body = self.p, self.body
        every = [i for i in p.inputs((*p.forward, *p.more)) if i.default is None]
        tokens = [i for i in every if i not in self.targets]
        if len(every) != 2 or len(tokens) != 1 or any(i.high is None for i in every):
            raise VieteError(
                f"a script learns from tokens and the next tokens alone, and {p.model.title} "
                f"takes {', '.join(i.name for i in every)}"
            )
        (length,) = tokens[0].shape
        most = p.model.lengths.get(length.key) if isinstance(length, Ref) else None
        context = body.lowering.integer(length if most is None else most, body.lowering.env)
        return numpy_text.functions(corpus, "x, y", context)

    def main(self) -> list[str]:
        """Tokens from the command line, or some of the vocabulary's."""
        if self.corpus is not None:
            return numpy_text.MAIN
        model = self.model
        tokens = [i for i in self.p.inputs(self.p.forward) if i.high is not None]
        high = min([largest(model, i) for i in tokens] or [9])
        most = min([int(v) for k, v in model.greatest.items() if k in model.lengths] or [8])
        if not tokens:
            return ["    train()"]
        some = [(k * k + k // 3) % (min(high, 9) + 1) for k in range(min(most + 1, 13))]
        listed = ", ".join(map(str, some))
        return [f"    tokens = [int(word) for word in sys.argv[1:]] or [{listed}]",
                "    train(np.array(tokens))"]  # fmt: skip
