"""What the tests of formats share."""

import pytest

from tests.formats.encoders import TEXTS
from wenmai.text.pieces import OPTIONAL_SPECIALS
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig


@pytest.fixture(scope="module")
def tokenizer():
    roles = tuple(OPTIONAL_SPECIALS)
    return Tokenizer.train(TEXTS, TokenizerConfig(kind="wordpiece", vocab_size=90, min_count=1), roles=roles)
