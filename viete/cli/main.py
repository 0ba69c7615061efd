"""The program's entry point: runs a command, and reports output and errors."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def main() -> None:
    """Run the command line. Bad input ends with one sentence and the exit code 2.

    Everything is imported in here, so that Ctrl-C ends with "stopped" and the exit code 130 at any
    time.
    """
    try:
        run()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)


def collect_seldom() -> None:
    """Let the garbage collector run seldom: formulas and cards stay, so it would find little."""
    import gc

    gc.set_threshold(100_000, 20, 20)


def run() -> None:
    """Run the command line, and report errors as one sentence."""
    import warnings
    from contextlib import redirect_stderr, redirect_stdout

    from viete.errors import VieteError, VieteWarning, memory_refusals
    from viete.printable import Screen, Unread

    collect_seldom()
    with redirect_stdout(Screen(sys.stdout)), redirect_stderr(Screen(sys.stderr)):
        try:
            from viete.cli.app import command

            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("always", VieteWarning)
                    warnings.showwarning = show_warning
                    with memory_refusals("try smaller dimensions with --set"):
                        command()(prog_name="viete")
            finally:
                sys.stdout.flush()  # where it cannot be written, that is still to be said
        except VieteError as error:
            fail(str(error))
        except (Unread, BrokenPipeError):  # the reader of our output has seen enough
            silence()
            sys.exit(0)
        except OSError as error:  # files have sentences of their own: what is left is our output
            silence()
            fail(f"{error.filename or 'the output'}: cannot be written ({error.strerror or error})")


def show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int,
    file: TextIO | None = None, line: str | None = None,
) -> None:  # fmt: skip
    """Show our own warnings as one sentence on standard error, and others as Python does."""
    import warnings

    from viete.errors import VieteWarning

    if issubclass(category, VieteWarning):
        print(f"viete: {message}", file=sys.stderr)
    else:
        print(warnings.formatwarning(message, category, filename, lineno, line), file=sys.stderr)


def silence() -> None:
    """Discard remaining output after standard output was closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str) -> None:
    """Print one sentence on standard error, and exit with the code for bad input."""
    print(f"viete: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
