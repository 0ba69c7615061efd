"""Text for a loaded model: the files of `transformers`, the conventions of TransformerLens."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tokenizers = pytest.importorskip("tokenizers")

import viete as vt  # noqa: E402
from tests.model.released import saved  # noqa: E402
from viete.cli.main import main  # noqa: E402
from viete.text.tokenizer import open_tokenizer  # noqa: E402
from viete.text.vocabulary import BytePairs  # noqa: E402

WORDS = "the cat sat on the mat and the dog sat on the log; naïve café 日本\n" * 4
END = "<|endoftext|>"
PAIRS = BytePairs.of([WORDS], 300, [END])
CARD = vt.read("gpt2").bind(V=300, d=8, N=1, H=2, n_max=12)
TEXTS = ["the cat sat", "", " and\nthe  dog", f"one{END}two", "日本 naïve 🙂", "a" * 30]


def model(folder: Path, files: dict[str, Any], **config: Any) -> Path:
    """A released model with these files beside its weights."""
    saved(CARD, folder, CARD.initial_weights(0, "float32"))
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**said, **config}))
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, "utf-8")
    return folder


def two_files() -> dict[str, Any]:
    """GPT-2's files: a vocabulary and merges."""
    said = json.loads(PAIRS.dumps())["model"]
    merges = [" ".join(m) if isinstance(m, list) else m for m in said["merges"]]
    vocabulary = {**said["vocab"], END: PAIRS.tokenizer.token_to_id(END)}
    return {"vocab.json": vocabulary, "merges.txt": "\n".join(["#version: 0.2", *merges])}


def wrapping() -> str:
    """A tokenizer that puts [CLS] and [SEP] around a text, as BERT's does."""
    made = tokenizers.Tokenizer.from_str(PAIRS.dumps())
    made.add_special_tokens(["[CLS]", "[SEP]"])
    ids = [(t, made.token_to_id(t)) for t in ("[CLS]", "[SEP]")]
    made.post_processor = tokenizers.processors.TemplateProcessing("[CLS] $A [SEP]", None, ids)
    return str(made.to_str())


BOS = {"bos_token": END, "eos_token": {"content": END, "lstrip": False}, "pad_token": None}
PLAIN = {"bos_token": END, "eos_token": END}


@pytest.fixture
def loaded(tmp_path: Path) -> Any:
    files = {"tokenizer.json": PAIRS.dumps(), "tokenizer_config.json": BOS}
    return vt.load(model(tmp_path / "m", files))


def test_text_and_back(loaded: Any) -> None:
    end = loaded.tokenizer.eos_token_id
    for text in TEXTS:
        ids = loaded.lens.to_tokens(text, truncate=False)
        assert ids.shape[0] == 1 and ids[0, 0] == end and ids.dtype == np.int64
        assert loaded.lens.to_string(ids[0]) == END + text
        assert loaded.lens.to_string(ids) == [END + text]
        alone = loaded.tokenizer.encode(text)
        assert list(ids[0, 1:]) == list(alone)
        assert "".join(loaded.lens.to_str_tokens("the cat sat")) == END + "the cat sat"
    assert list(loaded.lens.to_tokens("the cat", prepend_bos=False)[0]) == list(
        PAIRS.encode("the cat")
    )
    with pytest.raises(vt.VieteError, match="a text without tokens"):
        loaded.lens.to_tokens("", prepend_bos=False)


def test_several_texts(loaded: Any) -> None:
    ids = loaded.lens.to_tokens(["the cat", "the cat sat on"])
    short = loaded.lens.to_tokens("the cat")[0]
    assert ids.shape[0] == 2 and list(ids[0, : len(short)]) == list(short)
    assert set(ids[0, len(short) :]) == {loaded.tokenizer.eos_token_id}
    lists = loaded.lens.to_str_tokens(["the cat", "dog"], prepend_bos=False)
    assert ["".join(x) for x in lists] == ["the cat", "dog"]
    assert loaded.lens.to_string(ids[:, 1:])[1] == "the cat sat on"
    # A shorter text is not touched by what stands behind it.
    a, b = loaded.run(["the cat", "the cat sat on"])["logits"], loaded.run("the cat")["logits"]
    np.testing.assert_allclose(a[0, : len(short)], b, atol=1e-6)


def test_a_long_text_is_cut_at_the_context(loaded: Any) -> None:
    assert loaded.lens.to_tokens("the cat sat on the mat " * 9).shape == (1, 12)
    assert loaded.lens.to_tokens("the cat sat on the mat " * 9, truncate=False).shape[1] > 12


