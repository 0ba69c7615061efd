"""What an equation does, in a sentence or two, from its structure and the card's own words."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from viete.analysis.def_use import lone, sums
from viete.document.tree import capital, listed
from viete.graph.card import CardData
from viete.notation.printer import show
from viete.notation.tree import Apply, Bind, Expr, Pick, Ref, Slice, Table, walk

Formula = Callable[[Expr], str]


class Explainer:
    """Writes sentences about the equations of one card; ``style`` is that of formulas."""

    def __init__(self, card: CardData, style: str) -> None:
        self.model, self.style = card, style
        self.parameters = {p.name: p for p in card.parameters}
        self.defined: set[str] = set()  # functions whose definition was given

    def f(self, e: Expr) -> str:
        return f"${show(e, self.style)}$"

    def equation(self, e: Expr, meaning: str, residual: bool) -> list[str]:
        """Sentences on an equation's right side, the card's own first."""
        out = [capital(meaning)] if meaning else []
        out += dict.fromkeys(s for s in self.of(e) if s)
        if residual:
            out.append("A residual sum: the earlier value is kept, and a result computed from it "
                       "is added.")  # fmt: skip
        return [s if s.endswith((".", "!", "?")) else s + "." for s in out]

    def of(self, e: Expr) -> Iterator[str]:
        """The operations of a formula in words, the innermost first."""
        match e:
            case Apply(op, args) if op in self.model.function:
                yield from self.of(args[0])
                yield self.function(op)
            case Apply("argmax", (a,)):
                yield from self.of(a)
                yield f"Each row of {self.f(a)} gives the place of its greatest entry"
            case Apply("prod", (a, b)):
                yield from self.of(a)
                yield from self.of(b)
                yield self.product(a, b)
            case Apply("add" | "sub"):
                terms = next(iter(sums(e)), list(e.args)) if e.op == "add" else list(e.args)
                for term in terms:
                    yield from self.of(term)
                yield self.added(e, terms)
            case Apply("div", (a, b)):
                yield from self.of(a)
                yield f"The result is divided by {self.f(b)}" if not isinstance(a, Ref) else ""
            case Bind(op, index):
                yield from self.of(e.body)
                letter = self.f_letter(index)
                yield {
                    "sum": f"The results for all {letter} are added up",
                    "concat": f"The results for all {letter} are joined side by side into one row",
                    "mean": f"The mean over {letter} is taken",
                }.get(op, f"The greatest over {letter} is taken")
            case Pick(Ref() as value, (item, *_)):
                if (k := e.from_end(0)) is not None:
                    yield f"Place {k} of {self.called(value)} is picked, counted from the end"
                else:
                    yield self.picked(value, item)
            case Pick() | Table() | Ref():
                return
            case Apply(_, args):
                for a in args:
                    yield from self.of(a)

    def f_letter(self, index: str) -> str:
        found = next((i for i in self.model.indices if i.name == index), None)
        said = f" ({found.meaning})" if found is not None and found.meaning else ""
        return f"${index}${said}"

    def picked(self, value: Ref, item: Expr) -> str:
        name = self.called(value)
        if isinstance(item, Slice):
            stop = f" {self.f(item.stop)}" if item.stop is not None and not item.start else ""
            rows = f"The first{stop} rows" if not item.start else "Rows"
            return f"{rows} of {name} are used, one for each position"
        if isinstance(item, Ref) and item.symbol.kind == "input":
            return f"Each token looks up its row of {name}"
        return f"The entries {self.f(item)} of {name} are picked"

    def product(self, a: Expr, b: Expr) -> str:
        if isinstance(b, Apply) and b.op == "T":
            if isinstance(b.args[0], Ref) and b.args[0].key in self.parameters:
                return (f"Every row of {self.short(a)} is compared with every row of "
                        f"{self.called(b.args[0])}, by an inner product")  # fmt: skip
            return (f"For every pair of positions the inner product of a row of {self.short(a)} "
                    f"with a row of {self.short(b.args[0])} says how well they match")  # fmt: skip
        if isinstance(b, Ref) and b.key in self.parameters:
            return f"Every row of {self.short(a)} is multiplied by {self.called(b)}"
        return (f"Every position gets a weighted sum of the rows of {self.short(b)}; the weights "
                f"are its row of {self.short(a)}")  # fmt: skip

    def added(self, e: Expr, terms: list[Expr]) -> str:
        biases = [t for t in terms if isinstance(t, Ref) and t.key in self.parameters]
        if biases:
            return f"{listed(map(self.called, biases))} {'are' if biases[1:] else 'is'} added"
        if isinstance(e, Apply) and e.op == "add" and sum(lone(t) is not None for t in terms) == 0:
            return (
                "The two are added, entry by entry" if len(terms) == 2 else "All of them are added"
            )
        return ""

    def function(self, name: str) -> str:
        """A function's own words, from its definition."""
        f = self.model.function[name]
        arguments = tuple(Ref(a.symbol) for a in f.arguments)
        head = self.f(Apply(name, arguments, semi=f.semi))
        if name in self.defined:
            return f"{head} is defined as before"
        self.defined.add(name)
        meaning = f": {f.meaning.rstrip('.')}" if f.meaning else ""
        return f"{head[:-1]} = {show(f.body, self.style)}${meaning}"

    def called(self, r: Ref) -> str:
        """A parameter with its meaning."""
        p = self.parameters.get(r.key)
        said = f" ({p.meaning})" if p is not None and p.meaning else ""
        return f"{self.f(r)}{said}"

    def short(self, e: Expr) -> str:
        return self.f(e) if sum(1 for _ in walk(e)) <= 8 else "that"
