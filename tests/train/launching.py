"""Several processes at once, without the seconds that each of them would take to import PyTorch.

One process imports all there is and waits; what runs are copies of it, which find what `torchrun`
would tell them in their environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
WAITING = """
import atexit, gc, json, os, sys, traceback
import torch._dynamo, viete.sampling.generation, viete.train.loop, viete.train.sharded
from viete.cli.app import command
from viete.cli.main import main

command()
gc.freeze()  # what was imported: each copy collects its garbage at its end

def run(arguments, said):
    os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 1)
    os.dup2(1, 2)
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
    for rank in range(job["size"]):
        if not (pid := os.fork()):
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(job["size"]),
                              MASTER_ADDR="127.0.0.1", MASTER_PORT=job["port"])
            run(job["arguments"], job["said"])
        found.append(pid)
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in found]),
          flush=True)
"""


class Launcher:
    """``launcher(3, "train", …)`` is what three processes say, and the exit codes of each.

    ``meanwhile`` is called with the number of their parent while they run.
    """

    def __init__(self) -> None:
        self.waiting = subprocess.Popen(
            [sys.executable, "-c", WAITING], cwd=ROOT, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    def __call__(
        self, size: int, *arguments: str, meanwhile: Callable[[int], None] | None = None
    ) -> tuple[str, list[int]]:
        assert self.waiting.stdin is not None and self.waiting.stdout is not None
        with tempfile.NamedTemporaryFile("r") as said:
            job = {"size": size, "arguments": arguments, "said": said.name, "port": free_port()}
            self.waiting.stdin.write(json.dumps(job) + "\n")
            self.waiting.stdin.flush()
            if meanwhile is not None:
                meanwhile(self.waiting.pid)
            codes = json.loads(self.waiting.stdout.readline())
            return said.read(), codes

    def close(self) -> None:
        assert self.waiting.stdin is not None
        self.waiting.stdin.close()
        self.waiting.wait(20)


def free_port() -> str:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])
