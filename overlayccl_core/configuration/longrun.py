"""The target `longrun`: which models are trained for how many steps, on which text."""

import json
from collections.abc import Sequence

from pydantic import Field

from overlayccl_core.configuration.fields import Fields
from overlayccl_core.configuration.models import Model
from overlayccl_core.configuration.names import Names


class LongrunSection(Fields):
    """Many steps of the arms of each model, to compare their losses: the target `longrun`."""

    steps: int = Field(ge=10, description="of each arm")
    seeds: int = Field(
        ge=1,
        description="of the developer's arm, whose spread the others' last losses are held to; they have one",
    )
    models: Names | None = Field(
        default=None,
        description="of those that are configured (default: all): the others are not trained here",
    )
    corpus: str | None = Field(
        default=None, description="folder of text to train on (default: what each model trains on)"
    )
    tokenizer: str | None = Field(
        default=None, description="tokenizer.json to read it with (default: each model's, or byte by byte)"
    )

    def of(self, models: Sequence[str], deployment: str) -> tuple[str, ...]:
        """Return which of the models configured on a deployment are trained.

        Raises:
            ValueError: There is none, or one is named that is not configured.
        """
        if not models:
            raise ValueError(
                f"longrun: no model is trained on {deployment}, so there are no losses to compare: name some that "
                "its ranks divide, --config models=NAME,..."
            )
        if foreign := [name for name in self.models or () if name not in models]:
            raise ValueError(
                f"longrun.models: {', '.join(foreign)} is not among the models of this run ({', '.join(models)}): "
                "add it there, with the Problems at its sites"
            )
        return tuple(name for name in models if self.models is None or name in self.models)

    @property
    def of_a_model(self) -> str:
        """Everything that a model's courses depend on, as `Settings.part` has it: no names of models."""
        fields = self.model_dump(mode="json") | {"models": None}
        return json.dumps({"longrun": fields}, sort_keys=True)

    def on_its_text(self, model: Model) -> Model:
        """Return a model as trained here. ValueError if a text is named here, but the model reads none."""
        if self.corpus is None and self.tokenizer is None:
            return model
        try:
            return model.on_text(self.corpus, self.tokenizer)
        except ValueError as error:
            raise ValueError(f"longrun: model {model.name}: {error}") from None

    def check(self, model: Model, ranks: int) -> None:
        """Raise ValueError if the text named here is missing, or does not suit this model."""
        if (mine := self.on_its_text(model)) is model:
            return
        try:
            mine.check(ranks)
        except ValueError as error:
            raise ValueError(f"longrun: model {model.name}: {error}") from None
