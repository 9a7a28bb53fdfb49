"""Maps of characters for tokenizers."""

import json
from collections.abc import Mapping

import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.normalizers import Precompiled

from wenmai.text.charsmap import charsmap

CHARACTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs", "M"])


def applied(mapping: Mapping[str, str], text: str) -> str:
    return "".join(mapping.get(character, character) for character in text)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(CHARACTERS, st.text(CHARACTERS, max_size=3), min_size=1, max_size=300), st.data())
def test_each_character_becomes_its_text_and_all_others_stay(mapping, data):
    normaliser = Precompiled(charsmap(mapping))
    for character in [*mapping, *data.draw(st.lists(CHARACTERS, max_size=50))]:
        assert normaliser.normalize_str(character) == applied(mapping, character)


def test_a_whole_script_is_one_map_that_a_file_keeps():
    mapping = {chr(code): chr(code + 0x2000) for code in range(0x4E00, 0x6E00)} | {"ａ": "a", "𠀀": "two"}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.normalizer = Precompiled(charsmap(mapping))
    text = "a，ａ𠀀" + "".join(mapping)
    loaded = tokenizers.Tokenizer.from_str(json.dumps(json.loads(backend.to_str())))
    assert loaded.normalizer.normalize_str(text) == applied(mapping, text)
