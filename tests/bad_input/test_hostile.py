"""What is hostile or huge ends in one sentence: no traceback, no flood, no memory gone."""

from __future__ import annotations

import sys

from tests.command_line import viete


class Interrupted:
    """An import during which somebody presses Ctrl-C."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "viete.cli.app":
            raise KeyboardInterrupt


def test_control_c_while_python_imports(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "viete.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    assert viete("cards", code=130).err == "stopped\n"
