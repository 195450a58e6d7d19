"""Fields of models that are trained on text, and the checks of the text."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from overlayccl_core.configuration import corpus, models, tokens
from overlayccl_core.configuration.fields import Count

BYTES = 256  # values of a byte: without a tokenizer the text is trained on byte by byte (`training/text.py`)


class TextModel(models.Model):
    """A training step on text."""

    vocabulary: Count = Field(description="number of tokens")
    sequence: Count = Field(description="tokens of a text")
    corpus: str | None = Field(
        default=None,
        description="folder of text to train on (default: the sources of Python's standard library)",
    )
    tokenizer: str | None = Field(
        default=None,
        description="tokenizer.json whose tokens the corpus is trained on as (default: byte by byte)",
    )

    @model_validator(mode="after")
    def _holds_bytes(self) -> Self:
        if self.tokenizer is None and self.vocabulary < BYTES:
            raise ValueError(
                f"vocabulary must hold all {BYTES} values of a byte, which are the tokens of the text (got "
                f"{self.vocabulary}): make it at least {BYTES}"
            )
        return self

    def data_digest(self) -> str | None:
        """Return the digest of the corpus's text and the tokenizer's file, if named."""
        if self.corpus is None:
            return None
        folder = Path(self.corpus)
        return (
            corpus.digest(folder) if self.tokenizer is None else tokens.digest(folder, Path(self.tokenizer))
        )

    def on_text(self, folder: str | None, tokenizer: str | None) -> Self:
        """Return the same model with another text."""
        return self.changed(corpus=folder or self.corpus, tokenizer=tokenizer or self.tokenizer)

    def check_text(self) -> None:
        """Raise ValueError unless the corpus has enough for a batch, in tokens that the model has."""
        if self.corpus is None:
            if self.tokenizer is not None:
                raise ValueError(
                    f"tokenizer is of a corpus, and none is named (got {self.tokenizer}): name a folder of text as "
                    "corpus, or leave tokenizer out"
                )
        elif self.tokenizer is None:
            corpus.check(Path(self.corpus), self.batch, self.sequence)
        else:
            tokens.check(Path(self.corpus), Path(self.tokenizer), self.batch, self.sequence, self.vocabulary)
