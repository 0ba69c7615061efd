"""Fuzzing by hand: ``python benchmarks/fuzz.py [seconds]`` of the card readers, guided by coverage.

``python benchmarks/fuzz.py fields SEED COUNT`` puts values of other types into the JSON of others:
the configuration of features, attribution graphs, messages of a page. It prints the seed of each
that ends in anything but a VieteError. ``benchmarks/hostile.py`` has the generator.
``python benchmarks/fuzz.py questions SEED COUNT`` asks random questions, and ``… cards SEED COUNT``
reads random cards with something odd in them: see ``benchmarks/hostile_questions.py``.

The first needs `atheris` (pip install atheris). The shipped cards, as Markdown, LaTeX and JSON,
are the corpus. Anything but a VieteError stops it, and so does an input that takes more than five
seconds; libFuzzer then leaves the input as ``crash-…`` or ``timeout-…`` in the folder it names.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
if sys.argv[1:2] == ["fields"]:
    from benchmarks.hostile import main as fields

    raise SystemExit(fields(int(sys.argv[2]), int(sys.argv[3])))
if sys.argv[1:2] in (["questions"], ["cards"]):
    from benchmarks.hostile_questions import main as odd

    raise SystemExit(odd(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))

import atheris

with atheris.instrument_imports(include=["viete"]):  # what is imported later is not counted
    import viete as vt
    import viete.cards.reader
    import viete.cards.structured
    import viete.cards.writer
    import viete.document.latex
    import viete.evaluate.run
    from viete.cards.catalogue import shipped

TINY = Path(__file__).parents[1] / "tests/bad_input/tiny.md"
# Pieces that random bytes would take long to find.
WORDS = (
    "\\sum_h \\frac{ \\sqrt{ \\text{ \\begin{cases} \\end{cases} \\times \\in softmax( causal( "
    "table_{j<n} concat_h( where( mean_j argmax( x^{i-1} W_Q^{i,h} ⊤ ⊙ ⌈ ⟨ ∈ ≤ … ² ₁ not mod"
).split()


def one(data: bytes) -> None:
    """Read one text; write and read back what is a card."""
    text = data.decode("utf-8", "replace")
    try:
        model = vt.read(text)
        for form in ("md", "latex", "json"):
            model.write(form)
        str(model.parameter_shapes)
    except vt.VieteError as error:
        str(error)


def main() -> None:
    seconds = sys.argv[1] if len(sys.argv) > 1 else "180"
    folder = Path(tempfile.mkdtemp(prefix="viete-fuzz-"))
    corpus = folder / "corpus"
    corpus.mkdir()
    for path in (TINY, *shipped().values()):
        for form in ("md", "latex", "json"):
            (corpus / f"{path.stem}.{form}").write_text(vt.read(path).write(form), "utf-8")
    words = folder / "words.txt"
    escaped = ("".join(f"\\x{byte:02x}" for byte in word.encode()) for word in WORDS)
    words.write_text("".join(f'"{word}"\n' for word in escaped))
    print(f"corpus and findings: {folder}", flush=True)
    options = [f"-max_total_time={seconds}", "-timeout=5", "-max_len=8000", f"-dict={words}",
               f"-artifact_prefix={folder}/", "-print_final_stats=1"]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
