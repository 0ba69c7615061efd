"""Causal mediation and resample ablation: the effect on a number of a value from another text.

F(t, M) is the number on a text t with the mediator at the value M, and t' is another text:

- the total effect is F(t', M(t')) − F(t, M(t)),
- the indirect effect is F(t, M(t')) − F(t, M(t)): only the mediator comes from the other text,
- the direct effect is F(t', M(t)) − F(t, M(t)): all but the mediator does (Vig et al. 2020,
  Pearl 2001).

In the notation, with the second run beside the first, they are ``F' - F``, ``F with M = M'``, and
the same ``F with M = M'`` asked of the other text. Resample ablation is the mean indirect effect
over drawn texts (Chan et al. 2022).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from viete.ask.asking import asked
from viete.ask.attribution import primed
from viete.document.displayed import Displayed
from viete.document.rendering import render
from viete.document.tree import Block, paragraph, table
from viete.errors import Text, VieteError
from viete.evaluate.answer_page import literal, spelling
from viete.evaluate.answers import Answer
from viete.evaluate.inputs import in_numpy
from viete.evaluate.run import Run
from viete.evaluate.schedule import Program
from viete.notation.cursor import top_level
from viete.notation.lexer import tokenize
from viete.notation.printer import show
from viete.notation.substitution import substitute
from viete.notation.tree import Expr, Pick, Ref, num, transform


@dataclass(frozen=True)
class Mediators:
    """Values that are changed together, and the equations that take them from another text."""

    values: tuple[Expr, ...]
    program: Program

    @classmethod
    def of(cls, run: Run, by: str) -> Mediators:
        """The mediators of a list with commas. Raises VieteError for one that no equation makes."""
        text = Text(by, "<by>")
        tokens = tokenize(text)
        cuts = [-1, *top_level(tokens[:-1], ","), len(tokens) - 1]
        names = [text.cut(tokens[a + 1].start, tokens[b].start)
                 for a, b in pairwise(cuts)]  # fmt: skip
        found = []
        for name in names:
            e = run.parse(name.text)
            ref = e.value if isinstance(e, Pick) else e
            if not isinstance(ref, Ref) or ref.key not in run.program.computed:
                raise name.error(
                    f"a mediator is a value that an equation of {run.program.model.title} "
                    f"makes, such as A^{{i,h}}, not {name.text.strip()}"
                )
            found.append(e)
        return cls(tuple(found), run.program)

    def changes(self, letters: Mapping[str, int] | None = None) -> str:
        """The equations after ``with``."""
        return ", ".join(self.equations(letters))

    def equations(self, letters: Mapping[str, int] | None = None) -> list[str]:
        """The equations of all members or, with numbers for letters, of one member each."""
        at: dict[str, Expr] = {x: num(k) for x, k in (letters or {}).items()}
        out = []
        for e in self.values:
            e = transform(substitute(e, letters=at), self.counted)
            ref = e.value if isinstance(e, Pick) else e
            assert isinstance(ref, Ref)
            out.append(f"{show(e)} = {primed(e, ref)}")
        return out

    def counted(self, e: Expr) -> Expr | None:
        """A member with the numbers of its heads; grouped heads have two."""
        if not isinstance(e, Ref) or e.free or not e.index:
            return None
        return Ref(e.symbol, tuple(num(self.program.index_size(k, {})) for k in e.index))

    def names(self, letters: Mapping[str, int]) -> str:
        """The names of the changed values, with numbers for letters."""
        at: dict[str, Expr] = {x: num(k) for x, k in letters.items()}
        return ", ".join(show(substitute(e, letters=at), "unicode") for e in self.values)


@dataclass(frozen=True)
class PairEffects:
    """The effects of one pair of texts: the number on each text, and an effect for each member."""

    base: float
    other: float
    indirect: Answer
    direct: Answer | None


def pair_effects(
    run: Run, against: Run, of: str, mediators: Mediators, values: Mapping[str, Any],
    direct: bool = True,
) -> PairEffects:  # fmt: skip
    """The effects that the mediators of another text have on a number of a run.

    ``values`` are numbers that the formula names. Raises VieteError for an ``of`` that is several
    numbers, and as a question with changes does.
    """
    question = f"{of} with {mediators.changes()}"
    here, there = asked(run, values, against), asked(against, values, run)
    base, other = (one_number(r, of) for r in (here, there))
    return PairEffects(base, other, here.answer(question),
                       there.answer(question) if direct else None)  # fmt: skip


def one_number(run: Run, of: str) -> float:
    """The number that the effects are about."""
    found = in_numpy(run.answer(of).alone.array)
    if found.ndim:
        raise VieteError(f"an effect is on one number of each text, such as logits_{{-1, 5}}, and "
                         f"{of} is several numbers")  # fmt: skip
    if not np.isfinite(found):
        raise VieteError(
            f"{of} is {found} of a text, and effects are differences of finite numbers"
        )
    return float(found)


@dataclass(frozen=True)
class Effects(Displayed):
    """Mean effects over pairs of texts; an axis for each letter of the mediators.

    ``base`` and ``other`` are the number of each pair on one text and on the other, ``indirect``
    and ``direct`` the effects of each, pairs first. For drawn texts, ``draws`` beside each, the
    direct effect is missing.
    """

    of: str
    mediators: Mediators
    texts: str
    axes: tuple[str, ...]
    labels: tuple[Sequence[str], ...]
    letters: Mapping[str, Sequence[int]]
    base: np.ndarray
    other: np.ndarray
    indirect: np.ndarray
    direct: np.ndarray | None = None
    draws: int = 0
    seed: int = 0

    @property
    def total(self) -> float:
        """The mean total effect."""
        return float((self.other - self.base).mean())

    def mean(self, effects: np.ndarray) -> np.ndarray:
        """The mean over the pairs."""
        out: np.ndarray = effects.mean(0)
        return out

    def error(self, effects: np.ndarray) -> np.ndarray:
        """The standard error of the mean; 0 for a single pair."""
        count = len(effects)
        spread = effects.std(0, ddof=1) if count > 1 else np.zeros(effects.shape[1:])
        return np.asarray(spread / np.sqrt(count))

    def members(self) -> Iterator[tuple[tuple[int, ...], dict[str, int]]]:
        """The places of the members and the numbers of their letters, the largest effect first."""
        size = np.abs(self.mean(self.indirect))
        for k in np.argsort(-size, axis=None, kind="stable"):
            place = tuple(int(x) for x in np.unravel_index(k, size.shape)) if size.ndim else ()
            yield place, {a: self.letters[a][j] for a, j in zip(self.axes, place, strict=True)}

    def answers(self) -> list[tuple[str, Answer]]:
        """The mean effects, with their axes, for a picture or a file."""
        found = [("indirect effect" if self.direct is not None else "change of the number",
                  self.indirect)]  # fmt: skip
        if self.direct is not None:
            found.append(("direct effect", self.direct))
        return [(name, Answer(f"{name}: {self.of} by {self.mediators.changes()}", self.mean(x),
                              self.axes, self.labels)) for name, x in found]  # fmt: skip

    def sentences(self) -> list[str]:
        """The measurements in words."""
        count = len(self.base)
        base, of = brief(self.base.mean()), literal(self.of)
        if self.draws:
            return [
                f"The mean of {of} over {self.texts} is {base}. Each row has the mean when one "
                f"value comes from another text of the same length: {self.draws} draws for each "
                f"text, seed {self.seed}, {count} runs."
            ]
        return [
            f"The mean of {of} over {count} pair{'s' * (count != 1)} of {self.texts} is {base} on "
            f"the texts and {brief(self.other.mean())} on those against them: a total effect of "
            f"{brief(self.total)}."
        ]

    def page(self, style: str = "unicode", top: int | None = None) -> list[Block]:
        """A table with a row for each member, the largest first."""
        rows = []
        inner, error = self.mean(self.indirect), self.error(self.indirect)
        spelled = spelling(inner.reshape(-1))
        for place, letters in list(self.members())[:top]:
            value = float(inner[place])
            row = [self.mediators.names(letters), f"{spelled(value)} ± {spelled(error[place])}"]
            if self.direct is not None:
                row += [spelled(self.mean(self.direct)[place]),
                        f"{value / self.total:.1%}" if self.total else ""]  # fmt: skip
            else:
                row.insert(1, spelled(float(self.base.mean()) + value))
            rows.append(row)
        header = (["value", "indirect", "direct", "of the total"] if self.direct is not None
                  else ["value", "resampled", "change"])  # fmt: skip
        return [*map(paragraph, self.sentences()), table(header, rows)]

    def __str__(self) -> str:
        return render(self.page(), "text")


def together(
    found: Sequence[PairEffects], run: Run, of: str, mediators: Mediators, texts: str,
    draws: int = 0, seed: int = 0,
) -> Effects:  # fmt: skip
    """Join pairs. Raises VieteError where their shapes differ, as for axes of positions."""
    first = found[0].indirect
    shapes = {in_numpy(x.indirect.array).shape for x in found}
    if len(shapes) > 1:
        raise VieteError(
            f"{mediators.names({})} has different positions on texts of different lengths, so it "
            f"has no mean over the texts; give texts of equal length, or a value without a "
            f"position letter"
        )
    base = np.array([x.base for x in found])
    column = base.reshape(-1, *(1,) * in_numpy(first.array).ndim)

    def effects(answers: Sequence[Answer]) -> np.ndarray:
        numbers = np.stack([in_numpy(a.array).astype(np.float64) for a in answers])
        if not np.isfinite(numbers).all():
            raise VieteError(
                f"{of} is not a finite number on every text with {mediators.changes()}, so its "
                f"mean effect is undefined"
            )
        return numbers - column

    letters = {axis: numbers_of_axis(run, axis, labels)
               for axis, labels in zip(first.axes, first.labels, strict=True)}  # fmt: skip
    direct = [x.direct for x in found if x.direct is not None]
    return Effects(
        of, mediators, texts, first.axes, first.labels, letters, base,
        np.array([x.other for x in found]), effects([x.indirect for x in found]),
        effects(direct) if direct else None, draws, seed,
    )  # fmt: skip


def numbers_of_axis(run: Run, axis: str, labels: Sequence[str]) -> Sequence[int]:
    """The values of a letter, as the card counts: the labels begin with them."""
    words = [str(x).split()[0] for x in labels]
    if all(x.isdigit() for x in words):
        return [int(x) for x in words]
    letter = axis.rstrip("'")
    first = run.program.range_of(letter).start if letter in run.program.model.ranges else 0
    return range(first, first + len(labels))


def brief(x: float) -> str:
    """A number in a sentence."""
    return f"{x:.4g}".replace("-", "−")


__all__ = ["Effects", "Mediators", "PairEffects", "pair_effects", "together"]
