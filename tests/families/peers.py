"""Random networks of `transformers` in any configuration, and a loaded card held against them.

`transformers` writes the folder; what Viète opens is what any user would have. Logits, the stream
before every block and every attention pattern are compared, the tensors are written back, and the
numbers of parameters counted.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import viete as vt  # noqa: E402
from viete.analysis.cost import costs  # noqa: E402
from viete.model.expected import expected_tensors  # noqa: E402
from viete.model.mapping import match, to_checkpoint  # noqa: E402

VOCABULARY = 29


@dataclass(frozen=True)
class Case:
    """One configuration of a class of `transformers`: ``LlamaForCausalLM``."""

    kind: str
    settings: dict[str, Any] = field(default_factory=dict)
    length: int = 7

    def __str__(self) -> str:
        said = [f"{k}={v}" for k, v in self.settings.items()]
        return " ".join([self.kind, *said, *([f"n={self.length}"] if self.length != 7 else [])])


class Doubled:
    """`torch`, except that float32 is float64.

    `transformers` computes rotary angles, some softmaxes and RMSNorm in float32 even in a float64
    model. Given this in place of torch, the very same code does them in float64.
    """

    float32 = float = torch.float64

    @staticmethod
    def tensor(data: Any, dtype: Any = None, **options: Any) -> Any:
        """With the greater dtype where none is given: a Python number is kept as it is."""
        dtype = torch.float64 if dtype is None and isinstance(data, float) else dtype
        return torch.tensor(data, dtype=dtype, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


@contextmanager
def doubled(cls: type) -> Iterator[None]:
    """The code of a class of `transformers`, in float64."""
    with ExitStack() as stack:
        for name in (cls.__module__, "transformers.modeling_rope_utils"):
            stack.enter_context(patch.object(importlib.import_module(name), "torch", Doubled()))
        stack.enter_context(patch.object(torch.Tensor, "float", torch.Tensor.double))
        stack.callback(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(torch.float64)  # of a quotient of whole numbers
        yield


def network(case: Case, small: dict[str, Any], dtype: Any = torch.float64) -> Any:
    """The peer with every weight random, biases and norms too."""
    cls = getattr(transformers, case.kind)
    settings = copy.deepcopy({"vocab_size": VOCABULARY, **small, **case.settings})
    config = cls.config_class(
        **settings, attn_implementation="eager", experts_implementation="eager"
    )
    with doubled(cls) if dtype == torch.float64 else nullcontext():
        net = cls(config).to(dtype).eval()
    generator = torch.Generator().manual_seed(7)
    for name, p in net.named_parameters():
        around = 1.0 if p.ndim == 1 and name.endswith("weight") else 0.0  # a norm's scale
        with torch.no_grad():
            p.copy_(around + 0.4 * torch.randn(p.shape, generator=generator, dtype=torch.float64))
    return net


def tokens_of(case: Case) -> np.ndarray:
    rng = np.random.default_rng(11)
    return rng.integers(1, VOCABULARY, (2 + len(case.settings) % 2, case.length))


def relative(ours: Any, theirs: Any) -> float:
    """The greatest difference, as a share of the greatest entry."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    return float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))


# A peer's values by the names that they have here, and the inputs besides the tokens.
Peer = Callable[[Any, np.ndarray], tuple[dict[str, Any], dict[str, Any]]]


def by_block(stream: str, states: Any, pattern: str, attentions: Any) -> dict[str, Any]:
    """``resid_pre^1``, ``A^1``, …: of what `transformers` gives as tuples, one for each block."""
    blocks = range(len(attentions))
    out = {f"{stream}^{i + 1}": states[i] for i in blocks}
    return out | {f"{pattern}^{i + 1}": attentions[i] for i in blocks}


def decoder(net: Any, tokens: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """Logits, streams and attention patterns."""
    out = net(torch.as_tensor(tokens), output_hidden_states=True, output_attentions=True)
    return {"logits": out.logits,
            **by_block("resid_pre", out.hidden_states, "A", out.attentions)}, {}  # fmt: skip


def differences(
    net: Any, folder: Path, tokens: np.ndarray, peer: Peer = decoder
) -> dict[str, float]:
    """Relative errors of everything that a peer gives."""
    with torch.no_grad():
        theirs, inputs = peer(net, tokens)
    model = vt.load(folder)
    ours = model.run(tokens, **inputs)
    out = {}
    for name, value in theirs.items():
        base, _, block = name.partition("^")
        for e in model.card.equations:  # of a pattern, one for every head: A^1 is A^{1,h}
            if e.name.startswith(f"{base}^{{") and block:
                name = f"{base}^{{{','.join([block, *e.left.symbol.slots[1:]])}}}"
        out[name] = relative(np.asarray(ours[name]).reshape(value.shape), value)
    return out


def check(
    case: Case, small: dict[str, Any], tmp_path: Path, peer: Peer = decoder, spare: int = 0,
    rounding: float = 5e-5,
) -> None:  # fmt: skip
    """All that holds of a model in one configuration; ``spare`` parameters do nothing."""
    net, tokens = network(case, small), tokens_of(case)
    net.save_pretrained(tmp_path / "64")
    with doubled(type(net)):
        found = differences(net, tmp_path / "64", tokens, peer)
    assert not {k: x for k, x in found.items() if not x <= 1e-10}
    single = network(case, small, torch.float32)
    single.save_pretrained(tmp_path / "32")
    found = differences(single, tmp_path / "32", tokens, peer)
    assert not {k: x for k, x in found.items() if not x <= rounding}
    model = vt.load(tmp_path / "32")
    count = sum(p.numel() for p in single.parameters()) - spare
    assert costs(model.card).parameters.total.number == count
    written = to_checkpoint(model.card, model.weights)
    saved = model.tensors
    at = {id(e): name for name, e in match(model.card, saved).fits.items()}  # without a prefix
    for name, e in expected_tensors(model.card).items():
        np.testing.assert_array_equal(written[name], saved.load(at[id(e)]))


def holds(folder: Path, tokens: np.ndarray) -> None:
    """Every claim of a loaded card, for every block."""
    model = vt.load(folder)
    run = model.run(tokens)
    blocks = int(model.card.sizes["N"])
    from viete.notation.printer import show
    from viete.notation.tree import Apply

    assert model.card.claims
    for claim in model.card.claims:
        assert isinstance(claim.statement, Apply)
        assert claim.statement.op == "eq"
        for i in range(1, blocks + 1):
            left, right = (np.asarray(run[show(put(side, i))]) for side in claim.statement.args)
            assert relative(left, right) <= 1e-10


def put(e: Any, i: int, letter: str = "i") -> Any:
    from viete.notation.substitution import substitute
    from viete.notation.tree import num

    return substitute(e, letters={letter: num(i)})


def family_tests(
    cases: Sequence[Case], small: dict[str, Any], claims: Sequence[int], peer: Peer = decoder,
) -> tuple[Callable[..., None], Callable[..., None]]:  # fmt: skip
    """What holds of every family: its cases against `transformers`, and the claims of some."""

    @pytest.mark.parametrize("case", cases, ids=str)
    def test_against_transformers(case: Case, tmp_path: Path) -> None:
        check(case, small, tmp_path, peer)

    @pytest.mark.parametrize("case", [cases[k] for k in claims], ids=str)
    def test_claims(case: Case, tmp_path: Path) -> None:
        network(case, small).save_pretrained(tmp_path)
        holds(tmp_path, tokens_of(case))

    return test_against_transformers, test_claims
