"""Questions to a model, in the notation: formulas evaluated on a run, claims checked on one."""
