"""A mixture of experts: Mixtral through its card against `transformers`, one text, logits alone.

    python benchmarks/experts.py [--rounds 12] [--threads 1] [--width 256] [--tokens 256]

Both are given the same weights, on PyTorch, float32, and run in turn; the last line is the median
ratio of a round.
"""

from __future__ import annotations

import argparse
import statistics

import torch
from forward import ratios, rounds_of
from transformers import MixtralConfig, MixtralForCausalLM

import viete as vt


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=256)
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(given.threads)
    d, n = given.width, given.tokens
    net = MixtralForCausalLM(
        MixtralConfig(
            vocab_size=1000, hidden_size=d, intermediate_size=7 * d // 2, num_hidden_layers=4,
            num_attention_heads=8, num_key_value_heads=4, num_local_experts=8,
            num_experts_per_tok=2, max_position_embeddings=max(n, 512), sliding_window=None,
        )
    ).eval()  # fmt: skip
    model = vt.from_transformers(net)
    tokens = torch.randint(0, 1000, (1, n))
    with torch.no_grad():
        both = {
            "card": lambda: model.run(tokens, names=["logits"])["logits"],
            "transformers": lambda: net(tokens).logits,
        }
        assert torch.allclose(both["card"](), both["transformers"](), atol=1e-5)
        rows = rounds_of(both, given.rounds)
    card, peer = (1e3 * statistics.median(r[name] for r in rows) for name in both)
    print(f"card {card:.0f} ms, transformers {peer:.0f} ms, "
          f"ratio {statistics.median(ratios(rows, 'transformers')):.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
