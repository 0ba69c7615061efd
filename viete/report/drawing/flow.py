"""The data flow of a card as a diagram: what makes a value, what uses it, and what loops back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from viete.analysis.def_use import Use, def_use, lone, references, sums
from viete.analysis.streams import streams
from viete.document.tree import capital
from viete.errors import VieteError
from viete.graph.card import CardData, Input, Loop
from viete.graph.sizes import Size
from viete.notation.printer import letters, show, show_equation, show_symbol
from viete.notation.tree import Apply, Expr, Idx, Ref
from viete.report.drawing.diagram import Arrow, Box, BoxGroup, Diagram
from viete.report.drawing.sizes import Axes, Sizes, turns
from viete.report.drawing.story import story
from viete.report.lesson.words import StepWords

LONGEST = 48  # letters of a meaning that is a title
MOST = 6  # steps of what the equations of a box do


def is_title(meaning: str) -> bool:
    """Whether a meaning is short and plain enough to be a title."""
    return 0 < len(meaning) <= LONGEST and not any(c in meaning for c in "$`;")


def flow(
    card: CardData,
    detail: str = "parts",
    lengths: Mapping[str, int] | None = None,
    batch: int | None = None,
    style: str = "unicode",
) -> Diagram:
    """The forward pass as boxes and arrows, ready for `to_svg`, `to_text` and `to_mermaid`.

    ``detail`` 'parts' makes a box of every titled part of the card, 'equations' of every equation.
    A value added to a result computed from it is a residual stream: its arrows and the sums that
    they join are one line, from which sub-layers branch off. A loop is a group, with an arrow back
    for the values that go around. ``lengths`` adds the numbers to the symbols in every shape,
    ``batch`` an axis of that many sequences in front. Raises VieteError for another ``detail``, and
    for a length or a dimension without a number where numbers are wanted.
    """
    if detail not in ("parts", "equations"):
        raise VieteError(f"the detail of a diagram must be parts or equations, not {detail}")
    numbers = None if lengths is None else Sizes(card, lengths, batch)
    return DataFlow(card, detail, numbers, style).diagram()


@dataclass(eq=False)
class BoxPiece:
    """The content of one box: equations, or the term that an equation adds to the stream."""

    members: list[int]
    term: Expr | None = None
    title: str = ""

    @property
    def is_term(self) -> bool:
        return self.term is not None


class DataFlow:
    """The boxes of a card's data flow, with the equations of each."""

    def __init__(self, card: CardData, detail: str, sizes: Sizes | None, style: str) -> None:
        self.uses, self.model, self.sizes, self.style = def_use(card), card, sizes, style
        self.axes = Axes(self.uses, style)
        self.dots = "..." if style == "plain" else "…"
        self.stream = streams(card)
        self.added = {u.reader for u in self.stream}
        self.detail = detail
        self.pieces: list[BoxPiece] = []
        for part in self.uses.parts:
            self.pieces += self.split(part)
        self.home = {k: n for n, p in enumerate(self.pieces) if not p.is_term for k in p.members}
        self.terms = {p.members[0]: n for n, p in enumerate(self.pieces) if p.is_term}

    def diagram(self) -> Diagram:
        model = self.model
        used = {u.ref.key for u in self.uses.all if u.maker is None}
        inputs = [self.input(i) for i in model.inputs if i.name in used]
        boxes = [self.box(n) for n in range(len(self.pieces))]
        groups = tuple(BoxGroup(self.group(loop), self.turns(loop)) for loop in model.loops)
        return Diagram(model.title, (*inputs, *boxes), tuple(self.arrows()), groups)

    # -- pieces ------------------------------------------------------------------------------------

    def split(self, part: list[int]) -> list[BoxPiece]:
        """Split a part into boxes: sums of the stream, verdicts, and shared beginnings.

        Verdicts get a box where the part has outputs too; a shared beginning is what several
        sub-layers begin with.
        """
        out: list[BoxPiece] = []
        run: list[int] = []

        def end() -> None:
            out.extend(BoxPiece(members) for members in self.together(run))
            run.clear()

        outputs = any(self.uses.is_output(j) for j in part)
        for k in part:
            if k in self.added:
                end()
                if (term := self.branch(k)) is not None:
                    out.append(BoxPiece([k], term))
                out.append(BoxPiece([k]))
                continue
            if self.uses.is_verdict(k) and outputs:
                end()
            run.append(k)
            if self.detail == "equations" or self.is_shared(k, part):
                end()
        end()
        self.name(part, out)
        return out

    def together(self, run: list[int]) -> list[list[int]]:
        """Groups of linked equations: one reads another, or both read the same."""
        read = {k: {u.ref.key for u in self.uses.all if u.reader == k} for k in run}
        found: list[list[int]] = []
        for k in run:
            own = read[k] | {self.model.equations[k].name}
            names = ((f, self.model.equations[j].name, j) for f in found for j in f)
            joined = [f for f, name, j in names if own & (read[j] | {name})]
            found = [f for f in found if f not in joined]
            found.append(sorted({k, *(j for f in joined for j in f)}))
        return sorted(found)

    def branch(self, k: int) -> Expr | None:
        """The term of equation k that is computed from the value to which it is added."""
        stream = {u.ref for u in self.stream if u.reader == k}
        for terms in sums(self.model.equations[k].right):
            if not any(lone(t) in stream for t in terms):
                continue
            rest = [
                t for t in terms if lone(t) not in stream and not t.made_of.isdisjoint(COMPUTED)
            ]
            if len(rest) == 1 and any(ref in stream for ref, _ in references(rest[0])):
                total = [t for t in terms if lone(t) not in stream]
                return total[0] if len(total) == 1 else _sum(total)
        return None

    def is_shared(self, k: int, part: list[int]) -> bool:
        """Whether later equations of the part, and other parts, begin with equation k."""
        later = [j for j in part if j > k]
        readers = {u.reader for u in self.uses.all if u.maker == k and not u.around} - self.added
        loop = self.model.equations[k].loop
        outside = [j for j in readers - set(part) if self.model.equations[j].loop == loop]
        earlier = {j for j in part if j < k}
        return bool(
            loop is not None
            and later
            and outside
            and all(k in self.uses.backward_slice(j) for j in later if j not in self.added)
            and not any(self.uses.readers[j] - {k} - earlier for j in earlier)
        )

    def name(self, part: list[int], pieces: list[BoxPiece]) -> None:
        """Set the titles: the part's for its largest box, and for the others what they do."""
        whole = self.model.equations[part[0]].part
        own = [p for p in pieces if p.is_term or p.members[0] not in self.added]
        # Of boxes alike, the one that has no other title.
        size = [(len(p.members), not self.called(p)) for p in own or pieces]
        main = (own or pieces)[size.index(max(size))] if whole else None
        if self.detail == "equations" and len(pieces) > 1:
            main = None
        for p in pieces:
            p.title = whole if p is main else self.titled(p, whole)

    def titled(self, p: BoxPiece, whole: str) -> str:
        """The title of a box by its meaning, by what it does, or by its value."""
        e = self.model.equations[p.members[0]]
        if meaning := self.called(p):
            return meaning
        if p.is_term and whole:
            return whole
        if len(p.members) > 1:
            return f"{whole}, continued"
        said = story(self.model, e.right if p.term is None else p.term)
        noun = StepWords(self.model, self.style).noun(e)
        return capital(said or noun * is_title(noun)) or show(e.left, self.style)

    def called(self, p: BoxPiece) -> str:
        """The card's words for the one equation of a box."""
        if p.is_term or len(p.members) > 1:
            return ""
        e = self.model.equations[p.members[0]]
        if p.members[0] in self.added:
            return " & ".join(["Add", *_around_sum(self.model, e.right)])
        if is_title(e.meaning):
            return capital(e.meaning)
        return capital(self.parameter(p.members[0]))

    def parameter(self, k: int) -> str:
        """The meaning of the one matrix in equation k, if other matrices of its shape differ."""
        read = {ref.key for ref, _ in references(self.model.equations[k].right)}
        mine = [p for p in self.model.parameters if p.name in read and len(p.shape) == 2]
        if len(mine) != 1:
            return ""
        alike = [p.meaning for p in self.model.parameters if p.shape == mine[0].shape]
        found = mine[0].meaning if len(alike) > 1 == alike.count(mine[0].meaning) else ""
        return found * is_title(found)

    # -- boxes -------------------------------------------------------------------------------------

    def box(self, n: int) -> Box:
        p = self.pieces[n]
        first = self.model.equations[p.members[0]]
        group = None if first.loop is None else self.group(first.loop)
        numbers = tuple(k + 1 for k in p.members)
        if p.term is not None:
            lines: list[str] = [show(p.term, self.style)]
            return Box(str(n), p.title, tuple(lines), "value", group, (first.name,), numbers)
        leaving = {u.maker for u in self.uses.all
                   if u.reader not in p.members or u.around}  # fmt: skip
        several = self.stories(self.side_by_side(p)) if len(p.members) > 1 else ""
        lines = [several] * bool(several)
        for shape, run in groupby(p.members, key=self.shape):
            members = [*run]
            for e in (self.model.equations[k] for k in members):
                lines.append(show_equation(e.left, e.right, self.style))
            if not leaving.issuperset(members):  # an arrow says it of what leaves
                lines.append(shape)
        kind = "output" if any(self.uses.is_output(k) for k in p.members) else "value"
        if kind == "value" and p.members[0] in self.added:
            kind = "sum"
        keys = tuple(dict.fromkeys(self.model.equations[k].name for k in p.members))
        return Box(str(n), p.title, tuple(lines), kind, group, keys, numbers)

    def input(self, item: Input) -> Box:
        lines = [item.meaning] if item.meaning and "$" not in item.meaning else []
        if item.low is not None and item.high is not None:
            low, high = show(item.low, self.style), show(item.high, self.style)
            a, b = self.model.size(item.low), self.model.size(item.high)
            pair = a is not None and b is not None and b - a == Size.of(1)
            lines.append(f"{{{low}, {high}}}" if pair else f"{{{low}, {self.dots}, {high}}}")
        shape = self.uses.shapes.types[item.name].shape
        lines.append(self.sized(shape, True))
        title = show_symbol(item.symbol, self.style)
        return Box(f"input {item.name}", title, tuple(lines), "input", None, (item.name,))

    def shape(self, k: int) -> str:
        return self.sized(self.axes.of(k), bool(self.uses.inputs_of(k)))

    def sized(self, axes: tuple[Size, ...], batched: bool) -> str:
        """``(B, T, d) = (64, 256, 256)``, or ``(T, d)`` where no numbers are wanted."""
        batched = batched and self.sizes is not None and self.sizes.batch is not None
        if not axes and not batched:
            return "one number"
        shape = self.axes.show(axes, batched)
        if self.sizes is None:
            return shape
        counted = self.axes.count(axes, batched, self.sizes)
        return shape if shape == counted else f"{shape} = {counted}"

    def group(self, loop: Loop) -> str:
        return f"loop {loop.order}"

    def turns(self, loop: Loop) -> str:
        """``for i = 1, …, N``, with the number of turns where numbers are wanted."""
        lower, upper = (show(e, self.style) for e in (loop.lower, loop.upper))
        text = f"for {letters(loop.index, self.style)} = {lower}, {self.dots}, {upper}"
        if self.sizes is None:
            return text
        return f"{text}: {turns(self.model, loop, self.sizes)}"

    # -- arrows ------------------------------------------------------------------------------------

    def arrows(self) -> list[Arrow]:
        """One arrow for all values that go from one box to another in the same way."""
        out = []
        for (source, goal, added, around), uses in self.bundles().items():
            names = {self.label(u): u.ref.key for u in uses}
            label = ", ".join(filter(None, names))
            keys = tuple(dict.fromkeys(names.values()))
            out.append(Arrow(source, goal, label, added, around, keys))
        for k, n in self.terms.items():
            made = self.shape(k)
            keys = (self.model.equations[k].name,)
            out.append(Arrow(str(n), str(self.home[k]), made, keys=keys))
        return self.with_stories(self.with_ends(out))

    def bundles(self) -> dict[tuple[str, str, bool, bool], list[Use]]:
        """The uses of each arrow: source, target, in a stream, back to the beginning."""
        bundles: dict[tuple[str, str, bool, bool], list[Use]] = {}
        first_reader: dict[int, int] = {}
        for use in self.uses.all:
            source = f"input {use.ref.key}" if use.maker is None else str(self.home[use.maker])
            goes_on = use in self.stream
            target = self.home[use.reader] if goes_on else self.reader(use)
            if source == str(target) and not use.around:
                continue
            if use.around and use.maker is not None:  # back to where the value is first wanted
                target = first_reader.setdefault(use.maker, target)
            key = source, str(target), goes_on and not use.around, use.around
            bundles.setdefault(key, []).append(use)
        # Where the stream goes already, nothing goes beside it.
        both = {(s, t) for s, t, added, _ in bundles if added}
        return {
            (s, t, added, around): uses
            for (s, t, added, around), uses in bundles.items()
            if added or around or (s, t) not in both
        }

    def with_ends(self, arrows: list[Arrow]) -> list[Arrow]:
        """The arrows, a stream's last stretch, to a box that reads nothing else, as residual."""
        down = [a for a in arrows if not a.back]
        first = Counter(a.source for a in down)
        into = Counter(a.target for a in down)
        ends = {a.target for a in down if a.residual} - {a.source for a in down if a.residual}
        return [
            replace(a, residual=True)
            if not a.back and a.source in ends and first[a.source] == into[a.target] == 1
            else a
            for a in arrows
        ]

    def with_stories(self, arrows: list[Arrow]) -> list[Arrow]:
        """The arrows; the last one into the box of one equation says what the equation does."""
        last = {a.target: n for n, a in enumerate(arrows) if not a.back}
        out = [*arrows]
        for target, n in last.items():
            p = self.pieces[int(target)]
            if len(p.members) > 1 or (p.members[0] in self.added and not p.is_term):
                continue
            said = self.story(p.members)
            if said.lower() != p.title.lower():
                out[n] = replace(arrows[n], step=said)
        return out

    def side_by_side(self, p: BoxPiece) -> list[list[int]]:
        """The equations of a box; those that read the same values grouped, as Q, K and V do."""

        def reads(k: int) -> object:
            used = frozenset((u.ref, u.maker) for u in self.uses.all if u.reader == k)
            return used if any(maker is not None for _, maker in used) else k

        return [[*row] for _, row in groupby(p.members, key=reads)]

    def stories(self, rows: list[list[int]]) -> str:
        """The steps of consecutive rows of equations, ``linear → masked softmax → linear``.

        The same step of two rows side by side counts once.
        """
        steps: list[str] = []
        for before, row in zip([[], *rows], rows, strict=False):
            said = self.story(row)
            linked = any(u.maker in before and u.reader in row for u in self.uses.all)
            if said and (linked or steps[-1:] != [said]):
                steps.append(said)
        arrow = " -> " if self.style == "plain" else " → "
        words = arrow.join(steps).replace(", ", arrow)
        return words if words.count(arrow) in range(1, MOST) else ""

    def story(self, row: list[int]) -> str:
        """What parallel equations do: for Q, K and V the longest story."""
        branches = {k: self.pieces[n].term for k, n in self.terms.items()}
        own = [branches.get(k) or self.model.equations[k].right for k in row]
        return max((story(self.model, e) for e in own), key=lambda said: said.count(","))

    def reader(self, use: Use) -> int:
        """The box that reads a value: the branch of an equation, or the equation itself."""
        n = self.terms.get(use.reader)
        term = self.pieces[n].term if n is not None else None
        if n is not None and term is not None and any(r == use.ref for r, _ in references(term)):
            return n
        return self.home[use.reader]

    def label(self, use: Use) -> str:
        """A value's name and shape."""
        if use.maker is None:
            return ""
        name = show(self.spelled(use), self.style)
        return name if use.around else f"{name} {self.shape(use.maker)}"

    def spelled(self, use: Use) -> Ref:
        """A value on an arrow, named so that both ends match: x^0 where a loop begins with it."""
        if use.maker is None:
            return use.ref
        made = self.model.equations[use.maker]
        index = []
        outer = self.model.equations[use.reader].loop
        for slot, there, here in zip(
            use.ref.symbol.slots, made.left.index, use.ref.index, strict=True
        ):
            own = made.loop is not None and slot == made.loop.index and made.loop != outer
            fixed = all(not isinstance(x, Idx) for x in (here, *getattr(here, "args", ())))
            index.append(here if own and fixed else there)
        return Ref(use.ref.symbol, tuple(index))


COMPUTED = frozenset({"value", "input"})


def _sum(terms: list[Expr]) -> Expr:
    total = terms[0]
    for t in terms[1:]:
        total = Apply("add", (total, t))
    return total


def _around_sum(card: CardData, e: Expr) -> list[str]:
    """The functions applied to the sum of an equation: LN of x + a."""
    out = []
    while isinstance(e, Apply) and e.op != "add":
        if e.op in card.function:
            out.append(e.op)
        e = next((x for x in e.args if not x.made_of.isdisjoint(COMPUTED)), e.args[0])
    return out[::-1]


__all__ = ["DataFlow", "flow"]
