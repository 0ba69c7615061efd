"""Questions about a model of Pythia-160M's shape, against `transformers` and TransformerLens.

    python benchmarks/asking.py --folder /tmp/checkpoints/160M [--lens PYTHON] [--tokens 512]
                                [--rounds 5] [--threads 1] [--only direct lens …]

The folder is one that ``benchmarks/loading.py --make`` writes: random weights, float32. Every
contender has a process of its own, which opens the model once and then answers each question as
often as there are rounds; within a round the contenders take turns. Memory is the most that the
process had while it answered, above what it had before, in multiples of that of one forward pass of
`transformers`. ``--lens`` is a Python with TransformerLens (version 4) in it. Where two contenders
answer the same question their answers are compared first.

    direct        what every head adds, at every position, to the logits of its ten likeliest tokens
    lens          the likeliest token after every block at every position
    composition   Q-composition of all pairs of heads of different blocks
    copying       the trace of what each head does from token to token
    patching      the stream of one text put into another, 12 blocks × 32 positions (32 tokens)
    cold          a process, from its start to the first answer about 8 tokens
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WORKER = """
import gc, json, sys, time
import numpy as np, torch
torch.set_num_threads({threads})
torch.set_grad_enabled(False)
def now(key):
    with open("/proc/self/status") as f:
        return next(int(x.split()[1]) * 1024 for x in f if x.startswith(key))
folder, out = {folder!r}, {out!r}
ids = np.random.default_rng(1).integers(0, 50304, (1, {tokens}))
other = np.random.default_rng(2).integers(0, 50304, (1, {tokens}))
def later(scores):  # of a head and one of a later block, as TransformerLens has it
    return scores * torch.ones(12, 12).triu(1)[:, None, :, None]
began = time.perf_counter()
{opening}
print(json.dumps(time.perf_counter() - began), flush=True)
{jobs}
for line in sys.stdin:
    name = line.strip()
    gc.collect()
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    before, began = now("VmRSS"), time.{clock}()
    result = globals()[name]()
    took, most = time.{clock}() - began, now("VmHWM") - before
    np.save(f"{{out}}-{{name}}.npy", np.asarray(result))
    del result
    print(json.dumps([took, most]), flush=True)
"""

OPENING = {
    "transformers": """
from transformers import GPTNeoXForCausalLM
net = GPTNeoXForCausalLM.from_pretrained(
    folder, dtype=torch.float32, attn_implementation="sdpa").eval()
""",
    "Viète": """
import viete as vt
from viete.ask.recipes import recipes
model = vt.load(folder, framework="torch")
asked = {r.name: r.question for r in recipes()}
""",
    "TransformerLens": """
from transformer_lens.model_bridge import TransformerBridge as Bridge
from transformer_lens import patching as patches
model = Bridge.boot_transformers(folder, device="cpu", dtype=torch.float32)
""",
    "by hand": """
from safetensors.torch import load_file
file = load_file(f"{folder}/model.safetensors")
def heads(name, rows):
    w = torch.stack([file[f"gpt_neox.layers.{i}.attention.{name}.weight"] for i in range(12)])
    return w.reshape(12, 12, -1, 768) if rows else w.reshape(12, 768, 12, 64)
qkv = heads("query_key_value", True)
W_Q, W_K, W_V = (qkv[:, :, k * 64:(k + 1) * 64].transpose(-1, -2) for k in range(3))
W_O = heads("dense", False).permute(0, 2, 3, 1)
W_E, W_U = file["gpt_neox.embed_in.weight"], file["embed_out.weight"]
""",
}
JOBS = {
    "transformers": """
def forward():
    return net(torch.as_tensor(ids)).logits[0, -1]
""",
    "Viète": """
def forward():
    return model.run(ids, names=["logits"])["logits"][0, -1]
