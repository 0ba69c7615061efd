"""The printer: expression trees to text in three spellings. Parsing it gives the same tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

from viete.notation.heads import joint
from viete.notation.lexer import (
    COMBINING,
    COMMANDED,
    GREEK,
    GREEK_NAMES,
    PREFIXES,
    SUBSCRIPTS,
    SUPERSCRIPTS,
    accent_of,
    unprimed,
)  # fmt: skip
from viete.notation.substitution import substitute
from viete.notation.tree import (
    CALL,
    PARTIAL,
    WITH,
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Slice,
    Symbol,
    Table,
    labels_below,
    num,
    script,
    sides_near,
    walk,
)  # fmt: skip

STYLES = ("plain", "latex", "unicode")

# Binding strength, loose to tight; a child that binds looser than its place asks gets parentheses.
OR, AND, NOT, COMPARE, ADD, MUL, SUM, PROD, FACTOR, ATOM = range(1, 11)

INFIX: dict[str, tuple[int, str, str, str]] = {
    "or": (OR, " or ", r" \text{ or } ", " or "),
    "and": (AND, " and ", r" \text{ and } ", " and "),
    "lt": (COMPARE, " < ", " < ", " < "),
    "le": (COMPARE, " <= ", r" \le ", " ≤ "),
    "gt": (COMPARE, " > ", " > ", " > "),
    "ge": (COMPARE, " >= ", r" \ge ", " ≥ "),
    "eq": (COMPARE, " = ", " = ", " = "),
    "ne": (COMPARE, " != ", r" \ne ", " ≠ "),
    "add": (ADD, " + ", " + ", " + "),
    "sub": (ADD, " - ", " - ", " − "),
    "had": (MUL, " ⊙ ", r" \odot ", " ⊙ "),
    "times": (MUL, " * ", r" \times ", " × "),
    "mod": (MUL, " mod ", r" \bmod ", " mod "),
    "div": (MUL, " / ", "", " / "),
    "prod": (PROD, " ", r" ", " "),
}
TEX_NEAR = r"\approx"
WITH_SIGNS = " with ", r" \text{ with } ", " with "
DOTS = " ∘ ... ∘ ", r" \circ \cdots \circ ", " ∘ ⋯ ∘ "
_LETTERS = {name: char for char, name in reversed(GREEK.items())}
_BELOW = {plain: char for char, plain in SUBSCRIPTS.items()}
_ABOVE = {plain: char for char, plain in SUPERSCRIPTS.items()}
_MARKS = {name: char for char, name in COMBINING.items()}


def show(e: Expr, style: str = "plain") -> str:
    """Write an expression in one of `STYLES`, or as 'typst' or 'mathml'."""
    if style != "plain":
        return printer(style).show(e)
    if "text" not in e.__dict__:  # kept on the node: a lesson asks for the same one six times
        e.__dict__["text"] = printer(style).show(e)
    text: str = e.__dict__["text"]
    return text


def show_equation(left: Expr, right: Expr, style: str = "plain", loss: Ref | None = None) -> str:
    """``left = right``; see `Printer` for ``loss``."""
    write = printer(style, loss)
    return f"{write.show(left)} = {write.show(right)}"


def show_symbol(symbol: Symbol, style: str = "plain") -> str:
    """A declared name with its index letters."""
    return show(symbol.member, style)


def digits(n: int) -> str:
    """All digits of an integer; Python's own conversion refuses more than 4300."""
    return f"{Decimal(n):f}"


