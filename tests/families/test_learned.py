"""A family's card through all hands: trained, written, opened by `transformers`, trained on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete

SMALL = {"d": 16, "N": 2, "H": 2, "G": 1, "d_f": 24}
CARDS = ["gpt2", "gpt-neo", "llama", "pythia", "gpt-j", "opt", "bloom", "mistral", "mixtral",
         "gemma", "gemma2", "qwen2", "qwen3", "phi", "olmo", "olmo2"]  # fmt: skip
TEXT = "a rose is a rose is a rose. " * 12


def first_loss(run: Path) -> float:
    """The loss of a run's first batch, before any change of its weights."""
    return float(json.loads((run / "metrics.jsonl").read_text().splitlines()[0])["loss"])


@pytest.mark.slow
@pytest.mark.parametrize("name", CARDS)
def test_trained_exported_opened_and_trained_on(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    (tmp_path / "a.txt").write_text(TEXT)
    free = {d.name for d in vt.read(name).dims if d.config and d.value is not None}
    sets = [x for k, v in SMALL.items() if k in free for x in ("--set", f"{k}={v}")]
    data = ["--data", tmp_path / "a.txt", "--length", 12, "--validation", 0, "--batch", 2,
            "--log-every", 1]  # fmt: skip
    run, folder, on, again = (tmp_path / x for x in ("run", "hf", "on", "again"))
    viete("train", name, *sets, *data, "-o", run, "--steps", 1)
    viete("export", run, "--to", "hf", "-o", folder)
    net, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager"
    )
    assert not any(report[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids = np.random.default_rng(0).integers(0, 8, (2, 9))
    with torch.no_grad():
        theirs = net.eval()(torch.as_tensor(ids)).logits.double().numpy()
    ours = vt.load(run).run(ids)["logits"]
    assert np.abs(theirs - ours).max() < 1e-5 * np.abs(ours).max()
    # Trained on, it is the same model: learned weights, and an optimiser that knows nothing yet.
    said = viete("train", folder, *data, "-o", on, "--steps", 1).out
    assert f"{folder}: a new run from its weights, with a fresh optimiser" in said
    assert first_loss(on) != first_loss(run)
    if name == "llama":  # on the run's side no family differs from another
        said = viete("train", run, *data, "-o", again, "--steps", 1).out
        assert f"{run}: a new run from its weights at step 1, with a fresh optimiser" in said
        assert first_loss(again) == first_loss(on)
        vt.load(run).save(tmp_path / "beside.md")  # a card with its weights beside it
        viete("train", tmp_path / "beside.md", *data, "-o", tmp_path / "last", "--steps", 1)
        assert first_loss(tmp_path / "last") == first_loss(on)
