"""What several commands take, said once: a card or a model, its weights, its input, where to write.

A bundle is a dataclass of options. A command takes it as one parameter, and `spread` makes of that
the options that a person types.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cached_property, wraps
from inspect import Parameter, Signature
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_type_hints

import typer
from typer.models import OptionInfo

from viete.atomic import behind, replacing
from viete.document.rendering import SUFFIXES
from viete.errors import VieteError
from viete.graph.card import CardData

if TYPE_CHECKING:
    from viete.ask.putting import Features
    from viete.nouns.model import Model
    from viete.nouns.verbs import Verbs

FILE = re.compile(r"\.(npz|safetensors)\b|=[^=(]*/")  # of arrays, or a folder
Changing = TypeVar("Changing", bound="Verbs")
MEANINGS = ("float", "exact", "interval")
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Write to this file instead of the screen.",
                 rich_help_panel="Output"),
]  # fmt: skip


def choice(words: Sequence[str], *names: str, help: str, panel: str | None = None) -> Any:
    """An option that takes one of these words."""

    def known(text: str) -> str:
        if text not in words:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(map(repr, words))}")
        return text

    return typer.Option(*names, parser=known, metavar=f"[{'|'.join(words)}]", help=help,
                        rich_help_panel=panel)  # fmt: skip


def spread(command: Callable[..., Any], more: Sequence[Parameter] = ()) -> Callable[..., Any]:
    """The command with each of its bundles spread into its options, and ``more`` for its ``**``."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[Parameter] = []
    bundles: dict[str, Any] = {}
    for p in inspect.signature(command).parameters.values():
        kind: Any = hints[p.name]
        if p.kind is Parameter.VAR_KEYWORD:
            parameters += more
        elif not is_dataclass(kind):
            parameters.append(Parameter(p.name, Parameter.KEYWORD_ONLY, default=p.default,
                                        annotation=kind))  # fmt: skip
        else:
            bundles[p.name] = kind
            own = get_type_hints(kind, include_extras=True)
            parameters += [
                Parameter(f.name, Parameter.KEYWORD_ONLY,
                          annotation=under(own[f.name], bundles[p.name].panel),
                          default=Parameter.empty if f.default is MISSING else f.default)
                for f in fields(kind)
            ]  # fmt: skip

    @wraps(command)
    def gathered(**given: Any) -> Any:
        for name, kind in bundles.items():
            given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
        return command(**given)

    gathered.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    gathered.__annotations__ = {p.name: p.annotation for p in parameters}
    return gathered


def under(option: Any, heading: str) -> Any:
    """An option of a bundle, under the bundle's heading in the help."""
    for info in getattr(option, "__metadata__", ()):
        if isinstance(info, OptionInfo):
            info.rich_help_panel = info.rich_help_panel or heading
    return option


# -- a card or a model ---------------------------------------------------------------------------


