"""Reads a card: which block of a document declares what.

It is tolerant about layout (headings, bullets, column names) and strict about formulas. Dimensions
are read first, then the names on all left sides, then the formulas, so every formula is parsed with
all of the card's declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

from viete.analysis.shapes import shapes_of
from viete.cards.agreement import Described, check_agreement, check_used
from viete.cards.choices import Choice, family_member
from viete.cards.claims import read_claim
from viete.cards.config import Config
from viete.cards.declarations import Declarations, is_range
from viete.cards.described import NoEquations, no_equations
from viete.cards.members import changes
from viete.cards.operators import is_function, operators
from viete.cards.sections import LINK, Pages
from viete.document.commonmark import lines_of
from viete.document.markdown import MAX_LINE, check_shown, read_markdown
from viete.document.tree import Block, Heading, ListItem, Paragraph
from viete.errors import Text, VieteError, Where
from viete.graph.card import (
    CardData,
    Dimension,
    Equation,
    Loop,
    Parameter,
)  # fmt: skip
from viete.graph.dependence import FURTHEST
from viete.notation.letters import parse_left, parse_range
from viete.notation.lexer import tokenize
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.symbols import PRIMITIVES, Scope
from viete.notation.tree import Apply, Expr, Idx, Ref, Slot, Symbol, num, walk
from viete.printable import STEERING
from viete.regular import regular
from viete.rewrite.put import put

MAX_BYTES, MAX_LINES = 1_000_000, 20_000
_INCLUDED = re.compile(rf"^\s*(?:[-*+|]|\d+[.)])\s*{LINK.pattern}", re.M)

_FOR = re.compile(
    r"^\**\s*for\s+(?:each\s+|all\s+|every\s+)?(?:(?:block|layer)s?\s+)?[$`]?(.+)$", re.I
)
_BARE_FOR = re.compile(
    r"^for\s+(?:each\s+|all\s+|every\s+)?(?:(?:block|layer)s?\s+)?\$[^$]*\$\s*:?$", re.I
)
_FROM = re.compile(
    r"^\**for\s+(?:(?:each|all|every)\s+)?(?:(?:block|layer)s?\s+)?[$`]?[A-Za-z][$`]?\s+"
    r"(?:from|in)\b.*:\**$", re.I)  # fmt: skip
NO_NESTING = (
    "loops do not nest: write one loop that takes all turns of both, or write the equations of the "
    "inner loop out, once for each of its turns"
)
_SHAPE = re.compile(
    r"^\**(?:output\s+)?shape\**\s*(?:[:=]|is\b(?=\s*[$`]?\())\**\s*((?:(?!for each ).)*)",
    re.I,
)


def read(
    path: str | Path, config: Config | None = None, accept: Sequence[str] = (),
    sets: Mapping[str, str] | None = None,
) -> CardData:  # fmt: skip
    """Read a card from a Markdown, LaTeX or JSON file, and check the shape of every equation.

    A family of models gives the member of that ``config``; see `viete.cards.choices`. ``sets``
    replaces numbers of dimensions, with which the rest of the card must agree.

    Raises VieteError, with file, line and column, for any mistake in it.
    """
    path = Path(path)
    text = text_of(path)
    pages = tuple(pages_of(text, path.parent).items())
    return read_again(text, str(path), config, tuple(accept), tuple((sets or {}).items()), pages)


@lru_cache(maxsize=64)
def read_again(
    text: str, file: str, config: Config | None, accept: tuple[str, ...],
    sets: tuple[tuple[str, str], ...], pages: tuple[tuple[str, tuple[str, str]], ...],
) -> CardData:  # fmt: skip
    """Read as `reads` does, once while text and config are unchanged: models are immutable."""
    return reads(text, file, config, accept, dict(sets), dict(pages))


def text_of(path: Path) -> str:
    """The text of a card's file. Raises VieteError if it cannot be a card."""
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise VieteError(f"{path} is a folder; a card is a Markdown file")
        if size > MAX_BYTES:
            raise VieteError(
                f"{path} has {size:,} bytes; a card is a page or two, at most {MAX_BYTES:,} bytes"
            )
        return decoded(regular(path).read_bytes(), str(path))
    except OSError as error:
        raise VieteError(f"cannot read {path}: {error.strerror}") from None


