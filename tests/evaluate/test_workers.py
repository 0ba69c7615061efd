"""Threads of a run: none is looked for in a forked child, and BLAS gets its own number back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from threadpoolctl import ThreadpoolController

from viete.evaluate.plan.workers import Workers

FORK = """
import os
from viete.evaluate.plan.workers import Workers, alone
both, done = Workers(False, 2), []
both.run([lambda: done.append(1)] * 4)
with alone(both.blas):
    child = os.fork()
if not child:
    both.run([lambda: done.append(2)] * 4)
    os._exit(0 if sum(done) == 12 and not alone.inside and alone.restore is None else 1)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process forks here")
def test_a_forked_child_has_threads_of_its_own() -> None:
    made = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], timeout=60, check=False)
    assert made.returncode == 0


def test_blas_has_its_threads_back() -> None:
    """Whoever leaves first: one that came first, or one that came later."""
    blas = ThreadpoolController().select(user_api="blas")
    with blas.limit(limits=2):
        before = [x["num_threads"] for x in blas.info()]
        for last in (0, 1):
            inside = [Workers(False, 2).by_itself() for _ in range(2)]
            for one in inside:
                one.__enter__()
            inside[1 - last].__exit__(None, None, None)
            assert {x["num_threads"] for x in blas.info()} == {1}
            inside[last].__exit__(None, None, None)
            assert [x["num_threads"] for x in blas.info()] == before


def test_a_new_thread_has_the_threads_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    before, found = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        Workers(True, 2).run([lambda: None] * 4)
        new = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        new.start()
        new.join()
    finally:
        torch.set_num_threads(before)
    assert found == [2]
