"""Chooses the picture for an answer, by its axes and the names of their entries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from viete.ask.decompositions import Svd
from viete.ask.expansion import Expansion
from viete.ask.term_table import floats
from viete.ask.vector_sets import Pca
from viete.errors import VieteError
from viete.evaluate.answer_page import without_last
from viete.evaluate.answers import Answer
from viete.evaluate.inputs import in_numpy
from viete.report.pictures.arcs import arcs, is_pattern
from viete.report.pictures.bars import bars
from viete.report.pictures.curve import curve
from viete.report.pictures.dots import Dot, rows_of_dots, scatter
from viete.report.pictures.heat import HeatPanel, heat
from viete.report.pictures.picture import Picture
from viete.report.pictures.plane import is_plane, plane

MOST_BARS, MOST_POINTS, MOST_PATTERNS = 24, 400, 36


def draw(answer: Answer, blocks: Sequence[str] = (), title: str | None = None) -> Picture:
    """The picture of an answer, chosen by its axes.

    A matrix is a heat map, more axes a grid of them, and attention has arcs below; rows of two
    numbers are arrows in the plane; a number for each block is a curve; other vectors are bars, of
    which a long one shows the largest. ``blocks`` are the letters that count blocks. Raises
    VieteError for answers without numbers.
    """
    title = answer.question if title is None else title
    values = in_numpy(answer.array)
    if isinstance(answer, Svd | Pca):
        return directions(answer, title) if isinstance(answer, Svd) else components(answer, title)
    if values.dtype.kind not in "fiub":
        raise VieteError(f"{answer.question} has numbers that are not floats, so it has no picture")
    if answer.names is not None:
        return greatest(answer, values, title)
    if values.ndim and answer.axes[-1] == "1":  # a column: a number for each row
        answer, values = without_last(answer), values[..., 0]
    values = values.astype(np.float64)
    if not values.size:
        raise VieteError(f"{answer.question} has no numbers to draw")
    if values.ndim == 0:
        return bars(title, [answer.question], [float(values)])
    if values.ndim == 1:
        return line_or_bars(answer, values, blocks, title)
    *lead, _, _ = values.shape
    places = list(np.ndindex(*lead))
    panels = [HeatPanel(where(answer, place), values[place]) for place in places]
    rows, columns = ([str(x) for x in labels] for labels in answer.labels[-2:])
    across = lead[-1] if len(lead) > 1 else 0
    if is_plane(values, columns) and not is_pattern(values, rows, columns):
        return plane(title, panels, rows, (answer.axes[-2], answer.axes[-1]), across)
    map_of = heat(title, panels, rows, columns, (answer.axes[-2], answer.axes[-1]), across)
    if len(panels) > MOST_PATTERNS or not is_pattern(values, rows, columns):
        return map_of
    return map_of.above(arcs(title, panels, rows, across))


def drawn_terms(e: Expansion, title: str | None = None) -> Picture:
    """An expansion's terms as bars, one bar for each sum of several; for vectors their lengths."""
    title = e.run.in_words(e.formula, "unicode") if title is None else title
    total = floats(e.total)
    parts = [(t.label, t.value) for t in e.terms]
    for name, terms in (("unopened", e.unopened), ("constants", e.constants),
                        ("hidden", e.hidden.terms)):  # fmt: skip
        if terms:
            parts.append((f"{name} ({len(terms)})", e.together(name, terms).value))
    lengths = [float(np.linalg.norm(v)) if (v := floats(x)).ndim else float(v) for _, x in parts]
    note = "lengths of vectors" if total.ndim else f"together {float(total):.4g}"
    return bars(title, [name for name, _ in parts], lengths, note)


def line_or_bars(
    answer: Answer, values: np.ndarray, blocks: Sequence[str], title: str
) -> Picture:  # fmt: skip
    """A vector as a curve over blocks, else as bars."""
    (axis,), (labels,) = answer.axes, answer.labels
    if axis.rstrip("'") in blocks and 2 < len(values) <= MOST_POINTS:
        return curve(title, [str(x) for x in labels], values, axis)
    if len(values) <= MOST_BARS:
        return bars(title, [named(axis, str(x)) for x in labels], values.tolist())
    by_size = np.argsort(-values if named_tokens(labels) else -np.abs(values), kind="stable")
    chosen = by_size[:MOST_BARS]
    what = "greatest" if named_tokens(labels) else "largest without their signs"
    return bars(title, [named(axis, str(labels[int(k)])) for k in chosen], values[chosen].tolist(),
                f"the {MOST_BARS} {what}, of {len(values):,}")  # fmt: skip


def greatest(answer: Answer, values: np.ndarray, title: str) -> Picture:
    """The greatest entries of each row, with their names."""
    assert answer.names is not None
    names, numbers = list[str](), list[float]()
    for place in np.ndindex(values.shape):
        before = where(answer, place[:-1])
        names.append(f"{before}: {answer.names[place]}" if before else str(answer.names[place]))
        numbers.append(float(values[place]))
    more = len(names) - 3 * MOST_BARS
    note = f"{more} more are left out" if more > 0 else ""
    return bars(title, names[: 3 * MOST_BARS], numbers[: 3 * MOST_BARS], note)


def directions(answer: Svd, title: str) -> Picture:
    """Singular values as bars, each with what its direction reads and writes."""
    names = []
    for *place, k in np.ndindex(answer.array.shape):
        pair = answer.left[tuple(place)][:, k], answer.right[tuple(place)][:, k]
        sides = [" ".join(end.top(x, 3)) for end, x in zip(answer.ends, pair, strict=True)
                 if end.names]  # fmt: skip
        before = f"{where(answer, place)}: " if place else ""
        names.append(before + (" → ".join(sides) or str(k + 1)))
    shown = names[: 3 * MOST_BARS]
    return bars(title, shown, answer.array.reshape(-1)[: len(shown)].tolist(), "singular values")


def components(answer: Pca, title: str) -> Picture:
    """Vectors in the plane of the first two components, or along the only one."""
    axes = [f"component {k + 1}, {share:.0%}" for k, share in enumerate(answer.shares)]
    names = [str(x) for x in answer.labels[0]]
    if len(axes) == 1:
        row = list(zip(answer.array[:, 0].tolist(), names, strict=True))
        return rows_of_dots(title, [""], [row], axes[0])
    dots = [Dot(float(x), float(y), 0, name)
            for (x, y, *_), name in zip(answer.array, names, strict=True)]  # fmt: skip
    return scatter(title, dots, (axes[0], axes[1]))


def where(answer: Answer, place: Sequence[int]) -> str:
    """``i 2, h 1 = L1H0``: the place of a matrix on the first axes."""
    return ", ".join(
        named(axis, str(labels[k]))
        for axis, labels, k in zip(answer.axes, answer.labels, place, strict=False)
        if len(labels) > 1 or axis != "batch"
    )


def named(axis: str, name: str) -> str:
    """An entry with its axis, where its label is only a number."""
    return f"{axis} {name}" if name[:1].isdigit() and '"' not in name else name


def named_tokens(labels: Sequence[str]) -> bool:
    """Whether entries are tokens with names."""
    return len(labels) > 0 and str(labels[0])[-1:] == '"' and not str(labels[0])[0].isdigit()


__all__ = ["draw", "drawn_terms"]
