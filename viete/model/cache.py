"""The values of a run under the names of TransformerLens, and the usual computations on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.evaluate.labelled import Array
from viete.evaluate.run import Run
from viete.model.calls import to_device
from viete.model.named_values import NamedValues
from viete.model.names import Names
from viete.model.short_names import Key
from viete.model.slices import Cut, cut, with_its_axis
from viete.model.stacks import Stacks
from viete.model.weights import NamedWeights


class RunValues(MutableMapping[str, Array]):
    """The values of a run by full names, each read when asked for.

    Values can be replaced by assignment, as in a dict. ``pos`` are the positions to read.
    """

    def __init__(self, named: NamedValues, run: Run, names: Sequence[str], pos: Cut = None) -> None:
        self.named, self.run, self.pos = named, run, pos
        self.batches: tuple[Cut, ...] = ()  # the texts to read, and of these the texts
        self.own: dict[str, Array | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Array:
        if (own := self.own[name]) is not None:
            return own
        array = self.own[name] = self.of_run(name, self.pos)
        return array

    def of_run(self, name: str, pos: Cut = None) -> Array:
        """A value of the run by a full name, or a formula, of the texts to read."""
        if name in self.named.names:
            array: Array = self.named.read(self.run, name, self.run.batch or 1)
        else:
            answer = self.run.answer(name)
            array = answer.array
            if answer.axes[:1] != ("batch",):
                return array
        if pos is not None:
            array = at_positions(self.named.names, name, array, pos)
        for which in self.batches:
            array = cut(array, which, 0)
        return array

    @property
    def texts(self) -> int:
        """The number of texts to read."""
        each = np.arange(self.run.batch or 1)
        for which in self.batches:
            each = cut(each, which, 0)
        return int(each.size)

    def __setitem__(self, name: str, array: Array) -> None:
        self.own[name] = array

    def __delitem__(self, name: str) -> None:
        del self.own[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.own)

    def __len__(self) -> int:
        return len(self.own)


def of_texts(values: MutableMapping[str, Array], which: Cut) -> MutableMapping[str, Array]:
    """The values of some texts of a batch."""
    if not isinstance(values, RunValues):
        return {name: cut(array, which, 0) for name, array in values.items()}
    out = RunValues(values.named, values.run, list(values), values.pos)
    out.own = {n: None if x is None else cut(x, which, 0) for n, x in values.own.items()}
    out.batches = (*values.batches, which)
    return out


def at_positions(names: Names, name: str, array: Array, pos: Cut) -> Array:
    """Some positions of a value of this full name; of attention's pattern, these that attend.

    Raises VieteError for a value that has no axis of positions.
    """
    axes = names.get(names.split(name)[0]).row.axes if name in names else ()
    along = next((k for k, axis in enumerate(axes, 1) if axis in ("pos", "query")), None)
    if along is None:
        raise VieteError(f"{name} has no axis of positions that pos_slice could cut")
    return cut(array, with_its_axis(pos), along)


class ActivationCache(Stacks, Mapping[Any, Array]):
    """A run's values: ``cache["q", 5]``, ``cache["blocks.5.attn.hook_q"]``, ``cache["Q^{6,h}"]``.

    A name of TransformerLens gives the value with the axes in its order, batch first; anything else
    is a formula of the notation, as for `viete.evaluate.run.Run`. Parts of equations are computed
    when they are asked for. Keys are names of TransformerLens, and formulas that were asked for.

    ``cache_dict`` has the values by their names in full: those of a run, or arrays of your own,
    such as the gradients that hooks on the way back were given.
    """

    def __init__(
        self, cache_dict: MutableMapping[str, Array], model: NamedWeights,
        has_batch_dim: bool = True,
    ) -> None:  # fmt: skip
        self.cache_dict, self.model, self.has_batch_dim = cache_dict, model, has_batch_dim
        self.names = model.names
        self.device: Any = None  # where arrays are brought when they are read; None: as they are
        self.run = cache_dict.run if isinstance(cache_dict, RunValues) else None

    def __getitem__(self, key: Key) -> Array:
        there = isinstance(key, str) and key in self.cache_dict
        name = str(key) if there else self.names.full_or_formula(key)
        if name is None:
            if self.run is None:
                raise VieteError(
                    f"{key!s:.60} is not in this cache, and the cache has no run to compute it"
                )
            assert isinstance(self.cache_dict, RunValues)
            return self.moved(self.cache_dict.of_run(str(key)))
        if name not in self.cache_dict:
            self.names.get(self.names.split(name)[0])
            raise VieteError(f"{name} is not in this cache: it was not requested")
        return self.moved(self.cache_dict[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.cache_dict)

    def __len__(self) -> int:
        return len(self.cache_dict)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str) and key in self.cache_dict:
            return True
        try:
            name = self.names.full_or_formula(key)  # type: ignore[arg-type]
        except VieteError:
            return False
        if name is None:
            return self.run is not None and key in self.run
        return name in self.cache_dict

    def __repr__(self) -> str:
        shown = ", ".join(list(self)[:6])
        return f"<cache of {self.model.card.title}: {shown}{', …' if len(self) > 6 else ''}>"

    def remove_batch_dim(self) -> ActivationCache:
        """The same cache, whose values have no batch axis. Raises VieteError for a real batch."""
        if self.has_batch_dim:
            batch = self.batch()
            if batch != 1:
                raise VieteError(f"the batch axis holds {batch} sequences, so it cannot be removed")
            self.cache_dict = of_texts(self.cache_dict, 0)
            self.has_batch_dim = False
        return self

    def apply_slice_to_batch_dim(self, batch_slice: Cut) -> ActivationCache:
        """A cache of some texts; of a single one, 2, without the batch axis.

        Raises VieteError for a cache without that axis.
        """
        if not self.has_batch_dim:
            raise VieteError("this cache has no batch axis to cut")
        values = of_texts(self.cache_dict, batch_slice)
        out = ActivationCache(values, self.model, not isinstance(batch_slice, int))
        out.device = self.device
        return out

    def to(self, device: Any, move_model: bool = False) -> ActivationCache:
        """The same cache, whose values are on a device of PyTorch from now on.

        With ``move_model`` the model is brought there as well. Raises VieteError for arrays of
        another library.
        """
        if move_model:
            self.model.to(device)
        self.device = device
        self.moved(next(iter(self.values())))  # what cannot be moved is refused here
        return self

    def moved(self, array: Array) -> Array:
        """An array on the device that `to` set."""
        if self.device is None:
            return array
        return to_device(array, self.device)

    def batch(self) -> int:
        """The number of sequences in the values."""
        if isinstance(self.cache_dict, RunValues):
            return self.cache_dict.texts
        return next((int(a.shape[0]) for a in self.cache_dict.values()), 1)


__all__ = ["ActivationCache", "RunValues", "at_positions"]
