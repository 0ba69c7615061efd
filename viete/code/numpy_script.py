"""A NumPy script: forward, loss, backward equation by equation, Adam, a small training loop."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from viete.code import numpy_text
from viete.code.body import Body
from viete.code.dialects import DIALECTS
from viete.code.functions import word
from viete.code.initial import Initial, per_block, renamed
from viete.code.layout import docstring, filled, joined, statement
from viete.code.lowering import CodeEnv
from viete.code.numpy_text import Corpus
from viete.code.prepared import Prepared
from viete.errors import VieteError
from viete.graph.card import CardData, Input
from viete.graph.dependence import names_read
from viete.notation.printer import show_equation
from viete.notation.tree import Ref
from viete.rewrite.adjoint.vjp import partial

RESERVED = frozenset(
    "initial renamed forward backward adam train params grads kept rng rate sys xavier keys loss "
    "weights gradients".split()
)
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


def write(p: Prepared, corpus: Corpus | None = None) -> str:
    """The script, as text; with a ``corpus`` it learns that and answers."""
    return NumpyScript(p, corpus).text()


class NumpyScript:
    """One model as a NumPy script."""

    def __init__(self, p: Prepared, corpus: Corpus | None = None) -> None:
        self.p, self.model, self.corpus = p, p.model, corpus
        made = {partial(q.symbol).key for q in p.model.parameters}
        outputs = {e.name for e in p.backward if e.name in made} | {p.output.key}
        stages = [p.forward, p.more, p.backward]
        reserved = RESERVED if corpus is None else RESERVED | numpy_text.RESERVED
        self.body = Body(p.model, DIALECTS["numpy"], stages, outputs, self.parameter, reserved)
        self.initial = Initial(self.body)
        assert p.loss is not None
        self.loss = self.body.names.symbol(p.loss.symbol)
        self.output = self.body.names.symbol(p.output.symbol)

    def parameter(self, e: Ref, places: tuple[str, ...], env: CodeEnv) -> str:
        name = self.body.names.symbol(e.symbol)
        return f"{name}[{', '.join(places)}]" if places else name

    def text(self) -> str:
        forward, backward = self.forward(), self.backward()
        initial, names = self.initial_lines(), renamed(self.body)
        functions = [line for f in self.body.functions.written.values() for line in ["", "", *f]]
        learning = [self.train()] if self.corpus is None else self.answering(self.corpus)
        code = [
            *functions,
            *initial,
            *names,
            *forward,
            *backward,
            *(x for f in learning for x in f),
        ]
        dims = self.body.dimensions(code)
        out = [*self.head(), ""]
        main = self.main()
        imports = ["import math"] if any(word("math", x) for x in [*code, *dims]) else []
        imports += ["import sys"] if any(word("sys", x) for x in main) else []
        out += [*imports, *([""] if imports else []), "import numpy as np", ""]
        out += [] if self.corpus is None else [*numpy_text.head(self.corpus), ""]
        out += [*dims, *functions]
        for part in (initial, names, forward, backward, self.adam(), *learning):
            out += ["", "", *part] if part else []
        out += ["", "", 'if __name__ == "__main__":', *main]
        return "\n".join(out) + "\n"

    def head(self) -> list[str]:
        return docstring(about(self.p, "in NumPy"))

    def initial_lines(self) -> list[str]:
        items = []
        for p in self.model.parameters:
            made = per_block(self.body, p, self.initial.of(p))
            items.append(f"{self.body.names.symbol(p.symbol)}={made}")
        short = len(items) > 1 and max(map(len, items)) < 24
        rows = filled(items, 2) if short else [x for i in items for x in entry(i, 2)]
        drawn = any(word("rng", r) for r in rows) or self.initial.xavier
        lines = ["def initial(seed=0):", *docstring(["Parameters to begin with"], 1)]
        lines += ["    rng = np.random.default_rng(seed)"] if drawn else []
        lines += XAVIER if self.initial.xavier else []
        return [*lines, "    return dict(", *rows, "    )"]

    def forward(self) -> list[str]:
        p, body = self.p, self.body
        first, second = body.statements(0, 1), body.statements(1, 1)
        every = p.inputs((*p.forward, *p.more))
        kept = self.kept()
        closing = joined(kept, f"return {self.output}, {self.loss}, (",
                         ",)" if len(kept) == 1 else ")", 1)  # fmt: skip
        said = f"{self.output}; with targets also the loss and what `backward` needs"
        lines = [*first, *second, *closing]
        early = []
        if optional := targets(p):
            none = " or ".join(f"{body.names.symbol(i.symbol)} is None" for i in optional)
            early = ["", f"    if {none}:", f"        return {self.output}, None, None"]
            start = f"    {self.loss} = "
            if len(p.more) == 1 and second[-1].startswith(start):
                early = []
                code = f"None if {none} else {second[-1].removeprefix(start)}"
                second = [*second[:-1], *statement(f"{self.loss} = {code}", 1)]
        own = self.signature("forward", every, [*first, *second], "")
        out = [*own, *docstring([said], 1), *body.preparations(lines, every, 1)]
        return [*out, *first, *early, *second, *closing]

    def kept(self) -> list[str]:
        """Names of the forward values that the backward equations read."""
        p = self.p
        made = {e.name for e in (*p.forward, *p.more)}
        keys = names_read(p.backward)
        found = [e for e in (*p.forward, *p.more) if e.name in keys & made]
        return list(dict.fromkeys(self.body.names.symbol(e.left.symbol) for e in found))

    def signature(
        self, name: str, inputs: Sequence[Input], code: list[str], more: str
    ) -> list[str]:
        """``def name(inputs, *, parameters):`` with the parameters that the code uses."""
        optional = targets(self.p)
        plain = [self.body.names.symbol(i.symbol) for i in inputs if i not in optional and
                 i.default is None]  # fmt: skip
        late = [self.body.names.symbol(i.symbol) for i in inputs if i in optional or
                i.default is not None]  # fmt: skip
        bare = "\n".join(line.split("#")[0] for line in code)
        used = [n for p in self.model.parameters if word(n := self.body.names.symbol(p.symbol),
                                                         bare)]  # fmt: skip
        rest = ["**_"] if len(used) < len(self.model.parameters) else []
        first = [more] if more else []
        items = [*first, *plain, *(f"{x}=None" for x in late), *(["*"] if used else []), *used]
        items += rest
        return joined(items, f"def {name}(", "):")

    def backward(self) -> list[str]:
        p, body = self.p, self.body
        lines = body.statements(2, 1)
        inputs = p.inputs((*p.forward, *p.more))
        names = [self.body.names.symbol(q.symbol) for q in p.model.parameters]
        by_key = {e.name: body.names.symbol(e.left.symbol) for e in p.backward}
        found = []
        for q, name in zip(p.model.parameters, names, strict=True):
            if (key := partial(q.symbol).key) in by_key:
                found.append(f"{name}={by_key[key]}")
        closing = joined(found, "return dict(", ")", 1)
        kept = self.kept()
        long = len(", ".join(kept)) > 84
        after = ")" if long else "," if len(kept) == 1 else ""
        unpack = joined(kept, "(" if long else "", f"{after} = kept", 1) if kept else []
        body_lines = [*lines, *closing]
        out = self.signature("backward", inputs, lines, "kept")
        said = f"The derivative of {self.loss} by every parameter"
        return [*out, *docstring([said], 1), *unpack,
                *body.preparations(body_lines, inputs, 1), *body_lines]  # fmt: skip

    def adam(self) -> list[str]:
        blocks = any(s in self.model.loop_letters for p in self.model.parameters
                     for s in p.symbol.slots)  # fmt: skip
        if not blocks:
            return ADAM.format(each="grads.items()", target="params[name]").split("\n")
        text = ADAM.format(each="arrays(grads)", target="weights[name]")
        whole = "    weights = dict(arrays(params))\n"
        text = text.replace("    for name, g", f"{whole}    for name, g")
        return [*BLOCKS.split("\n"), "", "", *text.split("\n")]

    def train(self) -> list[str]:
        p = self.p
        optional = targets(p)
        given = []
        for i in p.inputs((*p.forward, *p.more)):
            if i.default is not None:
                continue
            if i.high is None or len(i.shape) != 1:
                shape = ", ".join(self.body.lowering.whole(e, self.body.lowering.env)
                                  for e in i.shape)  # fmt: skip
                raise VieteError(f"the input {i.name} of shape ({shape}) is not made of tokens, "
                                 f"so a script cannot train on them")  # fmt: skip
            given.append("y" if i in optional else "x")
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
        """Functions that learn a corpus and go on with a prompt.

        Raises VieteError for a card whose scores are not one row for each character of one text.
        """
        p, body = self.p, self.body
        every = [i for i in p.inputs((*p.forward, *p.more)) if i.default is None]
        tokens = [i for i in every if i not in targets(p)]
        if len(every) != 2 or len(tokens) != 1 or any(i.high is None for i in every):
            raise VieteError(
                f"a script learns texts by tokens and the tokens one further, and {p.model.title} "
                f"takes {', '.join(i.name for i in every)}"
            )
        (length,) = tokens[0].shape
        most = p.model.lengths.get(length.key) if isinstance(length, Ref) else None
        context = body.lowering.whole(length if most is None else most, body.lowering.env)
        return numpy_text.functions(corpus, "x, y", context)

    def main(self) -> list[str]:
        """Tokens from the command line, or a few of the vocabulary's own."""
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


