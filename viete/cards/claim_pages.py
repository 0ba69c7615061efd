"""A page of claims: Markdown in, the claims in its formulas out, with the names that it defines.

A formula with a relation (``=``, ``≤``, …) is a claim. A formula that begins with a new name and
``=`` defines that name for the formulas below. A claim about a function of a letter, ``B_i(x) =
…``, is about any stream and is checked on one. A formula that is struck through, ``~~$a = b$~~``,
is claimed to be false. All other text is prose, including code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from viete.analysis.conventions import understood
from viete.analysis.def_use import def_use
from viete.analysis.shapes import shapes_of
from viete.analysis.token_vectors import question_scope
from viete.cards.claims import read_claim, says_something, without_texts
from viete.document.commonmark import visible_lines
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Equation
from viete.graph.claim import Claim
from viete.notation.letters import parse_left
from viete.notation.lexer import tokenize
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.substitution import Abstraction
from viete.notation.symbols import Scope
from viete.notation.tree import Expr, Pick, Ref, num
from viete.notation.words import Words
from viete.rewrite.put import check_bounds

_FORMULA = re.compile(
    r"(?<!\\)(?P<struck>~~\s*)?(?:\$\$(?P<shown>(?s:.+?))(?<!\\)\$\$|"
    r"\$(?!\s)(?P<inline>(?:[^$\n]|\n(?!\n))+?)(?<![\s\\])\$)"
)
_CLAUSE = re.compile(  # behind a formula, a clause of the same claim
    r"\s*,?\s+for\s+(?:(?:all|every|each|any|some)\s+)?\$[^$\n]+\$|"
    r"\s*,?\s+for\s+(?:all\s+|\d+\s+)?texts?\s+of\s+(?:`[^`\n]+`|[^\s`]*[^\s`.,;:])"
)
_ALIGNED = re.compile(r"\\(?:begin|end)\s*\{(?:align|aligned|gather|gathered|equation|split)\*?\}")
_LABEL = re.compile(r"\\(?:tag\*?|label)\s*\{[^{}]*\}|\\(?:notag|nonumber)\b")
_COMPARES = re.compile(r"[=<>≤≥≠≈]|\\(?:[lg]eq?|[lg]t|neq?|approx)(?![A-Za-z])")
_OF_LETTER = re.compile(r"[^=(]*[^=(\s]\s*\(\s*([A-Za-z])\s*\)\s*=")  # B_i(x) =
_RANGE = re.compile(r"^\s*\w+\s*=[^=]*(?:…|\.\.\.|\\l?dots|\\cdots)")


@dataclass
class ClaimPage:
    """The content of a page: a card with the page's definitions, its claims, and the rest.

    ``words`` name tokens, where the card has no words for them. ``readings`` say how an ambiguous
    formula was read. ``prose`` are formulas that state nothing; ``unread`` says why a statement is
    not a claim about this card.
    """

    card: CardData
    words: Callable[[], Words] | None = None
    claims: list[Claim] = field(default_factory=list)
    defined: list[str] = field(default_factory=list)
    readings: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    unread: list[VieteError] = field(default_factory=list)

    @property
    def scope(self) -> Scope:
        """The names that a formula may use."""
        own = question_scope(self.card)
        return own if self.words is None else replace(own, words=self.words)

    def read(self, source: Text, refuted: bool) -> None:
        """Read one formula, with the clauses after it."""
        try:
            if _RANGE.match(source.text) or not self.compares(source):
                self.prose.append(source.text.strip())
            elif refuted or not self.define(source):
                self.claims.append(replace(self.claim(source), refuted=refuted))
        except VieteError as error:
            self.unread.append(error)

    def compares(self, source: Text) -> bool:
        r"""Whether a formula is a statement; ``x \rightarrow y`` has no comparison sign."""
        try:
            return says_something(source)
        except VieteError:
            if _COMPARES.search(source.text):
                raise
            return False

    def claim(self, source: Text) -> Claim:
        """A claim in this card's sense: a norm without its parameters is the card's.

        Raises VieteError where it has no meaning for this card.
        """
        of = _OF_LETTER.match(source.text)
        if of is None or not self.is_free(of[1]):
            return self.fitting(source, self.scope, {})
        first: VieteError | None = None
        for tried in streams_tried(self.card):
            name = parse_left(Text(of[1]), set(), self.card.size_scope)
            given = replace(self.card, derived=(*self.card.derived, Equation(name, tried)))
            scope = replace(question_scope(given), words=self.scope.words)
            try:
                found = self.fitting(source, scope, {name.key: Abstraction((), tried)})
            except VieteError as error:
                first = first or error
                continue
            self.readings.append(f"{of[1]} in {of[0].rstrip(' =')} is any stream; it is tried "
                                 f"with {show(tried, 'unicode')}")  # fmt: skip
            return found
        raise first or source.error(
            f"{of[1]} stands for any stream, and {self.card.title} has none", *of.span(1)
        )

    def fitting(
        self, source: Text, scope: Scope, letters: Mapping[str, Abstraction]
    ) -> Claim:  # fmt: skip
        """A claim whose parts fit together, with formulas in the place of letters."""
        found, noted = read_claim(source, scope), list[str]()

        def meant(e: Expr) -> Expr:
            e = self.card.substitute(e, names=letters)
            e, conventions = understood(self.card, shapes_of(self.card), found.text, e)
            noted.extend(c.sentence for c in conventions)
            return e

        found = found.over(meant)
        shapes_of(replace(self.card, claims=(found,)))
        self.readings += noted
        return found

    def is_free(self, letter: str) -> bool:
        """Whether a letter has no meaning yet."""
        try:
            parse(Text(letter), self.scope)
            return False
        except VieteError:
            return True

    def define(self, source: Text) -> bool:
        """Whether a formula defines a new name, which formulas after it may use.

        Raises VieteError for a definition without a meaning for this card.
        """
        equation = self.definition(source)
        if equation is None:
            return False
        check_bounds(self.card, equation.right, source)
        card = replace(self.card, derived=(*self.card.derived, equation))
        shapes_of(card)
        self.card = card
        self.defined.append(equation.name)
        return True

    def definition(self, source: Text) -> Equation | None:
        """The formula as an equation of a new name; None if its left side is known already."""
        tokens = tokenize(without_texts(source)[0])
        at = next((t for t in tokens if (t.kind, t.text) == ("op", "=")), None)
        if at is None:
            return None
        left, letters = source.cut(0, at.start), self.card.scope.indices
        try:
            parse(left, self.scope.inside(letters))
            return None
        except VieteError:
            pass
        try:
            name = parse_left(left, set(letters), self.card.size_scope)
        except VieteError:
            return None
        if any(s.base == name.symbol.base for s in self.card.symbols.values()):
            return None  # a member of a family, or a known name with other scripts
        blank = replace(source, text=" " * at.end + source.text[at.end :])
        return Equation(name, parse(blank, self.scope), None, "", "", None, source)


def streams_tried(card: CardData) -> list[Expr]:
    """What a letter that stands for any stream is tried with: a stream, else one vector of it.

    The streams are the values that a loop hands from block to block; without loops, the values that
    something computed from them is added to.
    """
    uses = def_use(card).all
    found = [u for u in uses if u.around] or [u for u in uses if u.added]
    whole = list[Expr]()
    for u in found:
        loop = card.equations[u.reader].loop
        first = {} if loop is None else {loop.index: loop.lower}
        index = tuple(first.get(s, x) for s, x in zip(u.ref.symbol.slots, u.ref.index, strict=True))
        whole.append(Ref(u.ref.symbol, index))
    return list(dict.fromkeys([*whole, *(Pick(x, (num(0),)) for x in whole)]))


def read_page(
    content: str, file: str, card: CardData, words: Callable[[], Words] | None = None
) -> ClaimPage:  # fmt: skip
    """A page's claims about a card."""
    page = ClaimPage(card, words)
    for source, refuted in formulas(content, file):
        page.read(source, refuted)
    return page


