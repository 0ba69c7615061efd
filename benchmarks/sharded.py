"""The memory of a process that trains a part of a model, beside FSDP2 written by hand.

    python benchmarks/sharded.py [--processes 2] [--blocks 16] [--width 512] [--steps 3]

The same decoder (Llama's equations, float32) in three ways: Viète with a unit for each block, Viète
with one unit for all, and a module written by hand whose blocks are given to `fully_shard`. What is
printed is the largest peak of any process until it is ready, during its steps and, of Viète, while
it saves a checkpoint, above what it held when PyTorch was imported. Gloo on a CPU, one thread each,
Linux only (/proc/self/clear_refs).
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

WAYS = ("viete", "one unit", "by hand")
VOCABULARY, LENGTH, BATCH = 1000, 64, 2


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, usual in ("processes", 2), ("blocks", 16), ("width", 512), ("steps", 3):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--way", choices=WAYS)
    given = parser.parse_args()
    if given.way:
        return measured(given)
    sizes = []
    for way in WAYS:
        said = launched(given, way)
        start, peak, save = (max(map(float, re.findall(rf"{word} ([\d.]+)", said)), default=0.0)
                             for word in ("start", "peak", "save"))  # fmt: skip
        seconds = [float(x) for x in re.findall(r"seconds ([\d.]+)", said)]
        whole = float(re.findall(r"weights ([\d.]+)", said)[0])
        sizes.append(peak)
        print(f"{way:9}  start {start:5.0f} MB, steps {peak:5.0f} MB, save {save:5.0f} MB; "
              f"{whole:.0f} MB of weights, {max(seconds):.2f} s a step", flush=True)  # fmt: skip
    print(f"viete / by hand {sizes[0] / sizes[2]:.2f}, viete / one unit {sizes[0] / sizes[1]:.2f}")


def launched(given: argparse.Namespace, way: str) -> str:
    """What the processes of one way print."""
    options = [f"--{k}={v}" for k, v in vars(given).items() if k != "way"]
    running = []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(given.processes):
            env = {**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank), "LOCAL_RANK": str(rank),
                   "WORLD_SIZE": str(given.processes), "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": "29533", "TMPDIR": folder,
                   # What is freed goes back to the system, and is not counted any more.
                   "MALLOC_MMAP_THRESHOLD_": "65536",
                   "MALLOC_TRIM_THRESHOLD_": "65536"}  # fmt: skip
            command = [sys.executable, __file__, "--way", way, *options]
            running.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        said = "".join(p.communicate()[0] for p in running)
    if any(p.returncode for p in running):
        raise SystemExit(f"{way}: a process failed")
    return said


def measured(given: argparse.Namespace) -> None:
    """One process: its peak while it takes steps."""
    import torch

    torch.manual_seed(0)
    import torch.distributed.fsdp
    import torch.distributed.tensor

    base = memory("VmRSS")
    reset = Path("/proc/self/clear_refs")
    reset.write_text("5")
    step, save, weights = (by_hand if given.way == "by hand" else viete)(given)
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1))
    print(f"start {memory('VmHWM') - base:.1f}")
    reset.write_text("5")
    started = time.perf_counter()
    for _ in range(given.steps):
        step(tokens[:, :-1], tokens[:, 1:])
    seconds = (time.perf_counter() - started) / given.steps
    print(f"peak {memory('VmHWM') - base:.1f} weights {weights:.1f} seconds {seconds:.3f}")
    if save:
        reset.write_text("5")
        save()
        print(f"save {memory('VmHWM') - base:.1f}")
    else:
        torch.distributed.destroy_process_group()


def memory(key: str) -> float:
    """A size of this process in MB."""
    text = Path("/proc/self/status").read_text()
    found = re.search(rf"{key}:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) / 1024


def viete(given: argparse.Namespace) -> tuple[Any, Any, float]:
    import viete as vt
    from viete.evaluate.initial_weights import initial_weight
    from viete.evaluate.schedule import parameter_shapes
    from viete.model import checkpoints
    from viete.train import sharded
    from viete.train.fitting import with_loss
    from viete.train.optimiser import Adam, spans
    from viete.train.settings import Settings
    from viete.train.setup import LazyArrays, make_engine

    if given.way == "one unit":
        sharded.blocks_of = lambda net: []
    d = given.width
    model = with_loss(vt.read("llama").bind(
        V=VOCABULARY, d=d, N=given.blocks, H=8, G=8, d_f=4 * d, n_max=LENGTH
    ))  # fmt: skip
    weights = LazyArrays(parameter_shapes(model), initial_weight(model, 0, "float32"))
    size = sum(map(math.prod, parameter_shapes(model).values())) * 4 / 2**20
    engine = make_engine("module", model, model, weights, shard=True)
    targets = model.inputs[-1].name
    shapes = {name: tuple(w.shape) for name, w in engine.weights.items()}
    ranks = {name: len(shape) for name, shape in shapes.items()}
    adam = Adam(engine.flat, spans(shapes, ranks), Settings(), engine.spread)

    def step(x: Any, y: Any) -> None:
        engine(x, **{targets: y})
        adam(engine.flat_gradient, 1e-3)

    def save() -> None:
        own = engine.weights
        tables = [engine.for_checkpoint(x) for x in (own, adam.moments(own))]
        if tables[0]:
            checkpoints.save(Path(tempfile.gettempdir()), {"step": 1}, *tables)

    return step, save, size


def by_hand(given: argparse.Namespace) -> tuple[Any, Any, float]:
    import torch
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn import functional

    d, heads = given.width, 8

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm_1, self.norm_2 = nn.RMSNorm(d), nn.RMSNorm(d)
            self.qkv = nn.Linear(d, 3 * d, bias=False)
            self.out = nn.Linear(d, d, bias=False)
            self.gate, self.up = nn.Linear(d, 4 * d, bias=False), nn.Linear(d, 4 * d, bias=False)
            self.down = nn.Linear(4 * d, d, bias=False)

        def forward(self, x: Any) -> Any:
            q, k, v = (
                part.unflatten(-1, (heads, -1)).transpose(1, 2)
                for part in self.qkv(self.norm_1(x)).chunk(3, -1)
            )
            a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(a.transpose(1, 2).flatten(-2))
            h = self.norm_2(x)
            return x + self.down(functional.silu(self.gate(h)) * self.up(h))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(VOCABULARY, d)
            self.blocks = nn.ModuleList(Block() for _ in range(given.blocks))
            self.norm, self.head = nn.RMSNorm(d), nn.Linear(d, VOCABULARY, bias=False)

        def forward(self, x: Any, y: Any) -> Any:
            h = self.embed(x)
            for block in self.blocks:
                h = block(h)
            return functional.cross_entropy(self.head(self.norm(h)).flatten(0, 1), y.flatten())

    torch.distributed.init_process_group("gloo")
    net = Net()
    size = sum(p.numel() for p in net.parameters()) * 4 / 2**20
    mesh = init_device_mesh("cpu", (given.processes,))
    for block in net.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    adam = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=False)

    def step(x: Any, y: Any) -> None:
        adam.zero_grad()
        net(x, y).backward()
        adam.step()

    return step, None, size


if __name__ == "__main__":
    main()
