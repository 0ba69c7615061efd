"""Layout of the help: commands in groups, options under headings, examples at the end."""

from __future__ import annotations

import difflib
import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from viete.cli.examples import EXAMPLES
from viete.errors import VieteError

# The headings of a command's options, in this order; its own stand first, after its arguments.
LAST = ("Input", "Model", "Weights", "Numbers", "Output")

# click's UsageError, which newer versions of typer bring.
USAGE: Any = typer.BadParameter.__mro__[1]


class Commands(TyperGroup):
    """The group of all commands, listed under headings."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands under their headings; the method's name is click's."""
        groups: dict[str, list[Any]] = {}
        for name, command in self.commands.items():
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            groups.setdefault(heading, []).append((name, command.get_short_help_str(limit=100)))
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Add the closing line; the method's name is click's."""
        formatter.write_paragraph()
        formatter.write_text("viete COMMAND --help shows the options of a command and examples.")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raise VieteError for an option that viete itself does not have."""
        if not args:
            return super().parse_args(ctx, args)  # which shows the help
        try:
            return super().parse_args(ctx, args)
        except USAGE as error:
            raise VieteError(f"{error.format_message().rstrip('.')}; see viete --help") from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command, or raise VieteError; the method's name is click's."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self.commands, 2, 0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "viete --help lists them"
            raise VieteError(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


class Command(TyperCommand):
    """A command that refuses repeated options, and lists its options under headings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Check options before click does, which takes the last of repeated values silently.

        Raises VieteError for an option that is given again, unless it collects its values, for one
        that does not exist, and for a value that an option does not take.
        """
        try:
            order = self.make_parser(ctx).parse_args(args=list(args))[2]
            for p in order:
                if (count := order.count(p)) > 1 and not p.multiple:
                    name = "/".join([max(p.opts, key=len), *p.secondary_opts])
                    times = "twice" if count == 2 else f"{count} times"
                    raise VieteError(f"{name} is given {times}; give it once")
            return super().parse_args(ctx, args)
        except USAGE as error:  # click's own would come with three lines of usage
            raise VieteError(self.sentence(ctx, error)) from None

    def sentence(self, ctx: Any, error: Any) -> str:
        """The sentence for an error in a command's options, with what would be right."""
        if type(error).__name__ == "NoSuchOption":
            option = error.option_name
            known = [x for p in self.get_params(ctx) for x in (*p.opts, *p.secondary_opts)]
            near = difflib.get_close_matches(option, known, 2, 0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "see the list in its --help"
            return f"viete {self.name} has no option {option}; {hint}"
        message = with_value(error, error.format_message().rstrip("."))
        if more := re.search(r"unexpected extra argument\S* \((.*)\)", message):
            return f"viete {self.name} does not take {more[1]!r}; its --help lists what it takes"
        return f"{message}; viete {self.name} --help has examples" if missing(error) else message

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the options under headings; the method's name is click's."""
        groups: dict[str, list[Any]] = {}
        for p in self.get_params(ctx):
            if record := p.get_help_record(ctx):
                usual = "Arguments" if p.param_type_name == "argument" else "Options"
                usual = "Output" if p.name == "help" else usual
                groups.setdefault(getattr(p, "rich_help_panel", None) or usual, []).append(record)
        first = [heading for heading in groups if heading not in LAST]
        for heading in [*first, *(h for h in LAST if h in groups)]:
            with formatter.section(heading):
                formatter.write_dl(groups[heading])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Add the examples; the method's name is click's."""
        if examples := EXAMPLES.get(self.name or ""):
            with formatter.section("Examples"):
                for words, line in examples:
                    formatter.write_text(words)
                    command = broken(line, formatter.width - 4).replace("\n", "\n    ")
                    formatter.write(f"    {command}\n")


def broken(line: str, width: int) -> str:
    """A command, on several lines if it is wider than the terminal; no option loses its value."""
    out = ["viete"]
    for word in re.findall(r"(?:-\S+ )?'[^']*'|-\S+(?: [^-'\s]\S*)?|\S+", line):
        if len(out[-1]) + len(word) > width - 6:
            out.append(f"   {word}")
        else:
            out[-1] += f" {word}"
    return " \\\n".join(out)


def with_value(error: Any, message: str) -> str:
    """A message of pydantic's, which newer versions of typer pass on, with the value that is wrong.

    It says "Input should be a valid integer, unable to parse string as an integer".
    """
    if not (found := getattr(error.__cause__, "errors", None)):
        return message
    return message.replace("Input should", f"{found()[0]['input']!r} should").split(", unable")[0]


def missing(error: Any) -> bool:
    """Whether an argument or a required option is missing."""
    return type(error).__name__ == "MissingParameter"


__all__ = ["Command", "Commands", "broken"]
