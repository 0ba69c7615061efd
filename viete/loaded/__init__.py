"""A released model at work: its card, its weights and its tokenizer as one object."""