def test_single_tokens(loaded: Any) -> None:
    cat = loaded.lens.to_single_token(" the")
    assert loaded.lens.to_single_str_token(cat) == " the"
    with pytest.raises(vt.VieteError, match=r"'zzqq' is 4 tokens, not one"):
        loaded.lens.to_single_token("zzqq")
    with pytest.raises(vt.VieteError, match="give one token, not 2"):
        loaded.lens.to_single_str_token([1, 2])
    with pytest.raises(vt.VieteError, match="there is no token 9999"):
        loaded.lens.to_single_str_token(9999)
    text = "the cat sat on the mat"
    tokens = loaded.lens.to_str_tokens(text)
    assert loaded.lens.get_token_position(" the", text) == tokens.index(" the")
    assert (
        loaded.lens.get_token_position(" the", text, prepend_bos=False) == tokens.index(" the") - 1
    )
    assert (
        loaded.lens.get_token_position(" the", loaded.lens.to_tokens(" the the"), mode="last") == 2
    )
    with pytest.raises(vt.VieteError, match="the text has no token"):
        loaded.lens.get_token_position(" dog", text)


def test_one_text_is_one_sequence_and_a_list_a_batch(loaded: Any) -> None:
    ids, text = loaded.lens.to_tokens("the cat"), "the cat"
    one, several = loaded.run(text), loaded.run([text])
    for question in (
        "logits",
        "x^i",
        "A^{i,h}",
        "|x^1_{-1}|",
        "logits_{-1}",
        "∂(logits_{-1,5})/∂x^1",
    ):
        of_ids = loaded.run(ids[0])[question]
        np.testing.assert_array_equal(one[question], of_ids)
        np.testing.assert_array_equal(several[question], loaded.run(ids)[question])
        np.testing.assert_allclose(several[question], of_ids[None], atol=1e-6)
        assert one.axes(question) == several.axes(question)[1:]
        assert several.axes(question)[0] == "batch"
    # What TransformerLens returns has a batch axis there, and here.
    logits, cache = loaded.lens.run_with_cache(text)
    assert logits.shape == loaded.lens(text).shape == (1, *one["logits"].shape)
    assert cache["resid_post", 0].shape == (1, *one["x^1"].shape)
    seen: list[tuple[int, ...]] = []
    with loaded.lens.hooks([("x^1", lambda x, hook: seen.append(x.shape))]):
        assert loaded.run(text)["logits"].shape == one["logits"].shape
    assert seen == [(1, *one["x^1"].shape)]
    assert [*loaded.sample(text, most=2)] == [*loaded.sample(ids, most=2)]
    with pytest.raises(vt.VieteError, match="ids must be whole numbers"):
        loaded.lens.to_string([0.5])


def test_tokens_are_the_models_arrays(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    files = {"tokenizer.json": PAIRS.dumps(), "tokenizer_config.json": BOS}
    there = vt.load(model(tmp_path / "m", files), framework="torch")
    ids = there.lens.to_tokens("the cat")
    assert ids.dtype == torch.int64
    assert there.lens.to_string(ids[0]) == END + "the cat"
    assert there.run("the cat")["logits"].shape == (ids.shape[1], 300)


# -- which tokens stand around a text --------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "config", "first"),
    [
        ({"tokenizer_config.json": BOS}, {}, True),
        ({"special_tokens_map.json": BOS}, {}, True),
        ({}, {"bos_token_id": PAIRS.tokenizer.token_to_id(END)}, True),
        ({}, {"bos_token_id": None}, False),
        ({}, {"bos_token_id": 50256}, False),
        ({"tokenizer_config.json": {"bos_token": None}}, {"bos_token_id": 3}, False),
        ({"tokenizer_config.json": {"bos_token": "<gone>"}}, {"bos_token_id": 3}, False),
        ({"tokenizer_config.json": {"bos_token": 7}}, {}, False),
    ],
)
def test_where_the_first_token_is_said(
    files: dict[str, Any], config: dict[str, Any], first: bool, tmp_path: Path
) -> None:
    found = vt.load(model(tmp_path / "m", {"tokenizer.json": PAIRS.dumps(), **files}, **config))
    assert (found.tokenizer.bos_token_id is not None) == first
    assert (found.lens.to_str_tokens("the cat")[0] == END) == first
    if not first:
        with pytest.raises(vt.VieteError, match="has no token that begins a text"):
            found.lens.to_tokens("the cat", prepend_bos=True)


def test_what_the_tokenizer_itself_puts_around(tmp_path: Path) -> None:
    found = vt.load(model(tmp_path / "m", {"tokenizer.json": wrapping()}))
    assert found.lens.to_str_tokens("the cat")[:1] == ["[CLS]"]
    assert found.lens.to_str_tokens("the cat")[-1:] == ["[SEP]"]
    assert "".join(found.lens.to_str_tokens("the cat", prepend_bos=False)) == "the cat"


