"""``viete explore``: a run as one page, which opens in a browser and fetches nothing."""

from __future__ import annotations

import sys

from viete.cli.expand import opened
from viete.cli.options import InputOptions, Output, SourceOptions, WeightOptions, emit


def explore(
    source: SourceOptions, inputs: InputOptions, weights: WeightOptions, output: Output = None
) -> None:  # fmt: skip
    """Write a page to explore a run: the equations, each value, and how each entry came about."""
    from viete.explore.data import page_data
    from viete.explore.page_file import page_html

    data = page_data(opened(source, inputs, weights))
    emit(page_html(data), output, source.name)
    if output is not None:
        print(f"written: {output}", file=sys.stderr)
