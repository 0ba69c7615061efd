"""The options that say where a command writes and in which format; and writing the file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from os.path import realpath
from pathlib import Path
from typing import Annotated, Any

import typer

from viete.atomic import behind, replacing
from viete.cli.option_groups import choice
from viete.document.rendering import SUFFIXES
from viete.errors import VieteError


def output_option(help: str) -> Any:
    """The option ``-o`` of a command, which says what it writes."""
    return typer.Option("-o", "--output", help=help, rich_help_panel="Output")


Output = Annotated[Path | None, output_option("Write to this file instead of the screen.")]


def format_option(
    forms: Sequence[str], help: str = "The format [from -o's suffix, else text]."
) -> Any:
    """The option ``--format`` of a command that writes these formats."""
    return choice(forms, "--format", "-f", help=help, panel="Output")


def format_of(form: str | None, output: Path | None, forms: Sequence[str]) -> str:
    """The format of ``--format``, else of the output's suffix, else text.

    Raises VieteError for a suffix that belongs to none of the ``forms``.
    """
    suffix = "" if output is None else output.suffix.lower()
    if form is not None or not suffix:
        return form or "text"
    known = {SUFFIXES[form]: form for form in forms}
    if suffix not in known:
        several = f"one of {', '.join(known)}, or a format with -f"
        raise VieteError(
            f"-o {output}: this command writes no {suffix} files; give "
            f"{several if len(known) > 1 else next(iter(known))}"
        )
    return known[suffix]


def source_form(form: str, output: Path | None) -> str:
    """The format to write a document in; for a PDF, the format that it is compiled from."""
    if form != "pdf":
        return form
    if output is None:
        raise VieteError("the screen cannot show a PDF: give -o NAME.pdf")
    from viete.document.pdf import compiled_from

    return compiled_from()


def finished(text: str, form: str, source: str) -> str | bytes:
    """A document in its final format: a PDF is compiled from ``text`` in the format ``source``."""
    if form != "pdf":
        return text
    from viete.document.pdf import compiled

    return compiled(text, source)


def emit(text: str | bytes, output: Path | None, source: str = "") -> None:
    """Print the text, or write it to the file and report that on standard error."""
    if output is None:
        assert isinstance(text, str)
        print(text, end="" if text.endswith("\n") else "\n")
        return
    write_files({output: text}, source)
    wrote(output)


def write_files(texts: Mapping[Path, str | bytes], source: str = "") -> None:
    """Write files, all or none; raise VieteError if one of them would overwrite the card.

    ``source`` is the card's path. A symbolic link stays, and its target is written.
    """
    with ExitStack() as files:
        for output, text in texts.items():
            if source and realpath(output) == realpath(source):
                raise VieteError(f"-o {output} would overwrite the card itself; give another name")
            file = files.enter_context(replacing(behind(output)))
            file.write(text.encode() if isinstance(text, str) else text)


def wrote(*paths: Path) -> None:
    """Report written files on standard error, so that standard output stays clean."""
    for path in paths:
        print(f"written: {path}", file=sys.stderr)