def pages_of(text: str, folder: Path) -> Pages:
    """The shared pages that a card's rows and items link to: by link, the file and its text.

    A page stands in the card's folder or below it; any other link is left out.
    """
    links = dict.fromkeys(m[1] for m in _INCLUDED.finditer(text))
    inside = (link for link in links if ".." not in Path(link).parts and (folder / link).is_file())
    return {link: (str(folder / link), checked(text_of(folder / link), str(folder / link)))
            for link in inside if not Path(link).is_absolute()}  # fmt: skip


def decoded(content: bytes, file: str) -> str:
    """The text of a card's bytes. Raises VieteError for a binary file."""
    if b"\0" in content:
        raise VieteError(f"{file} is a binary file; a card is a Markdown, LaTeX or JSON text")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise VieteError(f"{file}:{line}: this is not UTF-8 text, so it is not a card") from None


def reads(
    content: str, file: str = "<card>", config: Config | None = None, accept: Sequence[str] = (),
    sets: Mapping[str, str] | None = None, pages: Pages | None = None,
) -> CardData:  # fmt: skip
    """Read a card from text; see `read`. ``pages`` are those that it shares with other cards."""
    if not isinstance(content, str):
        raise VieteError(f"a card is text, not {type(content).__name__}")
    start = checked(content, file).lstrip()[:200]
    if start.startswith("{"):
        from viete.cards.structured import read_json

        blocks = read_json(content, file)
    elif start.startswith(("\\documentclass", "\\section", "%", "\\begin")):
        from viete.document.latex import read_latex

        blocks = read_latex(content, file)
    else:
        blocks = read_markdown(content, file)
    try:
        return build(blocks, file, config, accept, sets, pages)
    except NoEquations:
        raise no_equations(content, file) from None


def checked(content: str, file: str) -> str:
    """A text that may be a card's. Raises VieteError for a long one or invisible characters."""
    if len(content) > MAX_BYTES:
        raise VieteError(
            f"{file} has {len(content):,} characters; a card is a page or two, "
            f"at most {MAX_BYTES:,}"
        )
    check_characters(content, file)
    if content.lstrip().startswith("{"):
        return content  # JSON may be on one line
    if (count := len(lines := lines_of(content))) > MAX_LINES:
        raise VieteError(f"{file} has {count:,} lines; a card is a page or two, at most "
                         f"{MAX_LINES:,}")  # fmt: skip
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            message = f"this line has {len(line):,} characters; a card's have at most {MAX_LINE:,}"
            raise VieteError(message, Where(file, number, 1, line[:100]))
    return content


def check_characters(content: str, file: str) -> None:
    """Refuse invisible characters: a page would hide what is read, and a terminal would obey it."""
    for found in STEERING.finditer(content):
        if found[0] != "\r":  # a line break of Windows
            at = found.start()
            start = content.rfind("\n", 0, at) + 1
            line = content[start : at + 60].partition("\n")[0]
            where = Where(file, content.count("\n", 0, at) + 1, at - start + 1, line)
            message = f"the character U+{ord(found[0]):04X} does not show; a card goes without it"
            raise VieteError(message, where)


def build(
    blocks: list[Block], file: str, config: Config | None = None, accept: Sequence[str] = (),
    sets: Mapping[str, str] | None = None, pages: Pages | None = None,
) -> CardData:  # fmt: skip
    """A document's blocks as a checked model."""
    check_shown(blocks)
    reader = Reader(blocks, file, pages)
    model = reader.model(config)
    if config is not None:
        config.check_complete(model)
        config.check_accounted(model, accept)
    plain = model
    if sets:
        model = model.bind(**sets)
        reader.check_stated(model.sizes)
    check_agreement(model, shapes_of(model), reader.sizes_in_words(), reader.numbers())
    check_used(model, plain)
    return model


