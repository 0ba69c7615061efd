"""What a card takes for training: which inputs are tokens, targets and weights of the loss.

The equations tell all of it, so any card with a loss can be trained.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viete.analysis.def_use import losses, targets
from viete.analysis.next_token import context_of, vocabulary_size
from viete.analysis.traits import Traits
from viete.errors import VieteError
from viete.graph.card import CardData, Equation, Input
from viete.graph.dependence import backward_slice, forward_slice, names_read
from viete.graph.sizes import Size
from viete.notation.tree import Apply, Ref, num, replaced
from viete.rewrite.adjoint.grad import loss_of


@dataclass(frozen=True)
class TrainingInputs:
    """The inputs of a card by their role in training.

    ``targets`` is None for a card whose loss shifts the tokens itself. ``weights`` weight the
    positions, and ``optional`` says that 1 is their default; ``context`` is the greatest text
    length, and the only one if ``fixed``. ``causal`` says that no position depends on a later one,
    and that the loss consists only of cross-entropies. ``padded`` says that texts may be padded at
    their end: such a loss has weights.
    """

    tokens: str
    targets: str | None
    weights: str | None
    optional: bool
    context: int
    fixed: bool
    vocabulary: int
    padded: bool
    causal: bool


def training_inputs(card: CardData) -> TrainingInputs:
    """The training inputs of a card. Raises VieteError if text is not enough to train it."""
    tokens = token_input(card)
    loss = loss_equations(card)
    if not loss:
        raise VieteError(
            f"{card.title} has no loss to train by; add the targets y to its inputs and an "
            f"equation such as L = cross_entropy(logits; y)"
        )
    named = set(names_read(loss))
    alike = [i for i in card.inputs[1:] if same_kind(card, i, tokens) and i.default is None]
    calls = [c for e in loss for c in losses(card, e.right)]
    named_targets = {c.args[1].key for c in calls if isinstance(c.args[1], Ref)}
    targets = next((i.name for i in alike if i.name in named_targets), None)
    if targets is None and len(alike) == 1:
        targets = alike[0].name
    weights = weights_input(card, tokens, targets, calls, named)
    given = {tokens.name, targets, weights.name if weights else None}
    for item in card.inputs:
        if item.name not in given and item.default is None:
            raise VieteError(
                f"{card.title} needs its input {item.name}, and a text gives tokens and targets"
            )
    length, context = tokens.shape[0], context_of(card, tokens)
    assert context is not None
    fixed = not (isinstance(length, Ref) and length.key in card.lengths)
    causal = sees_the_past(card, tokens, calls) and not has_other_terms(card, loss)
    return TrainingInputs(
        tokens.name, targets, weights.name if weights else None,
        weights is not None and weights.default == num(1),
        context, fixed, vocabulary_size(card, tokens),
        weights is not None and causal, causal,
    )  # fmt: skip


def token_input(card: CardData) -> Input:
    """The card's first input, which must be a vector of whole numbers from 0."""
    item = card.inputs[0] if card.inputs else None
    if item is None or item.high is None or len(item.shape) != 1 or item.low != num(0):
        raise VieteError(
            f"{card.title} takes no text: its first input is not a row of token ids, such as "
            f"t ∈ {{0, …, V-1}}^n"
        )
    return item


def same_kind(card: CardData, a: Input, b: Input) -> bool:
    """Whether two inputs have the same shape and range, by whatever dimensions."""

    def sizes_of(item: Input) -> list[Size | None]:
        low = num(0) if item.name in targets(card) else item.low
        sizes = [None if e is None else card.size(e) for e in (*item.shape, low, item.high)]
        return [None if s is None else s.substitute(card.definitions) for s in sizes]

    return sizes_of(a) == sizes_of(b)


def loss_equations(card: CardData) -> list[Equation]:
    """The equation of the loss (the last value that is one differentiable number) and its needs."""
    loss = loss_of(card)
    return [] if loss is None else backward_slice(card, [loss.name])[::-1]


def weights_input(
    card: CardData, tokens: Input, targets: str | None, calls: list[Apply], named: set[str]
) -> Input | None:
    """The input that weights each position's loss.

    It is the third argument of a `weighted_loss`; or the input of the tokens' shape that occurs in
    the loss, and in no equation that does not depend on the targets.
    """
    third = {c.args[2].key for c in calls if len(c.args) > 2 and isinstance(c.args[2], Ref)}
    after = forward_slice(card, {targets} if targets else ())
    before = names_read(e for e in card.equations if e.name not in after)
    for item in card.inputs[1:]:
        if item.shape != tokens.shape or item.name == targets or item.name not in named:
            continue
        if item.name in third or (targets is not None and item.name not in before):
            return item
    return None


def sees_the_past(card: CardData, tokens: Input, calls: list[Apply]) -> bool:
    """Whether scores depend on no later token, so that padding changes nothing."""
    scores = {c.args[0].key for c in calls if isinstance(c.args[0], Ref)}
    length = card.size(tokens.shape[0])
    made = [k for k, e in enumerate(card.equations) if e.name in scores]
    if not made or len(made) < len(scores) or length is None:
        return False
    traits = Traits(card)
    return all(traits.is_causal(k, tokens.name, length) for k in made)


def has_other_terms(card: CardData, loss: list[Equation]) -> bool:
    """Whether a loss depends on an input otherwise than through its cross-entropies.

    A term such as the mean of logsumexp(logits_j)^2 over all positions counts padding as well.
    """
    inputs = {i.name for i in card.inputs} | card.lengths.keys()
    calls = {c for e in loss for c in losses(card, e.right)}
    without = tuple(replace(e, right=replaced(e.right, dict.fromkeys(calls, num(0)))) for e in loss)
    rest = backward_slice(replace(card, equations=without), [loss[0].name])
    return not names_read(rest).isdisjoint(inputs)


__all__ = ["TrainingInputs", "loss_equations", "token_input", "training_inputs"]
