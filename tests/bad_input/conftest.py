"""What wrong use of the command line must come to."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from viete.cli import main


@pytest.fixture
def refused(tmp_path, capsys, monkeypatch) -> Callable[..., str]:
    """Runs the command line in a folder; it must say one thing and leave all there as it was."""

    def there() -> dict[Path, int]:
        return {p: p.lstat().st_mtime_ns if p.is_file() else 0 for p in tmp_path.rglob("*")}

    def run(*argv: str | Path) -> str:
        before = there()
        monkeypatch.setattr(sys, "argv", ["viete", *map(str, argv)])
        monkeypatch.chdir(tmp_path)
        started = time.process_time()
        with pytest.raises(SystemExit) as stopped:
            main.main()
        said = capsys.readouterr()
        assert time.process_time() - started < 5
        assert stopped.value.code == 2
        assert said.out == "" and said.err.startswith("viete: ") and "Traceback" not in said.err
        assert there() == before
        return said.err

    return run
