"""Pages of features: an HTML page for each, with its contexts shaded, and an index of all.

Nothing is fetched and no script runs. Text from a corpus or a tokenizer is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources

import numpy as np

from viete.document.colours import sheet
from viete.document.html import prose
from viete.document.text import plain
from viete.features.contexts import FeatureStatistics
from viete.features.page import FeaturePage, ShadedText
from viete.features.study import FeatureMeasures
from viete.report.feature_text import percent, seen, sentences, signed

STRONGEST = 62  # per cent of the colour behind a token at the greatest value: text stays legible
WIDE, TALL = 460, 130  # of a histogram
FEW = 7  # tokens on either side of a peak in the index
SIGNS = "⏎⇥␍"


@cache
def style() -> str:
    """The CSS of a page."""
    own = resources.files("viete.report").joinpath("feature.css").read_text("utf-8")
    return f"{sheet()}\n{own}"


def whole(title: str, body: str) -> str:
    """A complete HTML page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(plain(title))}</title>\n<style>\n{style()}</style>\n</head>\n<body>\n<main>\n"
        f"{body}\n</main>\n</body>\n</html>\n"
    )


# -- a feature -------------------------------------------------------------------------------------


def feature_html(
    page: FeaturePage, title: str, names: Mapping[int, str], before: int | None, after: int | None
) -> str:
    """The page of a feature; ``names`` are the files of the features that have one."""
    links = [
        f'<a href="{names[k]}" rel="{rel}">{sign}</a>'
        for k, rel, sign in ((before, "prev", f"← {before}"), (after, "next", f"{after} →"))
        if k is not None
    ]
    head = (
        f'<div class="top"><a href="index.html">{prose(title)}</a>'
        f'<span class="jump">{"".join(links)}</span></div>\n<h1>Feature {page.number}</h1>'
    )
    if not page.count:
        said = f"This feature is dead: never active on {page.tokens:,} tokens."
        return whole(f"Feature {page.number}", f'{head}\n<p class="said">{said}</p>')
    said = (
        f"Active at <b>{percent(page.often)}</b> of {page.tokens:,} tokens. The value there is "
        f"<b>{page.mean:.3g}</b> on average, <b>{page.greatest:.3g}</b> at most. The feature makes "
        f"<b>{percent(page.share)}</b> of the outputs of all features."
    )
    weights, changes = weights_section(page), changes_section(page)
    parts = [
        head, f'<p class="said">{said}</p>',
        f'<div class="sides"><section><h2>Values</h2>{histogram(page)}</section>'
        f"{weights or changes}</div>",
        "<h2>Greatest values</h2>", contexts(page.top, page.greatest),
        "<h2>Random contexts</h2>", contexts(page.drawn, page.greatest),
        last_sections(page, changes if weights else ""), nearest_section(page, names),
    ]  # fmt: skip
    return whole(f"Feature {page.number} · {title}", "\n".join(filter(None, parts)))


def histogram(page: FeaturePage) -> str:
    """The histogram of a feature's values where it is active."""
    note = f'<p class="note">{page.count:,} values above 0, up to {page.greatest:.3g}</p>'
    return note + bar_chart(page.bins, "0", f"{page.wide * len(page.bins):.3g}")


def bar_chart(counts: np.ndarray, first: str, last: str, words: str = "values") -> str:
    """Bars of counts, over an axis that begins and ends with these labels."""
    most, n = max(int(counts.max(initial=0)), 1), max(len(counts), 1)
    step = WIDE / n
    bars = "".join(
        f'<rect x="{k * step:.2f}" y="{TALL - h:.2f}" width="{max(step - 1, 0.6):.2f}" '
        f'height="{h:.2f}"><title>{int(c):,} {words}</title></rect>'
        for k, c in enumerate(counts) if (h := TALL * float(c) / most) > 0
    )  # fmt: skip
    return (
        f'<svg class="bars" viewBox="0 -14 {WIDE} {TALL + 34}" role="img" '
        f'aria-label="a histogram of {words}"><path d="M0 {TALL}H{WIDE}"/>{bars}'
        f'<text x="0" y="-3">{most:,}</text><text x="0" y="{TALL + 16}">{first}</text>'
        f'<text x="{WIDE}" y="{TALL + 16}" text-anchor="end">{last}</text></svg>'
    )


def weights_section(page: FeaturePage) -> str:
    """The tokens whose scores a feature raises most, and lowers most."""
    if not page.raised:
        return ""
    note = "What one unit of the feature adds to the logit of each token, through all later blocks."
    lists = bars_of(page.raised, "up", "raises") + bars_of(page.lowered, "down", "lowers")
    return (
        f'<section><h2>Logit weights</h2><p class="note">{note}</p>'
        f'<div class="weights">{lists}</div></section>'
    )


def bars_of(pairs: Sequence[tuple[str, float]], kind: str, words: str) -> str:
    """Tokens with numbers, shaded by their size, below the heading in ``words``."""
    most = max((abs(x) for _, x in pairs), default=0) or 1
    items = "".join(
        f'<li><span class="token" style="--part:{part(x, most)}%">{escape(seen(t)) or "&nbsp;"}'
        f'</span><span class="amount">{signed(x)}</span></li>'
        for t, x in pairs
    )
    return f'<div class="{kind}"><p class="note">{words}</p><ol>{items}</ol></div>'


def changes_section(page: FeaturePage) -> str:
    """The changes after the greatest context when the feature is 0 there."""
    if not page.changes:
        return ""
    rows = "".join(
        f'<tr><td><span class="token">{escape(seen(t)) or "&nbsp;"}</span>'
        f'<td class="amount">{percent(a)}<td class="amount">{percent(b)}</tr>'
        for t, a, b in page.changes
    )
    note = "The next tokens whose probability changes most if the greatest value is set to 0."
    return (
        f'<section><h2>Without the feature</h2><p class="note">{note}</p>'
        f'<table class="list without"><thead>'
        f'<tr><th>token<th class="amount">probability<th class="amount">without</tr></thead>'
        f"<tbody>{rows}</tbody></table></section>"
    )


