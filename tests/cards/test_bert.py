"""BERT's card against transformers' BertModel: the count, and float64 values on random weights."""

from math import prod

import numpy as np
import pytest

from viete.cards.config import bind_config
from viete.cards.library import find
from viete.cards.reader import read
from viete.errors import VieteError
from viete.interpret.run import parameter_shapes, program, run

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
einops = pytest.importorskip("einops")


def card_weights(model, theirs):
    """Their tensors under the card's names, as its checkpoint column says."""
    out = {}
    used = set()
    for name, (p, blocks, shape) in program(model).parameters.items():
        tensor, _, layout = p.checkpoint.partition(" : ")
        tensor = tensor.replace("{i-1}", str(blocks[0] - 1 if blocks else ""))
        used.add(tensor)
        array = theirs[tensor]
        if layout:
            sizes = {"h": shape[0]} if "h" in p.symbol.slots else {}
            array = einops.rearrange(array, layout, **sizes)
        out[name] = np.ascontiguousarray(array)
    assert used == set(theirs)  # every tensor has its place
    return out


@pytest.fixture(scope="module")
def pair():
    config = transformers.BertConfig(
        vocab_size=23, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=20, max_position_embeddings=9, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = transformers.BertModel(config).double().eval()
    for tensor in theirs.parameters():
        torch.nn.init.normal_(tensor, 0.1, 0.4)
    model = read(find("bert")).bind(V=23, d=12, N=2, H=3, d_f=20, n_max=9)
    state = {name: t.detach().numpy() for name, t in theirs.named_parameters()}
    return theirs, model, card_weights(model, state)


def close(found, wanted):
    assert found.shape == wanted.shape
    assert np.max(np.abs(found - wanted)) <= 1e-10 * np.max(np.abs(wanted))


def test_the_published_count():
    assert sum(map(prod, parameter_shapes(read(find("bert"))).values())) == 109_482_240


def test_the_config_keys_say_what_transformers_defaults_say():
    """BertConfig's defaults are BERT-base."""
    model, config = read(find("bert")), transformers.BertConfig()
    named = [d for d in model.dims if d.config]
    assert len(named) == 8
    for d in named:
        assert float(model.sizes[d.name]) == getattr(config, d.config), d.name
    assert bind_config(model, config.to_dict()).sizes == model.sizes
    with pytest.raises(VieteError, match="hidden_act is relu"):
        bind_config(model, transformers.BertConfig(hidden_act="relu").to_dict())


@pytest.mark.parametrize("batch, n", [(1, 1), (2, 5), (3, 9)])
def test_with_padding_and_segments(pair, batch, n):
    theirs, model, weights = pair
    rng = np.random.default_rng(n)
    t = rng.integers(0, 23, (batch, n))
    s = rng.integers(0, 2, (batch, n))
    a = (np.arange(n) < rng.integers(1, n + 1, (batch, 1))).astype(int)
    with torch.no_grad():
        wanted = theirs(
            torch.tensor(t), attention_mask=torch.tensor(a), token_type_ids=torch.tensor(s),
            output_hidden_states=True,
        )  # fmt: skip
    found = run(model, t, weights, s=s, a=a)
    for i, hidden in enumerate(wanted.hidden_states):
        close(found[f"x^{i}"], hidden.numpy())
    close(found["pooled"], wanted.pooler_output.numpy())


def test_defaults_are_one_segment_and_no_padding(pair):
    theirs, model, weights = pair
    t = np.array([4, 7, 1])
    with torch.no_grad():
        wanted = theirs(torch.tensor(t[None]))
    found = run(model, t, weights)
    close(found["x^2"], wanted.last_hidden_state[0].numpy())
    close(found["pooled"], wanted.pooler_output[0].numpy())
