"""`FeatureDashboard`: the features of a model on a corpus, with a page for each feature."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viete.atomic import replacing, together
from viete.document.displayed import Displayed
from viete.document.tree import Block
from viete.errors import VieteError
from viete.evaluate.answer_page import literal
from viete.features.contexts import FeatureContext
from viete.features.page import FeaturePage, ShadedText, SteeredText
from viete.features.study import FeatureMeasures, FeatureStudy
from viete.notation.printer import show
from viete.nouns.feature_effects import FeatureEffects
from viete.report.feature_pages import feature_html, index_html
from viete.report.feature_text import feature_blocks, index_blocks
from viete.text.windows import alike

if TYPE_CHECKING:
    from viete.nouns.model import Model

SHOWN = 10  # tokens that a feature raises most, and lowers most
CHANGED = 6  # whose probability changes most without it
STEERED = 24  # tokens by which a text goes on
PROMPT = 12  # tokens before it
PLAIN = re.compile(r"[\w. -]+")  # a name in which nothing could be read as markup
Tell = Callable[[str], None]


class FeatureDashboard(Displayed):
    """The features of a model on some texts; ``dashboard[17]`` is the page of feature 17.

    ``windows`` are texts as ids (n), run one after the other. Ctrl-C stops reading, and keeps the
    results so far.
    """

    def __init__(
        self, model: Model[Any], windows: Iterable[np.ndarray], of: str | None = None,
        seed: int = 0, tell: Tell | None = None, source: str = "",
    ) -> None:  # fmt: skip
        self.model, self.source = model, source
        self.study = FeatureStudy(model.card, model.weights, of, seed)
        self.stopped = False
        self.first: np.ndarray | None = None  # texts from which effects are measured
        self.read(windows, tell or (lambda line: None))

    def read(self, windows: Iterable[np.ndarray], tell: Tell) -> None:
        """Run the texts."""
        s = self.study.statistics
        try:
            for ids in alike(windows, self.study.room):
                self.study.add(ids)
                if self.first is None or ids.size > self.first.size:
                    self.first = ids[:8]
                tell(f"{s.texts:,} texts, {s.tokens:,} tokens")
        except KeyboardInterrupt:
            if not s.tokens:
                raise
            self.stopped = True
        finally:
            tell("")
        self.measures: FeatureMeasures = self.study.measures

    @cached_property
    def effects(self) -> FeatureEffects:
        """The effects of features, measured on some of the texts."""
        assert self.first is not None
        return FeatureEffects(self.study, self.first)

    @property
    def title(self) -> str:
        """The title of the dashboard: the value that has the features, and the model."""
        where = self.source or self.model.card.title
        where = where if PLAIN.fullmatch(where) else literal(where)
        return f"Features of ${show(self.study.value, 'latex')}$ in {where}"

    def ranked(self, count: int = 100) -> list[int]:
        """The features with the largest mean square output on these texts."""
        return self.study.ranked(count)

    # -- a feature ---------------------------------------------------------------------------------

    def __getitem__(self, number: int) -> FeaturePage:
        """The page of a feature, counted from 0. Raises VieteError if it does not exist."""
        if not 0 <= number < self.measures.features:
            last = self.measures.features - 1
            raise VieteError(f"there is no feature {number}; they are 0 to {last}")
        study, s = self.study, self.study.statistics
        bins, wide = s.histogram(number)
        top, count = s.top.of(number), int(s.counts[number])
        drawn = sorted(s.drawn.of(number), key=lambda c: -c.value)
        weights = self.effects.logit_weights([number]) if count else None
        raised, lowered = ((), ()) if weights is None else self.ends(weights[0])
        page = FeaturePage(
            number, count, s.tokens, float(s.greatest[number]),
            float(s.sums[number]) / max(count, 1), float(study.shares[number]), bins, wide,
            tuple(map(self.shaded, top)), tuple(map(self.shaded, drawn)),
            raised, lowered, nearest=tuple(study.nearest(number)),
        )  # fmt: skip
        return self.with_effects(page, top[0]) if top else page

    def with_effects(self, page: FeaturePage, context: FeatureContext) -> FeaturePage:
        """The page with the effects of removing the feature, and of steering with it."""
        ids = context.tokens[: context.peak + 1].astype(np.int64)
        if (found := self.effects.without(page.number, ids)) is not None:
            before, after = map(np.exp, found)
            order = np.argsort(-abs(after - before), kind="stable")[:CHANGED]
            changes = ((self.word(int(k)), float(before[k]), float(after[k])) for k in order)
            page = replace(page, changes=tuple(changes))
        prompt = ids[-PROMPT:]
        try:
            usual = self.effects.usual_course(prompt, STEERED)
            told = [SteeredText(None, self.text(usual))]
            for value in (0.0, 2 * page.greatest):
                course = self.effects.course(page.number, value, prompt, STEERED)
                told.append(SteeredText(value, self.text(course)))
        except VieteError as error:  # a model that does not go on with texts
            return replace(page, note=error.message)
        return replace(page, prompt=self.text(prompt), steered=tuple(told))

    def ends(self, weights: np.ndarray) -> tuple[tuple[tuple[str, float], ...], ...]:
        """The tokens with the greatest weights, and those with the least."""
        order = np.argsort(-weights, kind="stable")
        return tuple(
            tuple((self.word(int(k)), float(weights[k])) for k in some)
            for some in (order[:SHOWN], order[: -SHOWN - 1 : -1])
        )

    def shaded(self, context: FeatureContext) -> ShadedText:
        """A context with its tokens as text."""
        words = tuple(self.word(int(k)) for k in context.tokens)
        return ShadedText(words, tuple(map(float, context.values)), context.peak)

    def word(self, token: int) -> str:
        """The text of one token."""
        return self.text([token])

    def text(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of some tokens; without a tokenizer, the card's words or the ids."""
        tokenizer = self.model.own_tokenizer()
        if tokenizer is not None:
            return tokenizer.decode([int(k) for k in ids])
        words = (self.model.words.name(int(k)) for k in ids)
        return " ".join(w if w is not None else str(k) for w, k in zip(words, ids, strict=True))

    @property
    def table(self) -> dict[str, Any]:
        """The measures, and the statistics of every feature, as plain data."""
        s, m = self.study.statistics, self.measures
        numbers = {k: None if v != v else v for k, v in vars(m).items()}
        recovered = m.recovered if m.loss == m.loss and m.without != m.loss else None
        each = zip(s.counts, s.greatest, s.sums, self.study.shares, strict=True)
        return {
            "value": self.study.name, "texts": s.texts, "tokens": s.tokens,
            "measures": {**numbers, "recovered": recovered},
            "each": [
                {"feature": k, "active": int(count), "greatest": float(most),
                 "mean": float(total) / max(int(count), 1), "share": float(share)}
                for k, (count, most, total, share) in enumerate(each)
            ],
        }  # fmt: skip

    # -- pages -------------------------------------------------------------------------------------

    def page(self, style: str = "unicode") -> Sequence[Block]:
        """A document with the measures and the features with the largest outputs."""
        return index_blocks(self.title, self.measures, self.study.statistics, self.shares_of(12))

    def shares_of(self, count: int) -> list[tuple[int, float]]:
        """The features with the largest outputs, each with its share of the total."""
        return [(k, float(self.study.shares[k])) for k in self.ranked(count)]

    def feature_page(self, number: int) -> Sequence[Block]:
        """A feature as a document, for the terminal."""
        return feature_blocks(self[number], f"${show(self.study.value, 'latex')}$")

    def pages(self, features: Sequence[int]) -> Iterator[FeaturePage]:
        """The pages of some features."""
        return (self[k] for k in features)

    def save(
        self, folder: str | Path, features: Sequence[int] | None = None, tell: Tell | None = None
    ) -> Path:
        """Write a page of HTML for each feature, and ``index.html`` with the measures.

        ``features`` are by default the hundred with the largest outputs. Each page is one file.
        After Ctrl-C the index lists the pages written so far. The files take their names at the
        end, all or none.
        """
        folder = Path(folder)
        chosen = list(self.ranked() if features is None else features)
        tell, made = tell or (lambda line: None), []
        names = {k: f"feature-{k}.html" for k in chosen}
        with together(folder):
            try:
                for place, page in enumerate(self.pages(chosen)):
                    beside = (chosen[j] if 0 <= j < len(chosen) else None
                              for j in (place - 1, place + 1))  # fmt: skip
                    with replacing(folder / names[page.number]) as file:
                        file.write(feature_html(page, self.title, names, *beside).encode())
                    made.append(page)
                    tell(f"{place + 1} of {len(chosen)} pages")
            except KeyboardInterrupt:
                self.stopped = True
                names = {page.number: names[page.number] for page in made}
            tell("")
            with replacing(folder / "index.html") as file:
                text = index_html(self.title, self.measures, self.study.statistics, made, names)
                file.write(text.encode())
        return folder


__all__ = ["FeatureDashboard"]
