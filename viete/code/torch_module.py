"""A PyTorch module: parameters as the card draws them, and ``forward`` equation by equation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viete.code.blocks import block_range, first_block, shifted
from viete.code.body import Turn
from viete.code.functions import word
from viete.code.identifiers import plain_letter
from viete.code.initial import refusing, viete_name
from viete.code.layout import comment, docstring, joined, statement
from viete.code.prepared import Prepared, lacking_targets
from viete.code.target import Target, entry
from viete.code.torch_blocks import Blocks, block_class, groups, is_called, write_turn
from viete.code.torch_linear import Layer
from viete.code.torch_products import Products
from viete.errors import VieteError
from viete.evaluate.initial_weights import member_texts
from viete.evaluate.schedule import program
from viete.graph.card import Loop, Parameter
from viete.graph.dependence import names_read
from viete.notation.tree import Ref, Symbol

XAVIER = [
    "def xavier(*shape):",
    '    """Uniform, as Glorot & Bengio 2010, eq. 16."""',
    "    bound = math.sqrt(6 / (shape[-2] + shape[-1]))",
    "    return torch.empty(shape).uniform_(-bound, bound)",
]


@dataclass(frozen=True)
class Placement:
    """The names in a state_dict that hold a weight of this shape, and how a layer does."""

    names: tuple[str, ...]  # of one tensor
    shape: tuple[int, ...]
    layer: Layer | None = None

    def view(self, tensor: Any) -> Any:
        """The weight, as a view of the tensor that holds it."""
        return tensor if self.layer is None else self.layer.view(tensor, self.shape)

    def held(self, weight: Any) -> Any:
        """The tensor that holds a weight."""
        return weight if self.layer is None else self.layer.held(weight)


class TorchModule(Target):
    """A card as one PyTorch module."""

    library, what, depth, lowering = "torch", "as a PyTorch module", 2, Products
    completes = False  # what `load_state_dict` refuses
    reserved = frozenset(
        "Block blocks block renamed xavier weights names arguments forward bound shape how config "
        "device dtype gradients held tie_weights input_ids attention_mask labels "
        "num_items_in_batch accepts_loss_kwargs".split()
    )

    def __init__(self, p: Prepared) -> None:
        p = replace(p, model=lacking_targets(p.model))
        self.title = class_name(p.model.title)
        self.reserved |= {self.title}
        equations = [*p.forward, *p.more]
        self.groups = groups(p.model, equations)
        self.group = {q.name: g for g in self.groups for q in g.parameters}
        for q in p.model.parameters:
            if len(p.model.blocks_of(q.symbol)) > 1:
                raise VieteError(
                    f"{q.name} has two block numbers, and a PyTorch module keeps the parameters of "
                    f"one block together; export it to numpy or jax"
                )
        if all(p.model.blocks_of(q.symbol) for q in p.model.parameters):
            raise VieteError(f"{p.model.title} has no parameter outside of its blocks")
        super().__init__(p)
        products = self.body.lowering
        assert isinstance(products, Products)
        kept = {x.key for x in (p.output, p.loss) if x is not None}
        products.fuse(equations, kept, self.body.varying)
        products.layer, self.layers = self.layer, products.projections.layers
        like = self.like("self", [q for q in p.model.parameters if not p.model.blocks_of(q.symbol)])
        products.env = replace(products.env, like=like)
        self.called = [g for g in self.groups if is_called(g, equations, self.body.rolling)
                       and [loop for loop, _ in self.body.every].count(g.loop) == 1]  # fmt: skip

    def like(self, owner: str, parameters: Sequence[Parameter]) -> str:
        """A parameter whose precision and device others take: an array, rather than a layer."""
        q = min(parameters, key=lambda q: self.is_layer(q))
        return f"{owner}.{self.body.names.symbol(q.symbol)}{'.weight' * self.is_layer(q)}"

    def is_layer(self, q: Parameter) -> bool:
        """Whether a parameter is the weight of a layer, and nothing besides."""
        return q.name in self.layers and not self.layers[q.name].shared

    def parameter(self, e: Ref, places: tuple[str, ...]) -> str:
        text = self.owned(e, places, self.body.names.symbol(e.symbol))
        layer = self.layers.get(e.key)
        if layer is None:
            return text
        q = next(q for q in self.model.parameters if q.name == e.key)
        lead, core = self.initial.sizes(q)
        return layer.array(text, lead + core)

    def layer(self, e: Ref, places: tuple[str, ...]) -> str:
        """The code of the layer of a parameter at given block numbers."""
        return self.owned(e, places, self.layer_name(e.symbol))

    def layer_name(self, symbol: Symbol) -> str:
        """The name of a layer: the parameter's own, unless something else reads that."""
        names, shared = self.body.names, self.layers[symbol.key].shared
        name = names.symbol(symbol)
        return names.name(f"layer {symbol.key}", f"{name}_linear") if shared else name

    def owned(self, e: Ref, places: tuple[str, ...], name: str) -> str:
        """What the module has under a name, at given block numbers of a parameter."""
        if not places:
            return f"self.{name}"
        group = self.group[e.key]
        letter = group.letter
        if places[0] == plain_letter(letter) and self.list_of(self.body.loop) == group:
            return f"block.{name}"
        return f"self.{group.name}[{shifted(places[0], first_block(self.body, letter))}].{name}"

    def list_of(self, loop: Loop | None) -> Blocks | None:
        """The list of blocks over which a loop runs, if it runs over all of them and no others."""
        same = {(x.lower, x.upper) for x in self.model.loops if loop and x.index == loop.index}
        found = [g for g in self.groups if g.loop == loop]
        return found[0] if found and len(same) == 1 else None

    def block_list(self, loop: Loop) -> str | None:
        found = self.list_of(loop)
        return None if found is None else f"self.{found.name}"

    def turn(self, loop: Loop) -> tuple[str, Turn] | None:
        """The function that makes a loop's lines the ``forward`` of its blocks."""
        group = self.list_of(loop)
        if group is None or group not in self.called:
            return None
        body, model = self.body, self.model
        made = {e.name: body.names.symbol(e.left.symbol) for e in model.equations}
        every = [*self.p.forward, *self.p.more]
        numbers = [body.number[id(e)] for e in every if e.loop == loop]
        after = names_read(e for e in every if e.loop != loop) | {self.p.output.key}
        names = {body.names.symbol(i.symbol) for i in model.inputs} | set(made.values())
        names |= {body.names.symbol(d.symbol) for d in model.dims if d.name in model.lengths}
        names.add(plain_letter(loop.index))
        like = self.like("block", group.parameters)
        kept = {made[key] for key in after & made.keys()}

        def write(lines: list[str]) -> list[str]:
            said = f"Equations {numbers[0]} to {numbers[-1]} are `{group.kind}.forward`"
            called = write_turn(group, lines, names, kept, first_block(self.body, loop.index))
            return [*comment(said, 2), *called]

        return like, write

    def text(self) -> str:
        forward = self.forward()
        blocks = [block_class(g, self.rows(g.parameters), self.number(g)) for g in self.groups]
        module, names = self.module(forward), self.renamed()
        xavier = [XAVIER] if self.initial.xavier else []
        return self.file([*xavier, *blocks, module, names])

    def imports(self, code: str) -> list[str]:
        functional = ["from torch.nn import functional"] if word("functional", code) else []
        return ["import torch", "from torch import nn", *functional]

    def number(self, group: Blocks) -> str:
        """The letter of a group of blocks whose parameters have a literal for each block."""
        own = any(p.value and len(member_texts(p)) > 1 for p in group.parameters)
        return plain_letter(group.letter) if own else ""

    def rows(self, parameters: list[Parameter]) -> list[str]:
        out = []
        for q in parameters:
            name = self.body.names.symbol(q.symbol)
            value = self.initial.of(q)
            if (layer := self.layers.get(q.name)) is not None:
                made, own = layer.weight(value), self.layer_name(q.symbol)
                linear = self.body.functions.helper("linear")
                if layer.shared:
                    made = f"nn.Parameter({made}{'.contiguous()' * (made != value)})"
                    out += statement(f"self.{name} = {made}", 2)
                    made = f"self.{name}"
                out += statement(f"self.{own} = {linear}({made})", 2)
            elif q.from_config:
                out += statement(f'self.register_buffer("{name}", {value})', 2)
            else:
                out += statement(f"self.{name} = nn.Parameter({value})", 2)
        return out

    def module(self, forward: list[str]) -> list[str]:
        lines = [
            f"class {self.title}(nn.Module):",
            *docstring([f"{self.model.title}; `renamed` takes weights by Viète's names"], 1),
            "",
            "    def __init__(self):",
            "        super().__init__()",
            *self.rows([q for q in self.model.parameters if not self.model.blocks_of(q.symbol)]),
        ]
        for group in self.groups:
            many, number = block_range(self.body, group.letter), self.number(group)
            if number:
                made = f"nn.ModuleList({group.kind}({number}) for {number} in {many})"
                lines += statement(f"self.{group.name} = {made}", 2)
                continue
            if many.startswith("range(1, "):
                many = re.sub(r"^range\(1, (\w+) \+ 1\)$", r"range(\1)", many)
            made = f"nn.ModuleList({group.kind}() for _ in {many})"
            lines += statement(f"self.{group.name} = {made}", 2)
        return [*lines, "", *forward]

    def arguments(self) -> dict[str, str]:
        """The argument names of `forward`, by the names of the card's inputs."""
        return {i.name: self.body.names.symbol(i.symbol) for i in self.model.inputs}

    def signature(self, name: str, code: Iterable[str], before: Sequence[str] = ()) -> list[str]:
        given = [self.name(i) + ("" if self.required(i) else "=None") for i in self.inputs]
        return joined(["self", *given], f"def {name}(", "):", 1)

    def summary(self, loss: bool) -> str:
        shape = "of one sequence, or of a batch of them along a first axis"
        return f"{self.p.output.key} {shape}" + "; with targets also the loss" * loss

    def closing(self) -> list[str]:
        # One number of a batch, the mean over its targets or its sequences.
        if self.p.count is None:
            return [f"        return {self.output}, {self.loss}.mean()"]
        count = self.body.names.symbol(self.p.count.symbol)
        mean = self.body.lowering.functions.helper("over_targets")
        return [f"        return {self.output}, {mean}({self.loss}, {count})"]

    def renamed(self) -> list[str]:
        """The mapping from Viète's names to those of the state_dict."""
        rows = []
        for q in self.model.parameters:
            letters = self.model.blocks_of(q.symbol)
            array = f"weights[{viete_name(self.model, q.symbol)}]"
            array = self.layers[q.name].weight(array) if q.name in self.layers else array
            for name in self.state_names(q):
                if not letters:
                    rows += entry(f'"{name}": {array}', 2)
                    continue
                i, first = plain_letter(letters[0]), first_block(self.body, letters[0])
                place = i if first == "0" else f"{i} - {first}"
                rows += entry(
                    f'**{{f"{self.group[q.name].name}.{{{place}}}.{name}": {array} '
                    f"for {i} in {block_range(self.body, letters[0])}}}", 2,
                )  # fmt: skip
        said = "Weights by the names that Viète gives them, by the names of the state_dict"
        made = refusing(["    return {", *rows, "    }"])
        return ["def renamed(weights):", *docstring([said], 1), *made]

    def state_names(self, q: Parameter) -> list[str]:
        """The names in the state_dict of the module, or of a block, that hold a parameter."""
        name = self.body.names.symbol(q.symbol)
        own = [] if self.is_layer(q) else [name]
        return own + ([f"{self.layer_name(q.symbol)}.weight"] if q.name in self.layers else [])

    def places(self) -> dict[str, Placement]:
        """Where the state_dict holds the card's weights, by their names."""
        out = {}
        for weight, (q, blocks, shape) in program(self.model).parameters.items():
            before = ""
            if blocks:
                letter = self.model.blocks_of(q.symbol)[0]
                loop = {x.index: x for x in self.model.loops if not x.down}[letter]
                first = self.body.value(loop.lower) or 0
                before = f"{self.group[q.name].name}.{int(blocks[0] - first)}."
            names = tuple(before + name for name in self.state_names(q))
            out[weight] = Placement(names, shape, self.layers.get(q.name))
        return out


def class_name(title: str) -> str:
    """A class name from a title."""
    words = re.findall(r"[A-Za-z0-9]+", title)
    name = "".join(w[:1].upper() + w[1:] for w in words) or "Model"
    return f"Model{name}" if name[0].isdigit() else name