def test_what_begins_a_text_already_is_not_doubled(tmp_path: Path) -> None:
    files = {"tokenizer.json": wrapping(), "tokenizer_config.json": {"bos_token": "[CLS]"}}
    found = vt.load(model(tmp_path / "m", files))
    assert found.lens.to_str_tokens("the cat").count("[CLS]") == 1


# -- against transformers --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["one file", "two files", "wrapping"])
def test_against_transformers(kind: str, tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    files: dict[str, Any] = {
        "one file": {"tokenizer.json": PAIRS.dumps()}, "two files": two_files(),
        "wrapping": {"tokenizer.json": wrapping()},
    }[kind]  # fmt: skip
    said = {
        "tokenizer_class": "GPT2Tokenizer" if kind == "two files" else "PreTrainedTokenizerFast"
    }
    folder = model(tmp_path / "m", {**files, "tokenizer_config.json": {**said, **PLAIN}})
    theirs = hf.AutoTokenizer.from_pretrained(folder)
    ours = vt.load(folder)
    assert (ours.tokenizer.bos_token_id, ours.tokenizer.eos_token_id) == (
        theirs.bos_token_id, theirs.eos_token_id
    )  # fmt: skip
    for text in TEXTS:
        alone = theirs(text, add_special_tokens=False)["input_ids"]
        assert [int(k) for k in ours.tokenizer.encode(text)] == alone
        around = theirs(text)["input_ids"]
        wanted = around if around[:1] == [theirs.bos_token_id] else [theirs.bos_token_id, *around]
        assert ours.tokenizer.framed(text) == wanted
        assert ours.lens.to_string(alone) == theirs.decode(
            alone, clean_up_tokenization_spaces=False
        )


def test_a_tokenizer_of_transformers(tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    files = {"tokenizer.json": PAIRS.dumps(), "tokenizer_config.json": PLAIN}
    folder = model(tmp_path / "m", files)
    net = hf.GPT2LMHeadModel.from_pretrained(folder)
    ours = vt.from_transformers(net, hf.AutoTokenizer.from_pretrained(folder))
    assert ours.lens.to_str_tokens("the cat") == vt.load(folder).lens.to_str_tokens("the cat")
    without = vt.from_transformers(net)
    with pytest.raises(vt.VieteError, match="has no tokenizer"):
        without.lens.to_tokens("the cat")


# -- what cannot be read ---------------------------------------------------------------------------

SENTENCES = [
    ("no tokenizer", {}, "no tokenizer"),
    ("pieces", {"tokenizer.model": "\x0a\x0e"}, "is a sentencepiece model"),
    ("no JSON", {"tokenizer.json": "{"}, "it is not JSON"),
    ("another JSON", {"tokenizer.json": {"a": 1}}, "it has no 'model'"),
    ("too deep", {"tokenizer.json": "[" * 200_000}, "it is not JSON"),
    ("a kind of its own", {"tokenizer.json": {"model": {"type": "Magic"}}}, "not a tokenizer.json"),
    ("no tokens", {"tokenizer.json": {"model": {"type": "BPE", "vocab": {}, "merges": []}}},
     "this tokenizer has no tokens"),
    ("half a vocabulary", {"vocab.json": "{", "merges.txt": ""}, "make no tokenizer"),
    ("a list", {"vocab.json": [1], "merges.txt": ""}, "make no tokenizer"),
    ("merges of what is not there", {"vocab.json": {"a": 0}, "merges.txt": "b c\n"},
     "make no tokenizer"),
    ("settings that are none", {"tokenizer.json": PAIRS.dumps(), "tokenizer_config.json": "[]"},
     "holds no JSON object"),
    ("broken settings", {"tokenizer.json": PAIRS.dumps(), "special_tokens_map.json": "{"},
     "is not JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "words"), [pytest.param(*c, id=i) for i, *c in SENTENCES])
def test_sentences(
    files: dict[str, Any], words: str, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    folder = model(tmp_path / "m", files)
    monkeypatch.setattr(sys, "argv", ["viete", "run", str(folder), "--text", "the cat"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 2 and said.out == "" and len(said.err.splitlines()) == 1
    assert words in said.err


def test_a_huge_tokenizer_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "tokenizer.json", "wb") as file:
        file.truncate(10**10)
    with pytest.raises(vt.VieteError, match="at most 200,000,000 are read"):
        open_tokenizer(tmp_path)
