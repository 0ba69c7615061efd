"""Opening a released model: time, memory, forward passes and samples, against `transformers`.

    python benchmarks/loading.py --folder /tmp/checkpoints --make       # once: 0.65 and 2 GB
    python benchmarks/loading.py --folder /tmp/checkpoints [--lens PYTHON] [--rounds 3] [--only …]

The checkpoints have the shapes of Pythia-160M (float32) and Pythia-1B (float16) and random weights.
Loading is timed in a process of its own for every peer, after its imports: until the weights are
there, and until every number of them has been read, since mapped files are read when they are
touched. The file is in the system's cache. Memory is the most that the process had, above what it
had before, over the bytes of the weights. ``--lens`` is a Python with transformer_lens in it.

Forward passes (one text of 128 tokens, logits alone) and greedy samples (32 tokens after 16; 12
with the larger) take turns in one process, on one thread, in float32. The logits and the tokens are
compared first. `transformers` attends with sdpa. Ratios are times, ours / theirs: less than 1 is
faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SHAPES = {
    "160M": ({"d": 768, "N": 12, "H": 12, "d_f": 3072}, "float32"),
    "1B": ({"d": 2048, "N": 16, "H": 8, "d_f": 8192}, "float16"),
}
START = """
import sys, time, json
{imports}
def most():
    with open("/proc/self/status") as f:
        return next(int(x.split()[1]) * 1024 for x in f if x.startswith("VmHWM"))
folder = {folder!r}
with open("/proc/self/clear_refs", "w") as f:
    f.write("5")
before, began = most(), time.perf_counter()
{load}
there = time.perf_counter() - began
for w in weights:
    w.sum()
whole = time.perf_counter() - began
size = sum(w.size * w.itemsize if hasattr(w, "strides") else w.numel() * w.element_size()
           for w in weights)
print(json.dumps([there, whole, (most() - before) / size]))
"""
OURS = "import torch, numpy as np, viete as vt, viete.nouns.model, einops"
THEIRS = "import torch, transformers\nfrom transformers import GPTNeoXForCausalLM as Net"
LENS = "import torch\nfrom transformer_lens.model_bridge import TransformerBridge as Bridge"


def loads(dtype: str) -> dict[str, tuple[str, str]]:
    """Each peer's imports, and how it comes to weights in this dtype."""
    numpy = f"weights = list(vt.load(folder, dtype={dtype!r}).weights.values())"
    torch = f"weights = list(vt.load(folder, framework='torch', dtype={dtype!r}).weights.values())"
    hf = f"net = Net.from_pretrained(folder, dtype=torch.{dtype})\nweights = list(net.parameters())"
    lens = (
        f"net = Bridge.boot_transformers(folder, device='cpu', dtype=torch.{dtype})\n"
        f"weights = list(net.original_model.parameters())"
    )
    out = {"transformers": (THEIRS, hf), "Viète, PyTorch": (OURS, torch)}
    if dtype != "float16":
        out["Viète, NumPy"] = (OURS, numpy)
    return out | {"TransformerLens": (LENS, lens)}


