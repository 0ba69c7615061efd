"""Pictures of the guides to exploring and to features and of the README: pages in Chromium.

make pictures
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import viete as vt
from tests.browser.devtools import look
from tests.command_line import viete
from viete.explore.data import page_data
from viete.explore.page_file import page_html

TO = """(async () => {
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 150)));
  while (!document.querySelector(".go.next")) await painted();
  for (let k = 0; k < STEP; k++) document.querySelector(".go.next").click();
  await painted();
  DOES;
  await painted();
})()"""
NAMED = """[...document.querySelectorAll(".segmented button")]
  .find((b) => b.textContent === "%s")?.click()"""
ENTRY = "document.querySelector(\".v-value.main [data-at='1,1']\").click()"
WHOLE = "document.documentElement.style.overflow = 'hidden'"  # no bar to scroll
# name, card, step, what is clicked there, width, height, dark
PICTURES = (
    ("attention", "exact-lesson", 6, ENTRY, 1280, 800, False),
    ("exact", "exact-lesson", 9, NAMED % "exact", 1280, 800, True),
    ("arcs", "dialog-heads", 6, NAMED % "Arcs", 1280, 800, False),
    ("backward", "symbolic-transformer", 0, NAMED % "Backward", 1280, 800, True),
    ("phone", "exact-lesson", 6, "0", 390, 800, False),
    ("phone-dark", "exact-lesson", 13, "0", 390, 800, True),
)
FEATURES = (
    "features", "two-layers", "--put", "docs/models/features", "--texts",
    "docs/models/repeats.txt", "--feature", "46,44", "-o",
)  # fmt: skip
TOKENS = {
    "exact-lesson": [0, 1],
    "dialog-heads": [7, 4, 11, 11, 14],
    "symbolic-transformer": [3, 1, 4],
}


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        for name, card, step, does, width, height, dark in PICTURES:
            file = Path(made) / f"{card}.html"
            if not file.exists():
                model = vt.read(card)
                run = model.run(TOKENS[card], model.initial_weights(0))
                file.write_text(page_html(page_data(run)), "utf-8")
            picture = folder / f"page-{name}.webp"
            code = TO.replace("STEP", str(step)).replace("DOES", does)
            found = look(file, width=width, height=height, dark=dark, picture=picture,
                         expression=code)  # fmt: skip
            assert found["thrown"] is None and not found["events"], found
            print(f"{picture}: {picture.stat().st_size / 1000:.0f} kB")
        viete(*FEATURES, made)
        look(Path(made) / "feature-46.html", width=1000, height=1030, dark=False,
             expression=WHOLE, picture=folder / "feature.webp")  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