def direct():
    run = model.run(ids, names=["logits", "A^{i,h}", "V^{i,h}", "x^N"])
    best = run["logits"][0].topk(10).indices
    added = "⟨c(A^{i,h}_j V^{i,h} W_O^{i,h}), γ ⊙ U_{best_{j,k}}⟩ / scale_j"
    return run.ask(added, best=best)[0].abs().sum((0, 1))
def lens():
    return model.run(ids, names=["x^i"])["argmax(logits(x^i))"][0, 1:]
def composition():
    return later(model.run([0], names=[])[asked["Q-composition"]].squeeze())
def copying():
    return model.run([0], names=[])[asked["copying"]].squeeze()
def patching():
    run, clean = (model.run(x[:, :32], names=["logits"]) for x in (ids, other))
    return run.ask("logits_{-1, 5} with x^i_j = x'^i_j", against=clean).squeeze()[:12]
""",
    "TransformerLens": """
def forward():
    return model(torch.as_tensor(ids))[0, -1]
def direct():
    logits, cache = model.run_with_cache(torch.as_tensor(ids))
    best = logits[0].topk(10).indices
    heads = cache.stack_head_results(layer=-1)
    scaled = cache.apply_ln_to_stack(heads, layer=-1)[:, 0] * model.ln_final.weight
    return torch.einsum("cnd,dnk->cnk", scaled, model.W_U[:, best]).abs().sum(0)
def lens():
    _, cache = model.run_with_cache(torch.as_tensor(ids))
    stream = cache.accumulated_resid(layer=-1, incl_mid=False, apply_ln=True)[1:, 0]
    return torch.stack([(s @ model.W_U).argmax(-1) for s in stream])
def composition():
    found = model.all_composition_scores("Q")
    return getattr(found, "scores", found)
def copying():
    both = model.W_U @ model.W_E
    return torch.stack([torch.stack([(both @ model.OV[i, h].AB).trace() for h in range(12)])
                        for i in range(12)])
def patching():
    _, clean = model.run_with_cache(torch.as_tensor(other[:, :32]))
    return patches.get_act_patch_resid_pre(
        model, torch.as_tensor(ids[:, :32]), clean, lambda logits: logits[0, -1, 5])
""",
    "by hand": """
def composition():
    R = torch.einsum("ihad,jgdb->ihjgab", W_O, W_Q)
    V, K = W_V.transpose(-1, -2) @ W_V, W_K.transpose(-1, -2) @ W_K
    both = torch.einsum("ihac,ihjgcb,jgbe,ihjgae->ihjg", V, R, K, R)
    O, Q = W_O @ W_O.transpose(-1, -2), W_Q.transpose(-1, -2) @ W_Q
    return later(torch.sqrt(both / (torch.einsum("ihab,ihba->ih", V, O)[:, :, None, None]
                                    * torch.einsum("ihab,ihba->ih", Q, K))))
def copying():
    return torch.einsum("ihad,ihda->ih", W_O @ (W_U.T @ W_E), W_V)