@dataclass
class SourceOptions:
    """The card or model that a command is about."""

    panel: ClassVar[str] = "Model"

    name: Annotated[
        str,
        typer.Argument(
            metavar="CARD",
            help="A card: its path, the name of a shipped card, or - for standard input. Or a "
            "model: a folder, a file of weights, an id of the Hugging Face hub, or a run of "
            "viete train.",
        ),
    ]
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set a dimension: d=768 (repeatable)."),
    ] = None
    config: Annotated[
        Path | None, typer.Option(help="Take the dimensions from a Hugging Face config.json.")
    ] = None
    instead: Annotated[
        str | None,
        typer.Option("--card", help="Open the model with this card, not with its family's."),
    ] = None
    accept: Annotated[
        list[str] | None,
        typer.Option(help="Ignore this key of the model's config (repeatable)."),
    ] = None
    revision: Annotated[
        str | None,
        typer.Option(help="A branch, tag or commit of a model on the hub. A checkpoint of a run: "
                     "latest, previous, best or a step. ask, check and circuit take several, with "
                     "commas between them, or all."),
    ] = None  # fmt: skip
    changes: Annotated[
        list[str] | None,
        typer.Option("--put", metavar="EQUATION", help="Replace a value: 'A^{2,1} = 0'; or those "
                     "of a Markdown file of equations; or by the output of an autoencoder or of "
                     "transcoders: 'x^3 = sae.npz(x^3)', 'm^i = ./folder(y^i)' (repeatable)."),
    ] = None  # fmt: skip
    cuts: Annotated[
        list[str] | None,
        typer.Option("--cut", metavar="VALUE", help="Keep a value as the unchanged model computes "
                     "it, such as 'A^{i,h}' (repeatable)."),
    ] = None  # fmt: skip

    def __post_init__(self) -> None:
        from viete.cards.catalogue import model_path

        self.name = str(model_path(self.name)) if self.name else self.name

    @property
    def values(self) -> dict[str, str]:
        """``--set d=768`` as a name and a value."""
        values: dict[str, str] = {}
        for text in self.sets or ():
            key, equals, value = text.partition("=")
            if not equals or not key.strip() or not value.strip():
                raise VieteError(f"--set takes NAME=NUMBER, such as --set d=768, not {text!r}")
            values[key.strip()] = value.strip()
        return values

    @property
    def is_model(self) -> bool:
        """Whether this is a folder, a file of tensors or an id of the hub, and not a card.

        A shipped card goes before a folder of that name, and before an id without an owner; with a
        ``revision`` it can only be a model.
        """
        from viete.cards.catalogue import named
        from viete.formats.hub import SUFFIXES as TENSORS
        from viete.formats.hub import is_id
        from viete.model.trained import is_run

        path = Path(self.name)
        if self.revision is not None:
            return True
        if self.name.lower().removesuffix(".md") in named():
            return False
        if path.suffix in TENSORS:
            return True
        try:
            if path.exists():
                return path.is_dir() or is_run(path)
        except (OSError, ValueError):  # a name that no file can have
            return False
        return "/" in self.name and is_id(self.name) and path.suffix not in (".md", ".tex", ".json")

    @cached_property
    def features(self) -> dict[str, Features]:
        """The transcoders and autoencoders that ``--put`` names: folders, or files of arrays."""
        from viete.model.trained import is_run

        def named(text: str) -> bool:
            path = text.startswith((".", "/", "~")) or bool(FILE.search(text))
            return path or Path(text).is_dir() or is_run(text)

        if not any(map(named, self.changes or ())):
            return {}
        from viete.model.coders import coders_of

        found = {text: coders_of(text) for text in self.changes or ()}
        return {text: x for text, x in found.items() if x is not None}

    @property
    def equations(self) -> list[str | Path]:
        """The equations that ``--put`` names, and the files of them."""
        some = (text for text in self.changes or () if text not in self.features)
        return [Path(text) if text.endswith(".md") else text for text in some]

    def changed(self, of: Changing) -> Changing:
        """A card or a model with its features, without what is cut, with the equations put in."""
        of = of.put(*self.features.values()) if self.features else of
        of = of.cut(*self.cuts) if self.cuts else of
        return of.put(*self.equations) if self.equations else of

    def card(self, weights: Path | None = None) -> CardData:
        """The card with its features, without what is cut, and changed; see `unchanged`."""
        found = self.unchanged(weights)
        if self.changes or self.cuts:
            from viete.nouns.card import Card

            found = self.changed(Card.of(found))
        return found

    def unchanged(self, weights: Path | None = None) -> CardData:
        """The card, or that of the model, bound to the dimensions asked for; no weights are read.

        Where a card is held against a file of ``weights``, the tensors say what it asks of them.
        """
        config, accept, values = self.config, self.accept or (), self.values
        if self.is_model:
            from viete.model.folder import open_card
            from viete.model.trained import card_of, is_run

            if self.instead is None and is_run(self.name):
                card = card_of(self.name)
            else:
                card, _ = open_card(self.name, self.instead, accept, config, self.revision)
            return card.bind(**values) if values else card
        self.refuse_options_of_models()
        if weights is not None and config is None:
            from viete.formats.files import open_tensors
            from viete.model.folder import card_of_file

            card = card_of_file(self.name, open_tensors(weights))
            return card.bind(**values) if values else card
        from viete.cards import reader
        from viete.cards.catalogue import find
        from viete.cards.config import Config

        given = None if config is None else Config(config)
        if self.name != "-":
            return reader.read(find(self.name), given, accept, values)
        content = sys.stdin.buffer.read(reader.MAX_BYTES + 1)
        return reader.reads(reader.decoded(content, "<stdin>"), "<stdin>", given, accept, values)

    def model(self, dtype: str | None = None, device: str | None = None) -> Model:
        """The model with its weights. Raises VieteError where there is none of that name."""
        from viete.nouns.card import load

        framework = "numpy" if device is None else "torch"
        found = load(self.name, self.instead, self.accept or (), framework, dtype, device,
                     self.revision, self.config)  # fmt: skip
        found = found.bind(**values) if (values := self.values) else found
        return self.changed(found)

    def opened(
        self, weights: WeightOptions, dtype: str | None = None, device: str | None = None
    ) -> tuple[CardData, Model | None]:
        """The card, and the model that it is of, unless it is a card or has other ``weights``."""
        if self.features and (weights.present or not self.is_model):  # they bring weights along
            from viete.evaluate.initial_weights import stated_dtype
            from viete.nouns.card import Card

            whole = Card.of(self.unchanged(weights.weights))
            arrays = weights.floats(whole, dtype or stated_dtype(whole), device)
            found = self.changed(whole.with_weights(arrays))
            return found.card, found
        if weights.present or not self.is_model:
            return self.card(weights.weights), None
        found = self.model(dtype, device)
        return found.card, found

    def refuse_cut(self, why: str) -> None:
        """That no value is cut, where a run is not of one text."""
        if self.cuts:
            raise VieteError(f"{why}, and a value that is cut is one text's: leave out --cut")

    def refuse_options_of_models(self) -> None:
        given = {"--card": self.instead, "--accept": None if self.config else self.accept}
        if found := next((option for option, value in given.items() if value), None):
            raise VieteError(f"{found} is of a released model, and {self.name} is a card")


