"""Every verb of a card is a verb of a model, which brings its weights along."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from viete.evaluate.schedule import program

TOKENS = [3, 1, 4, 1, 5]
LOSS = "<logits_0, logits_0>"
SHIPPED = vt.read("gpt2").bind(V=11, d=8, N=2, H=2, d_f=8, n_max=16)
# What a model is asked, and how the same is asked of a card with weights w.
VERBS: dict[str, Any] = {
    "run": lambda m, *w: m.run(TOKENS, *w)["logits"],
    "grad": lambda m, *w: m.grad(LOSS).run(TOKENS, *w)["∂b_O^1"],
    "grad of the next token": lambda m, *w: m.grad().run(TOKENS, *w, target=TOKENS)["∂b_O^1"],
    "incremental": lambda m, *w: m.incremental().write(),
    "padded": lambda m, *w: m.padded().run([TOKENS], *w, a=[[1, 1, 1, 0, 0]])["logits"][0, :3],
    "bind": lambda m, *w: m.bind(epsilon=1e-3).run(TOKENS, *w)["logits"],
    "write": lambda m, *w: m.write("json"),
    "export": lambda m, *w: m.export("numpy"),
    "cost": lambda m, *w: m.cost.parameters.total,
    "shapes": lambda m, *w: m.shapes.types,
    "parameter_shapes": lambda m, *w: m.parameter_shapes,
    "exact_weights": lambda m, *w: m.exact_weights,
    "initial_weights": lambda m, *w: m.initial_weights(5)["W_E"],
    "with_weights": lambda m, *w: m.with_weights(seed=1).run(TOKENS)["logits"],
    "sample": lambda m, *w: list(m.sample(TOKENS, *w, most=4, greedy=True)),
    "planned": lambda m, *w: m.planned(*w, of=LOSS)(TOKENS),
    "planned for the next token": lambda m, *w: m.planned(*w)(TOKENS, target=TOKENS),
    "to_torch": lambda m, *w: pytest.importorskip("torch") and sorted(m.to_torch(*w).state_dict()),
    "check": lambda m, *w: m.check(*w).ok,
    "put": lambda m, *w: m.put("A^{2,1} = 0").run(TOKENS, *w)["logits"],
    "cut": lambda m, *w: m.cut("scale").run(TOKENS, *w, scale=np.ones((5, 1)))["logits"],
    "page": lambda m, *w: len(m.page()) > 20,
    "draw": lambda m, *w: m.draw().svg,
    "folded": lambda m, *w: m.folded().write(),
}


def loaded(folder: Path) -> vt.Model:
    """A checkpoint with random numbers, opened."""
    SHIPPED.save(folder, SHIPPED.initial_weights(seed=1, dtype="float64"))
    return vt.load(folder)


@pytest.fixture(scope="module", params=["drawn", "given", "a file", "loaded"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> vt.Model:
    if request.param == "drawn":
        return SHIPPED.with_weights(seed=1)
    if request.param == "given":
        return SHIPPED.with_weights(SHIPPED.initial_weights(seed=1))
    made = loaded(tmp_path_factory.mktemp("model") / "folder")
    return made if request.param == "loaded" else SHIPPED.with_weights(made.path)


def same(a: Any, b: Any) -> bool:
    if hasattr(a, "shape"):
        return bool(np.allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-12))
    return bool(a == b)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_model_does_what_its_card_does(verb: str, model: vt.Model) -> None:
    assert same(VERBS[verb](model), VERBS[verb](model.card, model.weights))


def test_a_saved_one(model: vt.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "one")
    model.card.save(tmp_path / "two", model.weights)
    one, two = vt.load(tmp_path / "one"), vt.load(tmp_path / "two")
    assert one.card == two.card == model.card
    assert all(np.array_equal(one.weights[n], two.weights[n]) for n in two.weights)


def public(kind: type) -> dict[str, Any]:
    return {n: inspect.getattr_static(kind, n) for n in dir(kind) if not n.startswith("_")}


def test_the_table_is_complete_and_signatures_differ_by_weights_alone() -> None:
    """The verbs of a card are the methods of `Card` and `Verbs`, and what data has of them."""
    from viete.nouns.card import Card
    from viete.nouns.model import Model
    from viete.nouns.verbs import Verbs

    inner = {"content", "over", "after", "keeping", "giving", "words"}
    verbs = {n for kind in (Card, Verbs) for n in vars(kind) if not n.startswith("_")} - inner
    assert verbs | {"bind"} == {v for v in VERBS if " " not in v} | {"save"}
    for name in sorted(verbs - {"run"}):  # a model's run also takes texts
        ours, theirs = public(Card)[name], public(Model)[name]
        if isinstance(ours, property):
            assert isinstance(theirs, property)
            continue
        mine, its = (list(inspect.signature(f).parameters) for f in (ours, theirs))
        if name != "with_weights":
            assert [p for p in mine if p not in ("weights",)] == its, name


def test_what_makes_something_and_the_nouns_are_all() -> None:
    assert set(vt.__all__) == {
        "Card", "Model", "VieteError", "__version__", "from_transformers", "load", "read",
    }  # fmt: skip
    assert all(getattr(vt, name).__doc__ for name in vt.__all__)
    with pytest.raises(AttributeError, match="no attribute 'grad'"):
        vt.grad  # noqa: B018


def test_chains_keep_weights_and_kind(model: vt.Model) -> None:
    chain = model.folded(center_unembed=False).padded().grad(LOSS)
    assert type(chain) is vt.Model and type(chain.card) is vt.Card
    run = chain.run([TOKENS])
    assert run["∂W_E"].shape == (1, 11, 8)
    assert np.allclose(run["logits"], model.run([TOKENS])["logits"], atol=1e-9)


def test_every_verb_takes_the_same_loss(model: vt.Model) -> None:
    """A card without a loss has the cross-entropy of its logits, whoever asks for one."""
    graded = model.grad()
    loss = float(graded.run(TOKENS, target=TOKENS)["L"])
    assert np.isclose(model.planned()(TOKENS, target=TOKENS), loss)
    torch = pytest.importorskip("torch")
    ids = torch.tensor([TOKENS])
    assert np.isclose(model.to_torch()(ids, ids)[1].item(), loss)


@pytest.mark.parametrize("of", [None, LOSS])
def test_backward_equations_that_are_there_are_derived_anew(of: str | None) -> None:
    graded = SHIPPED.grad(of)
    assert graded.grad() == graded
    assert graded.grad(by=["W_E"]) == SHIPPED.grad(of, by=["W_E"])
    assert graded.grad(by=["W_E"]).grad() == graded
    for to in ("torch", "numpy", "jax"):
        assert graded.export(to) == graded.grad(by=["W_E"]).export(to)
    for to in ("latex", "typst"):
        assert "Backward pass" in graded.export(to)
        assert len(graded.grad(by=["W_E"]).export(to)) < len(graded.export(to))


@pytest.mark.parametrize("chain", [[], ["folded"], ["padded"]], ids=str)
def test_a_rewriting_carries_the_weights_that_its_card_has(
    chain: list[str], tmp_path: Path
) -> None:
    """The decoder's incremental form has no encoder, and none of its weights."""
    whole = vt.read("t5").bind(V=7, d=4, N_e=1, N=2, H=2, d_k=2, d_f=4).with_weights(seed=1)
    for verb in chain:
        whole = getattr(whole, verb)()
    model = whole.incremental()
    assert model.weights.keys() == model.parameter_shapes.keys() < whole.weights.keys()
    assert vt.load(model.save(tmp_path / "decoder")).card == model.card
    texts = {"seen": [1, 1]} if "padded" in chain else {}
    first = whole.run([3, 1, 4], t=[0, 5], **texts)
    past = {
        name: first[name.replace(",past", "").replace("_past", "")]
        for name in program(model.card).inputs if "^" in name
    }  # fmt: skip
    masks = {"a": [1, 1, 1]} | ({"seen": [1], "seen_past": [1, 1]} if texts else {})
    found = model.run(inputs={"t": [6], **masks, **past})["logits"]
    expected = whole.run([3, 1, 4], t=[0, 5, 6], **({"seen": [1, 1, 1]} if texts else {}))["logits"]
    assert np.allclose(found, expected[2:])