def contexts(some: Sequence[ShadedText], most: float) -> str:
    """Stretches of texts, each token shaded by the feature's value."""
    items = "".join(
        f'<li><span class="amount">{c.value:.3g}</span><span class="text">{shaded(c, most)}</span>'
        f"</li>" for c in some
    )  # fmt: skip
    return f'<ol class="contexts">{items}</ol>'


def shaded(context: ShadedText, most: float, first: int = 0, last: int | None = None) -> str:
    """The tokens of a stretch from ``first`` to ``last``."""
    out = []
    for k in range(first, len(context.tokens) if last is None else last):
        value, kind = context.values[k], ' class="peak"' if k == context.peak else ""
        shade = f' style="--part:{part(value, most)}%"' if value > 0 else ""
        title = f' title="{value:.3g}"' if value > 0 else ""
        out.append(f"<span{kind}{shade}{title}>{signs(context.tokens[k])}</span>")
    return "".join(out)


def signs(token: str) -> str:
    """A token's text as HTML, with line breaks and tabs as signs."""
    return "".join(f'<span class="sign">{c}</span>' if c in SIGNS else escape(c)
                   for c in seen(token))  # fmt: skip


def part(value: float, most: float) -> int:
    """The strength of a colour, in per cent."""
    return round(STRONGEST * min(abs(value) / max(most, 1e-30), 1)) if math.isfinite(value) else 0


def last_sections(page: FeaturePage, changes: str) -> str:
    """The changes without the feature, next to the texts that continue with other values of it."""
    steered = steered_section(page)
    if changes and steered:
        return f'<div class="sides">{changes}{steered}</div>'
    return changes + steered


def steered_section(page: FeaturePage) -> str:
    """How a text continues when the feature has other values."""
    if not page.steered:
        note = f'<section><h2>Set to a value</h2><p class="note">{escape(page.note)}</p></section>'
        return note if page.note else ""
    rows = "".join(
        f"<dt>{'as it is' if s.value is None else f'{s.value:.3g}'}</dt>"
        f"<dd><i>{signs(page.prompt)}</i>{signs(s.text)}</dd>" for s in page.steered
    )  # fmt: skip
    note = "The likeliest tokens after a text, with the feature at this value everywhere."
    return (
        f'<section><h2>Set to a value</h2><p class="note">{note}</p>'
        f'<dl class="steered">{rows}</dl></section>'
    )


def nearest_section(page: FeaturePage, names: Mapping[int, str]) -> str:
    """The features with the most similar directions."""
    items = "".join(f"<li>{linked(k, names)} <span>{x:.3f}</span></li>" for k, x in page.nearest)
    note = "The features whose directions have the largest cosine with this direction."
    return f'<h2>Nearest features</h2><p class="note">{note}</p><ul class="near">{items}</ul>'


def linked(number: int, names: Mapping[int, str]) -> str:
    """A feature's number, as a link where it has a page."""
    return f'<a href="{names[number]}">{number}</a>' if number in names else str(number)


# -- all of them -----------------------------------------------------------------------------------


def index_html(
    title: str, measures: FeatureMeasures, statistics: FeatureStatistics,
    pages: Sequence[FeaturePage], names: Mapping[int, str],
) -> str:  # fmt: skip
    """The measures of all features, how often they are active, and links to their pages."""
    numbers = "".join(
        f"<div><b>{escape(a)}</b><span>{escape(b)}</span></div>"
        for a, b in sentences(measures, statistics)
    )
    rows = "".join(row(page, names) for page in pages)
    return whole(title, (
        f"<h1>{prose(title)}</h1>\n"
        f'<p class="said">On {statistics.texts:,} texts, {statistics.tokens:,} tokens in all.</p>\n'
        f'<div class="measures">{numbers}</div>\n'
        f"<h2>How often features are active</h2>{frequencies(statistics)}\n"
        f'<h2>Features</h2><p class="note">The features with the largest outputs come first.</p>\n'
        '<table class="list"><thead><tr><th>feature<th class="amount">active'
        '<th class="amount wide">greatest<th>greatest context<th class="wide">raises</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    ))  # fmt: skip


def row(page: FeaturePage, names: Mapping[int, str]) -> str:
    """One feature's line."""
    text = ""
    if page.top:
        c = page.top[0]
        text = shaded(c, page.greatest, max(0, c.peak - FEW), min(len(c.tokens), c.peak + FEW + 1))
    raised = "".join(f'<span class="token">{escape(seen(t))}</span>' for t, _ in page.raised[:3])
    return (
        f'<tr><td>{linked(page.number, names)}<td class="amount">{percent(page.often)}'
        f'<td class="amount wide">{page.greatest:.3g}<td class="text">{text}'
        f'<td class="wide">{raised}</tr>'
    )


def frequencies(s: FeatureStatistics) -> str:
    """The number of features active at each share of the positions, by its logarithm."""
    often = s.counts[s.counts > 0] / s.tokens
    if not len(often):
        return ""
    low = math.floor(math.log10(often.min()))
    counts, _ = np.histogram(np.log10(often), bins=10 * max(-low, 1), range=(low, 0))
    note = "How many features are active at each share of the positions, on a logarithmic scale."
    chart = bar_chart(counts, f"{100 * 10.0**low:g}%", "100%", "features")
    return f'<p class="note">{note}</p><div style="max-width:34rem">{chart}</div>'


__all__ = ["feature_html", "index_html"]
