"""Where words begin in texts on disk."""

import numpy as np
import pytest

from wenmai.data import word_starts as module
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_text import LinesConfig, encode_text
from wenmai.data.word_starts import word_starts
from wenmai.text.pieces import TokenizerConfig
from wenmai.text.tokenizer import Tokenizer
from wenmai.text.word_starts import WordStarts

LINES = ["the cats don't watch", "我们在北京学习中文。", "a"] * 40


@pytest.fixture
def encoded(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    tokenizer = Tokenizer.train(LINES, TokenizerConfig(kind="wordpiece", vocab_size=60), roles=("cls", "sep", "mask"))
    return encode_text(Corpus.of_paths([path]), tokenizer, LinesConfig()), tokenizer


def test_words_are_found_once_and_in_blocks_as_at_once(encoded, monkeypatch):
    text, tokenizer = encoded
    monkeypatch.setattr(module, "_BLOCK", 50)
    seen = []
    found = word_starts(text, tokenizer, progress=lambda done, total: seen.append((done, total)))
    assert found.dtype == np.bool_
    assert np.array_equal(found, WordStarts(tokenizer)(text.tokens))
    assert 0 < found.sum() < len(found)
    assert len(seen) > 5
    assert seen[-1] == (len(text), len(text))
    monkeypatch.setattr(module, "WordStarts", None)
    assert np.array_equal(word_starts(text, tokenizer), found)


def test_a_damaged_file_is_made_again(encoded, cache_folder, caplog):
    text, tokenizer = encoded
    found = np.array(word_starts(text, tokenizer))
    (path,) = (cache_folder / "words").glob("*/words.bin")
    path.write_bytes(path.read_bytes()[:-1])
    assert np.array_equal(word_starts(text, tokenizer), found)
    assert "it is made again" in caplog.text