def number(value: Fraction, style: str, decimal: bool = False) -> tuple[str, int]:
    """A rational, exactly: integers, decimals that end, short fractions.

    ``style`` may be Typst's or MathML's too; ``decimal`` makes a decimal of 4/5 too.
    """
    # 0.795 and 159/200 are one number of one tree, and people write it as 0.795. So what tenths,
    # fortieths or thousandths give is a decimal; 1/2, 3/8 and 4/5, which are short, are fractions
    # unless somebody wrote 0.8, which the tree does not know: see `Printer.decimals`.
    minus = "−" if style in ("unicode", "typst", "mathml") else "-"
    negative = value.numerator < 0
    sign, size = (minus, -value) if negative else ("", value)
    strength = ADD if negative else ATOM
    above = digits(size.numerator)

    def power(k: int) -> str:
        """A power of ten."""
        shown = {"latex": f"10^{{{k}}}", "typst": f"10^({k})".replace("-", minus),
                 "mathml": f"<msup>10<mrow>{k}</mrow></msup>".replace("-", minus)}  # fmt: skip
        return sign + shown.get(style, f"1e{k}")

    if size.denominator == 1:
        large = len(above) > 7 and above.rstrip("0") == "1"
        return power(len(above) - 1) if large else sign + above, strength
    below, rest = digits(size.denominator), size.denominator
    for p in (2, 5):
        while rest % p == 0:
            rest //= p
    tens = size.denominator % 5 == 0 and size.denominator >= 10
    if rest == 1 and (decimal or tens or size.denominator > 1000):
        quotient = Decimal(size.numerator) / Decimal(size.denominator)
        if Fraction(quotient) == size:
            if style in ("latex", "typst", "mathml"):
                ten = above == "1" and below.rstrip("0") == "1" and size.denominator > 1000
                return power(1 - len(below)) if ten else sign + f"{quotient:f}", strength
            text = f"{quotient.normalize():e}" if size < Fraction(1, 1000) else f"{quotient:f}"
            return sign + text, strength
    fractions = {"latex": "\\frac{{{}}}{{{}}}", "typst": "frac({}, {})",
                 "mathml": "<mfrac><mn>{}</mn><mn>{}</mn></mfrac>"}  # fmt: skip
    if fraction := fractions.get(style):
        return sign + fraction.format(above, below), min(strength, FACTOR)
    return f"{sign}{above}/{below}", min(strength, MUL)


def letters(base: str, style: str) -> str:
    """A name's base letter or word, with its accent."""
    if style in Printer.others:
        return printer(style).index(base)
    if style == "plain":  # the key, by which a run has it, and ∂ as a person writes it
        return f"∂{base[len(PARTIAL) : -1]}" if base.startswith(PARTIAL) else base
    base, primes = unprimed(base)
    if primes:
        return letters(base, style) + (primes if style != "unicode" else "′" * len(primes))
    accent, under = accent_of(base)
    if accent:
        inner = letters(under, style)
        if style == "unicode" and accent in PREFIXES:
            return PREFIXES[accent] + inner
        if style == "unicode" and len(inner) == 1:
            return inner + _MARKS[accent]
        return f"\\{accent}{{{inner}}}" if style == "latex" else f"{accent}{{{inner}}}"
    if base in GREEK_NAMES:
        return {"plain": base, "latex": f"\\{base}", "unicode": _LETTERS[base]}[style]
    return f"\\mathrm{{{base}}}" if style == "latex" and len(base) > 1 else base


def is_phrase(symbol: Symbol) -> bool:
    """Whether a name is words, as vocab_size is, and not a letter with a label, as d_model is."""
    words = [symbol.base, *(s.text for s in symbol.sub)]
    return len(words) > 1 and not symbol.sup and not symbol.slots and all(
        len(w) > 1 and w.isascii() and w.isalpha() and w not in GREEK_NAMES for w in words
    )  # fmt: skip


def branches(e: Expr) -> tuple[list[tuple[Expr, Expr]], Expr]:
    """The values of a ``where`` with their conditions, and the value otherwise.

    A ``where`` that stands in the place of the last value has its own values in the same list.
    """
    found = []
    while isinstance(e, Apply) and e.op == "where":
        test, yes, e = e.args
        found.append((yes, test))
    return found, e


NUMERAL = '0123456789"'  # what a number, or a token, ends and begins with


