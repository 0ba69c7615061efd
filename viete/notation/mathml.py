"""Expression trees as MathML for browsers, with names and operations that a script can point to.

A name carries its key (``data-key``), a function its name (``data-call``) and, on request, an
operation the number of its node (``data-node``, see `numbered`). Every text that `MathML` returns
is one element. `with_signs` joins elements with signs between them, as reports do.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from html import escape

from viete.notation.lexer import GREEK, PREFIXES, TOKEN_BARS, accent_of, unprimed
from viete.notation.printer import ATOM, FACTOR, SUM, Printer, branches, is_phrase
from viete.notation.tree import PARTIAL, Apply, Bind, Expr, Idx, Num, Pick, Ref, Slice, Table, walk

_GREEK = {name: char for char, name in reversed(GREEK.items())}
_MARKS = {"tilde": "~", "hat": "^", "bar": "¯", "vec": "→", "overline": "‾", "underline": "_"}
_OPERATIONS = (Apply, Bind, Pick, Slice, Table)  # the nodes that are not names and numbers
_APPLIED = "<mo>\u2061</mo>"  # applied to; \u2062 is times, neither of which is seen
_PARTIAL = '<mo lspace="0" rspace="0">∂</mo>'
_CLOSED = re.compile(r">\)</mo>(</mrow>)*$")
_OPEN = re.compile(r"<mrow><mo[^>]*>\(")
_PIECE = re.compile(r"((?:<(?:mi|mn|mo|mtext)\b[^>]*>[^<]*</m\w+>|<[^>]*>)+)|([^<]+)")
_SIGN = re.compile(r"(\d+(?:\.\d+)?)|(\s*[^\W\d_]{2,}\s*)|([^\W\d_]|[…⋯∞])|(&\w+;|\S)|\s+")
_FENCES = "()[]{}|⟨⟩⌈⌉⌊⌋"
_TALL = re.compile(r"<m(frac|table|under|underover)\b(?! accent)")
_TIGHT = ' lspace="0" rspace="0"'
_WORD_BEHIND = re.compile(r"[^<>]{2,}</m[in]>(</mrow>)*$")
_WORD_AHEAD = re.compile(r"(<(mrow|msub|msup|msubsup)\b[^>]*>)*<m[in]\b[^>]*>[^<>]{2,}")


def mathml(e: Expr, nodes: bool = False, functions: Collection[str] = ()) -> str:
    """A formula as a ``math`` element; with ``nodes``, its operations carry their numbers."""
    if nodes or functions:
        return framed(MathML(functions=functions, nodes=numbered(e) if nodes else {}).show(e))
    if "mathml" not in e.__dict__:  # kept on the node: a page has most of its formulas twice
        e.__dict__["mathml"] = framed(MathML().show(e))
    text: str = e.__dict__["mathml"]
    return text


def mathml_equation(
    left: Expr, right: Expr, nodes: bool = False, functions: Collection[str] = ()
) -> str:
    """``left = right`` as a ``math`` element; the numbers are those of the right side's nodes."""
    write = MathML(functions=functions, nodes=numbered(right) if nodes else {})
    return framed(f"{MathML(functions=functions).show(left)} = {write.show(right)}", display=True)


def framed(inner: str, display: bool = False) -> str:
    """The ``math`` element around elements and signs."""
    style = ' displaystyle="true"' if display else ""
    return f"<math{style}>{with_signs(inner)}</math>"


def numbered(e: Expr) -> dict[Expr, int]:
    """The nodes of a formula, numbered by their first place: 0 is the whole formula."""
    out: dict[Expr, int] = {}
    for k, x in enumerate(walk(e)):
        out.setdefault(x, k)
    return out


@lru_cache(maxsize=1 << 12)
def with_signs(text: str, tall: bool = False, tight: bool = False) -> str:
    """Join elements with the loose text between them, which becomes elements too.

    Brackets grow with a ``tall`` row; ``tight``, as in scripts, signs have no space around them.
    """
    return _PIECE.sub(lambda m: m[1] or signs(m[2], tall, tight), text)


@lru_cache(maxsize=1 << 12)
def signs(text: str, tall: bool, tight: bool) -> str:
    """Loose text as elements; see `with_signs`."""

    def sign(m: re.Match[str]) -> str:
        digits, word, letter, other = m.groups()
        if digits:
            return f"<mn>{digits}</mn>"
        if word:
            spaced = re.sub(r"\s+", "\u00a0", word)
            return f"<mtext>{spaced}</mtext>"
        if letter:
            return f"<mi>{letter}</mi>"
        if not other:
            return ""
        text = escape(other) if len(other) == 1 else other
        about = ' stretchy="false"' * (not tall and other in _FENCES)
        return f"<mo{about}{_TIGHT * (tight or other in '/|')}>{text}</mo>"

    return _SIGN.sub(sign, text)


def attribute(name: str, value: str) -> str:
    """An attribute; a dollar sign, which would end a formula in a document's text, is escaped."""
    return f' data-{name}="{escape(value).replace("$", "&#36;")}"'


