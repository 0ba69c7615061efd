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

from fractions import Fraction

from viete.errors import Text, VieteError
from viete.notation.application import application, composition
from viete.notation.barred import barred
from viete.notation.binders import binder, table
from viete.notation.cursor import (
    BARS,
    CLOSED,
    CLOSERS,
    MAX_DEPTH,
    Script,
    end_token,
    top_level,
)  # fmt: skip
from viete.notation.heads import group_of, place_of
from viete.notation.lexer import ELEMENTARY, Token, tokenize
from viete.notation.matrix_literals import follows_as_factor, matrix
from viete.notation.names import NameParser
from viete.notation.scripts import picked, scripted, tower
from viete.notation.symbols import BINDERS, CONSTANTS, INPUTS_ARE, LAST, Scope
from viete.notation.tensors import TENSOR, acted
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Ref,
    Slice,
    Symbol,
    near,
)  # fmt: skip
from viete.notation.words import unquoted

COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "=": "eq", "!=": "ne", "≈": "le"}
BINARY = (  # from loose to tight
    {"or": "or"}, {"and": "and"}, COMPARISONS, {"+": "add", "-": "sub"},
    {"⊙": "had", "⊗": TENSOR, "*": "times", "×": "times", "/": "div", "mod": "mod"},
)  # fmt: skip
OPERATORS = {sign: op for signs in BINARY for sign, op in signs.items()}
LEVELS = {sign: level for level, signs in enumerate(BINARY) for sign in signs}
NUMBERS = ("num", "token")


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
    """Parse ``tokens`` of the source as one expression; the last token is an end.

    Raises VieteError as `parse` does.
    """
    parser = Parser(source, tokens, scope)
    result = parser.expression()
    parser.finish()
    if any(t.kind == "op" and t.text == "⊗" for t in tokens):
        result = acted(result, parser.error)
    return bounded(result, source)


def bounded(e: Expr, source: Text) -> Expr:
    """Raise VieteError for a formula nested too deeply to read, or for Python's recursion limit."""
    level: list[Expr] = [e]
    for _ in range(MAX_DEPTH):
        level = [c for x in level for c in x.children]
        if not level:
            return e
    raise source.error(
        f"this expression is nested more than {MAX_DEPTH} deep; give names to its parts"
    )


