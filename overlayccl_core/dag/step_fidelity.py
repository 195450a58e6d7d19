"""Rule step_fidelity: prices of a model's steps against measured ones."""

from overlayccl_core.rule import Rule

RULE = Rule(place=13, of=("model",), shows=True)
