"""The demonstrations of TransformerLens, cell by cell, run by it and by Viète on one model.

    pip download --no-binary :all: --no-deps transformer_lens==3.9.0
    tar xf transformer_lens-3.9.0.tar.gz
    python -m benchmarks.lens_demos transformer_lens-3.9.0/demos    # with "transformer_lens<4"

After every cell, whatever both have by one name (arrays, numbers, texts) is compared, and what both
would have plotted. Of the cells nothing is kept here; `REPLACED` says what is changed in them, and
`LEFT_OUT` which are not run, and why. The model is a GPT-2 of 12 blocks of 12 heads, its tokens are
those of the cells' own text. It is trained here, in minutes, to name the indirect object of
sentences such as those of the cells, and to go on with what is repeated, so that it has what the
cells look for; `--steps 0` leaves its weights random.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers

import viete as vt

DEMOS = ("Exploratory_Analysis_Demo", "Main_Demo", "Activation_Patching_in_TL_Demo",
         "Attribution_Patching_Demo")  # fmt: skip
# What a pattern fits in a cell, and what stands there instead: in both, and in ours.
REPLACED = {
    r"\w+\.boot_transformers\([^)]*\)": "MODEL()",  # the model of this file
    r"refactor_factored_attn_matrices=True": "refactor_factored_attn_matrices=False",
    r"randint\(\s*(1000, 10000|100, 20000|100, 10000)": "randint(10, 300",  # its vocabulary
    r"os.getenv\(.GITHUB_ACTIONS.\) == .true.": "True",  # their own switch: without long sweeps
    r"IN_GITHUB = False": "IN_GITHUB = True",
    r"import tqdm\.\w+ as tqdm": "tqdm = TQDM",
    r"^%.*$|^import datasets$": "",
}
OURS = {
    r"\w+\.enable_compatibility_mode\([^)]*\)": "pass",  # MODEL() is folded
    r"import transformer_lens\.utilities as utils": "from viete.model import utilities as utils",
    r"import transformer_lens\.patching as patching": "from viete.model import patching",
    r"from transformer_lens import \(\s*ActivationCache,\s*\)":
        "from viete.model.cache import ActivationCache",
    r"from transformer_lens import ActivationCache":
        "from viete.model.cache import ActivationCache",
    r"from transformer_lens import FactoredMatrix, HookedTransformer":
        "from viete.evaluate.factored import FactoredMatrix",
    r"from transformer_lens\.hook_points import \(\s*HookPoint,[^)]*\)":
        "from viete.model.hook_points import HookPoint",
    r"from transformer_lens\.model_bridge import TransformerBridge|^import transformer_lens$": "",
}  # fmt: skip
# What the model is trained on; names and things are those of the cells, so that they are tokens.
NAMES = "John Mary Tom James Dan Sid Martin Amy".split()
PLACES = ("shops", "park")
THINGS = ("the bag", "the ball", "an apple", "a drink", "the drink")
LEFT_OUT = {
    "google.colab": "installs packages",
    "HookedRootModule": "a network of one's own with hooks: here that is a card (docs)",
    "out, cache = model.run_with_cache(torch.tensor(5.0))": "the same network",
    "layer2.hook_square": "the same network",
    "get_checkpoint_labels": "downloads: the labels of their checkpoints",
    "evals.induction_loss": "downloads: checkpoints of a model of theirs",
    "checkpoint_indices": "downloads: checkpoints of a model of theirs",
    "tokens_trained_on": "what these would have given",
    "attn-only-2l": "downloads: a model of theirs",
    "attn_only": "the model of theirs",
    "tokens_induction": "the model of theirs",
    "def induction_loss(": "the model of theirs",
}


class Plots(ModuleType):
    """A module of which every function takes what it is given, to compare, and shows nothing."""

    seen: list[Any] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Plots(name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        Plots.seen += [a for a in (*args, options.get("attention")) if hasattr(a, "shape")]
        return Plots("shown")

    def __add__(self, other: Any) -> str:
        return ""

    __radd__ = __add__


def cells(demos: Path, name: str) -> Iterator[tuple[int, str]]:
    """The code cells of a notebook, numbered."""
    found = json.loads((demos / f"{name}.ipynb").read_text("utf-8"))["cells"]
    for k, cell in enumerate(found):
        if cell["cell_type"] == "code":
            yield k, "".join(cell["source"])


def replaced(source: str, ours: bool) -> str:
    for pattern, by in {**REPLACED, **(OURS if ours else {})}.items():
        source = re.sub(pattern, by, source, flags=re.MULTILINE)
    return source


def batch(fast: Any, size: int, draw: np.random.Generator) -> torch.Tensor:
    """Most of it sentences that end in the name that was given something, else repetitions."""
    texts = []
    for _ in range(size * 3 // 4):
        giver, taker = draw.choice(NAMES, 2, replace=False)
        pair = [giver, taker][:: draw.choice([1, -1])]
        where = f"{draw.choice(['When', 'After'])} {pair[0]} and {pair[1]} went to the"
        given = f"{giver} gave {draw.choice(THINGS)} to {taker}"
        texts.append(f"{where} {draw.choice(PLACES)}, {given}")
    rows = [[fast.bos_token_id, *fast(text)["input_ids"]][:32] for text in texts]
    for _ in range(size - len(rows)):
        period = int(draw.integers(3, 12))
        some = draw.integers(10, 300, period).tolist()
        rows.append([fast.bos_token_id, *(some * 11)][:32])
    return torch.tensor([row + [-100] * (32 - len(row)) for row in rows])


def train(net: Any, fast: Any, steps: int) -> None:
    """Train a network in place."""
    draw = np.random.default_rng(0)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    net.float().train()
    for step in range(steps):
        rows = batch(fast, 32, draw)
        loss = net(rows.clamp(min=0), labels=rows).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == steps - 1:
            print(f"  training, step {step}: loss {loss:.3f}", file=sys.stderr, flush=True)
    net.double().eval()
    rows = batch(fast, 200, draw)[:100]
    ends, each = (rows >= 0).sum(1) - 1, torch.arange(100)
    with torch.no_grad():
        found = net(rows.clamp(min=0)).logits[each, ends - 1].argmax(-1)
    right = int((found == rows[each, ends]).sum())
    print(f"the model names the right one in {right} of 100 sentences", flush=True)


def written(demos: Path, folder: Path, layers: int, steps: int) -> None:
    """The model, with a tokenizer of the words in the cells."""
    known = tokenizers.Tokenizer(tokenizers.models.BPE())
    known.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    known.decoder = tokenizers.decoders.ByteLevel()
    texts = [source for name in DEMOS for _, source in cells(demos, name)] * 2
    end = "<|endoftext|>"
    known.train_from_iterator(texts, tokenizers.trainers.BpeTrainer(
        vocab_size=6000, special_tokens=[end],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
    ))  # fmt: skip
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=known, bos_token=end, eos_token=end, pad_token=end
    )
    torch.manual_seed(0)
    net = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=96, n_layer=layers, n_head=12, n_positions=1024, vocab_size=len(fast),
    )).double().eval()  # fmt: skip
    if steps:
        train(net, fast, steps)
    else:
        with torch.no_grad():
            for p in net.parameters():
                p.add_(0.1 * torch.randn_like(p))
    net.save_pretrained(folder)
    fast.save_pretrained(folder)


def arrays(value: Any) -> list[np.ndarray]:
    """The numbers in what a cell has made."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        return [value.numpy()]
    if isinstance(value, np.ndarray) and value.dtype.kind in "fciub":
        return [value]
    if isinstance(value, bool | int | float):
        return [np.array(value)]
    if isinstance(value, list | tuple):
        return [a for x in value for a in arrays(x)]
    return []