def letter(base: str) -> str:
    """A letter, a word or a number of a name as one element; words and capital Greek upright."""
    if base.isdigit():
        return f"<mn>{base}</mn>"
    upright = ' mathvariant="normal"' if base in _GREEK and base[0].isupper() else ""
    return f"<mi{upright}>{escape(_GREEK.get(base, base))}</mi>"


def marked(
    base: str, sub: Sequence[str] = (), sup: Sequence[str] = (), about: str = "", primes: str = ""
) -> str:
    """A name's base with its accents, primes and scripts; ``about`` are its attributes."""
    base, more = unprimed(base)
    accent, under = accent_of(base)
    if accent in PREFIXES:
        sign = f'<mi mathvariant="normal">{PREFIXES[accent]}</mi>'
        return f"<mrow{about}>{sign}{marked(under, sub, sup, '', primes + more)}</mrow>"
    return scripted(accented(base), sub, sup, about, primes + more)


def accented(base: str) -> str:
    """A letter below, or above, its accents."""
    accent, under = accent_of(base)
    if not accent:
        return letter(base)
    tag = "munder" if accent == "underline" else "mover"
    grows = "true" if accent in TOKEN_BARS else "false"
    sign = f'<mo stretchy="{grows}">{_MARKS[accent]}</mo>'
    return f'<{tag} accent="true">{accented(under)}{sign}</{tag}>'


def scripted(
    base: str, sub: Sequence[str], sup: Sequence[str] = (), about: str = "", primes: str = ""
) -> str:
    """An element with its scripts; ``about`` are the attributes of the whole."""
    above = "<mo>′</mo>" * len(primes) + ",".join(sup)
    scripts = [one(with_signs(text, tight=True)) for text in (",".join(sub), above) if text]
    if not scripts:
        return base.replace(">", f"{about}>", 1)
    tag = f"m{'sub' * bool(sub)}{'sup' * bool(above)}"
    return f"<{tag}{about}>{base}{''.join(scripts)}</{tag}>"


def named(function: str, tag: str = "mi", about: str = "") -> str:
    """The name of a function, in upright letters."""
    return f"<{tag}{about}{attribute('call', function)}>{escape(function)}</{tag}>"


def one(text: str) -> str:
    """Several elements as one."""
    alone = re.fullmatch(r"<(m[ino])\b[^>]*>[^<]*</\1>", text)
    return text if alone else f"<mrow>{text}</mrow>"


def enclosed(text: str) -> str:
    """An element in parentheses."""
    return f"<mrow>{with_signs(f'({text})', tall=is_tall(text))}</mrow>"


def is_tall(text: str) -> bool:
    """Whether brackets should grow with an element; growing brackets add space around others."""
    return _TALL.search(text) is not None