def targets(p: Prepared) -> list[Input]:
    """The inputs that only the loss needs."""
    first = p.inputs(p.forward)
    return [i for i in p.inputs(p.more) if i not in first and i.default is None]


def largest(card: CardData, item: Input) -> int:
    """The largest number that an input may hold."""
    size = None if item.high is None else card.size(item.high)
    return 9 if size is None else int(size.evaluate(card.greatest | {"": Fraction(0)}))


def entry(text: str, depth: int) -> list[str]:
    """One argument of a call on lines of its own."""
    lines = statement(text, depth)
    return [*lines[:-1], lines[-1] + ","]


def about(p: Prepared, what: str) -> list[str]:
    """The paragraphs of a file's docstring."""
    m = p.model
    said = "written by Viète: each line stands under the equation it came from"
    out = [f"{m.title} {what}, {said}", *m.about[:1]]
    out += [a for a in m.about[1:] if a.startswith("Source")]
    if p.added and p.loss is not None:
        e = next(e for e in m.equations if e.name == p.loss.key)
        out.append(f"The card has no loss; here it is {show_equation(e.left, e.right, 'unicode')}.")
    if p.left_out:
        shown = "; ".join(show_equation(e.left, e.right, "unicode") for e in p.left_out)
        out.append(f"Left out, since nothing here needs it: {shown}.")
    return out
