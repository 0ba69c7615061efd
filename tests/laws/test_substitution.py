"""Substitution: it means what evaluation means, at once for all names, and reads as it prints."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from viete.errors import Text
from viete.graph.matching import match
from viete.library.functions import inlined, parse_function
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.substitution import (
    Abstraction,
    apart,
    free_names,
    substitute,
)
from viete.notation.symbols import Scope
from viete.notation.tree import (
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
    num,
    transform,
    walk,
)

LETTERS, NAMES = "jklm", "jxy"  # one letter is a name as well
Meaning = Mapping[tuple[str, str], Fraction]


def alpha_equal(a: Expr, b: Expr) -> bool:
    """A pattern without letters of its own fits what differs in the letters of binders alone."""
    found = match(a, b)
    return found is not None and not found.letters


def value(e: Expr, at: Meaning) -> Fraction:
    """What a formula is where its letters and names have values, by the rules of the notation."""
    match e:
        case Num(value=v):
            return v
        case Idx(name):
            return at["letter", name]
        case Ref():
            return at["name", e.key]
        case Apply("add", (a, b)):
            return value(a, at) + value(b, at)
        case Apply("times", (a, b)):
            return value(a, at) * value(b, at)
        case Bind("sum", letter, lower, upper, body):
            assert lower is not None and upper is not None
            turns = range(int(value(lower, at)), int(value(upper, at)) + 1)
            return sum((value(body, {**at, ("letter", letter): Fraction(k)}) for k in turns),
                       Fraction(0))  # fmt: skip
        case Pick(Table(ranges, body), items):
            places = {("letter", i): value(x, at) for (i, _), x in zip(ranges, items, strict=True)}
            return value(body, {**at, **places})
    raise TypeError(e)


LEAVES = st.one_of(
    st.integers(0, 3).map(num),
    st.sampled_from(LETTERS).map(Idx),
    st.sampled_from(NAMES).map(lambda x: Ref(Symbol("value", x))),
)


def grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    letter = st.sampled_from(LETTERS)
    pairs = st.tuples(letter, letter).filter(lambda p: p[0] != p[1])
    return st.one_of(
        st.builds(lambda op, a, b: Apply(op, (a, b)), st.sampled_from(["add", "times"]),
                  inner, inner),
        st.builds(lambda i, b: Bind("sum", i, num(0), num(2), b), letter, inner),
        st.builds(lambda p, b, x, y: Pick(Table(((p[0], num(9)), (p[1], num(9))), b), (x, y)),
                  pairs, inner, inner, inner),
    )  # fmt: skip


formulas = st.recursive(LEAVES, grown, max_leaves=8)
SOME = {("letter", x): Fraction(k + 2, 7) for k, x in enumerate(LETTERS)} | {
    ("name", x): Fraction(k + 3, 5) for k, x in enumerate(NAMES)
}


@settings(max_examples=60, deadline=None)
@given(formulas, st.dictionaries(st.sampled_from(LETTERS), formulas, max_size=2),
       st.dictionaries(st.sampled_from(NAMES), formulas, max_size=2))  # fmt: skip
def test_what_is_put_in_means_what_it_meant_outside(
    e: Expr, letters: dict[str, Expr], names: dict[str, Expr]
) -> None:
    """All at once: what is put for j may have k in it, for which something is put as well."""
    put = {("letter", k): value(v, SOME) for k, v in letters.items()}
    put |= {("name", k): value(v, SOME) for k, v in names.items()}
    new = substitute(e, letters=letters, names=names)
    assert value(new, SOME) == value(e, {**SOME, **put})


@settings(max_examples=50, deadline=None)
@given(formulas, st.sets(st.sampled_from(LETTERS)))
def test_binders_kept_apart_mean_the_same_and_are_read_back(e: Expr, around: set[str]) -> None:
    new = apart(e, around)
    assert alpha_equal(new, e)
    assert value(new, SOME) == value(e, SOME)
    assert not new.binders & around
    scope = Scope(indices=set(LETTERS) - set(NAMES))
    for x in NAMES:
        scope.declare(Symbol("value", x))
    if "j" not in e.free:  # a name of that letter is in the way of saying it
        assert parse(show(new), scope) == new


@settings(max_examples=50, deadline=None)
@given(formulas, st.permutations(LETTERS))
def test_letters_that_change_places_change_back(e: Expr, order: list[str]) -> None:
    there = {a: Idx(b) for a, b in zip(LETTERS, order, strict=True)}
    back = {b: Idx(a) for a, b in zip(LETTERS, order, strict=True)}
    assert alpha_equal(substitute(substitute(e, letters=there), letters=back), e)


@settings(max_examples=50, deadline=None)
@given(formulas, formulas)
def test_equal_but_for_letters_is_what_it_says(a: Expr, b: Expr) -> None:
    assert alpha_equal(a, a)
    if alpha_equal(a, b):
        assert free_names(a) == free_names(b)
        assert value(a, SOME) == value(b, SOME)
    assert alpha_equal(a, apart(a, around=LETTERS))


@settings(max_examples=50, deadline=None)
@given(formulas, st.data())
def test_what_a_pattern_fits_is_the_pattern_put_in(e: Expr, data: st.DataObject) -> None:
    """With a part of a formula left open, the part is found; it may not have a bound letter."""
    parts = [x for x in walk(e) if not (isinstance(x, Slice) or x.binders)]
    part = data.draw(st.sampled_from(parts))
    hole = Ref(Symbol("argument", "u"))
    pattern = transform(e, lambda x: hole if x == part else None)
    found = match(pattern, apart(e, around=LETTERS))
    if found is None:
        assert part.free & e.binders
    elif found.letters:
        assert alpha_equal(substitute(pattern, arguments=found.letters), e)
        assert not alpha_equal(pattern, e)


def test_a_bound_letter_does_not_leave_its_binder() -> None:
    """``sum_j u`` fits ``sum_k x`` and not ``sum_k (x * k)``, whose part means nothing outside."""
    x, u = Ref(Symbol("value", "x")), Ref(Symbol("argument", "u"))
    pattern = Bind("sum", "j", num(0), num(2), u)
    found = match(pattern, Bind("sum", "k", num(0), num(2), x))
    assert found is not None and found.letters == {"u": x}
    inner = Apply("times", (x, Idx("k")))
    assert match(pattern, Bind("sum", "k", num(0), num(2), inner)) is None
    assert match(pattern, Bind("sum", "k", num(0), num(3), x)) is None
    assert match(Bind("sum", "h", None, None, u), Bind("sum", "g", None, None, x)) is None


def test_a_family_gets_its_index() -> None:
    """``W^h`` stands for ``sum_j (j * h)``, where j is a letter around it as well."""
    w = Symbol("value", "W", (), (Slot("h", True),))
    body = Bind("sum", "j", num(0), num(2), Apply("times", (Idx("j"), Idx("h"))))
    e = Bind("sum", "j", num(0), num(3), Ref(w, (Idx("j"),)))
    new = substitute(e, names={w.key: Abstraction(("h",), body)})
    assert value(new, {}) == sum(j * k for j, k in product(range(3), range(4)))
    assert len(new.binders) == 2


def test_a_sum_over_a_declared_range_says_it_where_it_must_change() -> None:
    e = Bind("sum", "h", None, None, Apply("add", (Idx("h"), Ref(Symbol("value", "y")))))
    new = substitute(e, names={"y": Idx("h")}, ranges={"h": (num(1), num(4))})
    assert value(new, {("letter", "h"): Fraction(9)}) == 1 + 2 + 3 + 4 + 4 * 9


def test_a_definition_does_not_capture_what_it_is_applied_to() -> None:
    f = parse_function(Text("f(z) = \\sum_{j=0}^{1} (z * (j + 1))"), {})
    new = inlined(Apply("f", (Idx("j"),)), {"f": f})
    assert value(new, {("letter", "j"): Fraction(5)}) == 15


def test_sizes_of_a_definition_are_those_of_its_arguments() -> None:
    f = parse_function(Text("f(A: r × c; b: c) = table_{j<r, k<c}(A_{j,k} * b_k / c)"), {})
    a, b = Ref(Symbol("value", "X")), Ref(Symbol("value", "j"))
    new = inlined(Apply("f", (a, b)), {"f": f})
    assert show(new) == "table_{v<rows(X),k<cols(X)}(X_{v,k} * j_k / cols(X))"
