"""One room, one job: imports point one way, and `import viete` is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import viete

HOUSE = Path(viete.__file__).parent
# From the foundation up; a room may import from those before it and from itself. 'viete' is the
# front door, with the public names: what it opens may not lean on it.
ROOMS = [
    "printable",
    "errors",
    "atomic",
    "regular",
    "notation",
    "document",
    "library",
    "graph",
    "analysis",
    "rewrite",
    "cards",
    "evaluate",
    "meanings",
    "ask",
    "circuits",
    "causes",
    "features",
    "probes",
    "code",
    "formats",
    "text",
    "model",
    "sampling",
    "train",
    "report",
    "explore",
    "nouns",
    "viete",
    "cli",
    "__main__",
]
HEAVY = [
    "torch",
    "jax",
    "scipy",
    "numpy",
    "array_api_compat",
    "einops",
    "safetensors",
    "transformers",
    "tokenizers",
    "huggingface_hub",
    "typer",
    "rich",
    "http.server",
    "asyncio",
    "uvicorn",
    "starlette",
    "anywidget",
    "IPython",
    "fastapi",
    "flask",
    "tornado",
    "matplotlib",
    "pandas",
    "onnx",
    "gguf",
    "flint",
    "latex2mathml",
]

FILES = sorted(p for p in HOUSE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Those that stand in it, without what stands in these: no expression holds a statement."""
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(node, field, ()):
            yield from [child] if isinstance(child, ast.stmt) else statements(child)


@cache
def located(path: Path) -> list[tuple[ast.stmt, str]]:
    """Every statement of a file, and where: 'top', 'function' or 'types'."""

    def go(node: ast.AST, where: str) -> Iterator[tuple[ast.stmt, str]]:
        for child in statements(node):
            yield child, where
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from go(child, "function")
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                yield from ((inner, "types") for inner, _ in go(child, "types"))
            else:
                yield from go(child, where)

    return list(go(parsed(path), "top"))


@cache
def imports(path: Path) -> list[tuple[str, str]]:
    """(module, where) of every import in a file."""
    out = list[tuple[str, str]]()
    for node, where in located(path):
        if isinstance(node, ast.Import):
            out += [(name.name, where) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports here say where from in full"
            out += [(f"{node.module}.{name.name}", where) for name in node.names]
    return out


def room_of(path: Path) -> str:
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


def points_up(path: Path, module: str, where: str) -> bool:
    if module.split(".")[0] != "viete" or where == "types":
        return False
    if path == HOUSE / "__init__.py":  # the front door opens every room, but only when asked to
        return where != "function" and not module.startswith("viete.errors.")
    other = (module.split(".") + ["viete"])[1]
    other = "viete" if other in viete.__all__ else other
    return other not in ROOMS or ROOMS.index(other) > ROOMS.index(room_of(path))


def test_imports_point_down() -> None:
    """From a room that stands in the list, and not above the one that imports."""
    assert not {
        f"{path.relative_to(HOUSE).as_posix()} imports {module}"
        for path in FILES for module, where in imports(path) if points_up(path, module, where)
    }  # fmt: skip


def test_no_import_goes_in_a_circle() -> None:
    """Nor do those within functions; what is imported for types alone is not counted."""
    dotted = {p: ".".join(p.relative_to(HOUSE.parent).with_suffix("").parts) for p in FILES}
    names = {name.removesuffix(".__init__"): p for p, name in dotted.items()}
    after = {
        name: {m if (m := module) in names else module.rpartition(".")[0]
               for module, where in imports(path) if where != "types"} & names.keys() - {name}
        for name, path in names.items() if name != "viete"
    }  # fmt: skip
    while ends := [name for name, needs in after.items() if not needs & after.keys()]:
        for name in ends:
            del after[name]
    assert not after, f"these import each other, or such as do: {sorted(after)}"


def test_a_class_name_stands_once() -> None:
    found: dict[str, list[str]] = {}
    for path in FILES:
        for node, _ in located(path):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(path.relative_to(HOUSE)))
    assert not {name: files for name, files in found.items() if len(files) > 1}


def test_a_function_is_named_by_what_it_gives() -> None:
    """A participle alone does not tell: what is kept, or given, and as what?"""
    vague = {"said", "kept", "given", "told", "shown", "written"}
    found = {
        f"{path.relative_to(HOUSE)}: {node.name}"
        for path in FILES for node, _ in located(path)
        if isinstance(node, ast.FunctionDef) and node.name in vague
    }  # fmt: skip
    assert not found


def test_one_function_reads_json() -> None:
    """`viete.regular.decoded`, since a decoder of one's own forgets a way in which JSON is bad."""
    assert {
        f"{path.relative_to(HOUSE).as_posix()}: {ast.unparse(node)}"
        for path in FILES if "json" in path.read_text("utf-8") for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in ("load", "loads")
        and ast.unparse(node) in ("json.load", "json.loads")
    } == {"regular.py: json.loads"}  # fmt: skip


def test_every_room_says_what_lives_there() -> None:
    for folder in sorted({p.parent for p in FILES}):
        said = ast.get_docstring(parsed(folder / "__init__.py"))
        assert said and len(said) > 40, (
            f"{folder.relative_to(HOUSE.parent)}/__init__.py has no docstring"
        )


def python(code: str) -> str:
    root = str(HOUSE.parent)
    made = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return made.stdout


def test_import_pulls_in_nothing_heavy() -> None:
    """Asked without site-packages' own start-up files counting: only what `import viete` adds."""
    loaded = python("old = set(sys.modules); import viete; print(*sorted(set(sys.modules) - old))")
    assert not set(loaded.split()) & set(HEAVY)


def test_reading_a_card_needs_no_arrays() -> None:
    """Shapes, printing and drawing of a card are text: no NumPy, no PyTorch."""
    loaded = python("import viete.cards.reader, viete.cards.writer; print(*sys.modules)")
    assert not set(loaded.split()) & {"torch", "jax", "numpy", "scipy"}


def test_running_on_numpy_needs_no_other_library() -> None:
    loaded = python("import viete.evaluate.run; print(*sys.modules)")
    assert not set(loaded.split()) & {"torch", "jax"}


def test_import_is_quick() -> None:
    """Best of several, measured in processor time, since other work may share the machine."""
    code = "from time import process_time as t; a = t(); import viete; print(t() - a)"
    best = min(float(python(code)) for _ in range(5))
    assert best < 0.3
