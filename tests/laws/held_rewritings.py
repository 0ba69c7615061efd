"""Laws of `held.py` over rewritings and readings: texts together, changes, cuts, expansions."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np

import viete as vt
from tests.laws.held import (
    LAWS,
    SAMPLED,
    check,
    close,
    has,
    host,
    law,
    read_by_hand,
    slope,
)
from tests.laws.programs import Named, Program
from tests.laws.reference import Reference
from tests.laws.test_cost import traced
from tests.laws.test_incremental import stepped
from viete.analysis.cost import costs
from viete.circuits.card import circuit_card, weights_of
from viete.circuits.edges import Wiring
from viete.errors import VieteError
from viete.evaluate.schedule import program as program_of
from viete.meanings.run import run
from viete.notation.printer import show
from viete.notation.tree import Apply, walk
from viete.rewrite.incremental import derived

# Texts together -----------------------------------------------------------------------------------


@law
def a_batch_is_each_text_alone(p: Program) -> None:
    texts = [p.given(3, text) for text in range(2)]
    made = run(p.card, None, p.weights(), **{k: np.stack([x[k] for x in texts]) for k in texts[0]})
    for k, given in enumerate(texts):
        hand = Reference(p.card, p.weights(), given)
        for name in made:
            want, got = hand.whole(name), host(made[name])
            close(got[k] if got.ndim > want.ndim else got, want, f"{name} of text {k}")


@law
def no_real_position_reads_padding(p: Program) -> None:
    """The padded form gives each text its own values, with padding on either side, or refuses."""
    if "a" in p.has:
        return
    try:
        padded = p.card.padded()
    except VieteError:
        return
    n, texts = 5, [(p.given(length, length), length) for length in (2, 4, 5)]
    types = p.card.shapes.types
    length = {i.name: k for i in p.card.inputs for k, size in enumerate(i.shape)
              if show(size) == "n"}  # fmt: skip
    mask = next(i.name for i in padded.inputs if i.name not in p.given())
    # A query and a key whose product depends on distances alone count padding before the text.
    turned = {e.name for e in padded.equations for x in walk(e.right)
              if isinstance(x, Apply) and x.op == "RoPE"}  # fmt: skip
    for left in (False, True):
        rows, batch = [], {k: [] for k in (*p.given(), mask)}  # type: ignore[var-annotated]
        for given, m in texts:
            at = slice(n - m, n) if left else slice(0, m)
            rows.append(at)
            for name, v in given.items():
                wide = p.given(n, 99)[name].copy() if name in length else v
                if name in length:
                    wide[at] = v
                batch[name].append(wide)
            batch[mask].append([int(at.start <= j < at.stop) for j in range(n)])
        made = run(padded, None, p.weights(), **{k: np.array(v) for k, v in batch.items()})
        for k, (given, _) in enumerate(texts):
            hand = Reference(p.card, p.weights(), given)
            for name in made:
                key = made.symbol(name).key
                if key not in types or any("n" in s.names() and str(s) != "n"
                                           for s in types[key].shape):  # fmt: skip
                    continue
                if key in turned and left:
                    continue
                axes = [rows[k] if str(s) == "n" else slice(None) for s in types[key].shape]
                if any(x != slice(None) for x in axes):  # else it may be a mean over positions
                    want, got = hand.whole(name), host(made[name])
                    got = got[k] if got.ndim > want.ndim else got
                    close(got[(..., *axes)], want, f"{name}, {'left' if left else 'right'}")


# Changes ------------------------------------------------------------------------------------------


def changes(p: Program, hand: Reference, free: bool = False) -> list[str]:
    """Changes of some values, as people write them; ``free`` leaves a letter to the question."""
    rng, out = Random(p.seed), []
    types = p.card.shapes.types  # whole numbers stay within what the card makes them of
    values = [e for e in p.card.equations if e.name != p.loss and types[e.name].whole is None]
    for e in rng.sample(values, min(3, len(values))):
        symbol = e.left.symbol
        members = list(hand.members(e.name))
        member = rng.choice(members)
        letters = [s for s in symbol.slots if s in "sqhgr"]
        loose = rng.choice(letters) if letters and rng.random() < 0.5 else None
        index = [s if s == loose else str(k) for s, k in zip(symbol.slots, member, strict=True)]
        base = Named(name_of(symbol), (), ()).at(*index)
        shape = np.shape(hand.member(symbol, member))
        kind = rng.choice(["whole", "zero", "rows", "row", "condition"])
        if kind == "rows" and len(shape) == 2 and shape[0] > 1:
            out.append(f"{base}_j = 2 {base}_j for j ≥ 1")
        elif kind == "row" and shape:
            out.append(f"{base}_0 = 0")
        elif kind == "condition" and loose and not free:
            out.append(f"{base} = 3 {base} for {loose} ≤ 1")
        else:
            out.append(f"{base} = {'0' if kind == 'zero' else f'2 {base}'}")
    return out


def name_of(symbol: Any) -> str:
    """A name without its index letters."""
    label = "".join(f"_{{{s.text}}}" for s in symbol.sub if not s.index)
    return str(symbol.base + label)


@law
def a_changed_card_is_as_read_by_hand(p: Program) -> None:
    plain = read_by_hand(p)
    for text in changes(p, plain):
        hand = Reference(p.card, p.weights(), p.given(), [text])
        made = run(p.card.put(text), None, p.weights(), **p.given())
        for name in made:
            if made.symbol(name).key in hand.equations:  # else it is the value of before
                close(made[name], hand.whole(name), f"{name} where {text}")


@law
def a_question_with_a_change_is_as_read_by_hand(p: Program) -> None:
    plain = read_by_hand(p)
    made = p.card.run(None, p.weights(), **p.given())
    for text in changes(p, plain):
        hand = Reference(p.card, p.weights(), p.given(), [text])
        # A letter that the change leaves free asks for each member by itself.
        change = hand.changes[0]
        limited = {x for e in change.tests for x in e.free}
        letters = sorted({x for e in change.left.index for x in e.free} - limited)
        if letters:
            ranges = [hand.range(x) for x in letters]
            parts = []
            for at in product(*ranges):
                one = text
                for x, k in zip(letters, at, strict=True):
                    one = one.replace(f"{{{x}", f"{{{k}").replace(f",{x}", f",{k}")
                parts.append(Reference(p.card, p.weights(), p.given(), [one])[p.loss])
            want = np.reshape(parts, [*map(len, ranges)])
        else:
            want = hand[p.loss]
        question = f"{p.loss} with {text}"
        close(made[question], want, question)


@law
def a_patched_text_is_itself_alone_in_a_batch_and_by_a_hook(p: Program) -> None:
    texts = [p.given(3, text) for text in range(2)]
    batch = {k: np.stack([x[k] for x in texts]) for k in texts[0]}
    plain = p.card.run(None, p.weights(), **batch)
    for text in changes(p, Reference(p.card, p.weights(), texts[0])):
        hands = [Reference(p.card, p.weights(), given, [text]) for given in texts]
        want = np.stack([hand[p.loss] for hand in hands])
        made = run(p.card.put(text), None, p.weights(), **batch)
        found = np.broadcast_to(made[p.loss], want.shape)  # one number, if it reads no text now
        close(found, want, f"{p.loss} where {text}, in a batch")
        (value, _, right), left = text.partition(" = "), hands[0].changes[0].left
        if not any(x in "sqhgr" for e in left.index for x in e.free):
            found = np.broadcast_to(plain[f"{p.loss} with {text}"], want.shape)
            close(found, want, f"{p.loss} with {text}, in a batch")
        if right == f"2 {value}" and not {*left.symbol.slots} & {*"sqhgr"}:
            hooked = p.card.run(None, p.weights(), put={value: lambda a: 2 * a}, **batch)
            close(hooked[p.loss], want, f"{p.loss} where a hook doubles {value}")


@law
def what_one_reader_sees_is_as_read_by_hand(p: Program) -> None:
    """``in``: the reader has its value of the changed card, and all else reads the old ones."""
    plain, made = read_by_hand(p), p.card.run(None, p.weights(), **p.given())
    rng = Random(p.seed)
    for text in changes(p, plain)[:2]:
        changed = Reference(p.card, p.weights(), p.given(), [text])
        source = changed.changes[0].left.symbol.key
        if any(x.free for x in changed.changes[0].left.index) or changed.changes[0].tests:
            continue
        below = reading(p, source) - {p.loss, source}
        if not below:
            continue
        name = rng.choice(sorted(below))
        member = rng.choice(list(plain.members(name)))
        symbol = plain.equations[name][0].left.symbol
        given = {(name, member): changed.member(symbol, member)}
        want = Reference(p.card, p.weights(), p.given(), values=given)[p.loss]
        question = f"{p.loss} with {text} in {Named(name_of(symbol), ()).at(*map(str, member))}"
        try:
            got = made[question]
        except VieteError as error:  # right, if the change does not reach this member
            same = np.array_equal(given[name, member], plain.member(symbol, member))
            assert same, f"{question}: {error}"
            continue
        close(got, want, question)


def reading(p: Program, name: str) -> set[str]:
    """The values that are made of a value."""
    found = {name}
    while more := {e.name for e in p.card.equations if e.reads & found} - found:
        found |= more
    return found


@law
def the_gradient_of_a_changed_card_is_its_derivative(p: Program) -> None:
    for text in changes(p, read_by_hand(p))[:1]:
        card = p.card.put(text)
        try:
            made = run(card.grad(p.loss), None, p.weights(), **p.given())
        except VieteError as error:  # the change may take all that the loss depends on
            assert "does not depend" in str(error), f"{error} where {text}"
            continue
        rng = np.random.default_rng(p.seed)
        way = {k: rng.choice([-1.0, 1.0], v.shape) for k, v in p.weights().items()}
        along = sum(float((host(made["∂" + k]) * way[k]).sum()) for k in way if has(made, "∂" + k))
        near, far = (slope(p, way, step, text) for step in (1e-5, 2e-5))
        if abs(near - far) < 1e-6 * (1 + abs(near)):
            error = abs(along - near)
            assert error < 1e-5 * (1 + abs(near)), f"{along}, not {near}, where {text}"


@law
def a_cut_card_goes_on_from_what_it_is_given(p: Program) -> None:
    plain = read_by_hand(p)
    model = p.card.with_weights(p.weights())
    read = frozenset[str]().union(*(e.reads for e in p.card.equations))
    values = [e for e in p.card.equations if e.name in read]
    for e in Random(p.seed).sample(values, min(2, len(values))):
        cut = model.cut(show(e.left), values=model.run(None, **p.given()))
        made = cut.run(None, **p.given())
        for name in made:
            if made.symbol(name).key in plain.equations:
                close(made[name], plain.whole(name), f"{name} without {show(e.left)}")


# Readings -----------------------------------------------------------------------------------------


@law
def the_terms_of_an_expansion_add_up(p: Program) -> None:
    plain = read_by_hand(p)
    made = p.card.run(None, p.weights(), **p.given())
    for name, e in [(e.name, e) for e in p.card.equations][-4:]:
        member = next(plain.members(name))
        base = Named(name_of(e.left.symbol), ()).at(*map(str, member))
        want = plain.member(e.left.symbol, member)
        asked = base + ("[-1]" if np.ndim(want) == 2 else "")
        want = want[-1] if np.ndim(want) == 2 else want
        for into in ("block", "head"):
            found = made.expand(asked, into)
            total = sum(np.asarray(t.value) for t in found)
            if not np.isfinite(want).all():
                continue
            error = np.max(np.abs(total - want))
            assert error <= 1e-9 * max(found.mass, 1.0), f"{asked} into {into}: {error:.2e} off"


@law
def every_member_has_its_value(p: Program) -> None:
    """Members, rows and entries that are asked for, and families with their letters left free."""
    plain, made = read_by_hand(p), p.card.run(None, p.weights(), **p.given())
    for e in p.card.equations:
        symbol = e.left.symbol
        for member in plain.members(e.name):
            want = plain.member(symbol, member)
            base = Named(name_of(symbol), ()).at(*map(str, member))
            close(made[base], want, base)
            if np.ndim(want):
                close(made[f"{base}[0]"], want[0], f"{base}[0]")
        loop = [s for s in symbol.slots if s in p.card.loop_letters]
        if loop:
            members = list(plain.members(e.name))
            wants = [np.asarray(plain.member(symbol, m)) for m in members]
            others = sorted({m[1:] for m in members})
            assert symbol.slots[0] == loop[0]
            for rest in others:
                family = Named(name_of(symbol), ()).at(loop[0], *map(str, rest))
                want = np.stack([w for m, w in zip(members, wants, strict=True) if m[1:] == rest])
                got = host(made[family])
                close(got, want[len(want) - len(got) :], family)


@law
def a_cached_text_goes_on_as_the_whole(p: Program) -> None:
    """Piece by piece, with the cache that the incremental form asks for."""
    if "real" in p.has:
        return
    try:
        found = derived(p.card)
    except VieteError:
        return
    given = p.given(4)
    hand = Reference(p.card, p.weights(), given)
    for cuts in ([0, 1, 2, 3, 4], [0, 3, 4]):
        rows, _ = stepped(p.card, found, p.weights(), given, cuts)
        close(rows, hand[found.target], f"{found.target} in pieces {cuts}")


@law
def folded_weights_predict_the_same(p: Program) -> None:
    if "logits" not in {e.name for e in p.card.equations}:
        return
    made = p.card.with_weights(p.weights()).folded().run(None, **p.given())
    wants = read_by_hand(p)["logits"]
    got = host(made["logits"])
    ends = [x - x.mean(-1, keepdims=True) for x in (got, wants)]  # the same but for a constant
    close(*ends, "logits")


@law
def all_edges_of_a_circuit_are_the_card(p: Program) -> None:
    ready = program_of(p.card)
    root = next(e.left for e in p.card.equations if e.name == p.loss)
    try:
        whole = circuit_card(Wiring(ready, [root]))
    except VieteError:  # without a stream of sums there are no edges
        return
    page = vt.Card.of(whole.card)
    assert vt.read(page.write()) == page
    made = run(whole.card, None, weights_of(ready, p.weights(), whole.weights),
               **{i.name: p.given()[i.name] for i in whole.card.inputs})  # fmt: skip
    close(made[p.loss], read_by_hand(p)[p.loss], p.loss)


@law
def texts_of_unequal_lengths_are_each_text_alone(p: Program) -> None:
    """Given together, each has its own last row, its own mean over positions, its own loss."""
    if "real" in p.has or "a" in p.has or "logits" not in {e.name for e in p.card.equations}:
        return
    texts = [p.given(length, length) for length in (2, 4, 3)]
    model = p.card.with_weights(p.weights())
    given = {k: [x[k].tolist() for x in texts] for k in texts[0]}
    made = model.run(given.pop("t"), **given)
    questions = ["logits_{-1,0}", "mean_{j=0}^{n-1}(logits_{j,0})", p.loss]
    found = [host(made[q]) for q in questions]
    for k, given in enumerate(texts):
        hand = Reference(p.card, p.weights(), given)
        for q, got in zip(questions, found, strict=True):
            want = hand[q.replace("{-1,0}", f"{{{len(given['t'])} - 1, 0}}")]
            if np.shape(got) == (len(texts),):
                close(got[k], want, f"{q} of text {k}")


@law
def what_is_counted_is_computed(p: Program) -> None:
    plain, given = read_by_hand(p), p.given()
    n = int(plain.number("n"))
    found = costs(p.card, {"n": n})
    symbols = {e.name: e.left.symbol for e in p.card.equations}
    wanted = sum(np.size(plain.member(x, m)) for k, x in symbols.items() for m in plain.members(k))
    assert found.activations.number == wanted, f"{found.activations.number} numbers, not {wanted}"
    with traced() as products:
        run(p.card, None, p.weights(), exact_definitions=True, **given)
    counted = found.forward.products.number
    tests = [x.args[0] for e in p.card.equations for x in walk(e.right)
             if isinstance(x, Apply) and x.op == "where"]  # fmt: skip
    made = sum(products)
    if any(x.free & p.card.loop_letters for x in tests):  # in some blocks, one side alone is made
        assert counted >= made, f"{counted} operations counted, {made} made"
    else:
        assert counted == made, f"{counted} operations counted, {made} made"


@law
def a_printed_card_reads_back(p: Program) -> None:
    for form in ("md", "latex", "json"):
        assert vt.read(p.card.write(form)) == p.card, form


__all__ = ["LAWS", "SAMPLED", "check"]