def formulas(content: str, file: str) -> Iterator[tuple[Text, bool]]:
    """Every formula of a page with its clauses, and whether it is struck through.

    Each line of an aligned display is a formula.
    """
    lines = [x.text.text if x.kind == "text" else "" for x in visible_lines(content, file)]
    rows = [hidden_code(line) for line in lines]
    whole = "\n".join(rows)
    at = 0
    while m := _FORMULA.search(whole, at):
        group = "shown" if m["shown"] is not None else "inline"
        start, end = m.span(group)
        at = m.end()
        while clause := _CLAUSE.match(whole, at):
            at = end = clause.end()
        text = re.sub("[$`\n]", " ", whole[start:end])
        text = re.sub("|".join((_LABEL.pattern, _ALIGNED.pattern)), spaces, text)
        for piece in pieces(text) if group == "shown" else [(0, len(text))]:
            yield placed(lines, file, whole, start, text, *piece), bool(m["struck"])


def pieces(text: str) -> Iterator[tuple[int, int]]:
    r"""The lines of an aligned display, which end with ``\\``, or parts separated by spaces."""
    start = 0
    cases = 0
    for m in re.finditer(r"\\begin\s*\{cases\}|\\end\s*\{cases\}|\\\\|\\q?quad\b|$", text):
        cases += m[0].startswith("\\begin") - m[0].startswith("\\end")
        if not m[0].startswith(("\\begin", "\\end")) and not cases:
            if text[start : m.start()].strip():
                yield start, m.start()
            start = m.end()


def placed(
    lines: list[str], file: str, whole: str, offset: int, text: str, start: int, end: int
) -> Text:
    """A stretch of a formula that begins at ``offset`` of the page, with its line and column."""
    inside = text[start:end]
    inside = inside if "cases" in inside else inside.replace("&", " ")
    first = start + len(inside) - len(inside.lstrip())
    inside = inside.strip().rstrip(".,;")
    before = whole[: offset + first]
    line = before.count("\n")
    column = len(before) - (before.rfind("\n") + 1)
    if lines[line].lstrip().startswith("|"):  # in a table a bar is not a border behind a backslash
        inside = inside.replace("\\|", "|")
    return Text(inside, file, line + 1, column + 1, lines[line])


def hidden_code(line: str) -> str:
    """A line with everything in backticks blanked, except the texts of a claim."""
    return re.sub(r"(?<!texts of )(?<!text of )`[^`]*`", spaces, line)


def spaces(m: re.Match[str]) -> str:
    """Spaces of the same length."""
    return " " * len(m[0])


__all__ = ["ClaimPage", "read_page"]
