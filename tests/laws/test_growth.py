"""What is said of a card costs the same for 4 blocks and for 400; what is run, in proportion."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
import viete.cards.reader as reader
from tests.laws.strategies import random_weights
from viete.analysis.linearity import Linearity
from viete.analysis.shapes import Shapes
from viete.ask.terms import Expander
from viete.circuits.card import live_edges
from viete.circuits.runs import RunsWriting
from viete.evaluate.schedule import Program
from viete.graph.card import CardData
from viete.meanings.run import run
from viete.rewrite.adjoint import grad

LLAMA = Path(reader.__file__).parent / "shipped" / "llama.md"
TEXT = LLAMA.read_text("utf-8")
PAGES = reader.pages_of(TEXT, LLAMA.parent)


def seconds(work: Callable[[], Any], times: int = 5) -> float:
    """The best of several, in processor time: other work may share the machine.

    What other tests have left is not this work's to look through.
    """
    best = float("inf")
    gc.disable()
    try:
        for _ in range(times):
            start = time.process_time()
            work()
            best = min(best, time.process_time() - start)
    finally:
        gc.enable()
    return best


def text_for(blocks: int) -> str:
    assert "| $N$ | 32 |" in TEXT
    return TEXT.replace("| $N$ | 32 |", f"| $N$ | {blocks} |")


def read_and_check(blocks: int) -> None:
    Shapes(reader.reads(text_for(blocks), pages=PAGES))


@cache
def small(blocks: int) -> vt.Card:
    return vt.read(LLAMA).bind(N=blocks, V=16, d=8, H=2, G=1, d_f=8, n_max=8)


def test_reading_and_checking_eighty_blocks_is_quick() -> None:
    assert seconds(lambda: read_and_check(80)) <= 0.2


def test_reading_and_checking_do_not_grow_with_the_blocks() -> None:
    read_and_check(4)
    assert seconds(lambda: read_and_check(4000)) < 1.5 * seconds(lambda: read_and_check(4)) + 0.01


def test_counting_costs_does_not_grow_with_the_blocks() -> None:
    from viete.analysis.cost import costs

    few, many = small(4), small(4000)
    costs(few, {"n": 4})
    assert (
        seconds(lambda: costs(many, {"n": 4})) < 1.5 * seconds(lambda: costs(few, {"n": 4})) + 0.01
    )


def grows_in_proportion(work: Callable[[int], Any]) -> None:
    """Doubling the blocks at most doubles the time, with a generous allowance for noise."""
    for _ in range(3):
        work(10)
        ten, twenty, forty = (seconds(lambda n=n: work(n)) for n in (10, 20, 40))
        if forty < 1.6 * 2 * twenty and forty < 1.6 * 4 * ten + 0.005:
            return
    pytest.fail(f"10, 20 and 40 blocks take {ten:.4f}, {twenty:.4f} and {forty:.4f} s")


def test_the_schedule_grows_in_proportion() -> None:
    def schedule(n: int) -> Program:
        return Program(small(n))

    assert [len(schedule(n).steps) - len(schedule(0).steps) for n in (10, 20, 40)] == [
        n * (len(schedule(1).steps) - len(schedule(0).steps)) for n in (10, 20, 40)
    ]
    grows_in_proportion(schedule)


@pytest.mark.parametrize("names", [None, ["logits"]])
def test_running_grows_in_proportion(names: list[str] | None) -> None:
    tokens = np.arange(6)
    weights = {n: random_weights(small(n), scale=0.1) for n in (10, 20, 40)}

    def go(n: int) -> None:
        run(small(n), tokens, weights[n], names=names)

    grows_in_proportion(go)


def test_reading_grows_in_proportion_to_the_equations() -> None:
    """A chain of them, each of the last: names are looked up, not tried one by one."""

    def text(n: int) -> str:
        chain = "".join(f"{k}. $y_{{{k}}} = y_{{{k - 1}}} + 1$\n" for k in range(1, 10 * n + 1))
        dims = "## Dimensions\n\n| symbol | value |\n| --- | --- |\n| $d$ | 4 |\n"
        return f"# C\n\n{dims}\n## Inputs\n\n- $y_0 ∈ ℝ^d$\n\n## Forward pass\n\n{chain}"

    ten, eighty = (seconds(lambda n=n: reader.reads(text(n)), 2) for n in (10, 80))
    assert eighty < 2.5 * 8 * ten


def test_deriving_grows_in_proportion_to_the_equations() -> None:
    """Blocks that are written out, as in the card of a circuit: each reads what two before add."""

    def card(n: int) -> CardData:
        of = range(1, 10 * n + 1)
        names = ", ".join(f"w_{{{k}}}" for k in of)
        blocks = "".join(
            f"1. $a_{{{k}}} = softmax(LN(x_{{{k - 1}}}; w_{{{k}}}, w_{{{k}}})) ⊙ w_{{{k}}}$\n"
            f"1. $x_{{{k}}} = x_{{{k - 1}}} + a_{{{k}}}$\n"
            for k in of
        )
        dims = "## Dimensions\n\n| symbol | value |\n| --- | --- |\n| $d$ | 4 |\n"
        weights = f"## Parameters\n\n| symbol | shape |\n| --- | --- |\n| ${names}, x_0$ | $d$ |\n"
        loss = f"1. $L = sum(x_{{{10 * n}}})$\n"
        return reader.reads(f"# C\n\n{dims}\n{weights}\n## Forward pass\n\n{blocks}{loss}")

    two, eight = (seconds(partial(grad, card(n)), 1) for n in (2, 8))
    assert eight < 2 * 4 * two


def calls(monkeypatch: pytest.MonkeyPatch, of: Any, name: str, work: Callable[[], Any]) -> int:
    """How often a method is called."""
    count, method = 0, getattr(of, name)

    def counted(*given: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return method(*given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(of, name, counted)
        work()
    return count


def plain(equations: str, functions: str = "") -> vt.Card:
    return vt.read(
        "# C\n\n## Dimensions\n\n| symbol | value |\n| --- | --- |\n| $d$ | 2 |\n\n"
        "## Inputs\n\n- $x ∈ ℝ^d$\n\n## Parameters\n\n| symbol | shape |\n| --- | --- |\n"
        f"| $W$ | $d × d$ |\n\n{functions}## Forward pass\n\n{equations}"
    )


def residual(count: int) -> vt.Card:
    """Each equation reads the one before twice, so the first is read in 2^count ways."""
    more = (f"1. $y_{{{k}}} = y_{{{k - 1}}} + y_{{{k - 1}}} W$\n" for k in range(1, count))
    return plain("1. $y_{0} = x + x W$\n" + "".join(more))


def nested(count: int) -> vt.Card:
    """Each function calls the one before twice."""
    more = (f"- $f_{{{k}}}(z) = f_{{{k - 1}}}(f_{{{k - 1}}}(z))$\n" for k in range(1, count))
    functions = f"## Functions\n\n- $f_{{0}}(z) = 2 z$\n{''.join(more)}\n"
    return plain(f"1. $u = x W$\n1. $y = f_{{{count - 1}}}(u)$\n", functions)


def test_terms_grow_in_proportion_to_the_equations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as the ways from the last to the first: past a budget a value stays a term, said."""
    made = {}
    for count in (4, 20, 40):
        run = residual(count).run(np.array([1.0, 2.0]), {"W": np.array([[0.1, 0.2], [0.3, -0.1]])})

        def work(run: Any = run, count: int = count) -> None:
            found = run.expand(f"y_{{{count - 1}}}")
            assert np.allclose(sum(t.value for t in found), found.total)
            assert ("would be opened in more than 32 places" in str(found)) == (count > 4)

        made[count] = calls(monkeypatch, Expander, "terms", work)
    assert made[4] < 20 and made[40] < 2.5 * made[20] < 2000


