"""Planned execution: the equations of a step recorded once, then run in buffers that stay."""