""",
}
PEER = {"direct": "transformers", "lens": "TransformerLens", "composition": "by hand",
        "copying": "by hand", "patching": "TransformerLens"}  # fmt: skip


class Contender:
    """A process that has opened the model and answers questions when it is asked."""

    def __init__(self, name: str, python: str, given: argparse.Namespace, out: str) -> None:
        code = WORKER.format(threads=given.threads, folder=str(given.folder), out=out,
                             tokens=given.tokens, clock=given.clock, opening=OPENING[name],
                             jobs=JOBS[name])  # fmt: skip
        self.out = out
        self.process = subprocess.Popen(
            [python, "-W", "ignore", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.opened = self.answer()

    def answer(self) -> Any:
        """What the process prints next that is data."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(("[", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")):
                return json.loads(line)
        raise SystemExit("a contender has ended; run its code by hand to see why")

    def ask(self, job: str) -> tuple[float, int]:
        """Seconds and bytes of one answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(job + "\n")
        self.process.stdin.flush()
        seconds, most = self.answer()
        return seconds, most

    def result(self, job: str) -> np.ndarray:
        """What it last answered."""
        return np.load(f"{self.out}-{job}.npy")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--lens", help="a Python with transformer_lens 4 in it")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--clock",
        choices=("perf_counter", "process_time"),
        default="perf_counter",
        help="process_time, with one thread, where other work disturbs",
    )
    parser.add_argument("--only", nargs="*", default=[*PEER, "cold"])
    given = parser.parse_args()
    for name in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{name}_NUM_THREADS"] = str(given.threads)
    pythons = dict.fromkeys(OPENING, sys.executable)
    if given.lens:
        pythons["TransformerLens"] = given.lens
    else:
        del pythons["TransformerLens"]
    with tempfile.TemporaryDirectory() as home:
        there = {name: Contender(name, python, given, f"{home}/{k}")
                 for k, (name, python) in enumerate(pythons.items())}  # fmt: skip
        for job in ("forward", *PEER):
            if job in ("forward", *given.only):
                measured(job, there, given.rounds)
        for one in there.values():
            one.process.terminate()
    if "cold" in given.only:
        cold(given)


def measured(job: str, there: dict[str, Contender], rounds: int) -> None:
    """One question to all that have an answer, in turns; the first of each does not count."""
    able = {name: c for name, c in there.items() if f"def {job}(" in JOBS[name]}
    base = there["transformers"]
    rows: dict[str, list[tuple[float, int]]] = {name: [] for name in able}
    plain = []
    for _ in range(rounds + 1):
        plain.append(base.ask("forward"))
        for name, contender in able.items():
            rows[name].append(contender.ask(job))
    print(f"\n{job}", flush=True)
    for name in able:
        times = [s for s, _ in rows[name][1:]]
        ratios = [a / b for (a, _), (b, _) in zip(rows[name][1:], plain[1:], strict=True)]
        ours = statistics.median(
            a / b for (a, _), (b, _) in zip(rows["Viète"][1:], rows[name][1:], strict=True)
        ) if "Viète" in able else float("nan")  # fmt: skip
        memory = rows[name][1][1] / max(plain[1][1], 1)
        print(f"  {name:16} {statistics.median(times):8.3f} s   / forward "
              f"{statistics.median(ratios):6.2f}   memory / forward {memory:6.2f}   "
              f"Viète / this {ours:6.3f}", flush=True)  # fmt: skip
    if "Viète" in able:
        a = able["Viète"].result(job)
        for name in able.keys() - {"Viète"}:
            b = able[name].result(job)
            same = a.shape == b.shape and np.isfinite(a).all()
            apart = np.abs(a - b).max() / np.abs(b).max() if same else float("nan")
            print(f"  differs from {name}: {apart:.1e} of the greatest {a.shape} {b.shape}")


def cold(given: argparse.Namespace) -> None:
    """From the start of a process to its first answer."""
    tokens = "3,1,4,1,5,9,2,6"
    ours = [sys.executable, "-m", "viete", "ask", str(given.folder), "-t", tokens, "logits_{-1, 5}"]
    jobs = {"Viète": ours}
    if given.lens:
        jobs["TransformerLens"] = [given.lens, "-W", "ignore", "-c", (
            "import torch\nfrom transformer_lens.model_bridge import TransformerBridge as B\n"
            f"m = B.boot_transformers({str(given.folder)!r}, device='cpu', dtype=torch.float32)\n"
            f"print(m(torch.tensor([[{tokens}]]))[0, -1, 5])"
        )]  # fmt: skip
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(given.rounds):
        for name, command in jobs.items():
            began = spent(given.clock)
            subprocess.run(command, check=True, capture_output=True)
            times[name].append(spent(given.clock) - began)
    print("\ncold")
    for name, found in times.items():
        ratio = statistics.median(a / b for a, b in zip(times["Viète"], found, strict=True))
        print(f"  {name:16} {statistics.median(found):8.3f} s   Viète / this {ratio:6.3f}")


def spent(clock: str) -> float:
    """Seconds by a clock; of the processor those of processes that have ended."""
    if clock == "perf_counter":
        return time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