# -- weights -------------------------------------------------------------------------------------


@dataclass
class WeightOptions:
    """The weights of a card; instead of a model's own."""

    panel: ClassVar[str] = "Weights"

    weights: Annotated[
        Path | None,
        typer.Option("--weights", "-w", help="Read the weights from this file: safetensors, npz, "
                     "PyTorch, ONNX or GGUF."),
    ] = None  # fmt: skip
    seed: Annotated[
        int | None,
        typer.Option(help="Draw random weights with this seed, as the card's init column says."),
    ] = None
    among: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="With --seed: draw each random weight from these "
                     "numbers, such as --among='-1, 0, 1/2'."),
    ] = None  # fmt: skip

    @property
    def present(self) -> bool:
        """Whether there are any. Raises VieteError where both options are there."""
        if self.weights is not None and self.seed is not None:
            raise VieteError("give either --weights or --seed, not both")
        if self.among is not None and self.seed is None:
            raise VieteError("--among draws random weights: give --seed too, such as --seed 1")
        return self.weights is not None or self.seed is not None

    def complete(self, card: CardData) -> None:
        """Refuse a card that gives no values for its weights, where nothing else does."""
        if self.seed is None and not all(p.value for p in card.parameters):
            raise VieteError(
                "the card needs weights: give --weights FILE, or --seed N for random ones"
            )

    def arrays(
        self, card: CardData, model: Model | None, exact: bool = False,
        dtype: str | None = None, device: str | None = None,
    ) -> Mapping[str, Any]:  # fmt: skip
        """Those of the model, if it is one; else exact ones, or floats of the card's precision."""
        if model is not None:
            return model.weights
        if exact:
            return self.exact(card)
        from viete.evaluate.initial_weights import stated_dtype

        return self.floats(card, dtype or stated_dtype(card), device)

    def floats(self, card: CardData, dtype: str, device: str | None = None) -> dict[str, Any]:
        """Those of the file; else the card's own values, and random ones where it gives none."""
        from viete.evaluate.initial_weights import initial_weights

        kinds = ("float16", "float32", "float64") + (("bfloat16",) if device else ())
        if dtype not in kinds:
            raise VieteError(f"--dtype is one of {', '.join(kinds)}, not {dtype}")
        if self.weights is not None:
            from viete.model.mapping import load_weights

            only_torch = device and dtype == "bfloat16"
            arrays = load_weights(card, self.weights, dtype=None if only_torch else dtype)
        else:
            self.complete(card)
            kind = "float64" if device else dtype
            arrays = self.drawn(card, kind) or initial_weights(card, self.seed or 0, kind)
        return tensors_on(arrays, dtype, device) if device else arrays

    def exact(self, card: CardData) -> dict[str, Any]:
        """Those of the file, as the fractions that its floats are; else the card's own values.

        What the card gives no value for is drawn with the seed, in float64.
        """
        from viete.evaluate.initial_weights import initial_weights, literal_fractions

        if self.weights is not None:
            from viete.model.mapping import load_weights

            return load_weights(card, self.weights, dtype=None)
        self.complete(card)
        drawn = {} if self.seed is None else initial_weights(card, self.seed)
        return (self.drawn(card) or drawn) | literal_fractions(card)

    def or_drawn(self, card: CardData) -> Path | dict[str, Any] | None:
        """The file, or what ``--among`` draws; None where the seed says all."""
        return self.weights or self.drawn(card, "float64") or None

    def drawn(self, card: CardData, dtype: str | None = None) -> dict[str, Any]:
        """The weights that ``--among`` draws, exactly or as floats; none without that option."""
        from viete.evaluate.initial_weights import weights_among

        if self.among is None or not self.present:
            return {}
        found = weights_among(card, self.seed or 0, self.among)
        return found if dtype is None else {k: v.astype(dtype) for k, v in found.items()}


