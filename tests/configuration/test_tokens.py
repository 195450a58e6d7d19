"""A corpus as the tokens of a tokenizer.json: made once, kept, and refused where it does not fit the model."""

import os
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers import models as kinds

from overlayccl_core.configuration import corpus, models, tokens
from overlayccl_core.configuration.models import Model

TEXT = "the cat sat on the mat; the dog, too.\nÄpfel und Öl sind §5€.\n" * 200
VOCABULARY = 280


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to start from, with texts/ and tokenizer.json."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    for name in "ab":
        (tmp_path / f"texts/{name}.txt").write_text(TEXT)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False)
    tokenizer = Tokenizer(kinds.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.save("tokenizer.json")
    tokens._tokenizer.cache_clear()  # each test has a file of its own under one name
    corpus.read.cache_clear()
    return tmp_path


FOLDER, FILE = Path("texts"), Path("tokenizer.json")


def nano(**changes: object) -> Model:
    return models.load("nano", Path(__file__).parents[2] / models.FOLDER).changed(
        corpus="texts", tokenizer="tokenizer.json", vocabulary=VOCABULARY, **changes
    )


def test_tokens_say_the_text_of_the_corpus(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "PIECE_BYTES", 1000)  # some pieces
    tokenizer = Tokenizer.from_file("tokenizer.json")
    for got, text in zip(tokens.read(FOLDER, FILE), corpus.read(FOLDER), strict=True):
        assert got.dtype == np.int32 and 0 < len(got) < len(text) / 1.5
        assert tokenizer.decode(got.tolist()).encode() == text


def test_a_piece_of_text_ends_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in range(1, 80):
        monkeypatch.setattr(tokens, "PIECE_BYTES", size)
        pieces = list(tokens._pieces((TEXT + "no end €").encode()))
        assert "".join(pieces) == TEXT + "no end €"
        assert len(pieces) > 1 and all(piece.endswith("\n") for piece in pieces[:-1])


def test_they_are_made_once_and_anew_of_another_text_or_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tokens.read(FOLDER, FILE)
    with monkeypatch.context() as patch:
        patch.setattr(corpus, "read", None)  # as ranks: no text is read
        assert all(np.array_equal(*both) for both in zip(first, tokens.read(FOLDER, FILE), strict=True))
    kept = {file.name for file in tokens.KEPT.iterdir()}
    assert len(kept) == 2
    digest = tokens.digest(FOLDER, FILE)
    (FOLDER / "b.txt").write_text(TEXT[::-1])
    os.utime(FOLDER / "b.txt", (1, 1))
    corpus.read.cache_clear()
    assert len(tokens.read(FOLDER, FILE)[0]) != len(first[0])
    assert tokens.digest(FOLDER, FILE) != digest
    digest = tokens.digest(FOLDER, FILE)
    FILE.write_text(FILE.read_text() + "\n")
    assert tokens.digest(FOLDER, FILE) != digest
    tokens.read(FOLDER, FILE)
    assert len({file.name for file in tokens.KEPT.iterdir()}) == 6
    assert kept < {file.name for file in tokens.KEPT.iterdir()}


def test_a_model_is_trained_on_them(home: Path) -> None:
    from overlayccl_core.training.pieces import pieces_of

    model = nano()
    model.check(4)
    batch = pieces_of(model).batch(model, seed=0, step=0, replica=0)
    assert batch.shape == (8, 65) and 256 <= int(batch.max()) < VOCABULARY  # what no byte is
    assert model.data_digest() != nano().changed(tokenizer=None).data_digest()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocabulary": 279}, "280 tokens.*279: .*280"),
        ({"tokenizer": "none.json"}, r"tokenizer: .*none\.json"),
        ({"tokenizer": "texts/a.txt"}, r"a\.txt is no tokenizer"),
        ({"corpus": "nowhere"}, "corpus: .*folder nowhere"),
        ({"corpus": None}, "tokenizer .*corpus.*none"),
        ({"sequence": 4096}, r"\d+ .*to train.*32777"),
    ],
)
def test_what_does_not_fit_is_one_message(change: dict[str, object], message: str, home: Path) -> None:
    with pytest.raises(ValueError, match=message) as error:
        nano().changed(**change).check(4)
    assert "\n" not in str(error.value)


def test_a_vocabulary_below_that_of_bytes_is_for_a_tokenizer_alone(home: Path) -> None:
    assert nano().changed(vocabulary=100).vocabulary == 100  # a smaller tokenizer may fit it
    with pytest.raises(ValueError, match="all 256 values"):
        nano().changed(vocabulary=100, tokenizer=None)


def test_a_python_without_the_library_is_told_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "find_spec", lambda _name: None)
    with pytest.raises(ValueError, match="package tokenizers"):
        nano().check(4)
