"""A lesson shows the numbers that the run computed, as they came about, for every card."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from viete.cards.catalogue import shipped
from viete.cli.app import command
from viete.document.rendering import PAGES, STYLES
from viete.document.tree import Chain, StepsBeside
from viete.errors import VieteError
from viete.evaluate.initial_weights import literal_fractions
from viete.evaluate.labelled import permute
from viete.meanings.exact.derivation import Derivation
from viete.meanings.exact.entry_writer import spelled_out
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.run import ExactRun
from viete.meanings.exact.unevaluated import Unevaluated
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Num, Ref
from viete.report.lesson.data import lesson_data
from viete.report.lesson.document import Lesson, LessonStep, document, write_lesson
from viete.report.lesson.lines import with_family
from viete.report.lesson.making import Maker, lesson, run_to_the_end
from viete.train.fitting import with_loss, with_loss_weights

SIZES = {
    "V": 3, "N_V": 3, "N": 1, "N_e": 1, "L": 1, "H": 2, "G": 1, "d": 4, "D": 4, "d_e": 2, "d_f": 2,
    "d_mlp": 2, "d_h": 2, "T_max": 4, "n_max": 4, "ell_max": 4, "E": 3, "w": 2,
}  # fmt: skip
OWN = {"exact-lesson": {}, "pythia": {"d": 8, "H": 1}, "gpt-j": {"d": 8, "H": 1},
       "transformer-2017": {"d": 2, "H": 1}, "bert": {"d": 2, "H": 1},
       "roberta": {"d": 2, "H": 1, "N_P": 4},
       "t5": {"d": 2, "H": 1, "d_k": 2, "n_b": 4, "D": 4}, "phi": {"d": 8, "H": 1},
       "qwen3": {"d_k": 2}, "gemma": {"d_k": 2}, "gemma2": {"d_k": 2}}  # fmt: skip
INPUTS: dict[str, dict[str, Any]] = {name: {"t": [1, 0]} for name in ("transformer-2017", "t5")}

NORM = """# One norm

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 2 |
| $d$ | 3 |
| $n$ | ≤ 4 |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$

## Parameters

| symbol | shape | value | meaning |
| --- | --- | --- | --- |
| $E$ | $V \\times d$ | [1 2 3; 2 2 2] | <b>rows</b> |

## Forward pass