def tensors_on(arrays: Mapping[str, Any], dtype: str, device: str) -> dict[str, Any]:
    """The arrays as PyTorch tensors of that type, on that device."""
    from viete.formats.tensors import on_device, require

    torch = require("torch", "for --device")
    with on_device(device):
        return {k: torch.asarray(v).to(device, getattr(torch, dtype)) for k, v in arrays.items()}


# -- numbers -------------------------------------------------------------------------------------


@dataclass
class NumberOptions:
    """Which numbers a run is in, and how exact ones are written."""

    panel: ClassVar[str] = "Numbers"

    dtype: Annotated[
        str | None,
        typer.Option(
            help="float16, bfloat16 (PyTorch only), float32 or float64 [the card's dtype column, "
            "else float64; a model's own]."
        ),
    ] = None
    device: Annotated[
        str | None, typer.Option(help="Run with PyTorch on this device: cpu or cuda.")
    ] = None
    meaning: Annotated[
        str,
        choice(
            MEANINGS,
            "--meaning",
            help="The numbers to compute with: float; exact, where nothing is rounded; or "
            "interval, two floats with the exact number between them.",
        ),
    ] = "float"
    digits: Annotated[
        int | None, typer.Option(min=1, help="Show this many proven digits of each exact number.")
    ] = None
    unfold: Annotated[
        int | None,
        typer.Option(min=0, help="Write out the names in exact numbers, this many levels deep."),
    ] = None

    def check(self) -> None:
        """Refuse options that do not go together."""
        if self.meaning != "float" and (self.device, self.dtype) != (None, None):
            raise VieteError(f"--meaning {self.meaning} goes without --device and --dtype")
        if self.meaning != "exact" and (self.digits, self.unfold) != (None, None):
            raise VieteError("--digits and --unfold go with --meaning exact")


# -- inputs --------------------------------------------------------------------------------------


@dataclass
class InputOptions:
    """What a card or a model is run on."""

    panel: ClassVar[str] = "Input"

    tokens: Annotated[
        str | None,
        typer.Option("--tokens", "-t", help="Token ids, or words of the card's vocabulary: 3,1,4 "
                     "or 'a b'. A / starts another sequence."),
    ] = None  # fmt: skip
    text: Annotated[
        str | None, typer.Option(help="The input as text, for a model with a tokenizer.")
    ] = None
    bos: Annotated[
        bool | None,
        typer.Option(help="Begin the text with the tokenizer's first token [if it has one]."),
    ] = None
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=VALUES",
            help="Give another input of the card: y=1,4,1 (repeatable).",
        ),
    ] = None

    def ids(self, card: CardData, model: Model | None) -> Any:
        """Token ids as they are given, or those of the text."""
        if (self.tokens is None) == (self.text is None):
            raise VieteError(
                "give the input either as --tokens, such as --tokens 3,1,4, or as --text TEXT"
            )
        if self.tokens is not None:
            return numbers(self.tokens, card)
        if model is None:
            if card.vocabulary:
                return numbers(self.text or "", card, "--text")
            raise VieteError(f"{card.title} is a card, and has no tokenizer: give --tokens 3,1,4")
        return model.text_ids(self.text or "", self.bos)

    def others(self, card: CardData) -> dict[str, Any]:
        """``--input y=1,4,1`` as inputs by name."""
        out = {}
        for text in self.given or ():
            key, equals, value = text.partition("=")
            if not equals:
                raise VieteError(
                    f"--input takes NAME=NUMBERS, such as --input y=1,4,1, not {text!r}"
                )
            out[key.strip()] = numbers(value, card, f"--input {key.strip()}")
        return out