class MathML(Printer, style="mathml"):
    """The printer of MathML, which uses Unicode's signs.

    ``nodes`` numbers the operations that a script may point to.
    """

    def __init__(
        self,
        style: str = "mathml",
        loss: Ref | None = None,
        functions: Collection[str] = (),
        nodes: Mapping[Expr, int] | None = None,
    ) -> None:
        super().__init__("unicode", loss, functions)
        self.nodes, self.depth = nodes or {}, 0

    def show(self, e: Expr, place: int = 0) -> str:
        """As `Printer.show`, but as one element."""
        text, strength = self.write(e)
        text = with_signs(text, tall=is_tall(text), tight=self.depth > 0)
        if isinstance(e, _OPERATIONS):
            about = f' data-node="{self.nodes[e]}"' if e in self.nodes else ""
            text = f"<mrow{about}>{text}</mrow>"
        return enclosed(text) if strength < place else text

    def small(self, e: Expr) -> str:
        """A formula in a script, on one line."""
        self.depth += 1
        text = self.show(e)
        self.depth -= 1
        return text

    def write(self, e: Expr) -> tuple[str, int]:
        match e:
            case Num():
                text, strength = self.number(e, "mathml")
                if self.depth and "<mfrac" in text:
                    text, strength = self.number(e, "unicode")
                return one(with_signs(text, tight=self.depth > 0)), strength
            case Idx():
                return self.index(e.name), ATOM
            case Slice():
                ends = ("" if x is None else self.show(x) for x in (e.start, e.stop))
                return f"<mo{_TIGHT}>:</mo>".join(ends), ATOM
            case Table():
                inner = ",".join(f"{self.index(i)}&lt;{self.small(s)}" for i, s in e.ranges)
                name = scripted(named("table"), [inner])
                return f"{name}{_APPLIED}({self.show(e.body)})", ATOM
        return super().write(e)

    # -- names -------------------------------------------------------------------------------------

    def index(self, name: str) -> str:
        return marked(name)

    def label(self, text: str) -> str:
        return letter(text)

    def literal(self, text: str) -> str:
        return f"<mtext>{escape(text)}</mtext>"

    def above(self, e: Expr) -> str:
        return self.small(e)

    def ref(self, e: Ref, extra: tuple[Expr, ...]) -> str:
        """As `Printer.ref`; an argument of a function has no key, since no value has its name."""
        sub, sup = self.slots(e, self.label)
        sub += map(self.small, extra)
        about = self.about(e, extra)
        if is_phrase(e.symbol):
            name = "_".join([e.symbol.base, *(s.text for s in e.symbol.sub)])
            return scripted(f"<mi>{name}</mi>", sub[len(e.symbol.sub) :], (), about)
        if self.loss and e.symbol.is_partial:
            below = marked(e.symbol.base[len(PARTIAL) : -1], sub, sup)
            return (
                f"<mfrac{about}><mrow>{_PARTIAL}{self.ref(self.loss, ())}</mrow>"
                f"<mrow>{_PARTIAL}{below}</mrow></mfrac>"
            )
        return marked(e.symbol.base, sub, sup, about)

    def indexed(self, value: Expr, items: Sequence[Expr]) -> str:
        text = self.show(value, ATOM)
        base = text if _CLOSED.search(text) else enclosed(text)
        return scripted(base, [self.small(x) for x in items])

    def about(self, e: Ref, extra: tuple[Expr, ...]) -> str:
        """The attributes of a name, by which scripts find it."""
        about = "" if e.symbol.kind == "argument" else attribute("key", e.key)
        return about + attribute("call", e.key) * (e.symbol.kind == "function")

    def function(self, name: str) -> str:
        return named(name) + _APPLIED

    # -- operations --------------------------------------------------------------------------------

    def shape(self, sizes: Sequence[Expr]) -> str:
        place = FACTOR if len(sizes) > 1 else 0
        return with_signs(" × ".join(self.show(e, place) for e in sizes))

    def to_power(self, base: str, above: str) -> str:
        return f"<msup>{one(with_signs(base))}{one(with_signs(above, tight=True))}</msup>"

    def bind(self, e: Bind) -> tuple[str, int]:
        below = self.index(e.index)
        if e.lower is not None:
            below += f"={self.small(e.lower)}"
        sign = "<mo>∑</mo>" if e.op == "sum" else named(e.op, "mo", ' movablelimits="true"')
        tag, limits = "munder", one(with_signs(below, tight=True))
        if e.upper is not None:
            tag, limits = "munderover", limits + one(self.small(e.upper))
        text = f"<{tag}>{sign}{limits}</{tag}>"
        if e.op == "sum":
            return text + self.show(e.body, SUM), SUM
        return f"{text}{_APPLIED}({self.show(e.body)})", ATOM

    def apply(self, e: Apply) -> tuple[str, int]:
        match e.op, e.args:
            case "T", (a,):
                return self.raised(a, "<mo>⊤</mo>"), ATOM
            case "pow", (a, power):
                return self.raised(a, self.small(power), power=True), ATOM
            case "sqrt", (a,):
                return f"<msqrt>{self.show(a)}</msqrt>", ATOM
            case "floor", (a,):
                return f"⌊{self.show(a)}⌋", ATOM
            case "partial", (a,):
                bare = isinstance(a, Ref | Pick)
                return _PARTIAL + (self.show(a, ATOM) if bare else enclosed(self.show(a))), FACTOR
            case "where", _:
                found, last = branches(e)
                rows = [(self.show(yes), f"if {self.show(test)}") for yes, test in found]
                rows.append((self.show(last), "otherwise"))
                cells = "".join(
                    f"<mtr><mtd>{a}</mtd><mtd>{with_signs(b)}</mtd></mtr>" for a, b in rows
                )
                return f'<mo>{{</mo><mtable columnalign="left">{cells}</mtable>', ATOM
        return super().apply(e)

    def infix(self, e: Apply) -> tuple[str, int]:
        if e.op == "div" and not self.depth:
            above, below = map(self.show, e.args)
            return f"<mfrac>{above}{below}</mfrac>", FACTOR
        text, strength = super().infix(e)
        return text.replace(" < ", " &lt; "), strength

    def beside(self, a: str, b: str, called: bool) -> str:
        """As `Printer.beside`; a word is separated from its neighbour by a space."""
        opened = _OPEN.match(b)
        words = _WORD_BEHIND.search(a) or _WORD_AHEAD.match(b)
        space = ' lspace="0" rspace="0.17em"' if words and not opened else ""
        return f"{enclosed(a) if called and opened else a}<mo{space}>\u2062</mo>{b}"

    def raised(self, base: Expr, mark: str, power: bool = False) -> str:
        """A transpose or a power; a base with a superscript is put in parentheses."""
        text = self.show(base, ATOM)
        name = base.value if isinstance(base, Pick) else base
        taken = power and isinstance(name, Ref) and bool(name.symbol.sup)
        taken |= isinstance(base, Apply) and base.op in ("T", "pow")
        taken |= isinstance(base, Num) and not (text.startswith("<mn") or _OPEN.match(text))
        taken |= bool(self.loss) and isinstance(name, Ref) and name.symbol.is_partial
        if not taken and text.startswith("<msub "):  # a name without superscripts
            return f"<msubsup{text[5:-7]}{mark}</msubsup>"
        return f"<msup>{enclosed(text) if taken else text}{mark}</msup>"


__all__ = ["MathML", "framed", "mathml", "mathml_equation", "numbered", "with_signs"]