def test_no_rewriting_drops_blocks(model: vt.Model) -> None:
    for blocks in (1, 3):
        for other in (model.padded().bind(N=blocks), model.bind(N=blocks).padded()):
            with pytest.raises(vt.VieteError, match="fit"):
                other.run([TOKENS], a=[[1, 1, 1, 1, 1]])


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_dtype_is_read_alike_for_weights_drawn_and_loaded(
    framework: str, dtype: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    drawn = SHIPPED.with_weights(seed=1, framework=framework, dtype=dtype)
    model = vt.load(loaded(tmp_path / "model").path, framework=framework, dtype=dtype)
    assert {str(w.dtype) for w in drawn.weights.values()} == {
        str(w.dtype) for w in model.weights.values()
    }
    for make in (SHIPPED.with_weights, lambda **given: vt.load(model.path, **given)):
        with pytest.raises(vt.VieteError, match="weights cannot have dtype 'int8'"):
            make(framework=framework, dtype="int8")


@pytest.mark.parametrize("source", [None, 3, ["gpt2"]])
def test_what_is_no_model_is_said_in_one_sentence(source: Any) -> None:
    with pytest.raises(vt.VieteError, match="a model must be a folder, a file, an id of the hub"):
        vt.load(source)


def test_cards_are_equal_by_what_they_say_and_rewritten_once() -> None:
    again = vt.read(SHIPPED.write())
    assert again == SHIPPED and hash(again) == hash(SHIPPED) and type(again) is vt.Card
    assert SHIPPED.bind(n_max=8) != SHIPPED
    assert vt.read("gpt2") is vt.read("gpt2")
    assert SHIPPED.grad(LOSS) is SHIPPED.grad(LOSS)
    assert SHIPPED.incremental() is SHIPPED.incremental()


def test_exact_weights_make_a_model() -> None:
    card = vt.read("exact-lesson")
    model = card.with_weights(card.exact_weights)
    assert model.run([0, 1], meaning="exact")["sum(A)"][1, 0] == 1
    for float_run in (model.run, model.lens):
        with pytest.raises(vt.VieteError, match="run with meaning='exact'"):
            float_run([0, 1])


def test_a_hook_holds_in_an_exact_run() -> None:
    card = vt.read("exact-lesson")
    model = card.with_weights(card.exact_weights)
    model.lens.add_hook("A", lambda value, hook: 2 * value)
    plain = card.run([0, 1], card.exact_weights, meaning="exact")
    assert (model.run([0, 1], meaning="exact")["a"] == 2 * plain["a"]).all()


SMALL = vt.read("gpt2").bind(V=5, d=2, N=1, H=1, d_f=2, n_max=4)


def plain(found: Any) -> np.ndarray:
    """Numbers of any meaning as floats; of an interval its middle."""
    if found.dtype.names:
        return np.asarray((found["lower"] + found["upper"]) / 2)
    if found.dtype == object:
        flat = [float(x.decimal(20)) for x in found.flat]
        return np.array(flat).reshape(found.shape)
    return np.asarray(found)


def zero(value: Any, hook: Any = None) -> np.ndarray:
    return np.zeros(value.shape)


@pytest.mark.parametrize("meaning", ["float", "exact", "interval"])
@pytest.mark.parametrize("tokens", [[1, 2], [[1, 2], [3, 0]]], ids=["one text", "a batch"])
def test_hooks_values_put_and_padding_hold_for_every_kind_of_run(meaning: str, tokens: Any) -> None:
    """Law 4: ``put`` equals the hook that does the same, in every meaning, with padding or not."""
    model = SMALL.with_weights(seed=3)
    mask = np.ones_like(tokens)
    mask[..., 0] = 0
    for kind, more in ((model, {}), (model.padded(), {"a": mask})):
        put = kind.run(tokens, put={"A^{1,h}": zero}, **more)["logits"]
        untouched = kind.run(tokens, **more)["logits"]
        assert not np.allclose(put, untouched)
        found = kind.run(tokens, put={"A^{1,h}": zero}, meaning=meaning, **more)
        assert np.allclose(plain(found["logits"]), put)
        with kind.lens.hooks([("blocks.0.attn.hook_pattern", zero)]):
            assert np.allclose(plain(kind.run(tokens, meaning=meaning, **more)["logits"]), put)
        with kind.lens.hooks([("A^{1,h}", zero)]):
            assert np.allclose(plain(kind.run(tokens, meaning=meaning, **more)["logits"]), put)
        with kind.lens.hooks([("blocks.0.attn.hook_pattern", lambda value, hook: None)]):
            assert np.allclose(
                plain(kind.run(tokens, meaning=meaning, **more)["logits"]), untouched
            )
