"""Models of the Hugging Face hub, by id and revision: ``EleutherAI/pythia-70m-deduped``.

The `huggingface_hub` library fetches files into its own cache, which `transformers` shares and
which works without a network. Only the files of the model are fetched: config and tokenizer first,
then its safetensors, or pickled files if there are no safetensors.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from viete.errors import VieteError

SMALL = (
    "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model",
)  # fmt: skip
# Safetensors first; what comes later is read by our own unpickler, which executes nothing.
TENSORS = (
    "model.safetensors.index.json", "model.safetensors",
    "pytorch_model.bin.index.json", "pytorch_model.bin",
)  # fmt: skip
SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".npz", ".gguf", ".onnx")  # of such files
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
_STEP = re.compile(r"step[-_]?\d{1,12}")
_SHARD = r"-\d{5}-of-\d{5}"


def located(
    source: str | os.PathLike[str], revision: str | None = None, whole: bool = True
) -> Path:
    """The path of a model on this machine; a model of the hub is fetched first.

    ``revision`` is a branch, tag or commit of the hub's (``step143000``). Without ``whole`` the
    weights stay where they are. Raises VieteError for an id that the hub does not have or does not
    give, and where it cannot be reached and the model is not in the cache.
    """
    if not isinstance(source, str | os.PathLike):
        raise VieteError(
            f"a model must be a folder, a file, an id of the hub or a mapping of arrays, not "
            f"{source!r:.60}"
        )
    path = Path(source)
    try:
        there = path.exists()
    except OSError as error:  # a name that no file can have
        raise VieteError(f"cannot look for {str(source)[:80]}: {error.strerror}") from None
    if there and revision is None:
        return path
    if there:
        raise VieteError(f"{path}: is a path on this machine, so it has no revision {revision}")
    if path.suffix in SUFFIXES:
        raise VieteError(f"{path}: there is no such file")
    if isinstance(source, Path) or not is_id(str(source)):
        raise VieteError(f"{path}: there is no such folder")
    return fetched(str(source), revision, whole)


def is_id(name: str) -> bool:
    """Whether a name may be a model of the hub: ``gpt2`` or ``openai-community/gpt2``."""
    return _ID.fullmatch(name) is not None and not re.search(r"\.\.|--|[.-]$|\.git$", name)


def fetched(name: str, revision: str | None, whole: bool) -> Path:
    """The folder in the cache, with the requested files."""
    hub = library(name)
    with quietly(hub), in_a_sentence(hub, name, revision):
        folder = Path(hub.snapshot_download(name, revision=revision, allow_patterns=list(SMALL)))
    if not whole:
        return folder
    commit = folder.name  # so that all of it is of one state
    with quietly(hub), in_a_sentence(hub, name, revision):
        try:
            found = hub.HfApi().model_info(name, revision=commit)
        except Exception as error:
            if is_away(hub, error):
                return folder  # as it was fetched before
            raise
        files = weights_in([file.rfilename for file in found.siblings or ()])
        hub.snapshot_download(name, revision=commit, allow_patterns=[*SMALL, *files])
    return folder


def steps_of_model(name: str) -> list[str]:
    """The branches and tags of a model that name a step, such as step1000, in order.

    Raises VieteError for an id that the hub does not have, and where it cannot be reached.
    """
    hub = library(name)
    with quietly(hub), in_a_sentence(hub, name, None):
        refs = hub.HfApi().list_repo_refs(name)
    names = {ref.name for ref in (*refs.branches, *refs.tags) if _STEP.fullmatch(ref.name)}
    return sorted(names, key=lambda ref: int(ref.removeprefix("step").strip("-_")))


def weights_in(files: Sequence[str]) -> list[str]:
    """The files of weights in a repository, in the best format that it has."""
    for name in TENSORS:
        if name not in files:
            continue
        if not name.endswith(".index.json"):
            return [name]
        stem, suffix = name.removesuffix(".index.json").rsplit(".", 1)
        shard = re.compile(re.escape(stem) + _SHARD + re.escape(f".{suffix}"))
        return [name, *(f for f in files if shard.fullmatch(f))]
    return []


def library(name: str) -> Any:
    """The package huggingface_hub, or a VieteError that says how to install it."""
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError:
        raise VieteError(
            f"{name}: there is no such folder, and to fetch it from the Hugging Face hub you need "
            f"huggingface_hub: pip install 'viete[hub]'"
        ) from None
    return huggingface_hub


def is_away(hub: Any, error: Exception) -> bool:
    """Whether an error means that the hub cannot be reached, from any HTTP client."""
    client = {base.__module__.split(".")[0] for base in type(error).__mro__}
    away = isinstance(error, OSError) or bool(client & {"httpx", "httpx2", "requests"})
    return away and not isinstance(error, hub.errors.HfHubHTTPError)


@contextmanager
def in_a_sentence(hub: Any, name: str, revision: str | None) -> Iterator[None]:
    """Turn errors of the hub's library into one sentence that says what would be right."""
    try:
        yield
    except Exception as error:
        if (said := refusal(hub, error, name, revision)) is None:
            raise
        raise VieteError(f"{name}: {said}") from None


def refusal(hub: Any, error: Exception, name: str, revision: str | None) -> str | None:
    """The meaning of an error of the library; None for an error that is not about the hub."""
    e, at = hub.errors, hub.constants.ENDPOINT
    if isinstance(error, e.GatedRepoError):
        return f"its authors want to be asked: do so at {at}/{name}, then hf auth login"
    if isinstance(error, e.RepositoryNotFoundError):
        return (
            f"there is no such folder, and no model of that name at {at} that is open to you; a "
            f"private one needs hf auth login"
        )
    if isinstance(error, e.RevisionNotFoundError):
        return f"there is no revision {revision} of it at {at}"
    if isinstance(error, e.LocalEntryNotFoundError):
        which = f"revision {revision} of it" if revision else "it"
        return (
            f"there is no such folder, {at} cannot be reached, and {which} is not whole in the "
            f"cache {hub.constants.HF_HUB_CACHE}"
        )
    if isinstance(error, e.HFValidationError):
        return "there is no such folder, and this is not an id that the hub could have"
    if isinstance(error, OSError) or is_away(hub, error):
        said = " ".join(str(error).split())[:200] or type(error).__name__
        return f"cannot be fetched from {at} ({said})"
    return None


@contextmanager
def quietly(hub: Any) -> Iterator[None]:
    """Show progress bars only on a terminal."""
    bars = hub.utils.are_progress_bars_disabled()
    if not sys.stderr.isatty():
        hub.utils.disable_progress_bars()
    try:
        yield
    finally:
        if not bars:
            hub.utils.enable_progress_bars()
