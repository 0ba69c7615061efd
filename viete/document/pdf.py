"""PDF documents: compiled from Typst by the `typst` package, or from LaTeX by pdfLaTeX."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from viete.errors import VieteError

PDFLATEX = ("pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape")


def compiled_from() -> str:
    """The format that PDFs are compiled from here: 'typst', or 'latex' with only pdfLaTeX.

    Raises VieteError where neither is installed.
    """
    if find_spec("typst") is not None:
        return "typst"
    if shutil.which(PDFLATEX[0]):
        return "latex"
    raise VieteError(
        "a PDF needs Typst or LaTeX: run pip install 'viete[pdf]', or install pdfLaTeX; or write "
        ".typ or .tex"
    )


def compiled(source: str, form: str) -> bytes:
    """The PDF of a document in 'typst' or 'latex'. Raises VieteError if it does not compile."""
    return by_typst(source) if form == "typst" else by_latex(source)


def by_typst(source: str) -> bytes:
    """The PDF that the `typst` package compiles."""
    import typst

    try:
        out: bytes = typst.compile(source.encode())
    except Exception as error:  # its own class says no more
        raise VieteError(f"Typst does not compile this document: {error!s:.200}") from None
    return out


def by_latex(source: str) -> bytes:
    """The PDF that pdfLaTeX compiles."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "page.tex").write_text(source, "utf-8")
        for _ in range(
            1 + (r"\begin{longtable}" in source)
        ):  # its columns are right the second time
            made = subprocess.run(
                [*PDFLATEX, "page.tex"], cwd=folder, capture_output=True, timeout=120
            )
        if made.returncode:
            log = made.stdout.decode("utf-8", "replace")
            why = re.search(r"^! .*", log, re.M)
            raise VieteError(f"pdfLaTeX does not compile this document: {why[0] if why else log}")
        return (Path(folder) / "page.pdf").read_bytes()


__all__ = ["compiled", "compiled_from"]
