"""Groups of command-line options: a dataclass that several commands take as one parameter.

`spread` replaces each such parameter of a command by options, one for each field.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature
from typing import Any, get_type_hints

import typer
from typer.models import OptionInfo


def choice(words: Sequence[str], *names: str, help: str, panel: str | None = None) -> Any:
    """An option whose value is one of these words."""

    def known(text: str) -> str:
        if text not in words:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(map(repr, words))}")
        return text

    return typer.Option(*names, parser=known, metavar=f"[{'|'.join(words)}]", help=help,
                        rich_help_panel=panel)  # fmt: skip


def spread(command: Callable[..., Any], more: Sequence[Parameter] = ()) -> Callable[..., Any]:
    """The command with a group's fields as its options, and ``more`` options for its ``**``."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[Parameter] = []
    groups: dict[str, Any] = {}
    for p in inspect.signature(command).parameters.values():
        kind: Any = hints[p.name]
        if p.kind is Parameter.VAR_KEYWORD:
            parameters += more
        elif not is_dataclass(kind):
            parameters.append(Parameter(p.name, Parameter.KEYWORD_ONLY, default=p.default,
                                        annotation=kind))  # fmt: skip
        else:
            groups[p.name] = kind
            own = get_type_hints(kind, include_extras=True)
            parameters += [
                Parameter(f.name, Parameter.KEYWORD_ONLY,
                          annotation=under(own[f.name], groups[p.name].panel),
                          default=Parameter.empty if f.default is MISSING else f.default)
                for f in fields(kind)
            ]  # fmt: skip

    @wraps(command)
    def gathered(**given: Any) -> Any:
        for name, kind in groups.items():
            given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
        return command(**given)

    gathered.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    gathered.__annotations__ = {p.name: p.annotation for p in parameters}
    return gathered


def under(option: Any, heading: str) -> Any:
    """An option of a group, under the group's heading in the help."""
    for info in getattr(option, "__metadata__", ()):
        if isinstance(info, OptionInfo):
            info.rich_help_panel = info.rich_help_panel or heading
    return option