def main() -> None:
    """Make the checkpoints, or measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--lens")
    parser.add_argument("--rounds", type=int, default=3, help="one fewer with the larger")
    parser.add_argument("--only", choices=["loading", "running"])
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if given.make:
        for name in SHAPES:
            make(given.folder / name, name)
        return
    if given.only != "running":
        loading(given.folder, given.lens, given.rounds)
    if given.only != "loading":
        for name in SHAPES:
            running(given.folder / name, name, given.rounds)


def make(folder: Path, name: str) -> None:
    """A checkpoint with random weights, as `transformers` would write it."""
    import viete as vt

    sizes, dtype = SHAPES[name]
    card = vt.read("pythia").bind(**sizes)
    rng = np.random.default_rng(0)
    weights = {
        n: (rng.standard_normal(s, np.float32) * 0.02 + (n[0] == "γ")).astype(dtype)
        for n, s in card.parameter_shapes.items()
    }
    card.save(folder, weights)
    # A tokenizer, which TransformerLens does not do without.
    from viete.text.vocabulary import BytePairs, save_vocabulary

    save_vocabulary(
        BytePairs.of(["the cat sat"], 300, ["<|endoftext|>"]), folder / "tokenizer.json"
    )
    said = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|endoftext|>",
            "eos_token": "<|endoftext|>"}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(said))


# -- loading ---------------------------------------------------------------------------------------


def loading(home: Path, lens: str | None, rounds: int) -> None:
    """Every peer in turn, in processes of their own."""
    for name, dtype in (("160M", "float32"), ("1B", "float16"), ("1B", "float32")):
        stored = SHAPES[name][1]
        print(f"\nPythia-{name}, stored in {stored}, loaded in {dtype}: s, s read, memory")
        file = home / name / "model.safetensors"
        peers = loads(dtype)
        if lens is None:
            del peers["TransformerLens"]
        seen: dict[str, list[list[float]]] = {peer: [] for peer in peers}
        for _ in range(rounds if name == "160M" else max(1, rounds - 1)):
            for peer, (imports, load) in peers.items():
                with open(file, "rb") as f:
                    while f.read(1 << 24):
                        pass
                python = lens if peer == "TransformerLens" else sys.executable
                code = START.format(imports=imports, load=load, folder=str(home / name))
                made = subprocess.run([str(python), "-W", "ignore", "-c", code], text=True,
                                      capture_output=True, check=False)  # fmt: skip
                if made.returncode:
                    print(f"  {peer}: {made.stderr.strip().splitlines()[-1][:200]}")
                    continue
                seen[peer].append(json.loads(made.stdout.strip().splitlines()[-1]))
        for peer, found in seen.items():
            if found:
                there, whole, memory = (statistics.median(x) for x in zip(*found, strict=True))
                print(f"  {peer:16} {there:8.3f} {whole:8.3f} {memory:8.2f}", flush=True)


# -- running ---------------------------------------------------------------------------------------


def running(folder: Path, name: str, rounds: int) -> None:
    """Forward passes and samples, compared and timed in turn."""
    import torch
    from threadpoolctl import threadpool_limits
    from transformers import GPTNeoXForCausalLM

    import viete as vt

    torch.set_num_threads(1)
    peer = GPTNeoXForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    card = vt.load(folder).card
    ours = {
        "NumPy": vt.load(folder, dtype="float32").weights,
        "PyTorch": vt.load(folder, framework="torch", dtype="float32").weights,
    }
    ids = np.random.default_rng(1).integers(0, 50304, (1, 128))
    prompt, more = ids[:, :16], 32 if name == "160M" else 12

    def forward() -> Any:
        return peer(torch.as_tensor(ids)).logits

    def generate() -> list[int]:
        start = torch.as_tensor(prompt)
        found = peer.generate(start, attention_mask=torch.ones_like(start), max_new_tokens=more,
                              do_sample=False, pad_token_id=0, eos_token_id=None)  # fmt: skip
        return [int(k) for k in found[0, 16:]]

    def run(weights: Any) -> Any:
        return card.run(ids, weights, names=["logits"])["logits"]

    def sample(weights: Any) -> list[int | None]:
        return [k for (k,) in card.sample(prompt[0], weights, most=more, greedy=True)]

    with torch.no_grad(), threadpool_limits(1):
        wanted, tokens = forward().numpy(), generate()
        for kind, weights in ours.items():
            error = np.abs(np.asarray(run(weights)) - wanted).max() / np.abs(wanted).max()
            same = sum(a == b for a, b in zip(sample(weights), tokens, strict=True))
            print(f"\n{name}, {kind}: logits differ by {error:.1e}, {same} of {more} tokens agree")
        jobs: dict[str, Callable[[], Any]] = {"forward, transformers": forward}
        jobs |= {f"forward, {k}": lambda w=w: run(w) for k, w in ours.items()}
        if name == "160M":
            module = card.to_torch(ours["PyTorch"]).eval()
            jobs["forward, vt.to_torch"] = lambda: module(torch.as_tensor(ids))
        jobs["sample, transformers"] = generate
        jobs |= {f"sample, {k}": lambda w=w: sample(w) for k, w in ours.items()}
        times: dict[str, list[float]] = {job: [] for job in jobs}
        for _ in range(rounds if name == "160M" else max(1, rounds - 1)):
            for job, call in jobs.items():
                began = time.perf_counter()
                call()
                times[job].append(time.perf_counter() - began)
    for job, found in times.items():
        base = times[job.split(",")[0] + ", transformers"]
        ratio = statistics.median(a / b for a, b in zip(found, base, strict=True))
        print(f"  {name} {job:24} {statistics.median(found):8.3f} s   {ratio:6.2f}", flush=True)


if __name__ == "__main__":
    main()
