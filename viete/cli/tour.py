"""``viete tour``: the main job on the shipped cards, step by step."""