class Reader(Declarations):
    """Reads a document, with one pass for each kind of declaration."""

    # -- the whole ---------------------------------------------------------------------------------

    def model(self, config: Config | None) -> CardData:
        self.header()
        self.dimension_tables()
        if config is not None:
            self.take(config)
        self.notation()
        self.dims_scope()
        vocabulary = self.vocabulary()
        self.input_list({i.name for i in self.indices} | self.loop_letters())
        loops = self.loops()
        letters = {i.name for i in self.indices} | {loop.index for loop in loops}
        parameters = self.parameters(letters)
        if config is not None:
            parameters = [config.numbers(p) if p.from_config else p for p in parameters]
        functions = self.functions()
        choices = self.choices(functions, parameters)
        all_lines = self.equation_lines()
        changing = changes([math for _, math, *_ in all_lines], self.ranges(loops))
        lines = [x for x, change in zip(all_lines, changing, strict=True) if not change]
        changed = [x[1] for x, change in zip(all_lines, changing, strict=True) if change]
        derived = [(b, *self.split(b.text)) for b in self.items("derived")]
        derived_lines = [line for line in derived if not is_function(line[1])]
        lefts = self.left_sides(
            [math for _, math, *_ in lines] + [math for _, math, _ in derived_lines],
            letters, loops,
        )  # fmt: skip
        if not lines:
            raise NoEquations(f"{self.file}: no equations")
        self.check_equations(self.for_line)
        self.unique(parameters, lefts, lines, letters)
        skeleton = CardData(
            self.title, tuple(self.about), tuple(self.facts), vocabulary,
            tuple(self.glossary), tuple(self.dims),
            tuple(self.indices), tuple(self.inputs), tuple(parameters), tuple(functions),
        )  # fmt: skip
        if config is not None:
            config.check_facts(skeleton)
        scope = skeleton.scope
        scope.functions |= {f.name: f.signature for c in choices for r in c.rows
                            for f in r.functions}  # fmt: skip
        scope.indices |= letters
        scope.inputs = bool(self.inputs)
        defined = {left.symbol.key: left.symbol for left in lefts}
        for base in {symbol.base for symbol in defined.values()}:
            others = scope.symbols.get(base, [])
            scope.symbols[base] = [s for s in others if s.key not in defined]
        for symbol in defined.values():
            scope.declare(symbol)
        self.choose_values(choices, letters, scope)
        functions_of_values = operators(
            [(math, meaning) for _, math, meaning in derived if is_function(math)], letters, scope
        )  # fmt: skip
        equations = self.equations(lines, lefts[: len(lines)], loops, scope)
        names = [
            Equation(left, self.right(math, scope), None, "", meaning, None, math)
            for left, (_, math, meaning) in zip(lefts[len(lines) :], derived_lines, strict=True)
        ]
        claims = []
        for block in self.items("claims"):
            math, meaning = self.split(block.text)
            claims.append(read_claim(math, scope, meaning))
        model = replace(
            skeleton, equations=tuple(equations), derived=tuple(names),
            operators=tuple(functions_of_values), claims=tuple(claims),
        )  # fmt: skip
        return put(family_member(model, choices, config), changed)

    def numbers(self) -> list[Dimension]:
        """Facts such as ``- **num_blocks**: 2`` above all sections, which only state a number."""
        return [Dimension(Symbol("dim", key), num(int(value)), text=text)
                for key, value, text in self.fact_lines if value.strip().isdecimal()]  # fmt: skip

    def sizes_in_words(self) -> list[Described]:
        """The shapes described in the notation list; words that are not sizes are prose."""
        out: list[Described] = []
        for name, words in self.described:
            try:
                out.append((name, words, self.shape(words, batch=True)))
            except VieteError:
                continue
        return out

    # -- equations ---------------------------------------------------------------------------------

    def ranges(self, loops: list[Loop]) -> dict[str, tuple[Fraction | None, Fraction | None]]:
        """The first and the last number of every index letter; None where no config gives it."""
        sized = CardData("", dims=tuple(self.dims))

        def number(e: Expr) -> Fraction | None:
            size = sized.size(e)
            if size is None or not size.names() <= sized.sizes.keys():
                return None
            return size.evaluate(sized.sizes)

        bounds = [(i.name, i.lower, i.upper) for i in self.indices]
        bounds += [(x.index, x.lower, x.upper) for x in loops]
        return {letter: (number(first), number(last)) for letter, first, last in bounds}

    def loops(self) -> list[Loop]:
        """Every ``For i = 1, …, N`` of the forward pass, in order."""
        out: list[Loop] = []
        around = ""  # the last loop's letter, as long as it has no equation
        for block, m, part in self.forward_lines():
            if m is None and isinstance(block, ListItem):
                around = ""
            if m is not None:
                if m.text.count("=") > 1:
                    if (rest := m.text.partition(":")[2]) and not _FOR.match(rest.strip("$` ")):
                        raise m.error("the equations of a loop stand below its For line, each on a "
                                      "line of its own")  # fmt: skip
                    raise m.error(f"a loop has one letter, and {NO_NESTING}")
                index, lower, upper = parse_range(m, self.shapes)
                other = next((x for x in out if x.index == index), None)
                down = other is not None and (other.upper, other.lower) == (lower, upper)
                if lower == upper:  # one turn looks the same either way
                    down = down and part.startswith("Backward")
                if down and lower != upper:
                    lower, upper = upper, lower
                elif other is not None and (other.lower, other.upper) != (lower, upper):
                    raise m.error(f"{index} already runs over another range; use another letter")
                if any(i.name == index for i in self.indices):
                    raise m.error(f"{index} is declared under Dimensions as an axis; a loop needs "
                                  f"a letter of its own")  # fmt: skip
                if around:
                    raise m.error(f"{index} runs inside of the loop over {around}; {NO_NESTING}")
                out.append(Loop(index, lower, upper, len(out), down))
                around = index
        return out

    def loop_letters(self) -> set[str]:
        """The letters of the loops, before their bounds are read."""
        found = (m for _, m, _ in self.forward_lines() if m is not None)
        return {m.text.partition("=")[0].strip() for m in found}

    def forward_lines(self) -> Iterator[tuple[Paragraph | ListItem, Text | None, str]]:
        """Each line of the forward pass, the range if it opens a loop, and its part."""
        part = ""
        for block in self.sections["forward"]:
            if isinstance(block, Heading):
                part = block.text.text
            elif isinstance(block, Paragraph | ListItem):
                yield block, self.for_line(block), part

    def for_line(self, block: Paragraph | ListItem) -> Text | None:
        m = _FOR.match(block.text.text)
        bare = _BARE_FOR.match(block.text.text) and m and not is_range(m[1])
        if bare or _FROM.match(block.text.text):
            raise block.text.error("a loop is written For $i = 1, …, N$:")
        if m is None or "=" not in m[1] or not is_range(m[1]):
            return None
        return block.text.cut(m.start(1), m.start(1) + len(m[1].rstrip("$`:* \t")))

    def equation_lines(self) -> list[tuple[ListItem, Text, str, int | None, str]]:
        """Each equation: item, formula, meaning, number of the last loop opened before it, part."""
        out: list[tuple[ListItem, Text, str, int | None, str]] = []
        opened: int | None = None
        for block, m, part in self.forward_lines():
            if m is not None:
                opened = 0 if opened is None else opened + 1
            elif isinstance(block, ListItem):
                out.append((block, *self.split(block.text), opened, part))
        return out

    def left_sides(self, maths: list[Text], letters: set[str], loops: list[Loop]) -> list[Ref]:
        """The names on all left sides; x^0 and ∂x^N join a family x^i."""
        lefts: list[Ref] = []
        for math in maths:
            equals = next((t for t in tokenize(math) if t.text == "=" and t.kind == "op"), None)
            if equals is None:
                raise math.error("an equation is written name = expression")
            left = math.cut(0, equals.start)
            if not left.text:
                raise math.error("an equation needs a name before the = sign")
            try:
                lefts.append(parse_left(left, letters, self.shapes))
            except VieteError as error:
                raise VieteError(
                    f"the left side of an equation is one name: {error.message}", error.where
                ) from None
        families = [x.symbol for x in lefts if x.symbol.slots]
        down = [x for x in loops if x.down]
        ends = {(x.index, label_text(e)): e for x in down for e in (x.lower, *last_blocks(x))}
        out = []
        for ref in lefts:
            for family in families:
                if len(ref.symbol.slots) >= len(family.slots):
                    continue
                if (member := member_index(ref.symbol, family, ends)) is not None:
                    ref = Ref(family, member)
                    break
            out.append(ref)
        return out

    def unique(
        self, parameters: list[Parameter], lefts: list[Ref],
        lines: list[tuple[ListItem, Text, str, int | None, str]], letters: set[str],
    ) -> None:  # fmt: skip
        texts = {i.name: i.text for i in self.inputs}
        given = {left.symbol.key for left in lefts[: len(lines)]}
        items = [b for b in self.items("derived") if not is_function(self.split(b.text)[0])]
        for left, item in zip(lefts[len(lines) :], items, strict=True):
            if left.symbol.key in given:
                raise item.text.error(f"{left.symbol.key} is already defined above")
            given.add(left.symbol.key)
        for parameter in parameters:
            if parameter.name in texts:
                raise parameter.text.error(f"{parameter.name} is both an input and a parameter")
            texts[parameter.name] = parameter.text
        places = [math for _, math, *_ in lines] + [item.text for item in items]
        bare = {(s.base, s.sub) for s in [*(p.symbol for p in parameters),
                                          *(x.symbol for x in lefts)] if not s.sup}  # fmt: skip
        for left, text in zip(lefts, places, strict=True):
            sup = [s.text for s in left.symbol.sup]
            powers = len(sup) == 1 and (sup[0].isdigit() or sup[0] == "T")
            name = left.symbol
            labels = tuple(s for s in name.sub if not s.text.isdigit())  # a number may be a row
            same = [x for x in (name.sub, labels) if (name.base, x) in bare]
            if powers and same and not name.slots:
                raise text.error(
                    f"{name.key} beside {replace(name, sub=same[0], sup=()).key} reads as its "
                    f"power or transpose; give it another label"
                )
            if left.symbol.key in letters:
                raise text.error(
                    f"{left.symbol.key} is an index letter, so no equation can define it"
                )
            if left.symbol.key in PRIMITIVES:
                raise text.error(f"{left.symbol.key} is a function, so no equation can define it")
            if left.symbol.key in texts:
                raise text.error(
                    f"{left.symbol.key} is given in line {texts[left.symbol.key].line}, so no "
                    f"equation can define it"
                )

    def choose_values(self, choices: list[Choice], letters: set[str], scope: Scope) -> None:
        """Read the values and parameters that the rows of Choices define."""
        maths = [math for choice in choices for row in choice.rows for math in row.math]
        for left in (lefts := self.left_sides(maths, letters, [])):
            if all(s.key != left.symbol.key for s in scope.symbols.get(left.symbol.base, ())):
                scope.declare(left.symbol)
        at = iter(lefts)
        for row in (row for choice in choices for row in choice.rows):
            row.values = [Equation(next(at), self.right(m, scope), text=m) for m in row.math]
            for name in row.names:
                symbol = parse_left(name, letters, self.shapes).symbol
                if not any(symbol.key == s.key for s in scope.symbols.get(symbol.base, ())):
                    raise name.error(f"no equation defines {symbol.key}")
                row.there.append(symbol)

    def right(self, math: Text, scope: Scope) -> Expr:
        # The left side was read as a declaration; here only what follows the first = counts.
        equals = next(t for t in tokenize(math) if t.text == "=" and t.kind == "op")
        blank = replace(math, text=" " * equals.end + math.text[equals.end :])
        if not blank.text.strip():
            raise math.error("an expression must follow the = sign", equals.start, equals.end)
        return parse(blank, scope)

    def equations(
        self, lines: list[tuple[ListItem, Text, str, int | None, str]], lefts: list[Ref],
        loops: list[Loop], scope: Scope,
    ) -> list[Equation]:  # fmt: skip
        out = []
        closed: dict[int, Equation] = {}  # a loop, and the equation that ended it
        for (item, math, meaning, opened, part), left in zip(lines, lefts, strict=True):
            loop, ends = None, None
            if opened is not None and opened not in closed:
                if any(Idx(loops[opened].index) in walk(x) for x in left.index):
                    loop = loops[opened]
                else:
                    ends = opened  # an equation without the index ends its loop
            free = {x.name for e in left.index for x in walk(e) if isinstance(x, Idx)}
            if opened is not None and opened not in closed:
                here = loops[opened]
                for x in loops[:opened]:
                    if x.order not in closed and x.index in free - {here.index}:
                        raise math.error(
                            f"{here.index} runs inside of the loop over {x.index}; {NO_NESTING}"
                        )
            if loop is None and (loose := free & {x.index for x in loops}):
                for e in closed.values():
                    if lost := loose & e.right.free:
                        raise e.text.error(
                            f"the right side differs for every {min(lost)}, so the left side needs "
                            f"the index {min(lost)} too; without it this equation ends the loop"
                        )
                raise math.error(
                    f"the index {loose.pop()} is bound to nothing here: this equation stands after "
                    f"the end of its loop (a loop ends at the first equation without its index)"
                )
            stated, stated_text = None, Text("")
            for note in item.notes:
                if m := _SHAPE.match(note.text):
                    stated_text = note.cut(*m.span(1))
                    stated = self.shape(stated_text, batch=True)
                else:
                    meaning = meaning or note.text
            out.append(
                Equation(
                    left, self.right(math, scope), loop, part, meaning, stated, math, stated_text
                )
            )
            if ends is not None:
                closed[ends] = out[-1]
        return out


