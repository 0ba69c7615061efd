"""The typeset equations of the page on the backward pass are those that `viete grad` derives."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.command_line import viete

PAGE = Path(__file__).parents[2] / "docs/reference/backward.md"
EQUATION = re.compile(r"^\d+\. \$.*$", re.M)


def test_its_equations_are_those_of_the_command_that_it_names() -> None:
    page = PAGE.read_text("utf-8")
    (command,) = re.findall(r"`viete (grad [^`]* -f md)`", page)
    derived = set(EQUATION.findall(viete(*shlex.split(command)).out))
    shown = EQUATION.findall(page)
    assert len(shown) > 10
    assert [line for line in shown if line not in derived] == []
