"""A card as a PyTorch module: the source that `viete.code.export` writes, loaded.

The code that runs is the code that one reads: `source(module)` is that text, and a traceback shows
its lines.
"""

from __future__ import annotations

import hashlib
import linecache
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from itertools import chain
from types import ModuleType
from typing import Any

import torch
from torch import nn

from viete.code.prepared import prepared
from viete.code.torch_module import Placement, TorchModule
from viete.errors import VieteError
from viete.evaluate.inputs import writable
from viete.evaluate.schedule import parameter_shapes
from viete.evaluate.spelling import by_own_names
from viete.graph.card import CardData
from viete.train.clients import Calling, Named, calling, config_of, forward_of

Places = tuple[tuple[str, Placement], ...]


class CardModule:
    """The card's names for the parameters of a loaded module, besides its equations."""

    places: Mapping[str, Placement]  # of the weights, by the card's names
    arguments: Mapping[str, str]  # the names of forward's arguments, by those of the card's inputs
    how: Calling  # by the names of transformers
    config: Named  # the card's family and sizes

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return first(self).device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the parameters."""
        return first(self).dtype

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights by the card's names, those of `parameter_shapes`, as views of the parameters.

        Values from a config, which are not learned, are buffers.
        """
        return {name: place.view(self.held(place)) for name, place in self.places.items()}

    def gradients(self) -> dict[str, torch.Tensor | None]:
        """The gradients by the card's names, as views; None where there is none."""
        grads = {name: self.held(place).grad for name, place in self.places.items()}
        return {name: None if g is None else self.places[name].view(g)
                for name, g in grads.items()}  # fmt: skip

    def held(self, place: Placement) -> torch.Tensor:
        """The parameter or buffer of a place."""
        owner, _, name = place.names[0].rpartition(".")
        assert isinstance(self, nn.Module)
        found: torch.Tensor = getattr(self.get_submodule(owner), name)
        return found

    def tie_weights(self) -> None:
        """Make one parameter of those that hold the same weight."""
        assert isinstance(self, nn.Module)
        for place in self.places.values():
            for other in place.names[1:]:
                owner, _, name = other.rpartition(".")
                setattr(self.get_submodule(owner), name, self.held(place))

    def state_dict(self, *args: Any, prefix: str = "", **options: Any) -> Any:
        """As of any module, with one name for what is one parameter, as safetensors wants it."""
        found = super().state_dict(*args, prefix=prefix, **options)  # type: ignore[misc]
        for place in self.places.values():
            for other in place.names[1:]:
                found.pop(prefix + other, None)
        return found

    def _load_from_state_dict(self, given: dict[str, Any], prefix: str, *rest: Any) -> None:
        """As of any module, with one name or all for what is one parameter."""
        for place in self.places.values():
            for other in place.names[1:]:
                if prefix + place.names[0] in given:
                    given.setdefault(prefix + other, given[prefix + place.names[0]])
        super()._load_from_state_dict(given, prefix, *rest)  # type: ignore[misc]

    def _apply(self, *args: Any, **options: Any) -> Any:
        """As of any module; ``to_empty`` and other devices would make two parameters of one."""
        made = super()._apply(*args, **options)  # type: ignore[misc]
        self.tie_weights()
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the module with its source, so that another process can load it."""
        made = source(self), tuple(self.places.items()), tuple(self.arguments.items()), self.how
        return revived, made, self.__dict__


def first(module: Any) -> torch.Tensor:
    """A module's first parameter, or else buffer."""
    found: torch.Tensor = next(chain(module.parameters(), module.buffers()))
    return found


def to_torch(
    card: CardData, weights: Mapping[str, Any] | None = None, of: str | None = None,
    mean: str = "targets", config: Mapping[str, Any] | None = None,
) -> nn.Module:  # fmt: skip
    """The module of a card; see `viete.Card.to_torch`. ``config`` is what its own is added to."""
    module = filled(card, weights, of, mean)
    module.config = config_of(card, config or {})
    return module


def filled(card: CardData, weights: Mapping[str, Any] | None, of: str | None, mean: str) -> Any:
    """The module with a copy of the weights, or with random ones."""
    if weights is None:
        return kind_of(card, of, mean)()
    shapes = parameter_shapes(card)
    given = {name: tensor(name, w) for name, w in by_own_names(card, weights, shapes).items()}
    for name, shape in shapes.items():
        if name not in given:
            raise VieteError(f"{card.title} has a weight {name}, which is not given")
        if tuple(given[name].shape) != shape:
            raise VieteError(f"{name} has shape {shape}, not {tuple(given[name].shape)}")
    if odd := sorted(given.keys() - shapes.keys()):
        raise VieteError(f"{card.title} has no weight {odd[0]}")
    if not given:
        return kind_of(card, of, mean)()
    first = next(iter(given.values()))
    module = empty(card, of, mean).to(first.dtype).to_empty(device=first.device)
    with torch.no_grad():
        for name, parameter in module.weights().items():
            parameter.copy_(given[name])
    return module


def empty(card: CardData, of: str | None = None, mean: str = "targets") -> Any:
    """The module with parameters that have shapes but no memory."""
    made = kind_of(card, of, mean)
    with torch.device("meta"):  # nothing is drawn that is then replaced
        return made()


def kind_of(card: CardData, of: str | None, mean: str) -> type[nn.Module]:
    """The class of a card's modules."""
    p = prepared(card, of, backward=False, autograd=True, mean=mean)
    writer = TorchModule(p)
    text, arguments = writer.text(), writer.arguments()
    how = calling(p, arguments)
    return kind(text, tuple(writer.places().items()), tuple(arguments.items()), how)


def tensor(name: str, weight: Any) -> torch.Tensor:
    """A weight of real numbers as a PyTorch tensor."""
    with suppress(TypeError, ValueError, RuntimeError):
        found = torch.as_tensor(writable(weight))
        if found.is_floating_point():
            return found
    raise VieteError(f"{name} is not an array of real numbers that PyTorch could hold")


@cache
def kind(
    text: str, places: Places, arguments: tuple[tuple[str, str], ...], how: Calling
) -> type[nn.Module]:
    """The class that a source defines, for a card whose weights are at these places."""
    file = file_of(text)
    found = [x for x in vars(file).values() if isinstance(x, type) and issubclass(x, nn.Module)]
    last: Any = found[-1]
    own = {"__doc__": last.__doc__, "__module__": file.__name__, "places": dict(places),
           "arguments": dict(arguments), "how": how,
           "forward": forward_of(last.forward, how),
           "accepts_loss_kwargs": how.targets is not None}  # fmt: skip
    return type(last.__name__, (CardModule, last), own)


def revived(
    text: str, places: Places, arguments: tuple[tuple[str, str], ...], how: Calling
) -> nn.Module:
    """An instance without parameters, to be filled by pickle or copy."""
    found = kind(text, places, arguments, how)
    empty: nn.Module = object.__new__(found)
    return empty


def file_of(text: str) -> Any:
    """A source as a Python module, the same module for the same text."""
    name = f"viete_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if name not in sys.modules:
        file = ModuleType(name)
        file.__file__ = f"<{name}>"
        # What traceback, inspect and torch.compile ask for a file's lines.
        linecache.cache[file.__file__] = (len(text), None, text.splitlines(True), file.__file__)
        exec(compile(text, file.__file__, "exec"), vars(file))
        sys.modules[name] = file
    return sys.modules[name]


def source(module: Any) -> str:
    """The source of a module made by `to_torch`."""
    return "".join(linecache.getlines(str(sys.modules[type(module).__module__].__file__)))


__all__ = ["source", "to_torch"]