def last_blocks(loop: Loop) -> list[Expr]:
    """``N``, ``N - 1``, …: the possible first blocks of a loop that runs down."""
    return [loop.upper, *(Apply("sub", (loop.upper, num(k))) for k in range(1, FURTHEST))]


def label_text(e: Expr) -> str:
    """An expression as a label of a name: ``N-1``."""
    return "".join(t.text for t in tokenize(Text(show(e))))


def member_index(
    symbol: Symbol, family: Symbol, ends: Mapping[tuple[str, str], Expr]
) -> tuple[Expr, ...] | None:
    """The index at which ``symbol`` (x^0) is a member of ``family`` (x^i), or None.

    ``ends`` are the first and last blocks of a loop that runs down, by its letter and the label.
    """
    if symbol.base != family.base:
        return None
    index: list[Expr] = []
    for slots, pattern in ((symbol.sub, family.sub), (symbol.sup, family.sup)):
        if len(slots) != len(pattern):
            return None
        for slot, place in zip(slots, pattern, strict=True):
            if place.index and slot.text.isdigit():
                index.append(parse(slot.text, Scope()))
            elif place.index and (place.text, slot.text) in ends:
                index.append(ends[place.text, slot.text])
            elif slot != place:
                return None
            elif place.index:  # as h in A^{0,h}
                index.append(Idx(place.text))
    return tuple(index)


__all__ = ["Slot", "build", "read", "reads"]
