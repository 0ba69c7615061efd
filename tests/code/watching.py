"""Every value of an exported program: what each variable of its `forward` becomes, in turn."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from viete.code.javascript.module import with_all_values
from viete.code.jax_functions import JaxFunctions
from viete.code.numpy_script import NumpyScript
from viete.code.prepared import prepared
from viete.code.target import Target
from viete.code.torch_module import TorchModule
from viete.graph.card import CardData

Became = dict[str, list[Any]]


class ForwardAlone(NumpyScript):
    """A script without its training, which takes tokens alone."""

    def train(self) -> list[str]:
        return ["def train():", "    raise ValueError"]


TARGETS: dict[str, Callable[..., Target]] = {
    "numpy": ForwardAlone, "jax": JaxFunctions, "torch": TorchModule
}  # fmt: skip


def with_its_values(card: CardData, to: str, loss: str) -> Target:
    """The program of a card that computes all values, also those that neither result needs."""
    numpy = to == "numpy"
    mean = "targets" if to == "torch" else "texts"
    return TARGETS[to](with_all_values(prepared(card, loss, numpy, not numpy, mean)))


class Watching(ast.NodeTransformer):
    """Reports each assignment within functions named `forward`, those of blocks too."""

    inside = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        outer, self.inside = self.inside, node.name == "forward"
        self.generic_visit(node)
        self.inside = outer
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        if not self.inside:
            return node
        (target,) = node.targets
        name = target.value if isinstance(target, ast.Subscript) else target
        call = node.value.func if isinstance(node.value, ast.Call) else None
        given = isinstance(call, ast.Name) and call.id == "block"  # the block reports its own
        if given or not isinstance(name, ast.Name):
            return node
        again = ast.parse(f"became_({name.id!r}, {ast.unparse(target)})").body
        return [node, *again]


def watched(text: str) -> tuple[dict[str, Any], Became]:
    """The names of a program; and the list, filled by a call, of what each variable becomes."""
    became: Became = {}

    def record(name: str, value: Any) -> None:
        values = value.values() if isinstance(value, dict) else [value]  # by block
        became.setdefault(name, []).extend(values)

    tree = ast.fix_missing_locations(Watching().visit(ast.parse(text)))
    names: dict[str, Any] = {"__name__": "exported", "became_": record}
    exec(compile(tree, "exported.py", "exec"), names)
    return names, became