def differ(a: np.ndarray, b: np.ndarray) -> float:
    """The greatest difference, as a share of the greatest entry."""
    if a.shape != b.shape:
        return float("inf")
    if not a.size:
        return 0.0
    a, b = a.astype(complex), b.astype(complex)
    return float(np.max(np.abs(a - b)) / max(float(np.max(np.abs(b))), 1e-3))


def run(source: str, space: dict[str, Any]) -> tuple[str, list[Any]]:
    """What a cell prints and would have plotted."""
    printed = io.StringIO()
    Plots.seen = []
    torch.manual_seed(0)
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "<cell>", "exec"), space)
    return printed.getvalue(), Plots.seen


def compared(ours: dict[str, Any], theirs: dict[str, Any], plots: Any) -> tuple[int, float, str]:
    """How many arrays were compared, the greatest difference, and where."""
    pairs = [(k, ours[k], theirs[k]) for k in theirs if k in ours and not k.startswith("_")]
    pairs += [("a plot", *pair) for pair in zip(*plots, strict=True)]
    count, worst, where = 0, 0.0, ""
    for name, a, b in pairs:
        mine, other = arrays(a), arrays(b)
        if len(mine) != len(other):
            return count, float("inf"), name
        for x, y in zip(mine, other, strict=True):
            count += 1
            if (d := differ(x, y)) > worst:
                worst, where = d, name
    return count, worst, where


