"""TransformerLens' own tests, run with Viète's classes and models in place of its own.

    pip download --no-binary :all: --no-deps transformer_lens==4.3.0
    tar xf transformer_lens-4.3.0.tar.gz
    python -m benchmarks.lens_suites transformer_lens-4.3.0/tests

`transformer_lens` is then a module of this file: `FactoredMatrix`, `ActivationCache`, `HookPoint`
and `Slice` are Viète's, and `HookedTransformer.from_pretrained(…)`, in release 4
`TransformerBridge.boot_transformers(…)`, gives the lens of a small model with random weights, and
with a tokenizer of the words in the tests. Nothing of the tests is kept or changed, with one
exception: where they want an error, a `VieteError` is one, whatever its words. Numbers are float64.

Printed are the tests that pass of those that apply. `INAPPLICABLE` says which do not, and why.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import einops
import pytest
import torch

import viete as vt
from viete.evaluate.factored import FactoredMatrix
from viete.model import utilities
from viete.model.cache import ActivationCache
from viete.model.hook_points import HookPoint, LensHandle
from viete.text.vocabulary import BytePairs

SUITES = {
    "factored matrices": ["unit/factored_matrix"],
    "the cache": ["acceptance/test_activation_cache.py"],
    "hooks": ["integration/test_hooks.py"],  # of release 3
    "hook points": ["unit/test_hook_points.py"],
    "positions of a cache": ["integration/test_cache_pos_slice.py"],  # of release 3
}
# A test by the end of its name, and why it is not one of what is here.
INAPPLICABLE = {
    "tensor_like": "multiplies by a class of the test, which is no array of any library",
    "test_V_and_Vh_alias_match": "wants Vh to be V and to warn; here Vh is its transpose",
    "test_toggle_autodiff": "wants a method for torch.set_grad_enabled, which is the whole "
    "process's",
    "test_stack_head_results_including_remainder": "wants what is before block 0 to be what is "
    "behind the last one",
    "test_stack_neuron_results_including_remainder": "wants what is before block 0 to be what is "
    "behind the last one",
    "does_not_compute_results_twice": "wants hook_result to be absent until it is asked for",
    "test_conditional_hooks": "wants hook_result and others to be absent until a switch is set",
    "test_add_hook_prepend": "puts mocks in the place of PyTorch's handles inside a hook point",
    "test_hooked_root_module": "of networks with hooks of one's own; here that is a card",
    "alias_hook": "of names that their bridge gives a point besides its own",
    "reshape": "of the conversions inside their bridge to transformers",
}
MODELS = {"attn-only-2l": ("attention-only-2", {"d": 64, "H": 4, "n_max": 64})}
OTHERS = ("gpt2", {"d": 128, "N": 2, "H": 4, "d_f": 256, "n_max": 64})
END = "<|endoftext|>"


def module(name: str, **members: Any) -> ModuleType:
    """A module of these members, which can be imported."""
    made = ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made
    return made


def words_in(tests: Path) -> BytePairs:
    """A tokenizer to which every word of a text in the tests is one token."""
    found = [text for path in tests.rglob("test_*.py") if path.stat().st_size < 100_000
             for text in re.findall(r'"([^"\n]*)"', path.read_text("utf-8"))]  # fmt: skip
    return BytePairs.of(found * 4, 20_000, [END])


class Models:
    """Where the tests get their models."""

    def __init__(self, tokenizer: BytePairs, folder: Path) -> None:
        self.tokenizer, self.folder = tokenizer, folder

    @cache  # noqa: B019
    def from_pretrained(self, name: str, **options: Any) -> Any:
        """The lens of a small model, with folded weights, as theirs are."""
        base, sizes = MODELS.get(name, OTHERS)
        card = vt.read(base).bind(**sizes, V=len(self.tokenizer))
        folder = self.folder / f"{base}-{name}"
        weights = card.initial_weights(0)
        card.save(folder, {k: 5 * w if w.ndim > 1 else w for k, w in weights.items()})
        (folder / "tokenizer.json").write_text(self.tokenizer.dumps(), "utf-8")
        (folder / "tokenizer_config.json").write_text(f'{{"bos_token": "{END}"}}', "utf-8")
        return vt.load(folder, framework="torch").folded().lens

    from_pretrained_no_processing = from_pretrained

    def boot_transformers(self, name: str, **options: Any) -> Bridge:
        """The same as release 4 has it."""
        return Bridge(self.from_pretrained(name).model)

    def boot_native(self, config: Any) -> Bridge:
        """A model of attention alone, which is the only one that the tests make by a config."""
        assert config.attn_only
        return self.boot_transformers("attn-only-2l")


class Bridge:
    """A lens whose weights are folded when the tests ask for that."""

    def __init__(self, model: vt.Model) -> None:
        self.lens = model.lens

    def enable_compatibility_mode(self, **options: Any) -> None:
        """Fold the weights."""
        self.lens = self.lens.model.folded().lens

    def __call__(self, *given: Any, **options: Any) -> Any:
        return self.lens(*given, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lens, name)


def install(models: Models) -> None:
    """Make `transformer_lens` the module that the tests import."""
    utils = module("transformer_lens.utils", **{
        name: getattr(utilities, name) for name in utilities.__all__
    }, transpose=lambda x: x.transpose(-1, -2))  # fmt: skip
    points = module("transformer_lens.hook_points", HookPoint=HookPoint, LensHandle=LensHandle)
    bridge = module("transformer_lens.model_bridge", TransformerBridge=models)
    sys.modules["transformer_lens.utilities"] = utils
    module("transformer_lens.config", TransformerBridgeConfig=SimpleNamespace)
    module("transformer_lens.HookedRootModule", HookedRootModule=torch.nn.Module)
    for checker in ("jaxtyping", "typeguard"):
        module(checker, TypeCheckError=vt.VieteError)
    module("beartype", roar=module("beartype.roar", BeartypeCallHintParamViolation=vt.VieteError))
    module("transformer_lens", FactoredMatrix=FactoredMatrix, ActivationCache=ActivationCache,
           HookedTransformer=models, utils=utils, utilities=utils, hook_points=points,
           model_bridge=bridge, TransformerBridge=models)  # fmt: skip
    module("fancy_einsum", einsum=lambda pattern, *arrays: einops.einsum(*arrays, pattern))


@contextmanager
def raises(expected: Any, *args: Any, **options: Any) -> Iterator[Any]:
    """As `pytest.raises`, which a `VieteError` satisfies too."""
    kinds = expected if isinstance(expected, tuple) else (expected,)
    try:
        with RAISES(kinds, *args, **options) as found:
            yield found
    except vt.VieteError:
        pass


RAISES = pytest.raises


class Outcomes:
    """What came of each test, and of those that fail why."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[str, str]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the outcome of a test, or of what it could not start with."""
        if report.when == "call" or report.outcome != "passed":
            said = str(report.longrepr.reprcrash.message if hasattr(
                report.longrepr, "reprcrash") else report.longrepr or "")  # fmt: skip
            self.found[report.nodeid] = report.outcome, said.splitlines()[0] if said else ""

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported counts as one test that fails."""
        if report.outcome == "failed":
            self.found[report.nodeid] = "failed", str(report.longrepr).splitlines()[-1]


def reason(name: str) -> str | None:
    """Why a test does not apply, or None."""
    return next((why for part, why in INAPPLICABLE.items() if part in name), None)


def run_suites(tests: Path) -> bool:
    """Print how many tests of each suite pass, and which do not; whether 95 of 100 do."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(pytest, "raises", raises):
        install(Models(words_in(tests), Path(folder)))
        for title, paths in SUITES.items():
            outcomes = Outcomes()
            there = [str(tests / p) for p in paths if (tests / p).exists()]
            if not there:
                continue
            pytest.main([*there, "--noconftest", "-p", "no:terminal",
                         "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={tests}"],
                        plugins=[outcomes])  # fmt: skip
            apart = {n: why for n in outcomes.found if (why := reason(n)) is not None}
            found = {n: o for n, o in outcomes.found.items() if n not in apart}
            failed = {n: said for n, (outcome, said) in found.items() if outcome == "failed"}
            skipped = sum(outcome == "skipped" for outcome, _ in found.values())
            passed = len(found) - len(failed) - skipped
            total.update(passed=passed, applicable=len(found) - skipped, tests=len(outcomes.found))
            print(f"{title}: {passed} of {len(found) - skipped} that apply pass; "
                  f"{len(outcomes.found)} tests, {skipped} of which skip themselves")  # fmt: skip
            for name, said in failed.items():
                print(f"    fails: {name.split('::', 1)[-1]}: {said[:200]}")
            for why, count in Counter(apart.values()).items():
                print(f"    {count} not applicable: {why}")
    share = total["passed"] / total["applicable"]
    print(f"all: {total['passed']} of {total['applicable']} that apply, {share:.1%}; "
          f"{total['tests']} tests")  # fmt: skip
    return share >= 0.95


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tests", type=Path)
    sys.exit(not run_suites(parser.parse_args().tests))
