"""Rule mended_search: a search again, from failures on the ranks."""

from overlayccl_core.rule import Budget, Rule

RULE = Rule(place=8, of=("problem", "search"), like="search", budget=Budget(start_s=20.0))
