"""Processes of the command line, without the seconds that each would take to import what it needs.

One process imports all there is and waits; what runs are copies of it. Of several that share a run
each finds what `torchrun` would tell it in its environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WAITING = """
import atexit, gc, importlib, json, os, sys, traceback
from viete.cli.app import command
from viete.cli.main import main

for name in sys.argv[1:]:
    importlib.import_module(name)
command()
gc.freeze()  # what was imported: each copy collects its garbage at its end

def run(arguments, out, err):
    for number, path in (1, out), (2, err):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), number)
    sys.argv[:] = ["viete", *arguments]
    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    atexit._run_exitfuncs()
    os._exit(code)

for line in sys.stdin:
    job = json.loads(line)
    found = []
    if "asked" in job:
        pid, status = os.waitpid(job["asked"], 0 if job["wait"] else os.WNOHANG)
        found = os.waitstatus_to_exitcode(status) if pid else None
    for rank in range(job.get("size", 0)):
        if not (pid := os.fork()):
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(job["size"]),
                              MASTER_ADDR="127.0.0.1", MASTER_PORT=job["port"])
            run(job["arguments"], job["out"], job["err"])
        found.append(pid)
    print(json.dumps(found), flush=True)
"""
TRAINING = "viete.sampling.generation", "viete.train.loop"
ON_TORCH = (*TRAINING, "torch._dynamo", "viete.train.sharded")


class Launcher:
    """``launcher(3, "train", …)`` is what three processes say, and the exit codes of each.

    ``meanwhile`` is called with the number of their parent while they run.
    """

    def __init__(self, imports: tuple[str, ...] = ON_TORCH) -> None:
        self.waiting = subprocess.Popen(
            [sys.executable, "-c", WAITING, *imports], cwd=ROOT, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    def ask(self, **job: Any) -> Any:
        assert self.waiting.stdin is not None and self.waiting.stdout is not None
        self.waiting.stdin.write(json.dumps(job) + "\n")
        self.waiting.stdin.flush()
        return json.loads(self.waiting.stdout.readline())

    def start(self, size: int, *arguments: str, out: str, err: str) -> list[int]:
        return self.ask(size=size, arguments=arguments, out=out, err=err, port=free_port())

    def __call__(
        self, size: int, *arguments: str, meanwhile: Callable[[int], None] | None = None
    ) -> tuple[str, list[int]]:
        with tempfile.NamedTemporaryFile("r") as said:
            started = self.start(size, *arguments, out=said.name, err=said.name)
            if meanwhile is not None:
                meanwhile(self.waiting.pid)
            codes = [self.ask(asked=pid, wait=True) for pid in started]
            return said.read(), codes

    def close(self) -> None:
        assert self.waiting.stdin is not None
        self.waiting.stdin.close()
        self.waiting.wait(20)


class Launched:
    """One process of a launcher's, with the methods of `subprocess.Popen`."""

    def __init__(self, launcher: Launcher, *arguments: str) -> None:
        self.launcher, self.returncode = launcher, None
        self.said = [tempfile.NamedTemporaryFile("r") for _ in range(2)]  # noqa: SIM115
        out, err = (file.name for file in self.said)
        (self.pid,) = launcher.start(1, *arguments, out=out, err=err)

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.launcher.ask(asked=self.pid, wait=False)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < end, "it does not end"
            time.sleep(0.002)
        return code

    def communicate(self, timeout: float) -> tuple[str, str]:
        self.wait(timeout)
        out, err = (file.read() for file in self.said)
        return out, err


def free_port() -> str:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])
