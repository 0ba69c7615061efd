"""The parser: formulas to expression trees, by precedence climbing.

It is written by hand because this notation cannot be parsed without its declarations: ``QK^T`` is
two matrices and a transpose only if Q and K are declared; ``x^0`` is a member of a family, a power
or a label, depending on x; ``LN(x)`` applies a function and ``W(x)`` multiplies. From loose to
tight:

    or · and · not · comparison · + − · ⊙ * / mod · juxtaposition · unary − · scripts, brackets

People read a quotient followed by a juxtaposed factor (``a / b c``) in two ways, so it is refused,
and the error shows both spellings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, takewhile

from viete.errors import Text, VieteError
from viete.notation.application import application, composition
from viete.notation.barred import barred, in_font
from viete.notation.cursor import (
    BARS,
    CLOSED,
    CLOSERS,
    MAX_DEPTH,
    Cursor,
    Script,
    end_token,
    parse_name,
    top_level,
)  # fmt: skip
from viete.notation.heads import group_of, place_of
from viete.notation.lexer import ELEMENTARY, Token, tokenize, unprimed
from viete.notation.symbols import BINDERS, CONSTANTS, INPUTS_ARE, LAST, Scope
from viete.notation.tree import (
    CALL,
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Slice,
    Slot,
    Symbol,
    Table,
    near,
    place_from_end,
)  # fmt: skip
from viete.notation.words import unquoted

COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "=": "eq", "!=": "ne", "≈": "le"}
BINARY = (  # from loose to tight
    {"or": "or"}, {"and": "and"}, COMPARISONS, {"+": "add", "-": "sub"},
    {"⊙": "had", "*": "times", "×": "times", "/": "div", "mod": "mod"},
)  # fmt: skip
OPERATORS = {sign: op for signs in BINARY for sign, op in signs.items()}
LEVELS = {sign: level for level, signs in enumerate(BINARY) for sign in signs}
NUMBERS = ("num", "token")
TRANSPOSE = frozenset(("T", "⊤"))


def parse(source: Text | str, scope: Scope) -> Expr:
    """Parse one expression.

    Raises VieteError, pointing at the symbol, for anything that the notation does not have, an
    undeclared name, or a spelling with two readings.
    """
    source = Text(source) if isinstance(source, str) else source
    tokens = tokenize(source)
    if tokens[0].kind == "end":
        raise source.error("an expression is missing here")
    return parse_tokens(source, tokens, scope)


def parse_tokens(source: Text, tokens: list[Token], scope: Scope) -> Expr:
    """Parse the expression that ``tokens`` of the source form; the last of them is an end.

    Raises VieteError as `parse` does.
    """
    parser = Parser(source, tokens, scope)
    result = parser.expression()
    parser.finish()
    return bounded(result, source)


def parse_range(source: Text, scope: Scope) -> tuple[str, Expr, Expr]:
    """Parse ``i = 1, …, N`` (or ``i = 1 … N``)."""
    return parse_range_of(source, tokenize(source), scope)


def parse_range_of(
    source: Text, tokens: list[Token], scope: Scope
) -> tuple[str, Expr, Expr]:  # fmt: skip
    """As `parse_range`, for tokens of the source; the last of them is an end."""
    cut = next((k for k, t in enumerate(tokens) if t.text == "..."), None)
    if cut is None or len(tokens) < 5 or tokens[0].kind != "word" or tokens[1].text != "=":
        raise source.error("expected a range such as i = 1, …, N")

    def bound(part: list[Token], closing: Token) -> Expr:
        while part and part[0].text == ",":
            part = part[1:]
        while part and part[-1].text == ",":
            part = part[:-1]
        return parse_tokens(source, [*part, end_token(closing)], scope)

    return (
        tokens[0].text,
        bound(tokens[2:cut], tokens[cut]),
        bound(tokens[cut + 1 : -1], tokens[-1]),
    )


def parse_left(source: Text, letters: set[str], scope: Scope) -> Ref:
    """Parse the left side of an equation: a name; a derivative may be of any block: ``∂x^{i-1}``.

    An index that is a formula over one of the ``letters`` stands in that letter's place; other
    formulas are labels as yet.
    """
    tokens = tokenize(source)
    if not any(t.text == "partial" for t in tokens[:1]):
        symbol = parse_name(source, "value", letters)
        return Ref(symbol, tuple(Idx(x) for x in symbol.slots))
    cursor = Cursor(source, tokens, Scope())
    base = cursor.accent()
    slots: dict[str, list[Slot]] = {"_": [], "^": []}
    index: dict[str, list[Expr]] = {"_": [], "^": []}
    for item in cursor.scripts():
        label, inside = item.label, letters & {t.text for t in item.tokens if t.kind == "word"}
        if len(inside) == 1:
            place = parse(source.cut(*item.at), scope.inside(letters))
            index[item.sign].append(place)
            label = inside.pop()
        slots[item.sign].append(Slot(label, label in letters))
    cursor.finish()
    symbol = Symbol("value", base, tuple(slots["_"]), tuple(slots["^"]))
    return Ref(symbol, tuple(index["_"] + index["^"]))


def own_letters(source: Text, scope: Scope) -> set[str]:
    """The index letters that a question or a claim introduces, such as j and k' in ``A_{j,k'+1}``.

    They are small letters that stand in an index, in scripts or brackets, and that are not names of
    the scope, and no word of a vocabulary that needs no quotes. With primes a letter is another
    one, and so is the letter of a dimension.
    """
    found, depth, script = set[str](), 0, 0
    tokens = tokenize(source)
    for (before, token), after in zip(pairwise(tokens), [*tokens[2:], tokens[-1]], strict=False):
        begins = before.kind == "op" and before.text in ("_", "^", "[")
        if token.kind == "op" and token.text in "{}[]":
            depth += 1 if token.text in "{[" else -1
            script = script or (depth if begins or token.text == "[" else 0)
            script = 0 if depth < script else script
        elif (token.text, after.text) in (("c", "("), ("e", "^")):
            pass  # the functions
        elif token.kind == "word" and (script or begins):
            found.add(token.text)
    taken = scope.bases() | scope.functions.keys()
    if scope.heads is not None:
        taken.discard(scope.heads.letter)
    sizes = {x for x, group in scope.symbols.items() if all(s.kind == "dim" for s in group)}
    letters = {
        x for x in found - taken
        if (letter := unprimed(x)[0]) in scope.indices
        or (len(letter) == 1 and letter.islower() and letter not in (taken - sizes))
    }  # fmt: skip
    if letters and (words := scope.words()).bare:  # E[a] is the row of a word
        letters.difference_update(words)
    return letters


def bounded(e: Expr, source: Text) -> Expr:
    """Refuse a tree too deep for a person to read (and for Python to recurse into)."""
    level: list[Expr] = [e]
    for _ in range(MAX_DEPTH):
        level = [c for x in level for c in x.children]
        if not level:
            return e
    raise source.error(
        f"this expression is nested more than {MAX_DEPTH} deep; give names to its parts"
    )


class Parser(Cursor):
    """Recursive descent over one formula's tokens."""

    # -- precedence levels -------------------------------------------------------------------------

    def expression(self, bar: str = "") -> Expr:
        """The contents of a pair of brackets, or of bars that ``bar`` closes."""
        self.deeper()
        outer, self.bar = self.bar, bar
        result = self.binary(0)
        self.bar = outer
        self.depth -= 1
        return result

    def binary(self, level: int) -> Expr:
        """An expression whose operators bind at least as tightly as ``level``."""
        start = self.peek
        first_left = self.pos
        left = self.operand(level)
        while (t := self.peek).kind == "op" and (of := LEVELS.get(t.text, -1)) >= level:
            sign, first = self.next(), self.pos
            right = self.binary(of + 1)
            op = OPERATORS[sign.text]
            if (
                of == 4 and isinstance(left, Bind) and left.op == "sum"
                and left.index in right.free and not self.bracketed(first_left, first - 1)
            ):  # fmt: skip
                raise self.error(
                    f"the sum over {left.index} ends before this {sign.text}; put all that it sums "
                    f"in parentheses, or the sum itself", sign,
                )  # fmt: skip
            product = isinstance(right, Apply) and right.op == "prod"
            if op == "div" and product and not self.bracketed(first):
                raise self.error(
                    "a / b c can be read as a/(b c) or (a/b) c; write the one you mean", right
                )
            if op == "div":
                left = self.quotient(left, right, start)
            elif sign.text == "≈":
                left = self.node(near(left, right, self.tolerance()), start)
            else:
                left = self.node(Apply(op, (left, right)), start)
            if of == 2 and self.peek.text in COMPARISONS:
                raise self.error("join two comparisons with 'and'", self.peek)
        return left

    def tolerance(self) -> Expr | None:
        """The tolerance after ``a ≈ b within``, if that word follows."""
        if not self.at_within():
            return None
        self.next()
        return self.binary(3)

    def at_within(self) -> bool:
        """Whether ``within`` begins a tolerance here and is not the name of a value."""
        return self.peek[:2] == ("word", "within") and "within" not in self.scope.symbols

    def operand(self, level: int) -> Expr:
        """A product, or an operand with ``not`` or a minus: ``-a b + c`` is ``(-(a b)) + c``."""
        start = self.peek
        if level <= 2 and self.accept("not"):
            self.deeper()
            found = self.node(Apply("not", (self.binary(2),)), start)
            self.depth -= 1
            return found
        if level <= 3 and self.accept("-"):
            return self.negated(self.binary(4), start)
        return self.product()

    def bracketed(self, first: int, end: int | None = None) -> bool:
        """Whether the tokens from ``first`` to the next, or to ``end``, are one bracketed group."""
        depth, end = 0, self.pos if end is None else end
        for k in range(first, end):
            text = self.tokens[k].text
            depth += (text in CLOSERS) - (text in CLOSED)
            if depth == 0:
                return k == end - 1
        return False

    def quotient(self, a: Expr, b: Expr, start: Token) -> Expr:
        if b == Num(Fraction(0)):
            raise self.error("this divides by zero", b)
        number = isinstance(a, Num) and isinstance(b, Num) and Num(a.value / b.value)
        return self.node(number or Apply("div", (a, b)), start)

    def negated(self, e: Expr, start: Token) -> Expr:
        return self.node(Num(-e.value) if isinstance(e, Num) else Apply("neg", (e,)), start)

    def product(self) -> Expr:
        start = self.peek
        left = self.factor()
        while True:
            if self.accept("·"):
                pass
            elif not self.starts_factor():
                return left
            elif self.peek.kind in NUMBERS and self.tokens[self.pos - 1].kind in NUMBERS:
                raise self.error("two numbers stand side by side; write * between them, or one "
                                 "number without a space", self.peek)  # fmt: skip
            right = self.factor()
            left = self.node(Apply("prod", (left, right)), start)

    def starts_factor(self) -> bool:
        t = self.peek
        if self.at_within():
            return False
        return t.kind in ("num", "word", "accent", "token") or (
            t.kind == "op"
            and (t.text in ("(", "{", "⟨", "∑", "\\frac", "\\begin", "∞", "⌈", "⌊")
                 or (t.text in BARS and t.text != self.bar))
        )  # fmt: skip

    def factor(self) -> Expr:
        self.deeper()
        start = self.peek
        if self.accept("-"):
            found = self.negated(self.factor(), start)
        else:
            found = self.postfix(self.atom(), start)
        self.depth -= 1
        return found

    # -- atoms -------------------------------------------------------------------------------------

    def atom(self) -> Expr:
        t = self.peek
        if t.kind == "num":
            self.next()
            if len(t.text) > 400:
                raise self.error("this number has more than 400 digits", t)
            if "e" in t.text.lower() and abs(int(t.text.lower().split("e")[1])) > 400:
                raise self.error(f"{t.text} is too large a number", t)
            return self.node(Num(Fraction(t.text)), t)
        if t.kind == "token":
            self.next()
            return self.node(self.token(unquoted(t.text), t), t)
        if t.kind == "accent" and t.text == "partial" and self.differentiates():
            return self.derivative(t)
        if t.kind == "accent" or self.at_accent_word():
            if (found := barred(self, t)) is not None:
                return found
            base = self.accent()
            return application(self, base, t) or self.name(base, t)
        if (composed := composition(self)) is not None:
            return composed
        if t.kind == "word":
            self.next()
            return self.word(t)
        if opened := self.accept("(", "{", "⌊", "⌈"):
            inner = self.within(opened)
            if opened.text == "⌊":
                inner = Apply("floor", (inner,))
            elif opened.text == "⌈":  # ⌈a⌉ = −⌊−a⌋, so that interpreters need only one of them
                inner = Apply("neg", (Apply("floor", (self.negated(inner, opened),)),))
            return self.node(inner, opened)
        if opened := self.accept(*BARS):
            inner = self.expression(BARS[opened.text])
            self.expect(BARS[opened.text], opened)
            return self.applied("length", [inner], opened)
        if opened := self.accept("⟨"):
            a = self.expression()
            self.expect(",", opened)
            return self.node(Apply("inner", (a, self.within(opened))), opened)
        if t.text == "<" and t.kind == "op":
            return self.angle()
        if self.accept("∞"):
            return self.node(Apply("inf", ()), t)
        if self.accept("\\frac"):
            a = self.within(self.expect("{"))
            return self.quotient(a, self.within(self.expect("{")), t)
        if self.accept("∑"):
            return self.binder("sum", t)
        if self.accept("\\begin"):
            return self.cases(t)
        if t.kind == "end":
            raise self.error("the formula ends too early here", t)
        raise self.error(f"{t.text!r} cannot stand here", t)

    def token(self, text: str, at: Token | tuple[int, int]) -> Num:
        """The number of a word of the vocabulary."""
        words = self.scope.words()
        number = words.get(text)
        if number is None:
            raise self.error(words.unknown(text), at)
        return Num(Fraction(number))

    def derivative(self, t: Token) -> Expr:
        """``∂(…)/∂x``, which is one factor; in a fraction, the part above or below the line."""
        self.next()
        of = self.node(Apply("partial", (self.factor(),)), t)
        below = self.tokens[min(self.pos + 1, len(self.tokens) - 1)]
        if below.text != "partial" or not self.accept("/"):
            return of
        by = self.factor()
        return self.node(Apply("div", (of, by)), t)

    def differentiates(self) -> bool:
        """Whether this ∂ is an operator before a formula and not part of a name."""
        if "partial" not in self.scope.functions:
            return False
        start, tokens = self.pos, list(self.tokens)
        try:
            base = self.accent()
            return self.match(base, self.scripts()) is None and base not in self.scope.symbols
        except VieteError:
            return True
        finally:
            self.pos, self.tokens = start, tokens

    def within(self, opened: Token) -> Expr:
        """An expression up to the sign that closes the bracket ``opened``."""
        inner = self.expression()
        self.expect(CLOSERS[opened.text], opened)
        return inner

    def angle(self) -> Expr:
        """``<u, v>`` in the plain spelling."""
        opened = self.next()
        end = next(top_level(self.tokens, ">", start=self.pos), None)
        if end is None:
            raise self.error("'<' cannot stand here; an inner product is written <u, v>", opened)
        inner = self.part([*self.tokens[self.pos : end], end_token(self.tokens[end])])
        a = inner.expression()
        inner.expect(",", None)
        b = inner.expression()
        inner.finish()
        self.pos = end + 1
        return self.node(Apply("inner", (a, b)), opened)

    def part(self, tokens: list[Token]) -> Parser:
        """A parser for some of this parser's tokens."""
        inner = Parser(self.source, tokens, self.scope)
        inner.depth, inner.left, inner.spans = self.depth, self.left, self.spans
        return inner

    def word(self, t: Token) -> Expr:
        text, scope = t.text, self.scope
        if text in ("table",) and self.peek.text == "_":
            return self.table(t)
        if text in BINDERS and self.peek.text == "_" and text not in scope.symbols:
            return self.binder(text, t)
        if (applied := application(self, text, t)) is not None:
            return applied
        function, used = self.function_name(t)
        if function is not None:
            self.pos += used
            return self.call(function, t)
        if text in LAST and (last := self.last_block()) and not self.declared(text):
            return self.node(last, t)
        known = text in scope.indices or text in CONSTANTS
        known |= any(s.base == text for s in scope.operators)
        centres = text == "c" and self.peek.text == "(" and "centred" in scope.functions
        centres = centres and not self.declared("c")
        known |= not centres and self.behind(text) in scope.symbols
        if known or scope.second(text) is not None:
            return self.name(text, t)
        if centres:
            return self.call("centred", t)
        if text == "theta" and self.peek.text in ("_", "^") and "angle" in scope.functions:
            return self.theta(t)
        if text == "e" and self.peek.text == "^":
            return self.node(Apply("exp", (self.tower(self.scripts()),)), t)
        return self.run(t)

    def last_block(self) -> Expr | None:
        """The last block: what N and L mean as a block index, and in no other script."""
        last = self.scope.last
        alone = not self.script and len(set(last.values())) == 1
        return last.get(self.block) or (next(iter(last.values())) if alone else None)

    def declared(self, base: str) -> bool:
        """Whether a letter, or a family of that letter if scripts follow, is declared."""
        scripted = self.peek.text in ("_", "^")
        group = self.scope.symbols.get(base, ())
        return any(scripted or not (s.sub or s.sup) for s in group)

    def behind(self, base: str) -> str:
        """A base with the primes after its scripts; the scripts are not read yet."""
        start = self.pos
        if base not in self.scope.symbols and self.peek.kind == "op":
            base, _ = self.scripted_name(base)
        self.pos = start
        return base

    def theta(self, t: Token) -> Expr:
        """``θ_{a,b}`` where no θ is declared: the angle between two vectors."""
        items = self.scripts()
        below = [s for s in items if s.sign == "_"]
        if len(below) != 2:
            raise self.unknown("theta", items, False, t)
        e = self.applied("angle", [self.inside(s) for s in below], t)
        return self.scripted(e, [s for s in items if s.sign == "^"], t)

    def function_name(self, t: Token) -> tuple[str | None, int]:
        """The function that begins here, and the number of tokens of its own subscripts.

        Of RoPE, RoPE_pairs and RoPE_pairs_after the longest that there is.
        """
        name, used = t.text, 0
        hidden = self.scope.symbols.get(name)  # a value of that name, but part_library is the
        found = (name, 0) if name in self.scope.functions and not hidden else (None, 0)  # library's
        while len(rest := self.tokens[self.pos + used :][:4]) >= 2 and rest[0].text == "_":
            braced = rest[1].text == "{" and len(rest) == 4 and rest[3].text == "}"
            name += f"_{rest[2].text if braced else rest[1].text}"
            used += 4 if braced else 2
            if name in self.scope.functions and all(s.key != name for s in hidden or ()):
                found = name, used
        return found

    def run(self, t: Token) -> Expr:
        """Letters run together: ``QK^T`` is Q, then K with the scripts that follow."""
        text = t.text
        tail = next((n for n in range(1, len(text)) if text[n:] in self.scope.functions
                     and self.peek.text == "(" and self.scope.splits(text[:n])), None)  # fmt: skip
        ways = self.scope.splits(text if tail is None else text[:tail])
        if not ways:
            before = self.tokens[self.pos - 2].text if self.pos > 1 else ""
            if self.accept("_"):  # m_x is one name
                text += "_" + ",".join(s.label for s in self.script_group("_"))
                t = t._replace(end=self.tokens[self.pos - 1].end)
            called = self.peek.text == "(" and len(text) > 2
            what = "unknown function" if called else "unknown symbol"
            hint = self.scope.suggest(text)
            token = before == "[" and self.peek.text == "]"  # as in E[x]
            if not called and not hint and (token or not self.scope.inputs):
                hint = INPUTS_ARE
            if self.script and len(text) == 1 and not hint:
                hint = "; an index needs a range under Dimensions, a loop or a sum around it"
            if text in self.left:
                hint = f"; the sum over {text} ended before it: put all that it sums in parentheses"
            raise self.error(f"{what} {text}{hint}", t)
        if len(ways) > 1:
            spelled = " or ".join(" ".join(way) for way in ways)
            raise self.error(f"{text} can be read as {spelled}; put spaces where you mean them", t)
        pieces, offset = [], t.start
        for piece in ways[0] + ([] if tail is None else [text[tail:]]):
            exact = t.end - t.start == len(text)
            span = (offset, offset + len(piece)) if exact else (t.start, t.end)
            pieces.append(Token("word", piece, *span))
            offset += len(piece)
        self.tokens[self.pos - 1 : self.pos] = pieces
        self.pos -= 1
        first = self.next()
        result = self.postfix(self.word(first), first)
        for _ in pieces[1:]:
            begin = self.peek
            factor = self.postfix(self.word(self.next()), begin)
            result = self.node(Apply("prod", (result, factor)), first)
        return result

    def call(self, name: str, t: Token) -> Expr:
        if self.peek.text != "(" or self.peek.kind != "op":
            if name in ELEMENTARY and (self.starts_factor() or self.peek.text == "^"):
                if name == "sqrt" and self.peek.text == "{":
                    return self.node(Apply(name, (self.atom(),)), t)
                return self.node(Apply(name, (self.factor(),)), t)
            at = f"_{self.script_group('_')[0].label}" if self.accept("_") else ""
            row = "; it takes whole rows, and an index goes behind: " if at else ": write "
            raise self.error(f"{name} is a function{row}{name}(…){at}", t)
        opened = self.next()
        listed = self.accept("[") if name == "concat" else None  # as in Python: concat([a, b])
        args = [] if self.peek.text == ")" else [self.expression()]
        while self.accept(",", ";"):
            args.append(self.expression())
        if listed is not None:
            self.expect("]", listed)
        self.expect(")", opened)
        if name == "cos" and len(args) == 2 and "cosine" in self.scope.functions:
            name = "cosine"
        return self.applied(name, args, t)

    def applied(self, name: str, args: list[Expr], t: Token) -> Expr:
        """A call of the function that the name or sign at ``t`` means, with its arguments."""
        signature = self.scope.functions.get(name)
        if signature is None:
            raise self.error(f"{t.text} means the function {name}, which is unknown here", t)
        most = signature.most
        if len(args) < signature.least or (most is not None and len(args) > most):
            takes = (
                str(signature.least) if most == signature.least
                else f"at least {signature.least}" if most is None
                else f"{signature.least} to {most}"
            )  # fmt: skip
            raise self.error(
                f"{name} takes {takes} argument{'s' if takes != '1' else ''}, not {len(args)}", t
            )
        semi = signature.semi if len(args) > signature.semi else 0
        return self.node(Apply(name, tuple(args), semi), t)

    # -- names and their scripts -------------------------------------------------------------------

    def name(self, base: str, t: Token) -> Expr:
        start, plain = self.pos, base
        base, items = self.scripted_name(plain)
        after = self.pos
        whole = self.match(base, items)
        heads = self.match_heads(base, items)
        if heads is not None and (whole is None or len(heads[2]) < len(whole[2])):
            whole = heads
        if whole is None and (found := self.second_name(base, items)) is not None:
            meant, left = found
            try:
                return self.scripted(self.node(meant(), t), left, t)
            except VieteError as error:
                raise self.error(error.message, t) if error.where is None else error from None
        loose = next((k for k, s in enumerate(items) if not s.braced and s.tokens[0].kind == "word"
                      and len(s.label) > 1), None)  # fmt: skip
        if whole is None and loose is not None:
            # LaTeX's own reading of W^QX: one letter is the script, the rest follows.
            self.pos = start
            token = items[loose].tokens[0]
            here = self.tokens.index(token, start)
            self.tokens[here : here + 1] = [
                Token("word", token.text[0], token.start, token.start + 1),
                Token("word", token.text[1:], token.start + 1, token.end),
            ]
            base, items = self.scripted_name(plain)
            after = self.pos
            whole = self.match(base, items)
        self.pos = after
        if whole is None:
            constant = base in CONSTANTS and base not in self.scope.symbols
            if base not in self.scope.indices and not constant:
                raise self.unknown(base, items, loose is not None, t)
            letter = Idx(base) if base in self.scope.indices else Apply(base, ())
            return self.scripted(self.node(letter, t), items, t)
        symbol, index, left = whole
        if odd := next((s for s in index if s.tokens[0].kind == "token"), None):
            raise self.error("a token is neither a block nor a head", odd)
        if odd := next((s for s in left if self.goes_on(s)), None):
            raise self.error(f"{symbol.key} has fewer indices than are written here", odd)
        return self.scripted(self.node(self.member(symbol, index), t), left, t)

    def member(self, symbol: Symbol, index: list[Script]) -> Ref:
        """The member of a family at these scripts."""
        heads, values = self.scope.heads, list[Expr]()
        own = None if heads is None else heads.names.get(symbol)
        for script, letter in zip(index, symbol.slots, strict=True):
            value = self.inside(script, letter)
            if heads is None or letter not in (heads.letter, heads.group):
                values.append(value)
            elif own is not None and letter == heads.letter:
                if value.free & {heads.group, heads.member}:
                    raise self.error(
                        f"{symbol.key} has one for each head {letter}; with {heads.group} and "
                        f"{heads.member} it is {own.key}", script,
                    )  # fmt: skip
                values += group_of(value, heads.each), place_of(value, heads.each)
            else:
                keys = heads.member not in symbol.slots and heads.counted_by(value)
                values.append(group_of(value, heads.each) if keys else value)
        return Ref(own or symbol, tuple(values))

    def match_heads(
        self, base: str, items: list[Script]
    ) -> tuple[Symbol, list[Script], list[Script]] | None:
        """As `match`, for names in which one letter counts the heads of all groups."""
        if self.scope.heads is None or base not in self.scope.heads.symbols:
            return None
        outer, self.scope = self.scope, replace(self.scope, symbols=self.scope.heads.symbols)
        found = self.match(base, items)
        self.scope = outer
        return found

    def second_name(
        self, base: str, items: list[Script]
    ) -> tuple[Callable[[], Expr], list[Script]] | None:
        """The meaning of a name that is not a value of the card, and the scripts left over."""
        below = [s for s in items if s.sign == "_"]
        most = min(len(below), 1)  # such a name has one label, as W_U does
        for k in range(most, -1 if base not in self.scope.indices else 0, -1):
            if (meant := self.scope.second(key_of(base, below[:k]))) is not None:
                return meant, [*below[k:], *(s for s in items if s.sign == "^")]
        return None

    def goes_on(self, item: Script) -> bool:
        """Whether a superscript continues after a comma, as an index does and a power does not."""
        before = self.source.text[: item.tokens[0].start].rstrip()
        return item.sign == "^" and item.label not in TRANSPOSE and before.endswith(",")

    def unknown(self, base: str, items: list[Script], loose: bool, t: Token) -> VieteError:
        """The error for a name that is not a declared one; ``loose``: its script may go on."""
        end = self.tokens[self.pos - 1].end
        if loose and not self.scope.splits(self.peek.text):
            end = self.peek.end  # d_model is one name, whatever begins like it
        name, span = self.source.text[t.start : end], (t.start, end)
        declared = self.scope.symbols.get(base, [])
        if function := next((s for s in self.scope.operators if s.base == base), None):
            of = function.key.replace(CALL, "(…)")
            return self.error(f"unknown symbol {name}; the card has a function {of}", span)
        if lacking := next((s for s in declared if s.slots and self.begins(s, items)), None):
            return self.error(
                f"{name} is one value for each {' and '.join(lacking.slots)}; write {lacking.key}, "
                f"or numbers for the letters", span,
            )  # fmt: skip
        labels = (x.text for s in declared for x in (*s.sub, *s.sup) if not x.index)
        for label in (x for x in labels if not x.isdigit()):
            if any(label in [t.text for t in i.tokens] and len(i.tokens) > 1 for i in items):
                return self.error(
                    f"unknown symbol {name}; {label} is a label here, and an index under a line "
                    f"For ${label} = 1, …, N$:", span,
                )  # fmt: skip
        known = ", ".join(s.key for s in declared)
        hint = f"; declared with this letter: {known}" if known else self.scope.suggest(name)
        return self.error(f"unknown symbol {name}{hint}", span)

    def begins(self, symbol: Symbol, items: list[Script]) -> bool:
        """Whether the scripts are those of ``symbol`` with some index letters left out."""
        return all(
            all(g.index or g.text == s.label for g, s in zip(slots, given, strict=False))
            and all(g.index for g in slots[len(given) :])
            for sign, slots in (("_", symbol.sub), ("^", symbol.sup))
            for given in ([s for s in items if s.sign == sign],)
        )

    def match(
        self, base: str, items: list[Script]
    ) -> tuple[Symbol, list[Script], list[Script]] | None:
        """The best declared symbol, its index scripts, and the scripts left over."""
        if not items:  # most names: they stand in scripts
            bare = [s for s in self.scope.symbols.get(base, ()) if not s.sub and not s.sup]
            if len(bare) < 2:
                return (bare[0], [], []) if bare else None
        found: list[tuple[tuple[int, int], Symbol, list[Script], list[Script]]] = []
        given = [[(s, s.label) for s in items if s.sign == sign] for sign in "_^"]
        below, above = ([label for _, label in side] for side in given)
        for symbol in self.scope.fitting(base, below, above):
            sides = list(zip((symbol.sub, symbol.sup), given, strict=True))
            if any(len(scripts) < len(slots) for slots, scripts in sides):
                continue
            index, labels = list[Script](), 0
            for slot, (script, label) in (x for side in sides for x in zip(*side, strict=False)):
                if (label in TRANSPOSE) if slot.index else (slot.text != label):
                    break
                if slot.index:
                    index.append(script)
                else:
                    labels += 1
            else:
                left = [s for slots, scripts in sides for s, _ in scripts[len(slots) :]]
                # Labels spelled out beat index slots: h_0 is the name h_0 before it is h at 0.
                # Only then does using up more of the scripts count.
                found.append(((labels, len(index)), symbol, index, left))
        if not found:
            return None
        found.sort(key=lambda f: f[0], reverse=True)
        if len(found) > 1 and found[0][0] == found[1][0]:
            raise self.error(
                f"this can be read as {found[0][1].key} or as {found[1][1].key}",
                items[0] if items else self.tokens[self.pos - 1],
            )
        _, symbol, index, left = found[0]
        return symbol, index, left

    def inside(self, item: Script, letter: str = "") -> Expr:
        """The expression in a script, at an index ``letter``."""
        closing = Token("end", "", item.at[1], item.at[1])
        parser = self.part([*item.tokens, closing])
        parser.depth, parser.script, parser.block = self.depth + 1, True, letter
        value = parser.item()
        parser.finish()
        return value

    def scripted(self, e: Expr, items: list[Script], t: Token | Expr) -> Expr:
        """The scripts that a name did not use: rows and entries below, transpose, power above."""
        below = [s for s in items if s.sign == "_"]
        above = [s for s in items if s.sign == "^"]
        if len(below) > 2:
            raise self.error("a matrix has rows and columns: at most two indices", below[2])
        if below:
            e = self.node(self.picked(e, list(map(self.inside, below))), t)
        while above:
            if above[0].label in TRANSPOSE:
                e = self.node(Apply("T", (e,)), t)
                above = above[1:]
                continue
            tower = list(takewhile(lambda item: item.label not in TRANSPOSE, above))
            above = above[len(tower) :]
            power = self.tower(tower)
            if e == Num(Fraction(10)) and isinstance(power, Num):
                e = self.ten_to(power, t)
            else:
                e = self.node(Apply("pow", (e, power)), t)
        return e

    def tower(self, items: list[Script]) -> Expr:
        """Stacked powers, evaluated from the top: ``2^3^2`` is 2^9, as in print."""
        *below, top = items
        power = self.inside(top)
        for item in reversed(below):
            power = self.node(Apply("pow", (self.inside(item), power)), power)
        return power

    def ten_to(self, power: Num, t: Token | Expr) -> Expr:
        """``10^{-5}`` is the number, as ``1e-5`` is."""
        if power.value.denominator != 1 or abs(power.value) > 400:
            return self.node(Apply("pow", (Num(Fraction(10)), power)), t)
        return self.node(Num(Fraction(10) ** int(power.value)), t)

    def postfix(self, e: Expr, start: Token) -> Expr:
        while True:
            if opened := self.accept("["):
                items = [self.item()]
                while self.accept(","):
                    items.append(self.item())
                self.expect("]", opened)
                if len(items) == 3 and items[0] == Slice(None, None):
                    items = items[1:]  # logits[:, -1, :], whose batch is every sequence here
                if len(items) > 2:
                    raise self.error("a matrix has rows and columns: at most two indices", opened)
                e = self.node(self.picked(e, items), start)
            elif self.peek.kind == "op" and self.peek.text in ("_", "^"):
                e = self.scripted(e, self.scripts(), start)
            else:
                return e

    def picked(self, value: Expr, items: list[Expr]) -> Pick:
        """Rows or entries of a value; an index written as a negative number counts from the end."""
        for axis, item in enumerate(items):
            if isinstance(item, Num) and self.is_word(item):
                fits = self.scope.over_tokens
                if fits is not None and not fits(value, axis):
                    raise self.error("a token has no place on this axis, which is not over the "
                                     "vocabulary", item)  # fmt: skip
            elif isinstance(item, Num) and item.value < 0 and item.value.denominator == 1:
                items[axis] = self.node(place_from_end(value, axis, -int(item.value)), item)
        return Pick(value, tuple(items))

    def is_word(self, e: Num) -> bool:
        """Whether a number was last read as a word, in quotes or as text."""
        first, end = self.spans.get(e, (0, 0))
        written = self.source.text[first:end]
        return written.startswith('"') or in_font(written) is not None

    def plain_word(self, t: Token) -> Num | None:
        r"""The id of a word without quotes: of ``\\text{a}``, or of a card's short list."""
        text = in_font(self.source.text[t.start : t.end])
        if text is not None and self.scope.vector is not None and not self.scope.splits(t.text):
            return self.token(text, t)
        words = self.scope.words()
        return Num(Fraction(words[t.text])) if words.bare and t.text in words else None

    def item(self) -> Expr:
        """One index in brackets or a script: an expression, ``a:b``, ``:b``, ``a:`` or ``:``.

        A word of the vocabulary is its number: ``E["a"]``, and where a is not a name ``E[a]`` or
        ``E_{\\text{a}}``.
        """
        start = self.peek
        after = self.tokens[min(self.pos + 1, len(self.tokens) - 1)]
        alone = after.kind == "end" or after.text in (",", "]")
        bare = start.kind == "word" and start.text not in self.scope.bases()
        if bare and alone and (number := self.plain_word(start)) is not None:
            self.next()
            return self.node(number, start)
        lower = None if self.peek.text == ":" else self.expression()
        if not self.accept(":"):
            assert lower is not None
            return lower
        ends = self.peek.kind == "end" or self.peek.text in (",", "]")
        upper = None if ends else self.expression()
        return self.node(Slice(lower, upper), start)

    # -- binders -----------------------------------------------------------------------------------

    def binder(self, op: str, t: Token) -> Expr:
        r"""``\sum_{h=1}^{H} …``, ``concat_{g,r}(…)``; a sum includes the whole product after it."""
        letters, lower, upper = list[str](), list[Expr](), list[Expr]()
        block = next(iter(self.scope.last)) if len(self.scope.last) == 1 else ""
        for sign in ("_", "^"):
            if not self.accept(sign):
                continue
            items = self.script_group(sign)
            if sign == "^":
                of = [x if x in self.scope.last else block for x in letters]
                of += [block] * (len(items) - len(of))
                upper = [self.inside(*x) for x in zip(items, of, strict=False)]
                continue
            for tokens in (item.tokens for item in items):
                if tokens[0].kind != "word":
                    raise self.error(f"{op} needs an index letter below it", tokens[0])
                letters.append(tokens[0].text)
                if len(tokens) > 1:
                    if tokens[1].text != "=" or len(tokens) < 3:
                        raise self.error("expected a lower bound such as i = 1", tokens[1])
                    lower.append(self.inside(Script(sign, tuple(tokens[2:]), True)))
            letters[-1] += self.primes()
        if not letters:
            raise self.error(f"{op} needs an index below it, such as {op}_h", t)
        if len(lower) != len(upper) or (lower and len(lower) != len(letters)):
            raise self.error(f"{op} needs both bounds or neither", t)
        if len(set(letters)) < len(letters):
            raise self.error(f"{op} needs different letters below it", t)
        body = self.body(letters, bracketed=op != "sum")
        self.left.update(letters)
        bounds = zip(lower, upper, strict=True) if lower else [(None, None)] * len(letters)
        for letter, (first, last) in reversed(list(zip(letters, bounds, strict=True))):
            body = self.node(Bind(op, letter, first, last, body), t)
        return body

    def body(self, letters: list[str], bracketed: bool = True) -> Expr:
        """The body of a binder of these letters: an expression in brackets, or a product."""
        outer, self.scope = self.scope, self.scope.inside(letters)
        found = self.within(self.expect("(")) if bracketed else self.product()
        self.scope = outer
        return found

    def table(self, t: Token) -> Expr:
        """``table_{j<n, k<m}(…)``."""
        self.expect("_")
        ranges = []
        for item in self.script_group("_"):
            if len(item.tokens) < 3 or item.tokens[1].text != "<" or item.tokens[0].kind != "word":
                raise self.error("expected a range such as j < n", item)
            size = self.inside(Script("_", item.tokens[2:], True))
            ranges.append((item.tokens[0].text, size))
        if len(ranges) > 2 or len({i for i, _ in ranges}) < len(ranges):
            raise self.error("a table has one or two different indices", t)
        return self.node(Table(tuple(ranges), self.body([i for i, _ in ranges])), t)

    def cases(self, t: Token) -> Expr:
        """LaTeX's two-way cases, the spelling of ``where(condition, a, b)``."""
        a = self.expression()
        self.expect("&")
        if self.peek.text == "if" and "if" not in self.scope.symbols:
            self.next()
        condition = self.expression()
        self.expect("\\\\")
        b = self.expression()
        self.expect("&")
        self.next()  # "otherwise"
        self.accept("\\\\")
        self.expect("\\end", t)
        return self.node(Apply("where", (condition, a, b)), t)


def key_of(base: str, items: list[Script]) -> str:
    """A name with the labels below it, as ``W_U``."""
    return Symbol("value", base, tuple(Slot(s.label) for s in items if s.sign == "_")).key
