"""Finding cards: a path before a name, and near misses."""

import pytest

from viete import read
from viete.cards.catalogue import find, shipped
from viete.errors import VieteError


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_card_reads_and_documents_itself(name):
    """A title, a description, a source, and parts in the forward pass."""
    model = read(find(name))
    assert model.title and len(model.about) >= 2
    assert any(line.startswith("Source:") for line in model.about)
    assert all(equation.part for equation in model.equations)


def test_a_file_goes_before_a_shipped_card(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find("pythia") == find("pythia.md") == shipped()["pythia"]
    (tmp_path / "pythia").mkdir()
    assert find("pythia") == shipped()["pythia"]
    (tmp_path / "bert").write_text("# mine")
    assert find("bert").read_text() == "# mine"


@pytest.mark.parametrize(
    "name, says",
    [("pythai", "did you mean pythia"), ("transformer2017", "did you mean transformer-2017"),
     ("zzz", "shipped are attention-only-1"), ("x" * 5000, "cannot look for xxx")],
)  # fmt: skip
def test_near_misses(name, says):
    with pytest.raises(VieteError, match=says):
        find(name)