class Parser(NameParser):
    """Recursive descent over one formula's tokens."""

    # -- precedence levels -------------------------------------------------------------------------

    def expression(self, bar: str = "") -> Expr:
        """The content of a pair of brackets, or of bars that ``bar`` closes."""
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
            and (t.text in ("(", "{", "⟨", "∑", "\\frac", "\\begin", "∞", "⌈", "⌊", "[")
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
        if opened := self.accept("["):
            return self.node(matrix(self, opened), opened)
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
            return binder(self, "sum", t)
        if self.accept("\\begin"):
            return self.cases(t)
        if t.kind == "end":
            raise self.error("the formula ends too early here", t)
        raise self.error(f"{t.text!r} cannot stand here", t)

    def derivative(self, t: Token) -> Expr:
        """``∂(…)/∂x`` as one factor, or the numerator or denominator in a fraction."""
        self.next()
        of = self.node(Apply("partial", (self.factor(),)), t)
        below = self.tokens[min(self.pos + 1, len(self.tokens) - 1)]
        if below.text != "partial" or not self.accept("/"):
            return of
        by = self.factor()
        return self.node(Apply("div", (of, by)), t)

    def within(self, opened: Token) -> Expr:
        """An expression up to the bracket that closes ``opened``."""
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
            return table(self, t)
        if text in BINDERS and self.peek.text == "_" and text not in scope.symbols:
            return binder(self, text, t)
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
            return self.node(Apply("exp", (tower(self, self.scripts()),)), t)
        if text == "e" and scope.text is not None and self.peek.text not in ("_", "(", "["):
            return self.node(Apply("exp", (Num(Fraction(1)),)), t)
        return self.run(t)

    def theta(self, t: Token) -> Expr:
        """``θ_{a,b}`` for the angle between two vectors, in cards without a θ."""
        items = self.scripts()
        below = [s for s in items if s.sign == "_"]
        if len(below) != 2:
            raise self.unknown("theta", items, False, t)
        e = self.applied("angle", [self.inside(s) for s in below], t)
        return scripted(self, e, [s for s in items if s.sign == "^"], t)

    def run(self, t: Token) -> Expr:
        """Letters without spaces between: ``QK^T`` is Q, then K with the scripts after it."""
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
                return scripted(self, self.node(meant(), t), left, t)
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
            return scripted(self, self.node(letter, t), items, t)
        symbol, index, left = whole
        if odd := next((s for s in index if s.tokens[0].kind == "token"), None):
            raise self.error("a token is neither a block nor a head", odd)
        if odd := next((s for s in left if self.goes_on(s)), None):
            raise self.error(f"{symbol.key} has fewer indices than are written here", odd)
        return scripted(self, self.node(self.member(symbol, index), t), left, t)

    def member(self, symbol: Symbol, index: list[Script]) -> Ref:
        """The member of a family with these index scripts."""
        heads, values = self.scope.heads, list[Expr]()
        own = None if heads is None else heads.names.get(symbol)
        for script, letter in zip(index, symbol.slots, strict=True):
            value = self.inside(script, letter)
            if heads is None or letter not in (heads.letter, heads.group):
                values.append(value)
            elif own is not None and letter == heads.letter:
                if value.free & {heads.group, heads.member}:
                    raise self.error(
                        f"{symbol.key} takes the head {letter}; with the letters {heads.group} and "
                        f"{heads.member} write {own.key}", script,
                    )  # fmt: skip
                values += group_of(value, heads.each), place_of(value, heads.each)
            else:
                keys = heads.member not in symbol.slots and heads.counted_by(value)
                values.append(group_of(value, heads.each) if keys else value)
        return Ref(own or symbol, tuple(values))

    def inside(self, item: Script, letter: str = "") -> Expr:
        """The expression in a script, in the slot of the index ``letter``."""
        closing = Token("end", "", item.at[1], item.at[1])
        parser = self.part([*item.tokens, closing])
        parser.depth, parser.script, parser.block = self.depth + 1, True, letter
        value = parser.item()
        parser.finish()
        return value

    def postfix(self, e: Expr, start: Token) -> Expr:
        while True:
            if not follows_as_factor(self) and (opened := self.accept("[")):
                items = [self.item()]
                while self.accept(","):
                    items.append(self.item())
                self.expect("]", opened)
                if len(items) == 3 and items[0] == Slice(None, None):
                    items = items[1:]  # logits[:, -1, :], whose batch is every sequence here
                if len(items) > 2:
                    raise self.error("a matrix has rows and columns: at most two indices", opened)
                e = self.node(picked(self, e, items), start)
            elif self.peek.kind == "op" and self.peek.text in ("_", "^"):
                e = scripted(self, e, self.scripts(), start)
            else:
                return e

    def item(self) -> Expr:
        """One index in brackets or a script: an expression, ``a:b``, ``:b``, ``a:`` or ``:``.

        A word of the vocabulary is its number: ``E["a"]``, and where a is not a name ``E[a]`` or
        ``E_{\\text{a}}``.
        """
        start = self.peek
        after = self.tokens[min(self.pos + 1, len(self.tokens) - 1)]
        alone = after.kind == "end" or after.text in (",", "]")
        bare = start.kind == "word" and not self.is_name(start.text)
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

    def cases(self, t: Token) -> Expr:
        """LaTeX's cases, the spelling of ``where(condition, a, b)``, which nests for more rows."""
        rows = [self.case()]
        self.expect("\\\\")
        while True:
            value = self.expression()
            self.expect("&")
            if self.ends_cases():
                break
            rows.append((value, self.condition()))
            self.expect("\\\\")
        self.next()  # "otherwise"
        self.accept("\\\\")
        self.expect("\\end", t)
        for a, condition in reversed(rows):
            value = self.node(Apply("where", (condition, a, value)), t)
        return value

    def case(self) -> tuple[Expr, Expr]:
        """A row of cases: a value and its condition."""
        value = self.expression()
        self.expect("&")
        return value, self.condition()

    def condition(self) -> Expr:
        if self.peek.text == "if" and "if" not in self.scope.symbols:
            self.next()
        return self.expression()

    def ends_cases(self) -> bool:
        """Whether one word is left before the end, such as ``otherwise``."""
        after = [x.text for x in self.tokens[self.pos + 1 : self.pos + 3]]
        return after[:1] == ["\\end"] or after == ["\\\\", "\\end"]
