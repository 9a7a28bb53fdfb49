"""The sequences of masked language models, against the text itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wenmai.core.errors import CorpusError
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_text import LinesConfig, encode_text
from wenmai.data.sequences import SentenceStream, documents, packed, pairs, texts_of, windows
from wenmai.text.pieces import TokenizerConfig
from wenmai.text.tokenizer import Tokenizer

DOCUMENTS = [["a b c", "d e", "f"], ["g h i j k"], ["l", "m n o p", "q r s", "t u"]]
SEPARATOR = 999


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    path = folder / "text.txt"
    path.write_text("\n\n".join("\n".join(lines) for lines in DOCUMENTS) + "\n")
    tokenizer = Tokenizer.train([" ".join(map(chr, range(97, 123)))], TokenizerConfig(kind="whitespace", min_count=1))
    return encode_text(Corpus.of_paths([path]), tokenizer, LinesConfig(), cache=folder), tokenizer


def stream_of(encoded, first=0, last=3):
    text, _ = encoded
    begins = [*text.documents.tolist(), len(text)]
    return SentenceStream(text, begins[first], begins[last], separator=SEPARATOR)


def spelled(encoded, ids):
    return " ".join("|" if number == SEPARATOR else encoded[1].token(int(number)) for number in ids)


def test_a_stream_is_the_text_without_ends_of_lines_but_those_of_documents(encoded):
    for first, last in [(0, 3), (0, 1), (1, 3), (2, 3)]:
        stream = stream_of(encoded, first, last)
        words = " ".join(" ".join(lines) + " |" for lines in DOCUMENTS[first:last]).split()
        assert len(stream) == len(words)
        assert spelled(encoded, stream.read(0, len(stream))) == " ".join(words)
        for start in range(len(words)):
            for stop in range(start, len(words) + 1):
                assert spelled(encoded, stream.read(start, stop)) == " ".join(words[start:stop])
        begins, ends = stream.sentences
        found = [spelled(encoded, stream.read(a, b)) for a, b in zip(begins, ends, strict=True)]
        assert found == [line for lines in DOCUMENTS[first:last] for line in lines]
        assert [found[a:b] for a, b in stream.document_sentences] == DOCUMENTS[first:last]


def test_a_part_that_ends_within_a_line_is_read_to_its_end(encoded):
    text, _ = encoded
    stream = SentenceStream(text, 0, 2, separator=SEPARATOR)
    assert spelled(encoded, stream.read(0, len(stream))) == "a |"  # the last token closes the part


def test_windows_follow_each_other_from_a_random_place_on(encoded):
    stream = stream_of(encoded)
    seen = set()
    for seed in range(20):
        found = windows(stream, 4, np.random.default_rng(seed))
        starts = found.spans[:, 0]
        assert (found.spans[:, 1] - starts == 4).all()
        assert (np.diff(starts) == 4).all()
        assert starts[0] < 4
        assert len(stream) - found.spans[-1, 1] < 4
        assert found.numbers.tolist() == [*range(len(starts))]
        seen.add(int(starts[0]))
    assert seen == {0, 1, 2, 3}
    assert len(windows(stream, 100, np.random.default_rng(1)).spans) == 1


def test_documents_are_cut_alone_and_whole(encoded):
    stream = stream_of(encoded)
    for seed in range(20):
        found = documents(stream, 4, np.random.default_rng(seed))
        assert (found.lengths <= 4).all()
        assert found.lengths.min() > 0
        read = " ".join(spelled(encoded, one) for one, _ in texts_of(stream, found))
        assert read == " ".join(line for lines in DOCUMENTS for line in lines)
        for span in found.spans:
            assert SEPARATOR not in stream.read(span[0], span[1])


@pytest.mark.parametrize("length", [3, 6, 30])
def test_pairs_are_neighbours_or_from_another_document(encoded, length):
    stream = stream_of(encoded)
    home = {word: number for number, lines in enumerate(DOCUMENTS) for word in " ".join(lines).split()}
    labels = []
    for seed in range(60):
        found = pairs(stream, length, np.random.default_rng(seed), kind="next")
        assert (found.lengths <= length).all()
        for (one, other), label in zip(texts_of(stream, found), found.labels, strict=True):
            first, second = (spelled(encoded, side).split() for side in (one, other))
            assert second
            places = {home[word] for word in first}, {home[word] for word in second}
            assert all(len(side) == 1 for side in places)
            if label == 0:
                assert places[0] == places[1]
                assert first == [] or min(second) > max(first)
            elif first:
                assert places[0] != places[1]
            labels.append(label)
    assert 0.5 < np.mean(labels) < 0.95  # single sentences always get a random second text


def test_the_order_of_a_half_of_the_pairs_is_swapped(encoded):
    stream = stream_of(encoded)
    labels = []
    for seed in range(100):
        found = pairs(stream, 8, np.random.default_rng(seed), kind="order", short=0.0)
        for (one, other), label in zip(texts_of(stream, found), found.labels, strict=True):
            first, second = spelled(encoded, one).split(), spelled(encoded, other).split()
            assert (max(first) < min(second)) if label == 0 else (max(second) < min(first))
            labels.append(label)
    assert 0.4 < np.mean(labels) < 0.6


def test_pairs_need_documents_and_sentences(encoded):
    with pytest.raises(CorpusError, match="one document"):
        pairs(stream_of(encoded, 0, 1), 8, np.random.default_rng(1), kind="next")
    with pytest.raises(CorpusError, match="two sentences"):
        pairs(stream_of(encoded, 1, 2), 8, np.random.default_rng(1), kind="order")


@given(st.lists(st.integers(1, 16), max_size=60))
def test_every_example_is_packed_once_and_little_room_is_left(lengths):
    rows = packed(np.array(lengths, np.int64), 16)
    assert sorted(place for row in rows for place in row.tolist()) == [*range(len(lengths))]
    sizes = [sum(lengths[place] for place in row) for row in rows]
    assert all(size <= 16 for size in sizes)
    assert len(rows) <= max(1, -(-sum(lengths) * 11 // (9 * 16)) + 1) or not lengths  # 11/9 of the best, and a row
