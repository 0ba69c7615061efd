"""Features as documents for terminals and notebooks: measures of all features, and one feature."""

from __future__ import annotations

import math
from collections.abc import Sequence

from viete.document.tree import Block, heading, paragraph, table
from viete.evaluate.answer_page import literal
from viete.features.contexts import FeatureStatistics
from viete.features.page import FeaturePage, ShadedText
from viete.features.study import FeatureMeasures

CONTEXTS = 6  # of the greatest that the terminal shows
AROUND = 8  # tokens on either side there


def seen(token: str) -> str:
    """A token's text on one line: line breaks and tabs as signs."""
    return token.replace("\n", "⏎").replace("\t", "⇥").replace("\r", "␍")


def percent(share: float) -> str:
    """A share in per cent, with two significant digits."""
    digits = max(0, 1 - math.floor(math.log10(100 * share))) if 0 < share < 0.1 else 1
    return f"{100 * share:.{min(digits, 6)}f}%"


def sentences(m: FeatureMeasures, s: FeatureStatistics) -> list[tuple[str, str]]:
    """The measures of all features: a number and its meaning."""
    out = [
        (f"{m.active:.3g}", f"of {m.features:,} features are active at a position (L0)"),
        (percent(m.lacking), "of the value's variance is not explained"),
        (f"{m.dead:,}", f"features are dead: never active on {s.tokens:,} tokens"),
    ]
    if not math.isnan(m.loss) and m.without > m.loss:
        out.insert(2, (percent(m.recovered),
                       f"of the loss is recovered: {m.spliced:.4f} with the decoded value, "
                       f"{m.loss:.4f} with the value itself, {m.without:.4f} with 0"))  # fmt: skip
    return out


def index_blocks(
    title: str, m: FeatureMeasures, s: FeatureStatistics, shares: Sequence[tuple[int, float]]
) -> list[Block]:
    """The measures of all features, and the features that write most."""
    rows = [
        [str(k), percent(share), percent(s.counts[k] / s.tokens), f"{s.greatest[k]:.4g}"]
        for k, share in shares
    ]
    return [
        heading(1, title),
        table(["number", "meaning"], [[a, b] for a, b in sentences(m, s)]),
        heading(2, "Features with the largest outputs"),
        table(["feature", "share of all outputs", "active", "greatest"], rows),
    ]


def line_of(context: ShadedText) -> str:
    """A context on one line, its peak in brackets."""
    first, last = max(0, context.peak - AROUND), context.peak + AROUND + 1
    parts = [f"[{seen(t)}]" if k == context.peak else seen(t)
             for k, t in enumerate(context.tokens)]  # fmt: skip
    return literal("".join(parts[first:last]))


def signed(value: float) -> str:
    """A number with its sign."""
    return f"{value:+.3g}".replace("-", "−")


def feature_blocks(page: FeaturePage, place: str) -> list[Block]:
    """The page of one feature, as blocks."""
    out: list[Block] = [heading(1, f"Feature {page.number}")]
    if not page.count:
        return [*out, paragraph(f"This feature is dead: never active on {page.tokens:,} tokens.")]
    out.append(paragraph(
        f"This feature is active at {percent(page.often)} of {page.tokens:,} tokens. Its value "
        f"there is {page.mean:.4g} on average and {page.greatest:.4g} at most. The feature "
        f"makes {percent(page.share)} of the outputs of all features to {place}."
    ))  # fmt: skip
    rows = [[f"{c.value:.4g}", line_of(c)] for c in page.top[:CONTEXTS]]
    out += [heading(2, "Contexts with the greatest values"), table(["value", "text"], rows)]
    if page.raised:
        pairs = zip(page.raised, page.lowered, strict=True)
        rows = [[literal(quoted(a)), signed(x), literal(quoted(b)), signed(y)]
                for (a, x), (b, y) in pairs]  # fmt: skip
        out += [heading(2, "Logit weights"), table(["raises", "", "lowers", ""], rows)]
    if page.changes:
        rows = [[literal(quoted(t)), percent(a), percent(b)] for t, a, b in page.changes]
        out += [heading(2, "The next token after the greatest value"),
                table(["token", "probability", "without the feature"], rows)]  # fmt: skip
    if page.steered:
        rows = [["as it is" if s.value is None else f"{s.value:.4g}", literal(seen(s.text))]
                for s in page.steered]  # fmt: skip
        out += [heading(2, "Set to a value"), paragraph(literal(seen(page.prompt)) + " …"),
                table(["value", "continuation"], rows)]  # fmt: skip
    rows = [[str(k), f"{x:.3f}"] for k, x in page.nearest]
    return [*out, heading(2, "Nearest features"), table(["feature", "cosine"], rows)]


def quoted(token: str) -> str:
    """A token in quotes, for its spaces."""
    return f"“{seen(token)}”"


__all__ = ["feature_blocks", "index_blocks", "percent", "seen", "sentences", "signed"]
