"""``viete ask``: one text, a page of questions, many texts, checkpoints, and files of answers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.ask.vocabularies import reader
from tests.command_line import viete
from viete.nouns.model import Model

CARD = "gpt2 --set V=11 --set d=8 --set N=2 --set H=2 --set d_f=8 --seed 0".split()
TEXTS = ["I live in Dublin", "Mary lives in London"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a tokenizer, on disk."""
    return reader("bytes").save(tmp_path_factory.mktemp("ask") / "model")


@pytest.fixture(scope="module")
def model(folder: Path) -> Model[vt.Card]:
    return vt.load(folder)


def test_tokens_come_first_then_numbers_and_tables(folder: Path, model: Model[vt.Card]) -> None:
    lines = viete("ask", folder, "--text", TEXTS[0], "|x^2_{-1}|", "A^{2,h}_{-1}",
                  'logits_{-1, " in"}').out.splitlines()  # fmt: skip
    assert [line.split() for line in lines[:4] if "─" not in line] == [
        ["position", "0", "1", "2", "3"], ["from", "the", "end", "-4", "-3", "-2", "-1"],
        ["token", '"I"', '"', 'live"', '"', 'in"', '"', 'Dublin"'],
    ]  # fmt: skip
    run = model.run(TEXTS[0])
    assert lines[5] == f"|x^2_{{-1}}| = {float(run['|x^2_{-1}|']):.10g}"
    assert lines[7] == "A^{2,h}_{-1}  (h = 2 × n = 4)"
    row = lines[11].split()
    assert row[:3] == ["1", "=", "L1H0"]
    np.testing.assert_allclose(list(map(float, row[3:])), run["A^{2,1}_{-1}"], atol=6e-5)
    assert lines[-1].startswith('logits_{-1, " in"} = ')