1. $x = E[t]$
2. $u = LN(x)$: <script>alert(1)</script> & $a_{$
"""


@cache
def small(name: str) -> tuple[vt.Card, dict[str, Any]]:
    """A shipped card with small dimensions, and weights that are simple fractions."""
    model = vt.read(name)
    if name == "exact-lesson":
        return model, literal_fractions(model)
    sizes = SIZES | OWN.get(name, {})
    model = model.bind(**{d.name: sizes[d.name] for d in model.dims
                          if d.name in sizes and d.value is not None})  # fmt: skip
    model = model.bind(**{d.name: 4 for d in model.dims if d.name.endswith("_max")})
    rng, weights = random.Random(name), {}
    for key, shape in model.parameter_shapes.items():
        assert np.prod(shape, dtype=int) <= 64, f"{name} is not small: {key} {shape}"
        weights[key] = np.empty(shape, dtype=object)
        for place in np.ndindex(shape):
            weights[key][place] = Fraction(rng.randint(-7, 7), rng.choice([1, 2, 4]))
    return model, weights


def of(name: str, tokens: list[int], **options: Any) -> Lesson:
    model, weights = small(name)
    return lesson(model, tokens, weights, inputs=INPUTS.get(name), **options)


def step(found: Lesson, name: str) -> LessonStep:
    """The step that makes a value."""
    return next(s for s in found.steps if s.makes == name)


def side(s: LessonStep, position: int) -> list[Chain]:
    """The lines of one position."""
    return next(x.lines for x in s.sides if x.title.split(" ")[:2] == ["Position", str(position)])


def line(lines: list[Chain], name: str) -> Chain:
    return next(x for x in lines if x.name == name)


def formula(found: Lesson, name: str, position: int, row: str) -> str:
    """A line as it is written: ``x₀ = E[a] + P₀ = …``."""
    return line(side(step(found, name), position), row).formula("≈")


# -- the reference's lesson ------------------------------------------------------------------------


def test_the_reference_s_pipeline() -> None:
    found = of("exact-lesson", [0, 1])
    assert [c.text.strip("$") for c in found.steps[0].pipeline] == [
        "tokens", "embed", "+pos", "attention", "+residual", "layernorm", "MLP", "+residual",
        "layernorm", "unembed", "logits", "argmax", "output token",
    ]  # fmt: skip
    assert "`a`\u00a0$↦ 0$, `b`\u00a0$↦ 1$" in " ".join(found.steps[0].why)
    assert found.columns == ["0 (`a`)", "1 (`b`)"]


def test_the_reference_at_position_0() -> None:
    found = of("exact-lesson", [0, 1])
    expected = {
        "x": "x₀ = E[a] + P₀ = (1, 0) + (0, 0) = (1, 0)",
        "Q": "Q₀ = x₀ W^Q = x₀ = (1, 0)",
        "K": "K₀ = x₀ W^K = x₀ = (1, 0)",
        "V": "V₀ = x₀ W^V = x₀ = (1, 0)",
        "S": "S₀ = causal(w)₀ = (1, −∞)",
        "A": "A₀ = softmax(S₀) = (e / e, 0) = (1, 0)",
        "a": "a₀ = A₀ V = (1·1 + 0·1, 1·0 + 0·1) = (1, 0)",
        "r": "r₀ = x₀ + a₀ = (1, 0) + (1, 0) = (2, 0)",
        "u": "u₀ = LN(r₀; γ₁, β₁) = (1, −1)",
        "m": "m₀ = ReLU(u₀ W₁) W₂ = ReLU(u₀) = (1, 0)",
        "s": "s₀ = u₀ + m₀ = (1, −1) + (1, 0) = (2, −1)",
        "y": "y₀ = argmax(logits₀) = argmax(1, −1, 0) = 0",
    }
    assert {k: formula(found, k, 0, f"{k}₀") for k in expected} == expected
    norm = side(step(found, "z"), 0)
    assert [x.name for x in norm[:4]] == ["mean(s₀)", "s₀ − mean(s₀)", "var(s₀)", "√(var(s₀))"]
    assert [x.value for x in norm] == ["1/2", "(3/2, −3/2)", "9/4", "3/2", "(1, −1)"]
    assert side(step(found, "y"), 0)[-1].note == "the token is `a`"
    assert not any(x.digits for s in found.steps[1:] for x in side(s, 0) if s.makes != "A")


def test_the_reference_at_position_1() -> None:
    """The softmax brings in powers of e, which are written in their simplest form."""
    found = of("exact-lesson", [0, 1])
    assert formula(found, "x", 1, "x₁") == "x₁ = E[b] + P₁ = (0, 1) + (1, 0) = (1, 1)"
    assert formula(found, "A", 1, "A₁") == (
        "A₁ = softmax(S₁) = (e / (e + e²), e² / (e + e²)) = (1 / (1 + e), e / (1 + e)) "
        "≈ (0.268941, 0.731059)"
    )
    assert line(side(step(found, "u"), 1), "var(r₁)").value == "1 / (4 (1 + e)²)"
    assert line(side(step(found, "u"), 1), "u₁").value == "(1, −1)"
    told = {p.title: " ".join([*p.summary, *p.numbers]) for p in reversed(found.parts)}
    attention, norm = told["Attention"], told["Layer norm"]
    assert "(`b`) reads 27% from position 0 (`a`) and 73% from itself." in attention
    assert "From $A$ on, the numbers of position 1 (`b`) are no longer fractions" in attention
    assert "The numbers of position 0 (`a`) are still fractions." in attention
    assert "The mask hides position 1 (`b`) from position 0 (`a`)." in step(found, "S").status
    assert "The weights of each row sum to exactly 1." in step(found, "A").status
    assert "From $u$ on, the numbers of position 1 (`b`) are fractions again" in norm
    assert "Positions 0 (`a`) and 1 (`b`) now have the same row" in norm
    assert "the model predicts `a`, because $1 > 0$" in found.predicted[0]
    assert "Here $W^Q$ is the identity matrix: it changes nothing." in step(found, "Q").hints
    assert any("$d = 2$ (residual width)" in x for x in found.letters)
    assert step(found, "S").letters == ["Below, $w$ stands for $Q Kᵀ$."]
    assert found.way == [
        "Position 1 (`b`) started as the row of its token in $E$ plus row 1 of $P$.",
        "Attention read 27% from position 0 (`a`) and 73% from position 1 (`b`).",
        "The attention output was added to its row: about (1, 0.731).",
        "The MLP output was added to its row: (1, 0).",
    ]


def test_the_register_holds_all_values_so_far() -> None:
    found = of("exact-lesson", [0, 1])
    assert [e.name for s in found.steps for e in s.register] == [
        "t", "x", "Q", "K", "V", "S", "A", "a", "r", "u", "m", "s", "z", "logits", "y",
    ]  # fmt: skip
    stages = [b for b in document(found) if isinstance(b, StepsBeside)]
    beside = [r for stage in stages for r in stage.registers]
    for k, register in enumerate(beside):
        assert len(register.entries) + register.earlier == k + 1
        assert [e.now for e in register.entries] == [False] * (len(register.entries) - 1) + [True]
    assert beside[7].entries[6].cells == ("(1, 0)", "(1 / (1 + e), e / (1 + e))")


@pytest.mark.parametrize(
    "weight, why",
    [
        ([[1, 0], [0, 2]], "$e > 2$"),
        ([[2, 1], [0, 0]], "its score is greater by $e$"),
        ([[1, 0], [0, -2]], "its score is the only positive one"),
    ],
)
def test_why_the_prediction_is_the_greatest(weight: list[list[int]], why: str) -> None:
    """The gap between the two greatest scores, as a comparison that is plain to see."""
    model = written("p = exp(x) W\n3. logits = p", "[1 0; 0 1]", 2)
    entries = np.array([[Fraction(x) for x in row] for row in weight], dtype=object)
    found = lesson(model, [0], literal_fractions(model) | {"W": entries})
    assert f"the model predicts token 0, because {why}." in found.predicted[0]


def test_only_inputs_that_a_step_reads_are_told() -> None:
    """Targets and the weights of a loss are told in a lesson on the loss; w is no row of words."""
    card, weights = small("exact-lesson")
    trained = with_loss_weights(with_loss(card))
    assert len(trained.inputs) == 3
    (said,) = lesson(trained, [0, 1], weights).reads
    assert said == "The model reads `a` `b`, as the numbers $t$ = (0, 1)."
    _, target, counts = (i.name for i in trained.inputs)
    (said,) = lesson(trained, [0, 1], weights, inputs={target: [1, 0]}).reads
    assert f"`b` `a`, as the numbers ${target}$ = (1, 0) and the numbers ${counts}$" in said


def test_heads_that_are_alike_are_one_line() -> None:
    model, _ = small("attention-only-1")
    weights = {k: np.full(s, Fraction(1, 2)) for k, s in model.parameter_shapes.items()}
    (found,) = [x for x in side(step(lesson(model, [0, 1], weights), "Q^h"), 1) if not x.part]
    assert found.note.startswith("the same for every h")


def test_no_row_is_used_before_it_is_there() -> None:
    """Of a long text the keys and values of all positions are shown, whichever are followed."""
    found = of("dialog-transformer", [0, 1, 2, 0], positions=[3])
    for name in ("K", "U"):
        rows = [x.name for s in step(found, name).sides for x in s.lines if not x.part]
        assert sorted(rows) == [f"{name}{k}" for k in "₀₁₂₃"]


# -- as it came about ------------------------------------------------------------------------------


def written(equations: str, rows: str, width: int) -> vt.Card:
    text = NORM.replace("[1 2 3; 2 2 2]", rows).replace("| $d$ | 3 |", f"| $d$ | {width} |")
    if "W" in equations:
        text = text.replace("\n## Forward", "| $W$ | $d \\times V$ | | |\n\n## Forward")
    steps = "$\n3. $".join(equations.split("\n3. "))
    return vt.read(text[: text.index("1. $x")] + f"1. $x = E[t]$\n2. ${steps}$\n")


def put_in(equations: str, rows: str, width: int, name: str) -> Chain:
    model = written(equations, rows, width)
    found = lesson(model, [0], literal_fractions(model))
    return next(x for s in step(found, name).sides for x in s.lines if not x.part)


def test_softmax_before_anything_cancels() -> None:
    found = put_in("p = softmax(x)", "[1 1 2; 0 0 0]", 3, "p")
    assert found.put_in.startswith("(e / (2 e + e²), e / (2 e + e²), e² / (2 e + e²)")
    assert found.value == "(1 / (2 + e), 1 / (2 + e), e / (2 + e))"


def test_the_norm_of_1_2_3_has_a_root() -> None:
    model = written("u = LN(x)", "[1 2 3; 2 2 2]", 3)
    found = side(step(lesson(model, [0], literal_fractions(model)), "u"), 0)
    assert line(found, "√(var(x₀))").put_in == "√(2/3)"
    assert found[-1].value == "(−√6 / 2, 0, √6 / 2)"


def test_parts_come_from_the_definition() -> None:
    """Of whatever function, also one that the card defines."""
    text = NORM[: NORM.index("## Forward")] + "## Functions\n\n- $bump(z) = exp(-z^2) / sum(z)$\n\n"
    model = vt.read(text + "## Forward pass\n\n1. $x = E[t]$\n2. $u = bump(x)$\n")
    found = side(step(lesson(model, [0], literal_fractions(model)), "u"), 0)
    assert line(found, "sum(x₀)").put_in == "1 + 2 + 3"
    assert [x.name for x in found if x.part] == ["exp(−x₀²)", "sum(x₀)"]


def test_a_long_sum_is_cut_and_says_so() -> None:
    rows = " ".join(str(k) for k in range(12))
    found = put_in("s = sum(x)", f"[{rows}; {rows}]", 12, "s")
    assert found.put_in == "0 + 1 + 2 + … + 11" and found.value == "66"


# -- the law: what is put in is what was computed --------------------------------------------------


def exact_run(name: str, tokens: list[int]) -> ExactRun:
    model, weights = small(name)
    first = {model.inputs[0].name: tokens}
    found = model.run(weights=weights, meaning="exact", **first, **INPUTS.get(name, {}))
    assert isinstance(found, ExactRun)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped())
def test_numbers_put_in_evaluate_to_the_result(name: str) -> None:
    run = exact_run(name, [0, 1])
    derivation = Derivation(run)
    checked, known = 0, dict[int, Any]()
    for s in run.program.steps:
        if s.makes not in run.store:
            continue
        held = run.store[s.makes]
        v, parts = derivation.derived(s.equation.right, s.loops)
        v = with_family(v, held)
        shown = permute(np, v.array, v.axes, held.axes)
        for x, y in zip(shown.flat, held.array.flat, strict=True):
            assert isinstance(x, Unevaluated)
            assert same(x.number, y), f"{s.makes}: {show(spelled_out(x))} is not {y}"
        for x in (x for v in (*(p.value for p in parts), v) for x in list(v.array.flat)[:6]):
            if not isinstance(x, Unevaluated):  # only moved, as in concat
                continue
            e = spelled_out(x, cut=False, plain=checked % 2 == 0)
            if (found := evaluated(e, known)) is not None:
                checked += 1
                assert same(found, x.number), f"{show(e)} is not {x.number}"
    assert checked > 20


def same(x: Any, y: Any) -> bool:
    if isinstance(x, float) or isinstance(y, float):
        return x == y
    x, y = Number.of(x), Number.of(y)
    return x.key == y.key or bool((x - y).ball(200).contains(0))


OPERATIONS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "times": lambda a, b: a * b,
    "prod": lambda a, b: a * b, "div": lambda a, b: a / b, "neg": lambda a: -a,
    "pow": lambda a, b: a**b, "sqrt": Number.sqrt, "exp": Number.exp, "log": Number.log,
    "erf": lambda a: a.applied("erf"), "tanh": lambda a: a.applied("tanh"),
    "sin": lambda a: a.applied("sin"), "cos": lambda a: a.applied("cos"),
    "max": lambda *a: max(a), "argmax": lambda *a: Number.of(a.index(max(a))),
    "pi": Number.pi, "mod": lambda a, b: a % b,
}  # fmt: skip


def evaluated(e: Expr, known: dict[int, Any]) -> Any:
    """A formula with numbers in it, in exact arithmetic of its own; None where names are in it.

    ``known`` are formulas seen before, by their `id`: the same number stands in many entries.
    """
    if id(e) not in known:
        known[id(e)] = e, value_of(e, known)  # with the formula, whose id is its own that long
    return known[id(e)][1]


def value_of(e: Expr, known: dict[int, Any]) -> Any:
    match e:
        case Num(q):
            return Number.of(q)
        case Ref() if e.key == "e":
            return Number.of(1).exp()
        case Apply("inf"):
            return float("inf")
        case Apply("pow", (Ref() as base, p)) if base.key == "e":
            x = evaluated(p, known)
            return None if x is None else x.exp()
        case Apply(op, args) if op in OPERATIONS:
            values = [evaluated(a, known) for a in args]
            return None if any(v is None for v in values) else OPERATIONS[op](*values)
    return None


# -- every card, every format ----------------------------------------------------------------------


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [v or "" for k, v in attrs if k in ("href", "src")]
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(text: str) -> None:
    page = Page()
    page.feed(text)
    assert not page.open
    assert not page.tags & {"script", "link", "img", "iframe"}
    assert all(link.startswith("#") for link in page.links)
    assert {f"#{i}" for i in re.findall(r' id="([^"]+)"', text)} >= set(page.links)


@pytest.mark.parametrize("name", shipped())
def test_every_card_gives_a_lesson(name: str) -> None:
    model, weights = small(name)
    given = {model.inputs[0].name: np.array([0, 1]), **INPUTS.get(name, {})}
    run, stopped = run_to_the_end(model, given, weights)
    text, made, page = (
        Maker(run, 6, style, stopped, positions).lesson("")
        for style, positions in (("unicode", None), ("latex", [1]), (STYLES["html"], [1]))
    )
    lines = write_lesson(text, "text").splitlines()
    for form in set(PAGES) - {"text"}:
        out = write_lesson(page if form == "html" else made, form)
        assert len(out) > 1000 and "None" not in out
        if form == "html":
            check_page(out)
        if form == "latex":
            assert out.count(r"\begin{itemize}") == out.count(r"\end{itemize}")
            assert out.rstrip().endswith(r"\end{document}")
    assert len(made.steps) > len({e.name for e in model.equations}) // 2
    assert max(map(len, lines)) <= 400
    for s in made.steps:
        assert any(c.now for c in s.pipeline) and s.title
        assert any(x.lines for x in s.sides)


def test_a_lesson_as_data_of_a_page() -> None:
    made = of("exact-lesson", [0, 1], style="latex")
    data = json.loads(json.dumps(lesson_data(made)))
    steps = [x for p in data["parts"] for x in p["steps"]]
    assert [x["number"] for x in steps] == [s.number for s in made.steps]
    assert [x["member"] for x in steps][1:4] == ["x", "Q", "K"]
    assert [x["equation"] for x in steps] == list(range(15))
    for x in steps:
        assert {c["state"] for c in x["pipeline"]} <= {"done", "now", "later"}
        assert all(line["name"] or line["note"] for s in x["sides"] for line in s["lines"])


def test_what_a_card_says_is_escaped() -> None:
    model = vt.read(NORM)
    page = write_lesson(lesson(model, [0], literal_fractions(model), style="latex"), "html")
    check_page(page)
    assert "&lt;script&gt;" in page and "&lt;b&gt;rows" in page


# -- refusals --------------------------------------------------------------------------------------


def test_a_zero_variance_ends_the_lesson() -> None:
    model = vt.read(NORM)
    found = lesson(model, [0, 1], literal_fractions(model))
    assert found.columns == ["1"]
    last = found.steps[-1]
    assert line(side(last, 1), "var(x₁)").formula("≈").endswith("/ 3 = 0")
    assert last.status == ["Here the lesson ends: this divides by exactly zero."]
    assert any("ended early" in p for p in found.closing)
    for form in PAGES:
        assert "divides by exactly zero" in write_lesson(
            lesson(model, [0, 1], literal_fractions(model), style=STYLES[form]), form
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["exact-lesson", "-t", " "], "at least one token"),
        (["exact-lesson", "-t", "a q"], "'q' is not a token"),
        (["exact-lesson", "-t", "0,7"], "7"),
        (
            ["exact-lesson", "-t", "a b", "--position", "2"],
            "text has positions 0 to 1",
        ),
        (["exact-lesson", "-t", "a b", "-o", "lesson.odt"], "writes no .odt files"),
        (["exact-lesson", "-t", "a b", "-o", "lesson"], "no suffix"),
        (["exact-lesson", "-t", "a b", "--digits", "0"], "digits"),
        (["exact-lesson", "-t", "a/b"], "not a batch"),
        (["symbolic-transformer", "-t", "1"], "needs weights"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], message: str) -> None:
    with pytest.raises(VieteError) as refused:
        command()(["lesson", *arguments], standalone_mode=False)
    assert message in refused.value.message and "\n" not in refused.value.message


def test_the_command_writes_files(tmp_path: Any) -> None:
    for suffix in ("md", "tex", "html", "txt"):
        path = tmp_path / f"lesson.{suffix}"
        viete("lesson", "exact-lesson", "-t", "a b", "--position", 0, "-o", path)
        assert path.stat().st_size > 2000
    small = ("--set", "V=3", "--set", "d=2")
    said = viete("lesson", "symbolic-transformer", "-t", "1", "--seed", 3, *small).out
    assert "The weights are random (seed 3)" in said.replace("\n", " ")


def test_a_lesson_ends_in_the_number_of_a_loss() -> None:
    """A loss is one number, where other values are arrays of them."""
    sizes = ("V=3", "d=4", "d_h=2", "H=2")
    made = viete("lesson", "simple-transformer", "-t", "1,2", "--seed", "3", "--input", "y=2,1",
                 *(x for size in sizes for x in ("--set", size)))  # fmt: skip
    assert "Compute the loss" in made.out


def test_derivatives_are_named_and_shown_row_by_row() -> None:
    """Rows of a weight's derivative are no positions: all of them are shown."""
    card = vt.read("letters-table").grad()
    made = lesson(card, [0, 1, 0, 2], card.exact_weights, inputs={"target": [1, 0, 2, 0]})
    text = write_lesson(made, "text")
    assert "The derivative of the loss: ∂T" in text
    assert "By the rule of cross_entropy." in text
    assert "∂T₀ = " in text and "≈ (0.0450153, 0.0826205, −0.127636)" in " ".join(text.split())
