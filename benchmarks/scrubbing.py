"""Causal scrubbing of the induction circuit on 120 texts; docs/guides/causal.md has 24 of them.

python benchmarks/scrubbing.py [FOLDER]   writes hypothesis.md, wrong.md and texts.jsonl there
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from dynamics import trained

OF = "logsoftmax(logits_{-1})[answer]"
HYPOTHESIS = "# Induction\n\n" + "\n".join(
    f"""- r^{{2,{h}}} → logits: answer
  - x^0 → Q^{{2,{h}}}: t_{{-1}}
  - r^{{1,1}} → K^{{2,{h}}}: place, t_{{-1}}
    - x^0 → r^{{1,1}}: place, t_{{-1}}
  - x^0 → r^{{2,{h}}}: place, answer"""
    for h in (1, 2)
)


def texts() -> str:
    """A letter of abc, one of xyz behind it, at one of two places among others; the first again."""
    draw = random.Random(5)
    lines = []
    for _ in range(120):
        first, answer, place = draw.choice("abc"), draw.choice("xyz"), draw.choice([4, 9])
        rest = draw.sample([c for c in "defghijklmnopqrstuvw"], 14)
        rest[place:place] = [first, answer]
        text = "".join([*rest, first])
        lines.append(json.dumps({"text": text, "answer": answer, "place": place}))
    return "\n".join(lines) + "\n"


def main() -> None:
    home = Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp())
    home.mkdir(parents=True, exist_ok=True)
    model = trained(home)
    (home / "texts.jsonl").write_text(texts())
    wrong = HYPOTHESIS.replace("place, t_{-1}", "place")
    for name, page in (("hypothesis.md", HYPOTHESIS), ("wrong.md", wrong)):
        (home / name).write_text(page + "\n", "utf-8")
        print(f"{name}\n\n{model.scrub(home / name, OF, str(home / 'texts.jsonl'))}\n")


if __name__ == "__main__":
    main()
