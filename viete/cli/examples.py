"""Examples for the help of each command: what the reader wants, and the command for it.

They run from the first to the last in one folder. A later one may use the files of an earlier one,
and a few use words.txt and pairs.jsonl. tests/docs/test_commands.py writes these two and runs them.
"""

from __future__ import annotations

from collections.abc import Mapping

ASKED = "two-layers --text abcdabc"
NEXT = "'logsoftmax(logits_{-2})[t_{-1}]'"

EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "cards": (("Every card and model that comes with Viète:", "cards"),),
    "show": (
        ("The equations of a card, with the shape of each value:", "show letters-attention"),
        ("What GPT-2 costs for a text of 128 tokens:", "show gpt2 --costs -T 128"),
        ("The data flow of Pythia as a picture:", "show pythia -o pythia.svg"),
        ("A small card that keeps its random weights:",
         "show attention-only-1 --set V=3 --set d=2 --set H=1 --set d_k=2 --seed 5 "
         "--among='-1, 0, 1' -o mine.md"),
    ),
    "doc": (
        ("The architecture document of a card, with its diagram:",
         "doc simple-transformer -o simple.md"),
        ("The same as a page for the browser:", "doc simple-transformer -o simple.html"),
    ),
    "run": (
        ("The attention pattern and the logits of three letters:",
         "run letters-attention -t 'a b a' --show A,logits"),
        ("The same in exact numbers, with 12 digits:",
         "run letters-attention -t 'a b a' --meaning exact --show A_2 --digits 12"),
        ("Every value of a run:", "run letters-attention -t 'a b a' --all"),
    ),
    "explore": (
        ("A page about a run, which opens in any browser:",
         "explore letters-causal -t 'a b a' -o page.html"),
        ("The same for a trained model and a text:",
         "explore two-layers --text abcdabc -o trained.html"),
    ),
    "tour": (
        ("The story of Viète in the terminal:", "tour"),
        ("The same, with its files in a folder of your choice:", "tour first-look/"),
    ),
    "lesson": (
        ("A forward pass, step by step, in exact numbers:",
         "lesson letters-attention -t 'a b a' -o lesson.html"),
        ("A worksheet with blanks, and its key:",
         "lesson letters-attention -t 'a b a' --exercise -o sheet.html"),
    ),
    "grad": (
        ("The derivative of the loss with respect to the query matrix:",
         "grad dialog-transformer --by W_Q"),
        ("How a training step is laid out in memory:", "grad dialog-transformer --plan --batch 8"),
    ),
    "ask": (
        ("The three most likely next letters, and where a head looks:",
         f"ask {ASKED} 'top_3(logits_{{-1}})' 'top_3(A^{{2,1}}_{{-1}})'"),
        ("A logit when each head is switched off in turn:",
         f"ask {ASKED} 'logits_{{-1,\"d\"}} with A^{{i,h}} = 0'"),
        ("The same question on many texts, as a table of data:",
         "ask two-layers --texts 'repeated(8)' 'logits_{-1,3}' -o answers.csv"),
    ),
    "expand": (
        ("What a logit is made of, head by head:",
         f"expand {ASKED} --of 'logits_{{-1,\"d\"}}' --into block,head"),
        ("The same as a graph of arrows:",
         f"expand {ASKED} --of 'logits_{{-1,\"d\"}}' --graph -o graph.svg"),
    ),
    "check": (
        ("A claim about every text, tested on random ones:",
         "check two-layers 'sum(A^{i,h}_j) ≈ 1 for texts of random(8)'"),
        ("A proof, in exact numbers, that b is predicted:",
         "check letters-attention -t 'a b a' --meaning exact 'A_{2,1} > 1/2'"),
    ),
    "cause": (
        ("How much each head matters, with values of random other texts:",
         f"cause two-layers --texts 'repeated(8)' --of {NEXT} --by 'A^{{i,h}}' --resample 2"),
        ("Which head makes the difference between the two texts of each line of pairs.jsonl:",
         "cause two-layers --texts pairs.jsonl --of 'logits_{-1,other} - logits_{-1,usual}' "
         "--by 'r^{i,h}' -o heads.svg"),
    ),
    "circuit": (
        ("At most six edges that repeat a text, as a card of their own:",
         f"circuit two-layers --texts 'repeated(8)' --of {NEXT} --edges 6 -o circuit.md"),
        ("How much of the number 2, 4 or 8 edges explain, as a curve:",
         f"circuit two-layers --texts 'repeated(8)' --of {NEXT} --edges 2,4,8 -o curve.svg"),
    ),
    "probe": (
        ("Can the letter before be read off the residual stream?",
         "probe two-layers --texts 'random(16)' --of 'x^1_j' --label 't_{j-1}'"),
        ("Could it be read off the embeddings already?",
         "probe two-layers --texts 'random(16)' --of 'x^0_j' --label 't_{j-1}'"),
    ),
    "features": (
        ("Learn 32 features of a model from a text, words.txt:",
         "train sae-topk --model two-layers --reads 'x^1' --data words.txt -o sae/ --set F=32 "
         "--set k=4 --steps 30 --lr 0.01"),
        ("How well they describe the model, and which are the strongest:",
         "features two-layers --put sae/ --data words.txt"),
        ("What feature 3 is active on, and what it writes:",
         "features two-layers --put sae/ --data words.txt --feature 3"),
    ),
    "train": (
        ("Three dialogs, learned in seconds:",
         "train dialog-transformer --data dialogs -o run/ --steps 100 --lr 0.01"),
        ("Fifty more steps:", "train --resume -o run/ --steps 150"),
        ("A run with a smaller learning rate, to compare:",
         "train dialog-transformer --data dialogs -o slower/ --steps 100 --lr 0.003"),
    ),
    "plot": (
        ("The losses of a run, here and as run/loss.svg:", "plot run/"),
        ("Two runs in one picture:", "plot run/ slower/ -o losses.svg"),
    ),
    "sample": (
        ("What a run has learned to write:",
         "sample run/ --text '<user>hi</user>' -n 20"),
        ("Eight letters from the shipped model:", "sample two-layers --text abcdeabc -n 8"),
    ),
    "export": (
        ("A PyTorch module that needs no Viète:", "export gpt2 --to torch -o gpt2.py"),
        ("NumPy with the backward pass and Adam:",
         "export dialog-transformer --to numpy -o dialog.py"),
        ("The equations as an article:", "export pythia --to latex -o pythia.tex"),
    ),
}  # fmt: skip

__all__ = ["EXAMPLES"]