def demo(demos: Path, name: str, folder: Path) -> bool:
    """Run one, and print what came of each cell."""
    from transformer_lens.model_bridge import TransformerBridge

    def bridge() -> Any:
        return TransformerBridge.boot_transformers(str(folder), dtype=torch.float64)

    common = {"__name__": "cell", "display": Plots("display"), "TQDM": Plots("tqdm")}
    common |= {
        "IN_COLAB": False,
        "IN_GITHUB": True,
        "DEBUG_MODE": False,
        "DEVELOPMENT_MODE": False,
    }  # of the cell left out
    common["TQDM"].__dict__["tqdm"] = lambda things: things
    theirs: dict[str, Any] = {**common, "MODEL": bridge}
    ours: dict[str, Any] = {
        **common, "MODEL": lambda: vt.load(folder, framework="torch").folded().lens,
    }  # fmt: skip
    good, ran, spent, times = True, 0, [0.0, 0.0], []
    for k, source in cells(demos, name):
        why = next((why for part, why in LEFT_OUT.items() if part in source), None)
        if why is not None:
            print(f"  cell {k:3} left out: {why}")
            continue
        printed, plots, before = [], [], {n: id(v) for n, v in theirs.items()}
        for j, space in enumerate((ours, theirs)):
            start = time.perf_counter()
            try:
                text, shown = run(replaced(source, space is ours), space)
            except Exception as error:
                who = "ours" if space is ours else "theirs"
                print(f"  cell {k:3} {who} failed: {type(error).__name__}: {str(error)[:200]}")
                good = False
                break
            spent[j] += time.perf_counter() - start
            printed.append(text.splitlines())
            plots.append(shown)
        else:
            ran += 1
            new = {n: v for n, v in theirs.items() if id(v) != before.get(n)}
            count, worst, where = compared(ours, new, plots)
            same = sum(a == b for a, b in zip(*printed, strict=False))
            lines = max(map(len, printed))
            if worst > 1e-4 or same < lines:
                print(f"  cell {k:3} {count} arrays, greatest difference {worst:.0e} {where}; "
                      f"{same} of {lines} printed lines are equal")  # fmt: skip
                for a, b in zip(*printed, strict=False):
                    if a != b:
                        print(f"      {a[:110]}\n      {b[:110]}")
                        break
            times.append((count, worst))
    alike = [w for _, w in times if np.isfinite(w)]
    print(f"{name}: {ran} cells run, {sum(c for c, _ in times)} arrays compared, greatest "
          f"difference {max(alike):.0e}, {len(times) - len(alike)} of other shapes; Viète "
          f"{spent[0]:.0f} s, TransformerLens {spent[1]:.0f} s", flush=True)  # fmt: skip
    return good


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("demos", type=Path)
    parser.add_argument("--only", choices=DEMOS)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=1500, help="of training; 0 for random weights")
    given = parser.parse_args()
    import transformer_lens  # noqa: F401  # before what it imports of these is replaced

    for module in ("plotly", "plotly.express", "plotly.io", "circuitsvis", "circuitsvis.attention",
                   "IPython", "IPython.display", "neel_plotly"):  # fmt: skip
        sys.modules[module] = Plots(module)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        written(given.demos, Path(folder), given.layers, given.steps)
        return all([demo(given.demos, name, Path(folder))
                    for name in DEMOS if given.only in (None, name)])  # fmt: skip


if __name__ == "__main__":
    sys.exit(not main())