def numbers(text: str, card: CardData, what: str = "--tokens") -> list[int] | list[list[int]]:
    """``3,1,4`` or ``a b`` (words of the card's vocabulary); ``/`` begins another sequence."""
    rows = [row_of(part, card, what) for part in text.split("/")]
    if len({len(r) for r in rows}) > 1:
        raise VieteError(f"{what}: the sequences of a batch must be equally long")
    return rows if len(rows) > 1 else rows[0]


def row_of(text: str, card: CardData, what: str) -> list[int]:
    """One sequence: numbers as they are, words by their place in the vocabulary."""
    words = [w for part in text.split(",") for w in part.split() or [""]]
    if not text.strip():
        raise VieteError(f"{what} has an empty sequence; give at least one token, such as 3")
    if not all(words):
        raise VieteError(f"{what} has nothing between two commas; give numbers such as 3,1,4")
    out = []
    for word in words:
        if word in card.vocabulary:
            out.append(card.vocabulary.index(word))
        elif re.fullmatch(r"-?[0-9]{1,18}", word):
            out.append(int(word))
        else:
            known = f" or words of its vocabulary ({' '.join(card.vocabulary[:12])})"
            raise VieteError(
                f"{what}: {word!r} is not a token; give numbers such as 3,1,4"
                f"{known if card.vocabulary else ''}"
            )
    return out


def split_names(text: str, option: str) -> list[str]:
    """Split at the commas that stand in no bracket: ``S, A^{1,h}, <u, v>``."""
    parts, depth = [""], 0
    angles = "<>" if text.count("<") == text.count(">") else "  "
    for c in text:
        depth += (c in "([{⟨" + angles[0]) - (c in ")]}⟩" + angles[1])
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    if not all(p.strip() for p in parts):
        raise VieteError(f"{option} takes names with commas between them, not {text!r}")
    return [p.strip() for p in parts]


# -- outputs -------------------------------------------------------------------------------------


def format_option(
    forms: Sequence[str], help: str = "The format [from -o's suffix, else text]."
) -> Any:
    """``--format`` of a command that writes these."""
    return choice(forms, "--format", "-f", help=help, panel="Output")


def format_of(form: str | None, output: Path | None, forms: Sequence[str]) -> str:
    """The format that was asked for, else that of the output's suffix; text where it has none.

    Raises VieteError for a suffix of none of the ``forms``.
    """
    suffix = "" if output is None else output.suffix.lower()
    if form is not None or not suffix:
        return form or "text"
    known = {SUFFIXES[form]: form for form in forms}
    if suffix not in known:
        raise VieteError(
            f"-o {output}: this command writes no {suffix} files; give one of "
            f"{', '.join(known)}, or a format with -f"
        )
    return known[suffix]


def source_form(form: str, output: Path | None) -> str:
    """The format that a document is written in: of a PDF the one that it is compiled from."""
    if form != "pdf":
        return form
    if output is None:
        raise VieteError("a PDF is a file, and nothing for the screen: give -o NAME.pdf")
    from viete.document.pdf import compiled_from

    return compiled_from()


def finished(text: str, form: str, source: str) -> str | bytes:
    """A document in its format, where it was written in the format ``source``."""
    if form != "pdf":
        return text
    from viete.document.pdf import compiled

    return compiled(text, source)


def emit(text: str | bytes, output: Path | None, source: str = "") -> None:
    """Print, or write the file and say so."""
    if output is None:
        assert isinstance(text, str)
        print(text, end="" if text.endswith("\n") else "\n")
        return
    write_file(text, output, source)
    wrote(output)


def write_file(text: str | bytes, output: Path, source: str = "") -> None:
    """Write the file whole or not at all; never over the card it is ``source`` of.

    A link stays, and what it leads to is written.
    """
    if source and realpath(output) == realpath(source):
        raise VieteError(f"-o {output} would overwrite the card itself; give another name")
    with replacing(behind(output)) as file:
        file.write(text.encode() if isinstance(text, str) else text)


def wrote(*paths: Path) -> None:
    """Say on standard error what was written, so that standard output stays clean."""
    for path in paths:
        print(f"written: {path}", file=sys.stderr)