def test_questions_of_a_page_keep_its_titles_and_words(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "questions.md"
    page.write_text(
        "# Of lengths\n\n- the last residual: $|x^N_{-1}|$\n\n## Of logits\n\n"
        "Both $logits_{-1,5}$ and $$∂(logits_{-1,5})/∂x^1_{-1}$$ are asked.\n"
    )
    said = viete("ask", folder, "--text", TEXTS[0], f"@{page}", "-f", "md").out
    parts = [line for line in said.splitlines() if line and line[0] in "#`t"]
    assert [p.split(" = ")[0] for p in parts] == [
        "## Of lengths", "`the last residual: |x^N_{-1}|`", "## Of logits", "`logits_{-1,5}`",
        "`∂(logits_{-1,5})/∂x^1_{-1}`  (d",
    ]  # fmt: skip
    page.write_text("- wrong: $x^1 + q$\n- $|x^N_{-1}|$\n")  # goes on, as check does
    said = viete("ask", folder, "--text", TEXTS[0], f"@{page}").out
    assert f"Not read: {page}:1:17: unknown symbol q" in " ".join(said.split()) and "|x^N" in said
    page.write_text("- wrong: $|x^N_{-1}| +$\n- wrong: $x^1 + q$\n")
    error = viete("ask", folder, "--text", TEXTS[0], f"@{page}", code=2).err
    assert f"{page}:2:17: unknown symbol q" in error and error.splitlines()[-1].strip() == "^"
    lines = tmp_path / "questions.txt"
    lines.write_text("# comment\n|x^1_0|\n\n|x^2_0|\n")
    assert viete("ask", *CARD, "-t", "1,2", f"@{lines}").out.count("|x^") == 2


def test_another_text_has_a_prime(folder: Path, model: Model[vt.Card]) -> None:
    said = viete("ask", folder, "--text", TEXTS[0], "--against", "I live in London",
                 "|x^2_{-1} - x'^2_{-1}|").out.splitlines()  # fmt: skip
    a, b = (model.run(text)["x^2_{-1}"] for text in (TEXTS[0], "I live in London"))
    assert float(said[-1].split(" = ")[1]) == pytest.approx(np.linalg.norm(a - b))
    ids = viete("ask", *CARD, "-t", "1,2,3", "--against", "3,2", "n - n'").out
    assert ids.endswith("n - n' = 1\n")


def test_many_texts_are_a_table(folder: Path, model: Model[vt.Card], tmp_path: Path) -> None:
    plain, objects = tmp_path / "texts.txt", tmp_path / "texts.jsonl"
    plain.write_text("\n".join(TEXTS) + "\n")
    rows = [{"text": TEXTS[0], "against": "the cat", "answer": " in", "k": 2},
            {"text": TEXTS[1], "against": "a mat", "answer": " lives", "k": 3}]  # fmt: skip
    objects.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "answers.csv"
    asked = ("k logits_{-1, answer}", "|x^1_0 - x'^1_0|", "A^{1,h}_{-1,0}")
    viete("ask", folder, "--texts", objects, *asked, "-o", out)
    header, *found = csv.reader(out.read_text().splitlines())
    assert header == ["text", "k logits_{-1, answer}", "|x^1_0 - x'^1_0|",
                      "A^{1,h}_{-1,0} [h = 1 = L0H0]", "A^{1,h}_{-1,0} [h = 2 = L0H1]"]  # fmt: skip
    for row, said in zip(rows, found, strict=True):
        run = model.run(row["text"])
        number = row["k"] * run[f'logits_{{-1, "{row["answer"]}"}}']
        np.testing.assert_allclose(
            list(map(float, (said[1], *said[3:]))), [number, *run["A^{1,h}_{-1,0}"]], rtol=1e-6
        )
    ids = tmp_path / "ids.jsonl"
    ids.write_text('{"tokens": [1, 2]}\n{"text": [1, 2]}\n')
    one, two = viete("ask", folder, "--texts", ids, "|x^1_0|").out.splitlines()[-2:]
    assert one.split()[-1] == two.split()[-1]
    objects.write_text(objects.read_text() + '{"text": "the cat", "against": "a mat"}\n')
    said = viete("ask", folder, "--texts", objects, "logits_{-1, answer}", code=2).err
    assert "texts.jsonl:3:1: the question uses answer, and this line has no answer" in said
    table = viete("ask", folder, "--texts", plain, "|x^1_0|", "logits").out.splitlines()
    assert table[0].split() == ["text", "|x^1_0|", "logits"] and table[2].endswith("4 × 303")
    archive = tmp_path / "answers.npz"
    viete("ask", folder, "--texts", plain, "logits", "x^i_0", "-o", archive)
    with np.load(archive) as arrays:
        assert {k: v.shape for k, v in arrays.items()} == {
            "logits 0": (4, 303), "logits 1": (5, 303), "x^i_0": (2, 3, 8)
        }  # fmt: skip
    said = viete("ask", folder, "--texts", plain, "logits", "-o", out, code=2).err
    assert "its answers have has different shapes on texts" in said and len(found) == 2


def test_a_mean_over_the_texts_of_a_file_is_one_answer(
    folder: Path, model: Model[vt.Card], tmp_path: Path
) -> None:
    file, texts = tmp_path / "texts.txt", [*TEXTS, "I live"]
    file.write_text("\n".join(texts))
    runs = [model.run(text) for text in texts]
    x = np.array([run["x^i_{-1}"] for run in runs])
    mean = x.mean(0)
    scores = np.array([run["logits_{-1}"] for run in runs]).mean(0)
    patched = [run["logits_{-1,5} with A^{2,1} = 0"] for run in runs]
    wanted = {
        "mean_{texts}(x^i_{-1})": mean,
        "sum_{texts}(n)": sum(run["n"] for run in runs),
        "max_{texts}(|x^i_{-1}|)": np.linalg.norm(x, axis=-1).max(0),
        "<U_5, mean_{texts}(x^2_{-1})>": model.weights["W_E"][5] @ mean[2],
        "mean_{texts}(|x^2_{-1} - mean_{texts}(x^2_{-1})|)":
            np.linalg.norm(x[:, 2] - mean[2], axis=-1).mean(),
        "top_3(mean_{texts}(logits_{-1}))": np.sort(scores)[:-4:-1],
        "mean_{texts}(logits_{-1,5}) with A^{2,1} = 0": np.mean(patched),
    }  # fmt: skip
    (row,) = json.loads(viete("ask", folder, "--texts", file, *wanted, "--json").out)["rows"]
    for found, want in zip(row["answers"], wanted.values(), strict=True):
        np.testing.assert_allclose(found["value"], want, rtol=1e-5, atol=1e-8)
    about_each = "Δx^2_{-1} + x^1_{-1} - mean_{texts}(x^2_{-1})", "mean_{texts}(x^2_{-1})"
    rows = json.loads(viete("ask", folder, "--texts", file, *about_each, "--json").out)["rows"]
    for row, one in zip(rows, x[:, 2], strict=True):
        values = [answer["value"] for answer in row["answers"]]
        np.testing.assert_allclose(values, [one - mean[2], mean[2]], rtol=1e-5, atol=1e-8)
    for question, why in {
        "mean_{texts}(x^2)": "so x^2 has a different shape on each, and the mean is undefined",
        "A^{2,h}_{-1,0} - mean_{texts}(A^{2,h}_{-1,0})": "must be one value; write numbers for h",
        "logits_{-1,5} + sum_{texts}(n) with x^2_{-1} = mean_{texts}(x^2_{-1})":
            "a value over texts must stand before 'with'",
    }.items():  # fmt: skip
        assert why in viete("ask", folder, "--texts", file, question, code=2).err


def test_the_largest_values_come_with_their_tokens(folder: Path, model: Model[vt.Card]) -> None:
    lines = viete("ask", folder, "--text", TEXTS[1], "logits", "--top", "2").out.splitlines()
    logits = model.run(TEXTS[1])["logits"]
    j, k = np.unravel_index(logits.argmax(), logits.shape)
    word = model.lens.to_str_tokens(TEXTS[1])[j]
    assert f"[{word}]" in lines[4] and f'n = {j} "{word}"' in lines[4]
    assert lines[4].split()[0] == f"{logits[j, k]:.4f}" and len(lines) == 6


def test_conventions_stand_before_the_answers() -> None:
    lines = viete("ask", *CARD, "-t", "1,2", "A^{2,1}_{1,0}", "|x^L_0|").out.splitlines()
    assert [line.split("·")[1].strip() for line in lines if "·" in line] == [
        "A^{2,1} = L1H0", "L is N = 2, the number of blocks"
    ]  # fmt: skip
    llama = "llama --set V=11 --set d=8 --set N=2 --set G=2 --set H=4 --set d_f=8 --seed 0".split()
    assert "A^{2,2,1} = L1H2" in viete("ask", *llama, "-t", "1,2", "A^{2,2,1}_{1,0}").out
    loss = "nanogpt --set V=11 --set d=8 --set N=2 --set H=2 --seed 0".split()
    said = viete("ask", *loss, "-t", "1,2", "--input", "y=2,1", "L", "x^N_0").out
    assert "the number of blocks" not in said and "L = 2." in said
    arrow = r"x^1_0 \xrightarrow{A^{2,1}} x^L_1"
    assert "L is N = 2" in viete("ask", *CARD, "-t", "1,2", arrow).out
    error = viete("ask", *loss, "-t", "1,2", "--input", "y=2,1", "x^L_0", code=2).err
    assert "the last block is N here" in error


def test_json_has_everything(folder: Path, model: Model[vt.Card]) -> None:
    said = json.loads(
        viete(
            "ask", folder, "--text", TEXTS[0], "A^{2,h}_{-1}", "x^0_0 / (x^0_0 - x^0_0)", "--json"
        ).out
    )
    (row,) = said["rows"]
    first, odd = row["answers"]
    assert row["tokens"]["t"][1] == {"position": 1, "id": 266, "token": " live"}
    assert first["axes"] == ["h", "n"] and first["labels"][0] == ["1 = L1H0", "2 = L1H1"]
    np.testing.assert_allclose(first["value"], model.run(TEXTS[0])["A^{2,h}_{-1}"], rtol=1e-6)
    assert set(odd["value"]) <= {"inf", "-inf"}


def test_other_numbers_and_two_inputs() -> None:
    exact = viete("ask", "exact-lesson", "-t", "a b", "--meaning", "exact", "logits_{0,0}",
                  "2 x_0").out.splitlines()  # fmt: skip
    assert [line.split() for line in exact if "·" in line] == [
        ["·", "logits_{0,0}", "=", "1"], ["·", "2", "x_0", "=", "(2,", "0)"]
    ]  # fmt: skip
    bounds = viete("ask", "exact-lesson", "-t", "a b", "--meaning", "interval", "logits_{0,0}").out
    assert bounds.splitlines()[-1] == "logits_{0,0} = [0.9999999999999952, 1.0000000000000049]"
    small = "--set V=11 --set d=8 --set N=1 --set H=2 --set d_f=8 --seed 0 -t 1,2,3".split()
    t5 = viete("ask", "t5", *small, "--input", "t=0,1", "A_c^{1,h}_{-1}").out.splitlines()
    assert t5[0] == "s" and "t" in t5 and "A_c^{1,h}_{-1}  (h = 2 × m = 3)" in t5
    lacks = viete("ask", "t5", *small, "x_e^1_0", "x^1_0", code=2).err
    assert "<question>:1:1: x^i needs the input t, which was not given\n    x^1_0\n" in lacks
    mask = viete("ask", "bert", *small, "--input", "a=1,1,0", "A^{1,1}_{0,2}").out
    assert mask.endswith("A^{1,1}_{0,2} = 0\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["x^1 + q"], "<question>:1:7: unknown symbol q"),
        (["x^7"], "there is no x"),
        (["x^1", "-o", "a.doc"], "-o a.doc: this command writes no .doc files"),
        (["x^1", "-f", "npz"], "an archive of arrays needs a file: -o answers.npz"),
        (["@none.md"], "none.md: cannot be read"),
        (
            ["x^1", "--texts", "none.txt"],
            "--texts cannot be combined with --text, --tokens or --against",
        ),
        (["x^1", "--digits", "3"], "--digits and --unfold need --meaning exact"),
        (["x^1", "--revision", "all"], "has no checkpoints"),
        (["@"], "@ stands before the name of a file of questions"),
    ],
)
def test_what_cannot_be_asked(options: list[str], message: str) -> None:
    said = viete("ask", *CARD, "-t", "1,2,3", *options, code=2)
    assert message in said.err and not said.out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "t.jsonl",
            '{"text": "a"}\n{"txt": "b"}\n',
            "t.jsonl:2:1: a line is an object with a text",
        ),
        ("t.jsonl", '{"text": "a", "tokens": [1]}\n', "a text or with tokens"),
        ("t.jsonl", '{"tokens": "a"}\n', "tokens are a list of token ids"),
        ("t.jsonl", "nope\n", "t.jsonl:1:1: this is not JSON"),
        ("t.jsonl", '{"text": 3}\n', "a text is a string, or a list of token ids"),
        ("t.jsonl", '{"text": [1, 2], "answer": []}\n', "answer is a token's word or a number"),
        ("t.txt", "\n", "the file has no text"),
        ("t.jsonl", '{"text": [1, 2], "answer": "x"}\n', 'answer: "x" is not a word'),
    ],
)
def test_files_of_texts_that_are_none(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert message in viete("ask", *CARD, "--texts", path, "logits_{-1, answer}", code=2).err


def test_a_page_of_questions_defines_names(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Let $D^i = x^i - x^{i-1}$, $F = D^2$:\n\n- $F_0 - D^2_0$\n- $|D^1_1|$\n")
    for given in (CARD, (*CARD, "--put", "A^{1,1} = 0"), (folder,)):
        out = viete("ask", *given, "-t", "1,2", f"@{page}").out
        assert "Defined: D^i, F" in out and "Not read" not in out and "|D^1_1| = " in out
    page.write_text("$D^i = x^i - x^{i-1}$")
    error = viete("ask", *CARD, "-t", "1,2", f"@{page}", code=2).err
    assert "page.md:1:2: this defines a name, and nothing is asked about it" in error
