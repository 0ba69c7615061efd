"""Matrix products as people write them in PyTorch: fused attention, all heads in one product.

``softmax(causal(Q Kᵀ / √d)) V`` is one call that never stores a table of scores. The heads of ``u
W_Q^h`` and ``∑_h z^h W_O^h`` are one matrix product, where ``@`` would copy u for every head.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from viete.analysis.def_use import LOSSES
from viete.code.expression import ATOM, LEAD, Axes, Code, CodeEnv, CodeLetter, together
from viete.code.lowering import Lowering
from viete.code.torch_linear import Projection, Projections, opened_call
from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW
from viete.graph.card import Equation
from viete.notation.tree import Apply, Bind, Expr, Idx, Ref, num, refs, walk


@dataclass(frozen=True)
class Attention:
    """softmax(mask(Q Kᵀ · scale)), multiplied with V.

    ``seen`` is the vector a of a ``visible(…; a)``; ``through`` are the values it was read out of.
    """

    q: Expr
    k: Expr
    v: Expr
    scale: Expr
    causal: bool
    seen: Expr | None
    through: tuple[Equation, ...]


class Products(Lowering):
    """The lowering of a PyTorch module's equations.

    ``inlined`` are values that need no variable, being computed with what they are multiplied by.
    ``layer`` writes the layer of a parameter at given block numbers.
    """

    layer: Callable[[Ref, tuple[str, ...]], str]

    def fuse(self, equations: Sequence[Equation], outputs: Iterable[str], lead: set[str]) -> None:
        """Find the attention in equations; ``lead`` are the values with a batch axis."""
        uses = Counter(x.key for e in equations for x in refs(e.right))
        makers = Counter(e.name for e in equations)
        self.lead = lead
        self.once = {e.name: e for e in equations if uses[e.name] == makers[e.name] == 1
                     and e.name not in outputs}  # fmt: skip
        self.attentions: dict[Expr, Attention] = {}
        for k, e in enumerate(equations):
            for x in walk(e.right):
                found = self.attention(x)
                if found is None:
                    continue
                sources = [z for z in (found.q, found.k, found.seen) if z is not None]
                if self.unchanged(equations, k, found.through, sources):
                    self.attentions[x] = found
                    self.inlined |= {m.name for m in found.through}
        self.projections = Projections(self, lead)
        for k in reversed(range(len(equations))):  # what adds heads up before what each head makes
            if equations[k].name not in self.projections.through:
                self.projections.find(equations[k], partial(self.maker, equations, k))
        self.projections.settle()
        self.inlined |= self.projections.through

    def maker(self, equations: Sequence[Equation], k: int, e: Ref) -> Expr | None:
        """The formula of a value that only equation k reads, if it can be written there."""
        through: list[Equation] = []
        right = self.read(e, through)
        return right if through and self.unchanged(equations, k, through, [right]) else None

    def unchanged(
        self, equations: Sequence[Equation], k: int, through: Sequence[Equation],
        sources: Iterable[Expr],
    ) -> bool:  # fmt: skip
        """Whether equation k can write ``through`` itself: what they are made of is the same."""
        if any(m.loop != equations[k].loop for m in through):
            return False
        first = next((j for j, m in enumerate(equations) if m in through), k)
        between = {m.name for m in equations[first:k]} - {m.name for m in through}
        read = {y.key for z in sources for y in refs(z)}
        for name in read & self.inlined:
            read |= self.once[name].reads
        return not between & read

    # -- attention ---------------------------------------------------------------------------------

    def attention(self, e: Expr) -> Attention | None:
        """The attention that a product computes, or None."""
        match e:
            case Apply("prod", (weights, v)):
                through: list[Equation] = []
                table = self.read(weights, through)
            case _:
                return None
        match self.card.library_name(table), table:
            case "softmax", Apply(args=(scores,)):
                scores = self.read(scores, through)
            case _:
                return None
        causal, seen = False, None
        match self.card.library_name(scores), scores:
            case "causal", Apply(args=(inner,)):
                causal, scores = True, self.read(inner, through)
            case "visible", Apply(args=(inner, a)):
                seen, scores = a, self.read(inner, through)
        scale: Expr = num(1)
        match scores:
            case Apply("div", (inner, by)) if fixed(by):
                scale, scores = Apply("div", (num(1), by)), self.read(inner, through)
            case Apply("prod" | "had" | "times", (by, inner)) if fixed(by):
                scale, scores = by, self.read(inner, through)
        match scores:
            case Apply("prod", (q, Apply("T", (k,)))):
                found = Attention(q, k, v, scale, causal, seen, tuple(through))
                return found if self.fits(found) else None
        return None

    def read(self, e: Expr, through: list[Equation]) -> Expr:
        """The formula of a value that is only used here."""
        maker = self.once.get(e.key) if isinstance(e, Ref) else None
        if maker is None or maker.left != e:
            return e
        through.append(maker)
        return maker.right

    def fits(self, x: Attention) -> bool:
        """Whether the kernel applies: matrices, the same heads in K and V, all with a batch."""
        loops = self.card.loop_letters
        q, k, v = (y.free - loops for y in (x.q, x.k, x.v))
        batched = all(any(y.key in self.lead for y in refs(z)) for z in (x.q, x.k, x.v))
        if k != v or not k <= q or not batched or (x.seen and x.seen.free - loops):
            return False
        try:
            a, b, c = (self.type(y, self.env).shape for y in (x.q, x.k, x.v))
        except VieteError:
            return False
        matrices = len(a) == len(b) == len(c) == 2
        # The kernel's mask begins at the first row: the card's is the same for a square alone.
        return matrices and (not x.causal or self.shapes.same(a[0], b[0]))

    def attended(self, x: Attention, env: CodeEnv) -> Code:
        """One call of the kernel; the group axes of grouped queries become one axis."""
        q, k, v = (self.of(y, env) for y in (x.q, x.k, x.v))
        shared = tuple(s for s in q.lead if s in k.lead and s != LEAD)
        extra = tuple(s for s in q.lead if s not in k.lead)
        k, v = (self.dialect.permuted(c, (LEAD, *shared, ROW, COL)) for c in (k, v))
        q = self.dialect.permuted(q, (LEAD, *shared, *extra, ROW, COL))
        texts = [c.text for c in (q, k, v)]
        more, after, heads = "", "", shared
        if extra:
            more, merged, heads = ", enable_gqa=True", (*shared[-1:], *extra), shared or ("one",)
            if not shared:
                texts[1:] = [f"{c.at(ATOM)}.unsqueeze(-3)" for c in (k, v)]
            if len(merged) > 1:
                texts[0] = f"{q.at(ATOM)}.flatten({-2 - len(merged)}, -3)"
                sizes = ", ".join(self.count(label, env) for label in merged)
                after = f".unflatten(-3, ({sizes}))"
        if x.causal:
            texts.append("is_causal=True")
        if x.seen is not None:
            seen = self.of(Apply("eq", (x.seen, num(1))), env)
            texts.append(f"attn_mask={self.dialect.brought(seen, (LEAD, *heads, ROW, COL), True)}")
        scale = self.of(x.scale, env).text
        text = f"functional.scaled_dot_product_attention({', '.join(texts)}, scale={scale}{more})"
        return Code(text + after, axes=(LEAD, *shared, *extra, ROW, COL))

    def count(self, label: str, env: CodeEnv) -> str:
        """The number of members of an axis."""
        family = next(
            f for f in env.index.values() if isinstance(f, CodeLetter) and f.label == label
        )
        return self.integer(family.count, env)

    # -- products of all heads ---------------------------------------------------------------------

    def apply(self, e: Apply, env: CodeEnv) -> Code:
        if e in self.attentions and env.arguments is None:
            return self.attended(self.attentions[e], env)
        if e in self.projections.calls and env.arguments is None:
            return self.projected(self.projections.calls[e], env)
        return super().apply(e, env)

    def projected(self, p: Projection, env: CodeEnv) -> Code:
        """The call of a layer: its inputs are the last axis, and letters that are summed over."""
        letters = [i.name for i, slot in zip(p.w.index, p.w.symbol.slots, strict=True)
                   if isinstance(i, Idx) and slot not in self.card.loop_letters]  # fmt: skip
        inner, labels = env, dict[str, str]()
        for e in p.binders:
            inner, labels[e.index] = self.bound(e, inner)
        within = tuple(labels[i] for i in letters if i in labels)
        outside = [i for i in letters if i not in labels]
        types = [self.type(p.x, inner)]
        (x,) = self.operands("prod", [self.of(p.x, inner)], types, self.type(p.w, inner), inner)
        kept = tuple(a for a in x.axes if a not in (*within, COL))
        x = self.dialect.permuted(x, (*kept, *within, COL))
        text = f"{x.at(ATOM)}.flatten({-1 - len(within)})" if within else x.text
        places = tuple(self.integer(b, inner) for b in self.card.block_index(p.w))
        text = f"{self.layer(p.w, places)}({text})"
        if not outside:
            return Code(text, axes=(*kept, COL))
        new = tuple(inner.index[i].label for i in outside)
        width = self.projections.width(p)
        sizes = [*(self.count(a, inner) for a in new), self.integer(width, inner)]
        code = Code(f"{text}.unflatten(-1, ({', '.join(sizes)}))", axes=(*kept, *new, COL))
        rows = tuple(a for a in kept if a == ROW)
        return self.dialect.permuted(code, (*(a for a in kept if a != ROW), *new, *rows, COL))

    def product(self, a: Code, b: Code) -> Code:
        """``u W_Q^h`` for all heads at once."""
        if heads_of_one(a, b) and set(b.lead) - set(a.lead):
            return self.einsum(a, b, together([a.lead, b.lead]))
        return super().product(a, b)

    def bind(self, e: Bind, env: CodeEnv) -> Code:
        """``∑_h z^h W_O^h`` as one product."""
        if e in self.projections.calls and env.arguments is None:
            return self.projected(self.projections.calls[e], env)
        labels, inner = set[str](), env
        body: Expr = e
        while isinstance(body, Bind) and body.op == "sum" and not self.over_blocks(body, env):
            inner, label = self.bound(body, inner)
            labels.add(label)
            body = body.body
        match body:
            case Apply("prod", (x, Ref() as w)) if labels and env.arguments is None:
                a, b = self.of(x, inner), self.of(w, inner)
                if heads_of_one(a, b) and labels <= set(a.lead) & set(b.lead):
                    left = tuple(s for s in together([a.lead, b.lead]) if s not in labels)
                    return self.einsum(a, b, left)
        return super().bind(e, env)

    def einsum(self, a: Code, b: Code, lead: Axes) -> Code:
        """Rows of ``a`` times columns of ``b``, keeping the letters ``lead`` of either."""
        letters = {LEAD: "...", "row": "n", "inner": "d", "col": "k"}
        for label in dict.fromkeys((*a.lead, *b.lead)):
            wish = [c for c in label[0].lower() + string.ascii_lowercase if c.islower()]
            free = (c for c in wish if c not in letters.values() and c.isascii())
            letters[label] = letters.get(label) or next(free)
        wanted = (*a.lead, "row", "inner"), (*b.lead, "inner", "col"), (*lead, "row", "col")
        left, right, out = ("".join(letters[s] for s in axes) for axes in wanted)
        text = f'torch.einsum("{left},{right}->{out}", {a.text}, {b.text})'
        return Code(text, axes=(*lead, ROW, COL))

    # -- losses ------------------------------------------------------------------------------------

    def call(self, e: Apply, env: CodeEnv) -> Code:
        """A cross-entropy is one number for each sequence of a batch."""
        if env.arguments is None and (body := opened_call(self, e)) is not None:
            return self.of(body, env)
        if self.card.library_name(e) not in LOSSES:
            return super().call(e, env)
        args = [self.of(a, env) for a in e.args]
        if any(c.lead not in ((), (LEAD,)) for c in args):
            raise VieteError("a loss for each of a family")
        name, _ = self.functions(e, args, env)
        lead = together([c.lead for c in args])
        return Code(f"{name}({', '.join(c.text for c in args)})", axes=lead)


def heads_of_one(a: Code, b: Code) -> bool:
    """Whether batched values meet a parameter with all heads, both as matrices."""
    return LEAD in a.axes and LEAD not in b.axes and bool(b.lead) and a.core == b.core == (ROW, COL)


def fixed(e: Expr) -> bool:
    """Whether a formula is a number computed from dimensions."""
    return not e.free and all(x.symbol.kind == "dim" for x in refs(e))
