"""What a JavaScript module exports around the equations: calls, names, a training loop."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from viete.code.identifiers import plain_letter
from viete.code.initial import viete_name
from viete.code.javascript.expressions import quoted
from viete.code.javascript.printer import ScriptPrinter
from viete.code.layout import STEP, statement
from viete.code.target import Target
from viete.notation.tree import Symbol

if TYPE_CHECKING:
    from viete.code.javascript.module import JavaScriptModule

HEAD = """\
// Arrays are {shape, data}: row after row in a Float64Array; one of no axes is a number. Inputs may
// be lists. A call that takes `given` takes numbers in it in place of those of `dimensions`.\
""".split("\n")
FORWARD = """\
/** OUTPUT, the loss, which is null without targets, and all values, which `backward` needs. */
export function forward(ARGS) {
    const kept = run(CHECKED);
    return [OUT, LOSS, kept];
}"""
BACKWARD = """\
/** The derivatives of LOSS with respect to the parameters. */
export function backward(kept, ARGS) {
    const made = derivatives(kept, ARGS);
    return {PAIRS};
}"""
VALUES = """\
/**
 * Every value of a run by the name that Viète gives it; with targets also every derivative. The
 * inputs are an object by name, for which the first of them may stand.
 */
export function values(inputs, params, given) {
    GIVEN
    const kept = run(CHECKED);
MADE    return named(ALL, NAMES);
}"""
WEIGHTS = """\
/** Parameters of this module, or their gradients, by the names that Viète gives them. */
export function weights(params) {
    return named(params, PARAMETERS);
}"""
TRAIN = """\
/**
 * Learns texts of tokens, each token from those before it, with a step of Adam for each text. After
 * each round it gives its number, the mean loss before it and the parameters, which change in
 * place: `for (const {step, loss} of train(texts)) …`.OTHERS
 */
export function* train(
    texts, params = initial(), {steps = 100, rate = 0.01, state = {}MORE} = {}, given,
) {
    for (let step = 1; step <= steps; step++) {
        let total = 0;
        for (const text of texts) {
            const SPLIT;
READ            const [, loss, kept] = forward(ARGS);
            adam(params, backward(kept, ARGS), state, rate / texts.length);
            total += loss;
        }
        yield {step, loss: total / texts.length, params};
    }
}"""


INPUTS = """\
/** The inputs, in the order in which calls take them; null stands for one that is left out. */
export const INPUTS = """


class Calls:
    """The exports of one module whose equations a printer has written."""

    def __init__(self, module: JavaScriptModule, printer: ScriptPrinter) -> None:
        self.module, self.p, self.printer = module, module.p, printer
        self.inputs = [printer.name(module.name(i)) for i in module.inputs]
        self.args = ", ".join([*self.inputs, "params", "given"])
        self.checked = ", ".join([*self.inputs, "complete(params, shapes(given))", "given"])

    def all(self) -> list[list[str]]:
        """The lines of each part."""
        p = self.p
        values = (*p.forward, *p.more, *p.backward)
        inputs = ", ".join(quoted(i.name) for i in self.module.inputs)
        code = [f"{INPUTS}[{inputs}];", self.forward(),
                *([self.backward()] if p.backward else []), self.values(), WEIGHTS,
                self.names("NAMES", (e.left.symbol for e in values)),
                self.names("PARAMETERS", (q.symbol for q in p.model.parameters))]  # fmt: skip
        if p.backward and (learning := self.train()):
            code.append(learning)
        return [text.split("\n") for text in code]

    def forward(self) -> str:
        printer, loss = self.printer, "null"
        printer.asked = set()
        out = "kept." + self.expression(Target.output.fget(self.module))  # type: ignore[attr-defined]
        if self.p.loss is not None:
            name = self.module.loss
            loss = f"kept.{name}" + (" ?? null" if self.module.targets else "")
        taken = printer.sizes_taken()
        text = FORWARD.replace("    const kept", "\n".join([*taken, "    const kept"]))
        said = self.p.output.key
        text = text.replace("OUTPUT", said[:1].upper() + said[1:]).replace("ARGS", self.args)
        text = text.replace("CHECKED", self.checked)
        if not self.module.targets:
            text = text.replace(", which is null without targets,", "")
        return text.replace("OUT", out).replace("LOSS", loss)

    def backward(self) -> str:
        pairs = [f"{a}: made.{b}" for a, b in self.module.gradients().items()]
        text = BACKWARD.replace("LOSS", self.module.loss).replace("ARGS", self.args)
        closing = statement(f"return {{{', '.join(pairs)}}}", 1, ";")
        return text.replace("    return {PAIRS};", "\n".join(closing))

    def values(self) -> str:
        inputs, every = self.module.inputs, "kept"
        found = [self.printer.property(i.name, n) for i, n in zip(inputs, self.inputs, strict=True)]
        given = ""
        if inputs:
            key = found[0].partition(":")[0]
            first = f"inputs.{key}" if key.isidentifier() else f"inputs[{key}]"
            given = (f"const {{{', '.join(found)}}} = "
                     f"{first} === undefined ? {{{key}: inputs}} : inputs;")  # fmt: skip
        made = ""
        if self.p.backward:
            made, every = f"derivatives(kept, {self.args})", "{...kept, ...made}"
            if self.module.targets:
                made = f"kept.{self.module.loss} === undefined ? {{}} : {made}"
            made = "\n".join([*statement(f"const made = {made}", 1, ";"), ""])
        text = VALUES.replace("    GIVEN\n", f"    {given}\n" if given else "")
        return text.replace("CHECKED", self.checked).replace("MADE", made).replace("ALL", every)

    def names(self, what: str, symbols: Iterable[Symbol]) -> str:
        """A table from names in the module to Viète's; for a value of each block, to a function."""
        card, body, rows = self.p.model, self.module.body, dict[str, str]()
        for symbol in symbols:
            name = self.expression(viete_name(card, symbol))
            blocks = [self.printer.name(plain_letter(x)) for x in card.blocks_of(symbol)]
            rows[body.names.symbol(symbol)] = f"({', '.join(blocks)}) => {name}" if blocks else name
        lines = [f"{STEP}{a}: {b}," for a, b in rows.items()]
        return "\n".join([f"const {what} = {{", *lines, "};"])

    def train(self) -> str:
        """A training loop over texts, for a card with one row of tokens as input."""
        given, targets = self.module.inputs, self.module.targets
        tokens = [i for i in given if i not in targets and i.default is None]
        if len(tokens) != 1 or len(targets) > 1:
            return ""
        if any(i.high is None or len(i.shape) != 1 for i in [*tokens, *targets]):
            return ""
        cut = ("text.slice(0, -1)", "text.slice(1)") if targets else ("text",)
        names = {i: n for i, n in zip(given, self.inputs, strict=True)}
        split = ", ".join(
            f"{names[i]} = {x}" for i, x in zip([*tokens, *targets], cut, strict=True)
        )
        others = [i for i in given if i not in tokens + targets]
        args = [f"others[{quoted(i.name)}] ?? null" if i in others else names[i] for i in given]
        args += ["params", "given"]
        said = more = read = ""
        if others:
            said = "\n * `inputs` gives what else is read, by name, of the tokens."
            more = ", inputs = () => ({})"
            read = f"{STEP * 3}const others = inputs({names[tokens[0]]});\n"
        text = TRAIN.replace("OTHERS", said).replace("MORE", more).replace("READ", read)
        return text.replace("SPLIT", split).replace("ARGS", ", ".join(args))

    def expression(self, python: str) -> str:
        return self.printer.of(ast.parse(python, mode="eval").body).text