class Printer:
    """The printer of one spelling.

    With a ``loss``, ∂X is written as a quotient: ``∂L/∂X``, for people alone. ``functions`` are the
    letters of a card's own functions: a value of that name does not stand before a parenthesis.
    ``numbered`` is what stands before the number of names such as x_1: a row of x is then ``x[1]``.
    ``decimals`` are numbers to write as such, as somebody did.
    """

    others: ClassVar[dict[str, type[Printer]]] = {}  # by style, those beside the three spellings

    def __init_subclass__(cls, style: str = "") -> None:
        if style:
            Printer.others[style] = cls

    def __init__(
        self, style: str, loss: Ref | None = None, functions: Collection[str] = ()
    ) -> None:
        self.style, self.loss, self.functions = style, loss, functions
        self.numbered: Collection[tuple[str, ...]] = ()
        self.decimals: Collection[Fraction] = ()
        self.bars = 0  # how many pairs of bars stand around what is written
        self.column = 1 + STYLES.index(style)

    def show(self, e: Expr, place: int = 0) -> str:
        """``e``, in parentheses if it binds more loosely than ``place``."""
        text, strength = self.write(e)
        return f"({text})" if strength < place else text

    def shape(self, sizes: Sequence[Expr]) -> str:
        """Sizes joined by ×; a product among several sizes gets parentheses: (4 d) × d."""
        place = FACTOR if len(sizes) > 1 else 0
        return self.pick(" × ", r" \times ", " × ").join(self.show(e, place) for e in sizes)

    def to_power(self, base: str, above: str) -> str:
        """A text raised to another: ``ℝ^{n × d}``."""
        return f"{base}^{above}" if len(above) == 1 else f"{base}^{{{above}}}"

    def pick(self, plain: str, latex: str, unicode: str) -> str:
        return (plain, latex, unicode)[self.column - 1]

    def write(self, e: Expr) -> tuple[str, int]:
        match e:
            case Num():
                return self.number(e, self.style)
            case Idx():
                return letters(e.name, self.style), ATOM
            case Ref():
                return self.ref(e, ()), ATOM
            case Slice():
                a = "" if e.start is None else self.show(e.start)
                b = "" if e.stop is None else self.show(e.stop)
                return f"{a}:{b}", ATOM
            case Pick():
                return self.picked(e), ATOM
            case Bind():
                return self.bind(e)
            case Table():
                comma = self.pick(",", r",\,", ",")
                inner = comma.join(f"{self.index(i)}<{self.show(s)}" for i, s in e.ranges)
                name = self.function("table")
                return f"{name}_{{{inner}}}({self.show(e.body)})", ATOM
            case Apply():
                return self.apply(e)
        raise TypeError(e)

    def number(self, e: Num, style: str) -> tuple[str, int]:
        return number(e.value, style, bool(self.decimals) and abs(e.value) in self.decimals)

    def index(self, name: str) -> str:
        return letters(name, self.style)

    # -- names -------------------------------------------------------------------------------------

    def ref(self, e: Ref, extra: tuple[Expr, ...]) -> str:
        """A name with its index expressions; ``extra`` are row and entry indices to write below."""
        sub, sup = self.slots(e, self.label)
        sub += [self.show(x) for x in extra]
        if is_phrase(e.symbol):
            return self.phrase(e.symbol) + self.script("_", sub[len(e.symbol.sub) :])
        scripts = self.script("_", sub) + self.script("^", sup)
        if self.loss and e.symbol.is_partial:
            below = letters(e.symbol.base[len(PARTIAL) : -1], self.style) + scripts
            above, sign = self.ref(self.loss, ()), self.pick("∂", r"\partial ", "∂")
            return self.pick("{}/{}", r"\frac{{{}}}{{{}}}", "{}/{}").format(
                sign + above, sign + below
            )
        if self.style == "latex" and sub:  # x'_j^2 would have two superscripts for TeX, x_j'^2 one
            base, primes = unprimed(e.symbol.base)
            scripts = self.script("_", sub) + primes + self.script("^", sup)
            return letters(base, self.style) + scripts
        return letters(e.symbol.base, self.style) + scripts

    def slots(self, e: Ref, label: Callable[[str], str]) -> tuple[list[str], list[str]]:
        """The scripts below and above a name; a group and a head in it are written as one head."""
        shown: list[str | None] = [self.above(x) for x in e.index]
        for k, pair in enumerate(pairwise(e.index)):
            if (head := joint(*pair)) is not None:
                shown[k : k + 2] = self.above(head), None
        index = iter(shown)
        sub, sup = ([next(index) if s.index else label(s.text) for s in slots]
                    for slots in (e.symbol.sub, e.symbol.sup))  # fmt: skip
        return [x for x in sub if x is not None], [x for x in sup if x is not None]

    def phrase(self, symbol: Symbol) -> str:
        """Words joined as a programmer writes them."""
        text = "_".join([symbol.base, *(s.text for s in symbol.sub)])
        return text if self.style != "latex" else f"\\mathrm{{{text}}}".replace("_", r"\_")

    def above(self, e: Expr) -> str:
        """An index or a power; a size T is set apart, since T above a name means transpose."""
        text = self.show(e)
        return f"({text})" if text == "T" else text

    def label(self, text: str) -> str:
        if text in GREEK_NAMES:
            return letters(text, self.style)
        many = self.style == "latex" and len(text) > 1 and text.isalpha()
        return f"\\mathrm{{{text}}}" if many else text

    def script(self, sign: str, items: list[str]) -> str:
        text = ",".join(items)
        if " " in text:
            text = re.sub(r" ?([-+−/]) ?", r"\1", text)
        if self.style == "unicode" and re.fullmatch(r"[a-z]?[-−+]?\d*|[a-z]", text):
            table = _BELOW if sign == "_" else _ABOVE
            small = text.replace("−", "-")
            if all(c in table for c in small):
                return "".join(table[c] for c in small)
        if self.style == "latex":
            return f"{sign}{text}" if len(text) == 1 else f"{sign}{{{text}}}" if text else ""
        return script(sign, [text] if text else [])

    def picked(self, e: Pick) -> str:
        items = [num(-k) if (k := e.from_end(axis)) else computed(x)
                 for axis, x in enumerate(e.items)]  # fmt: skip
        words = [self.word(e, axis) for axis in range(len(items))]
        if not any(words) and self.stand_below(e.value, items):
            if isinstance(e.value, Ref):
                return self.ref(e.value, tuple(items))
            return self.indexed(e.value, items)
        inner = ", ".join(w or self.show(x) for w, x in zip(words, items, strict=True))
        return f"{self.show(e.value, ATOM)}[{inner}]"

    def stand_below(self, value: Expr, items: Sequence[Expr]) -> bool:
        """Whether indices are written below: ``x_1``, ``f(x)_1``, but ``h_0[1]``."""
        places = all(map(is_place, items))
        if not isinstance(value, Ref):
            return places
        below = labels_below(value.symbol)
        taken = any(map(str.isdigit, below)) or (value.symbol.base, *below) in self.numbered
        numbers = any(isinstance(x, Num) and x.value >= 0 for x in items)
        return places and value.symbol.kind != "dim" and not (taken and numbers)

    def indexed(self, value: Expr, items: Sequence[Expr]) -> str:
        """A formula with indices below it: ``f(x)_1``, and in parentheses ``(x^T)_1``."""
        text = self.show(value, ATOM)
        raised = isinstance(value, Apply) and value.op in ("T", "pow")  # Typst's x^(10) ends in )
        base = text if text.endswith(")") and not raised else f"({text})"
        return base + self.script("_", [self.show(x) for x in items])

    def word(self, e: Pick, axis: int) -> str:
        """A word for an index that is a token id; this printer knows none."""
        return ""

    def literal(self, text: str) -> str:
        """Text as somebody wrote it."""
        return text

    # -- operations --------------------------------------------------------------------------------

    def function(self, name: str) -> str:
        if self.style != "latex":
            return name
        spelled = name.replace("_", r"\_")
        return f"\\{name}" if name in COMMANDED else f"\\operatorname{{{spelled}}}"

    def bind(self, e: Bind) -> tuple[str, int]:
        name = self.pick("sum", r"\sum", "∑") if e.op == "sum" else self.function(e.op)
        below = self.index(e.index)
        if e.lower is not None:
            below += f"={self.show(e.lower)}"
        text = name + (f"_{{{below}}}" if len(below) > 1 or self.style == "latex" else f"_{below}")
        if e.upper is not None:
            upper = self.show(e.upper)
            text += f"^{upper}" if len(upper) == 1 else f"^{{{upper}}}"
        if e.op == "sum":
            return f"{text} {self.show(e.body, SUM)}", SUM
        return f"{text}({self.show(e.body)})", ATOM

    def apply(self, e: Apply) -> tuple[str, int]:
        op, args = e.op, e.args
        if op == "partial":
            bare = isinstance(args[0], Ref | Pick)
            text = self.show(args[0], ATOM) if bare else f"({self.show(args[0])})"
            return self.pick("∂", r"\partial ", "∂") + text, FACTOR
        if op in INFIX:
            return self.infix(e)
        if op == "neg":
            if isinstance(args[0], Apply) and args[0].op == "floor":
                inner = args[0].args[0]
                if isinstance(inner, Apply) and inner.op == "neg":
                    up = self.show(inner.args[0])
                    return self.pick(f"⌈{up}⌉", f"\\lceil {up} \\rceil", f"⌈{up}⌉"), ATOM
            return self.pick("-", "-", "−") + self.show(args[0], MUL), ADD
        if op == "not":
            return self.pick("not ", r"\text{not } ", "not ") + self.show(args[0], COMPARE), NOT
        if op == "T":
            return self.scripted(args[0], self.pick("^T", r"^\top", "ᵀ"))
        if op == "pow":
            power = self.above(args[1])
            if self.style == "unicode" and power.isascii() and power.isdigit():
                return self.scripted(args[0], "".join(_ABOVE[c] for c in power), True)
            return self.scripted(
                args[0], f"^{power}" if len(power) == 1 and power != "∞" else f"^{{{power}}}", True
            )
        if op in ("inf", "pi"):
            signs = {"inf": ("inf", r"\infty", "∞"), "pi": ("pi", r"\pi", "π")}
            return self.pick(*signs[op]), ATOM
        if op == "inner":
            crowded = any(isinstance(x, Apply) and x.op in ("inner", "lt", "gt", "le", "ge")
                          for a in args for x in walk(a))  # fmt: skip
            if self.style == "plain" and crowded:
                return f"inner({self.show(args[0])}, {self.show(args[1])})", ATOM
            left, right = self.pick("<", r"\langle ", "⟨"), self.pick(">", r" \rangle", "⟩")
            return f"{left}{self.show(args[0])}, {self.show(args[1])}{right}", ATOM
        if op == "length" and len(args) == 1:
            self.bars += 1
            text = self.show(args[0])
            self.bars -= 1
            return self.pick(f"|{text}|", f"\\lvert {text} \\rvert", f"|{text}|"), ATOM
        if op == "cosine" and len(args) == 2:
            return f"{self.function('cos')}({self.show(args[0])}, {self.show(args[1])})", ATOM
        if op == "where" and self.style == "latex":
            found, last = branches(Apply(op, args))
            lines = [f"{self.show(yes)} & {self.show(test)}" for yes, test in found]
            rows = " \\\\ ".join([*lines, f"{self.show(last)} & \\text{{otherwise}}"])
            return f"\\begin{{cases}} {rows} \\end{{cases}}", ATOM
        if op == "sqrt":
            if self.style == "latex":
                return f"\\sqrt{{{self.show(args[0])}}}", ATOM
            if self.style == "unicode":
                under = self.show(args[0])
                simple = isinstance(args[0], Ref | Idx) or under.isdigit()
                return (f"√{under}", FACTOR) if simple else (f"√({under})", ATOM)
        if op == CALL:
            return f"{self.called(args[0])}({', '.join(map(self.show, args[1:]))})", ATOM
        if op == WITH:
            pairs = zip(args[1::2], args[2::2], strict=True)
            sides = [f"{self.show(a)} = {self.show(b)}" for a, b in pairs]
            return f"{self.show(args[0])}{self.pick(*WITH_SIGNS)}{', '.join(sides)}", 0
        shown = [self.show(a) for a in args]
        if e.semi:
            text = ", ".join(shown[: e.semi]) + "; " + ", ".join(shown[e.semi :])
        else:
            text = ", ".join(shown)
        return f"{self.function(op)}({text})", ATOM

    def called(self, f: Expr) -> str:
        """A function, or a composition of several: ``(B_N ∘ ⋯ ∘ B_1)``."""
        if not isinstance(f, Bind) or f.ranges is None:
            return self.show(f)
        ends = [self.show(substitute(f.body, letters={f.index: x})) for x in f.ranges]
        return f"({ends[1]}{self.pick(*DOTS)}{ends[0]})"

    def infix(self, e: Apply) -> tuple[str, int]:
        strength, *signs = INFIX[e.op]
        if (sides := sides_near(e)) is not None:
            a, b, within = (None if x is None else self.show(x, strength + 1) for x in sides)
            word = self.pick(" within ", r" \text{ within } ", " within ")
            said = f"{a} {self.pick('≈', TEX_NEAR, '≈')} {b}"
            return said + ("" if within is None else word + within), strength
        if e.op in ("add", "sub"):
            return self.long_sum(e), strength
        left, right = e.args
        derivative = all(isinstance(x, Apply) and x.op == "partial" for x in e.args)
        if e.op == "div" and derivative and self.style != "latex":
            return f"{self.show(left)}/{self.show(right)}", FACTOR
        if e.op == "div" and self.style == "latex":
            return f"\\frac{{{self.show(left)}}}{{{self.show(right)}}}", FACTOR
        # All binary operations group from the left; after a slash only one factor may stand.
        after = FACTOR if e.op == "div" else strength + 1
        before = strength if strength not in (COMPARE,) else strength + 1
        if isinstance(left, Bind) and left.op == "sum" and left.index in right.free:
            before = ATOM  # it would be asked whether the sum goes on
        if e.op == "prod":
            after = FACTOR
        a, b = self.show(left, before), self.show(right, after)
        if e.op == "prod":
            return self.beside(
                a, b, isinstance(left, Ref) and left.symbol.base in self.functions
            ), PROD
        return f"{a}{signs[self.column - 1]}{b}", strength

    def beside(self, a: str, b: str, called: bool) -> str:
        """A product written side by side; ``called``: its first factor is named like a function."""
        if called and b.startswith("("):
            a = f"({a})"
        # Side by side, \Delta x would be one name and a <u, v> a comparison.
        a = f"({a})" if a.endswith(r"\Delta") else a
        b = f"({b})" if b.startswith("<") else b
        # Two numbers, as in x_0 (2), would be asked whether they are one.
        b = f"({b})" if a[-1] in NUMERAL and b[0] in NUMERAL else b
        # Within bars, a bar behind a factor would close them.
        b = f"({b})" if self.bars and b.startswith("|") else b
        return f"{a} {b}"

    def long_sum(self, e: Expr) -> str:
        """Sums and differences without recursion: an exact number may have hundreds of terms."""
        terms = []
        strength = INFIX["add"][0]
        while isinstance(e, Apply) and e.op in ("add", "sub"):
            terms.append(str(INFIX[e.op][self.column]) + self.show(e.args[1], strength + 1))
            e = e.args[0]
        return self.show(e, strength) + "".join(reversed(terms))

    def scripted(self, base: Expr, mark: str, power: bool = False) -> tuple[str, int]:
        """A transpose or a power; a base with superscripts is put in parentheses."""
        name = base.value if isinstance(base, Pick) else base
        taken = isinstance(name, Ref) and bool(name.symbol.sup)
        taken &= not isinstance(base, Pick) or not self.picked(base).endswith("]")
        raised = isinstance(base, Apply) and base.op in ("T", "pow")
        text = self.show(base, ATOM)
        if self.loss and isinstance(base, Ref) and base.symbol.is_partial:
            text = self.pick(f"({text})", f"\\left({text}\\right)", f"({text})")
        elif raised or (isinstance(base, Num) and not text.isdigit() and text[0] != "("):
            text = f"({text})"
        elif taken and self.style == "latex" and isinstance(base, Ref) and "{" in base.symbol.base:
            text = f"({text})"  # TeX takes a group of one accented letter for the letter
        elif taken and self.style == "latex":
            text = f"{{{text}}}"
        elif taken and (power or text[-1] in SUPERSCRIPTS):
            text = f"({text})"
        return text + mark, ATOM


def printer(style: str, loss: Ref | None = None, functions: Collection[str] = ()) -> Printer:
    """The printer of a style; see `Printer`."""
    return Printer.others.get(style, Printer)(style, loss, functions)


def is_place(index: Expr) -> bool:
    """Whether an index is a place, as in ``x_{j+1}``, and not looked up, as in ``E[t]``."""
    match index:
        case Idx() | Num() | Pick(Ref()):
            return True
        case Apply("add" | "sub", args):
            return all(is_place(x) or (isinstance(x, Ref) and x.symbol.kind == "dim") for x in args)
    return False


def computed(index: Expr) -> Expr:
    """An index as written: a negative number that a formula gave is ``0 - 1``."""
    if isinstance(index, Num) and index.value < 0:
        return Apply("sub", (num(0), num(-index.value)))
    return index
