"""An ES module without dependencies: forward, backward, Adam, and all values of a run by name."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from viete.code.initial import renamed
from viete.code.javascript.array_library import library
from viete.code.javascript.calls import HEAD, Calls
from viete.code.javascript.printer import ScriptPrinter, comments_of, one_line
from viete.code.layout import docstring, joined
from viete.code.numpy_script import NumpyScript
from viete.code.prepared import Prepared, prepared
from viete.code.target import Target, about
from viete.errors import VieteError
from viete.graph.card import CardData, Equation
from viete.graph.dependence import forward_slice


class JavaScriptModule(NumpyScript):
    """A card as an ES module; ``left_out`` is the reason if there is no backward pass."""

    library, what, completes = "javascript", "in JavaScript", False
    reserved = NumpyScript.reserved | frozenset(
        "values run derivatives weights named dimensions inputs texts text steps step total state "
        "seed made others INPUTS NAMES PARAMETERS".split()
    )

    def __init__(self, p: Prepared, left_out: str = "") -> None:
        self.corpus, self.left_out = None, left_out
        p = with_all_values(p)
        every = (*p.forward, *p.more, *p.backward)
        Target.__init__(self, p, {e.name for e in every})
        name = self.body.names.symbol
        blocks = [x.symbol for x in (*p.model.parameters,)]
        blocks += [x.symbol for x in p.model.inputs]
        self.by_block = {name(s) for s in [*blocks, *(e.left.symbol for e in every)]
                         if p.model.blocks_of(s)}  # fmt: skip

    # -- what the Python has that is printed -------------------------------------------------------

    def values(self, equations: Sequence[Equation]) -> dict[str, str]:
        """The variables of equations, by themselves."""
        names = dict.fromkeys(self.body.names.symbol(e.left.symbol) for e in equations)
        return {name: name for name in names}

    def given_back(self, equations: Sequence[Equation], depth: int) -> list[str]:
        return joined([f"{a}={b}" for a, b in self.values(equations).items()],
                      "return dict(", ")", depth)  # fmt: skip

    def scores(self, depth: int) -> list[str]:
        return self.given_back(self.p.forward, depth)

    def closing(self) -> list[str]:
        return self.given_back((*self.p.forward, *self.p.more), 1)

    def without_targets(self, none: str, second: list[str]) -> tuple[list[str], list[str]]:
        return Target.without_targets(self, none, second)

    # -- the file ----------------------------------------------------------------------------------

    def text(self) -> str:
        p, body = self.p, self.body
        run, back = self.forward(), list[str]()
        run[0] = run[0].replace("def forward(", "def run(")
        if p.backward:
            made = [*self.gradients().values(), *self.values(p.backward)]
            back = self.backward("derivatives", {name: name for name in made})
        drawn = self.drawing(
            "seed=0", ["    rng = np.generator(seed)"], ["    xavier = rng.xavier"]
        )
        parts = [
            *body.functions.written.values(),
            drawn,
            renamed(body, always=True),
            self.shapes(),
            run,
            back,
        ]
        lines = [line for part in parts for line in part]
        sizes = body.dimensions(lines)
        names = {
            body.names.symbol(d.symbol): d.name for d in self.model.dims if d.value is not None
        }
        printer = ScriptPrinter(names, self.by_block, dict(comments_of(lines)))
        code = [printer.dimensions_function(sizes)]
        for node in ast.parse("\n".join(lines)).body:
            assert isinstance(node, ast.FunctionDef)
            inner = node.name in ("run", "derivatives")
            outer = node.name in ("initial", "renamed", "shapes")
            code.append(printer.function(node, outer, inner))
        code += Calls(self, printer).all()
        used = printer.used | {"named", "complete"} | ({"adam"} if p.backward else set())
        arrays = (s.replace("\nfunction adam(", "\nexport function adam(") for s in library(used))
        code += [source.split("\n") for source in arrays]
        said = docstring([*about(p, self.what), *([self.left_out] if self.left_out else [])])
        head = [
            f"// {one_line(line)}".rstrip() for line in "\n".join(said)[3:-3].rstrip().split("\n")
        ]
        return "\n".join([*head, "//", *HEAD, *(x for part in code for x in ["", *part])]) + "\n"


def with_all_values(p: Prepared) -> Prepared:
    """All forward equations, those that need more inputs than the output at the end."""
    back = {id(e) for e in p.backward}
    ahead = [e for e in p.model.equations if id(e) not in back]
    needed = p.inputs(p.forward)
    others = {i.name for i in p.model.inputs if i not in needed and i.default is None}
    later = forward_slice(p.model, others)
    first = [e for e in ahead if e.name not in later]
    return replace(p, forward=tuple(first), more=tuple(e for e in ahead if e.name in later))


def javascript_module(card: CardData, of: str | None) -> str:
    """The text of the module; if nothing can be derived, it has no backward pass and says why."""
    try:
        return JavaScriptModule(prepared(card, of, backward=True)).text()
    except VieteError as error:
        if of is not None:
            raise
        ready = prepared(card, of, backward=False)
        return JavaScriptModule(ready, f"There is no backward pass: {error.message}").text()