def test_whether_a_function_is_linear_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(count: int) -> None:
        nested(count).run(np.array([1.0, 2.0]), {"W": np.eye(2)}).expand("y_0")

    three, six = (calls(monkeypatch, Linearity, "degree", lambda n=n: work(n)) for n in (3, 6))
    assert six < 2 * three + 10


def test_functions_that_would_be_written_out_too_long_are_refused() -> None:
    with pytest.raises(vt.VieteError, match="give a part of it an equation of its own") as error:
        nested(20)
    assert error.value.where is not None and "f_{8}(z)" in error.value.where.text


def test_a_circuit_of_more_edges_is_not_written_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Circuits without one edge each run together, and the edges that live are found by halving."""
    import viete.circuits.ablation as ablation
    import viete.circuits.search as search

    counts: dict[str, int] = {}

    def counted(name: str, module: Any) -> None:
        work = getattr(module, name)

        def call(*given: Any, **options: Any) -> Any:
            counts[name] = counts.get(name, 0) + 1
            return work(*given, **options)

        monkeypatch.setattr(module, name, call)

    counted("live_edges", search)
    counted("circuit_card", ablation)
    counted("execute", search)
    made = []
    for heads, edges in ((2, 6), (4, 24)):
        card = vt.read("attention-only-2").bind(V=11, d=8, N=2, H=heads, d_k=2, n_max=4)
        model = card.with_weights(random_weights(card, 3, scale=0.3))
        counts.clear()
        of, texts = "logsoftmax(logits_{-1})[5]", [[1, 2, 3], [3, 4, 7], [9, 8, 2]]
        found = model.circuit(of, texts, edges=edges)
        assert found is not None and counts["live_edges"] <= 12
        assert counts["execute"] <= 2  # the exact scores of all chosen edges
        made.append(counts["circuit_card"])
    assert made[0] == made[1]


def python_calls(work: Callable[[], Any]) -> int:
    """How many functions of Python a piece of work calls: what it takes, on any machine."""
    count = 0

    def counted(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


CIRCUITS = {
    "heads": ("attention-only-2", {"V": 11, "d": 8, "N": 2, "d_k": 2, "n_max": 4}, "H", (4, 8, 16)),
    "blocks": ("gpt2", {"V": 11, "d": 4, "H": 2, "d_f": 4, "n_max": 4}, "N", (2, 4, 8)),
}
NUMBER, TEXTS = "logsoftmax(logits_{-1})[5]", [[1, 2, 3], [3, 4, 7], [9, 8, 2]]


def grows(work: Callable[[int], Callable[[], Any]], numbers: Sequence[int]) -> None:
    """Each doubling adds about twice what the one before it added; ``work`` makes the work."""
    counts = [python_calls(work(k)) for k in (numbers[0], *numbers)]  # the first fills the memos
    _, one, two, four = counts
    assert four - two < 2.25 * max(two - one, 0.15 * one), counts


def grows_with(what: str, work: Callable[[vt.Model], Any]) -> None:
    """Each doubling adds about twice what the one before it added, though edges are squares."""
    name, sizes, size, numbers = CIRCUITS[what]

    def made(k: int) -> Callable[[], Any]:
        card = vt.read(name).bind(**sizes, **{size: k})
        model = card.with_weights(random_weights(card, 3, scale=0.3))
        return lambda: work(model)

    grows(made, numbers)


def tiny_gpt2(N: int = 2, H: int = 2) -> vt.Model:
    card = vt.read("gpt2").bind(V=11, d=2 * H, N=N, H=H, d_f=4, n_max=64)
    return card.with_weights(random_weights(card, 3, scale=0.3))


def some_texts(count: int) -> list[list[int]]:
    return [[k % 11, 3, 5, 7][: 2 + k % 3] for k in range(count)]


LOGIT = "logits_{-1,3}"
DOUBLED: dict[str, Callable[[int], Callable[[], Any]]] = {
    "show, heads": lambda k: partial(tiny_gpt2(H=k).card.write, "text"),
    "show, blocks": lambda k: partial(tiny_gpt2(N=k).card.write, "text"),
    "grad, heads": lambda k: partial(tiny_gpt2(H=k).grad, LOGIT),
    "grad, blocks": lambda k: partial(tiny_gpt2(N=k).grad, LOGIT),
    "export, blocks": lambda k: partial(tiny_gpt2(N=k).card.export, "torch"),
    "claims, blocks": lambda k: partial(tiny_gpt2(N=k).check, r"x^N = x^0 + \sum_{i=1}^N Δx^i"),
    "expand, heads": lambda k: partial(tiny_gpt2(H=k).run([1, 2]).expand, LOGIT, "head, source"),
    "expand, blocks": lambda k: partial(tiny_gpt2(N=k).run([1, 2]).expand, LOGIT, "head, source"),
    "attribute, heads": lambda k: partial(
        tiny_gpt2(H=k).run([1, 2]).attribute, LOGIT, "A^{i,h}", exact=True),
    "a sweep, heads": lambda k: partial(
        tiny_gpt2(H=k).run([1, 2]).answer, f"{LOGIT} with A^{{i,h}} = 0"),
    "arrows, blocks": lambda k: partial(
        tiny_gpt2(N=k).run([1, 2]).answer, "x^0_j →(A^{i,h}) x^i_1"),
    "questions, texts": lambda k: partial(tiny_gpt2().run(some_texts(k)).answer, LOGIT),
    "circuits, texts": lambda k: partial(tiny_gpt2().circuit, LOGIT, some_texts(k), edges=2),
}  # fmt: skip


QUICK = ("show, blocks", "grad, heads", "a sweep, heads", "questions, texts")
SLOWER = [pytest.param(x, marks=pytest.mark.slow) for x in DOUBLED if x not in QUICK]


@pytest.mark.parametrize("what", [*QUICK, *SLOWER])
def test_work_doubles_at_most_with_what_is_doubled(what: str) -> None:
    grows(DOUBLED[what], (3, 6, 12) if "texts" in what else (2, 4, 8))  # of three lengths


@pytest.mark.slow
@pytest.mark.parametrize("size", ["N", "H"])
def test_the_page_of_a_run_doubles_at_most_with_the_model(size: str) -> None:
    def page(k: int) -> float:
        return seconds(tiny_gpt2(**{size: k}).run([1, 2]).explore, 1)

    page(4)
    assert page(8) < 2.6 * page(4)


@pytest.mark.parametrize("what", CIRCUITS)
def test_the_cards_of_a_circuit_grow_with_the_readers(what: str) -> None:
    def work(model: vt.Model) -> None:
        search = model.circuits(NUMBER, TEXTS)
        live_edges(search.wiring, search.edges[::7])
        RunsWriting(search.wiring, search.edges[:4], search.of).runs()

    grows_with(what, work)


@pytest.mark.slow
@pytest.mark.parametrize("what", CIRCUITS)
def test_a_circuit_grows_with_the_readers(what: str) -> None:
    grows_with(what, lambda model: model.circuit(NUMBER, TEXTS, edges=8))
