"""Rule longtrain: many steps of a model's arms."""

from overlayccl_core.rule import RANKS, PlugIns, Rule

RULE = Rule(place=19, of=("model",), target="longrun", measures=True, plugins=(*RANKS, PlugIns.MODEL))
