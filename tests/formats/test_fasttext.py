"""fastText's files: byte for byte, from the description of the format alone, and refused when damaged."""

import importlib
import struct
import subprocess
import sys

import numpy as np
import pytest

from wenmai.core.errors import FormatError, SettingError
from wenmai.formats.fasttext import read_fasttext, write_fasttext
from wenmai.formats.fasttext.quantised import prune_fasttext, quantise_fasttext
from wenmai.models.fasttext import FastText, FastTextClassifierConfig, FastTextConfig
from wenmai.text.vocab import Vocab

LOSS, MODEL = {"hs": 1, "ns": 2, "softmax": 3, "ova": 4}, {"cbow": 1, "sg": 2, "sup": 3}
DRAW = np.random.default_rng(4)


def settings(*, dim=5, loss="ns", model="sg", bucket=20, minn=3, maxn=6, word_ngrams=1, rate=100, t=1e-4):
    return struct.pack("<12id", dim, 5, 3, 1, 5, word_ngrams, LOSS[loss], MODEL[model], bucket, minn, maxn, rate, t)


def dictionary(words, labels=(), *, tokens=99, kept=None):
    entries = [(word, max(9 - place, 0), 0) for place, word in enumerate(words)]
    entries += [(label, 4 - place, 1) for place, label in enumerate(labels)]
    sizes = len(entries), len(words), len(labels), tokens, -1 if kept is None else len(kept)
    pairs = b"".join(struct.pack("<2i", *pair) for pair in kept or ())
    return struct.pack("<3i2q", *sizes) + b"".join(w + b"\0" + struct.pack("<qb", n, k) for w, n, k in entries) + pairs


def dense(rows, dim=5):
    return struct.pack("<2q", rows, dim) + DRAW.normal(size=(rows, dim)).astype("<f4").tobytes()


def quantiser(dim, part):
    parts = -(-dim // part)
    shape = struct.pack("<4i", dim, parts, part, dim - (parts - 1) * part)
    return shape + DRAW.normal(size=dim * 256).astype("<f4").tobytes()


def quantised(rows, dim=5, part=2, norms=True):
    parts = -(-dim // part)
    data = (
        struct.pack("<B2qi", norms, rows, dim, rows * parts) + DRAW.integers(0, 256, rows * parts, np.uint8).tobytes()
    )
    data += quantiser(dim, part)
    return data + DRAW.integers(0, 256, rows, np.uint8).tobytes() + quantiser(1, 1) if norms else data


HEAD = struct.pack("<2i", 793712314, 12)
WORDS = [b"</s>", b"one", "中文".encode(), b"\xff\xfe", b"a b"]
LABELS = [b"__label__x", b"__label__y", b"__label__z"]
KEPT = [(7, 1), (3, 0)]
SECTIONS = {
    "skipgram": [HEAD, settings(), dictionary(WORDS), b"\0", dense(25), b"\0", dense(5)],
    "cbow": [HEAD, settings(loss="hs", model="cbow"), dictionary(WORDS), b"\0", dense(25), b"\0", dense(5)],
    "an empty word": [HEAD, settings(), dictionary([*WORDS[:2], b"", *WORDS[3:]]), b"\0", dense(25), b"\0", dense(5)],
    "an empty word first": [HEAD, settings(), dictionary([b"", *WORDS[1:]]), b"\0", dense(25), b"\0", dense(5)],
    "an empty word last": [HEAD, settings(), dictionary([*WORDS[1:], b""]), b"\0", dense(25), b"\0", dense(5)],
    "labelled words": [HEAD, settings(), dictionary(WORDS, LABELS), b"\0", dense(25), b"\0", dense(5)],
    "odd settings": [
        HEAD,
        settings(loss="softmax", minn=-1, word_ngrams=0, rate=-3, t=0.0),
        dictionary(WORDS),
        b"\x00",
        dense(25),
        b"\x01",
        dense(5),
    ],
    "supervised": [
        HEAD,
        settings(loss="softmax", model="sup", word_ngrams=2),
        dictionary(WORDS, LABELS),
        b"\x00",
        dense(25),
        b"\x00",
        dense(3),
    ],
    "own prefix": [
        HEAD,
        settings(loss="ova", model="sup", maxn=0, bucket=0),
        dictionary(WORDS, [b"#a", b"__label__", b"#c"]),
        b"\x00",
        dense(5),
        b"\x00",
        dense(3),
    ],
    "version 11": [
        struct.pack("<2i", 793712314, 11),
        settings(loss="hs", model="sup"),
        dictionary(WORDS, LABELS),
        b"\x00",
        dense(25),
        b"\x00",
        dense(3),
    ],
    "quantised": [
        HEAD,
        settings(loss="softmax", model="sup", word_ngrams=2),
        dictionary(WORDS, LABELS),
        b"\x01",
        quantised(25),
        b"\x00",
        dense(3),
    ],
    "both quantised": [
        HEAD,
        settings(loss="softmax", model="sup", word_ngrams=2),
        dictionary(WORDS, LABELS),
        b"\x01",
        quantised(25, norms=False),
        b"\x01",
        quantised(3),
    ],
    "pruned": [
        HEAD,
        settings(loss="softmax", model="sup", word_ngrams=2),
        dictionary(WORDS, LABELS, kept=KEPT),
        b"\x01",
        quantised(7, part=3),
        b"\x00",
        dense(3),
    ],
    "one dimension": [
        HEAD,
        settings(dim=1, loss="softmax", model="sup", word_ngrams=2),
        dictionary(WORDS, LABELS),
        b"\x01",
        quantised(25, dim=1, part=2),
        b"\x00",
        dense(3, dim=1),
    ],
    "pruned to words": [
        HEAD,
        settings(loss="softmax", model="sup", word_ngrams=2),
        dictionary(WORDS, LABELS, kept=[]),
        b"\x01",
        quantised(5),
        b"\x00",
        dense(3),
    ],
}


def written(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", SECTIONS)
def test_a_model_is_written_back_byte_for_byte(name, tmp_path):
    content = b"".join(SECTIONS[name])
    model = read_fasttext(written(tmp_path / "model", content))
    write_fasttext(tmp_path / "again", model)
    assert (tmp_path / "again").read_bytes() == content
    (tmp_path / "folder").mkdir()
    model.save(tmp_path / "folder")
    write_fasttext(tmp_path / "again", FastText.load(tmp_path / "folder"))
    assert (tmp_path / "again").read_bytes() == content


def test_the_layout():
    head = HEAD + settings()
    assert head[:8] == bytes.fromhex("ba164f2f0c000000")
    assert len(settings()) == 56
    assert len(head) == 64  # where the dictionary begins


def test_what_is_read(tmp_path):
    model = read_fasttext(written(tmp_path / "model", b"".join(SECTIONS["supervised"])))
    assert model.config == FastTextClassifierConfig(
        loss="softmax", vector_size=5, word_ngrams=2, min_ngram=3, max_ngram=6, buckets=20
    )
    assert list(model.vocab.tokens) == ["</s>", "one", "中文", "\udcff\udcfe", "a b"]
    assert model.vocab.counts.tolist() == [9, 8, 7, 6, 5]
    assert list(model.labels.tokens) == ["x", "y", "z"]
    assert model.tokens == 99
    values = np.frombuffer(SECTIONS["supervised"][4][16:], "<f4").reshape(25, 5)
    assert np.array_equal(model.input[:, :5], values)
    assert not model.input[:, 5:].any()
    words = read_fasttext(written(tmp_path / "model", b"".join(SECTIONS["cbow"])))
    assert words.config == FastTextConfig(algorithm="cbow", vector_size=5, hierarchical=True, buckets=20)
    old = read_fasttext(written(tmp_path / "model", b"".join(SECTIONS["version 11"])))
    assert old.config.max_ngram == 0  # whatever the file says
    own = read_fasttext(written(tmp_path / "model", b"".join(SECTIONS["own prefix"])))
    assert list(own.labels.tokens) == ["#a", "__label__", "#c"]
    pruned = read_fasttext(written(tmp_path / "model", b"".join(SECTIONS["pruned"])))
    assert pruned.kept_buckets.tolist() == [[7, 1], [3, 0]]


def test_an_empty_word_has_a_vector(tmp_path):
    vectors = read_fasttext(written(tmp_path / "model", b"".join(SECTIONS["an empty word"]))).vectors()
    assert vectors.index_to_key == ["</s>", "one", "", "\udcff\udcfe", "a b"]
    assert vectors[""].any()


@pytest.mark.parametrize("name", ["skipgram", "supervised"])
def test_files_of_2016_have_no_magic_number_and_no_flags(name, tmp_path):
    head, block, words, _, rows, _, outputs = SECTIONS[name]
    old = b"".join([block, words[:20], words[28:], rows, outputs])
    model = read_fasttext(written(tmp_path / "old", old))
    present = read_fasttext(written(tmp_path / "new", b"".join([head[:4], struct.pack("<i", 11), *SECTIONS[name][1:]])))
    assert model.config == present.config
    assert list(model.vocab.tokens) == list(present.vocab.tokens)
    assert model.input.tobytes() == present.input.tobytes()
    write_fasttext(tmp_path / "again", model)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "new").read_bytes()
    for end in range(0, len(old) - 1, 7):
        with pytest.raises(FormatError):
            read_fasttext(written(tmp_path / "old", old[:end]))


@pytest.mark.parity
@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("toy-model-pretrained", "utf8"),  # with an empty word
        ("lee_fasttext", "utf8"),  # of 2016, as the next two
        ("cp852_fasttext", "cp852"),
        ("non_ascii_fasttext", "utf8"),
    ],
)
def test_files_that_gensim_reads(name, encoding):
    facebook = pytest.importorskip("gensim.models.fasttext")
    path = importlib.import_module("gensim.test.utils").datapath(f"{name}.bin")
    ours, theirs = read_fasttext(path).vectors(), facebook.load_facebook_vectors(path, encoding=encoding)
    words = [word for word in theirs.index_to_key if word != "</s>"]  # which has n-grams in gensim alone
    assert [word.encode("utf-8", "surrogateescape") for word in ours if word != "</s>"] == [
        word.encode(encoding) for word in words
    ]
    if encoding != "utf8":
        return  # gensim takes the n-grams of other bytes than were trained
    rows = [ours.vectors[row] for row, word in enumerate(ours) if word != "</s>"]
    np.testing.assert_allclose(rows, theirs[words], atol=1e-6)
    np.testing.assert_allclose(ours["unseen"], theirs["unseen"], atol=1e-6)


def test_a_changed_model_says_so(tmp_path):
    model = read_fasttext(written(tmp_path / "model", b"".join(SECTIONS["odd settings"])))
    other = FastTextConfig(vector_size=5, window=8, min_ngram=0, buckets=20)
    write_fasttext(tmp_path / "again", model.grown(model.vocab, other, seed=1))
    assert struct.unpack("<12id", (tmp_path / "again").read_bytes()[8:64]) == (
        *(5, 8, 5, 5, 5, 1, LOSS["ns"], MODEL["sg"], 20, 0, 6, 100),
        1e-4,
    )


def test_labels_of_a_tree_are_written_by_count(tmp_path):
    config = FastTextClassifierConfig(loss="hs", vector_size=2, buckets=0)
    model = FastText(config, Vocab(["</s>"], [5]), Vocab(["few", "many", "some"], [1, 7, 3]))
    model.input[0, :2], model.output[:2, :2] = 1, [[0.5, 0.25], [1, -2]]
    write_fasttext(tmp_path / "model", model)
    again = read_fasttext(tmp_path / "model")
    assert list(again.labels.tokens) == ["many", "some", "few"]
    assert dict(again.predict([""], k=3)[0]) == dict(model.predict([""], k=3)[0])


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["skipgram", "both quantised", "pruned"])
def test_a_truncated_file_is_refused(name, tmp_path):
    content, bounds = b"".join(SECTIONS[name]), np.cumsum([0, *map(len, SECTIONS[name])])
    places = {place + more for place in bounds[:-1] for more in (-1, 0, 1, 7, 16, 20, 30)} | {len(content) - 1}
    for place in sorted(place for place in places if 0 <= place < len(content)):
        with pytest.raises(FormatError, match=r"model[,:]"):
            read_fasttext(written(tmp_path / "model", content[:place]))
    with pytest.raises(FormatError, match="1 bytes follow the model"):
        read_fasttext(written(tmp_path / "model", content + b"\0"))


def refused(path, content):
    """Whether a file is refused; what is taken instead has to be written back byte for byte."""
    try:
        model = read_fasttext(written(path, content))
    except FormatError:
        return True
    write_fasttext(path, model)
    assert path.read_bytes() == content
    return False


@pytest.mark.parametrize(("name", "flip"), [("skipgram", 0x80), ("pruned", 0x01)])
def test_flipped_bytes_of_the_head_are_refused_or_harmless(name, flip, tmp_path):
    content = b"".join(SECTIONS[name])
    found = []
    for place in range(64 + 28):
        damaged = bytearray(content)
        damaged[place] ^= flip
        found.append(refused(tmp_path / "model", bytes(damaged)))
    assert sum(found) > 30


@pytest.mark.parametrize("value", [-(1 << 31), -1, 0, 1 << 20, (1 << 31) - 1])
def test_sizes_of_32_bits(value, tmp_path):
    places = {"vector_size": 8, "buckets": 40, "entries": 64, "words": 68, "labels": 72}
    for place in places.values():
        damaged = bytearray(b"".join(SECTIONS["supervised"]))
        damaged[place : place + 4] = struct.pack("<i", value)
        with pytest.raises(FormatError):
            read_fasttext(written(tmp_path / "model", bytes(damaged)))


@pytest.mark.parametrize("value", [-(1 << 63), -2, 1 << 31, 1 << 61, (1 << 63) - 1])
def test_sizes_of_64_bits(value, tmp_path):
    for name in ("supervised", "quantised"):
        sections = SECTIONS[name]
        behind = 1 if name == "quantised" else 0
        matrix = sum(map(len, sections[:4])) + behind
        for place in (84, matrix, matrix + 8):  # kept buckets, rows, columns
            damaged = bytearray(b"".join(sections))
            damaged[place : place + 8] = struct.pack("<q", value)
            with pytest.raises(FormatError):
                read_fasttext(written(tmp_path / "model", bytes(damaged)))


def replaced(name, number, section):
    return b"".join([*SECTIONS[name][:number], section, *SECTIONS[name][number + 1 :]])


BAD = {
    "no magic": (replaced("skipgram", 0, b"\0" * 8), "magic number"),
    "version": (replaced("skipgram", 0, struct.pack("<2i", 793712314, 13)), "version 13"),
    "loss": (replaced("skipgram", 1, settings()[:24] + b"\5" + settings()[25:]), "the setting loss is 5"),
    "nan": (replaced("skipgram", 1, settings(t=float("nan"))), "sample is nan"),
    "n-grams without end": (replaced("skipgram", 1, settings(maxn=1 << 30)), "max_ngram"),
    "n-grams of all words": (
        replaced("supervised", 1, settings(loss="softmax", model="sup", word_ngrams=0x7F000001)),
        "the setting word_ngrams is 2130706433, expected -2147483648 to 64",
    ),
    "n-grams of long words": (
        b"".join(
            [
                HEAD,
                settings(maxn=1000),
                dictionary([b"%d" % place * 65_000 for place in range(9)]),
                b"\0",
                dense(29),
                b"\0",
                dense(9),
            ]
        ),
        "n-grams of 3 to 1000 characters of 9 words, the longest of 65000 bytes, are up to 579,352,473, and models may "
        "have 536,870,912",
    ),
    "too few words": (replaced("skipgram", 2, dictionary(WORDS[:4])), "24 by 5 are expected"),
    "too many words": (replaced("skipgram", 2, dictionary([*WORDS, b"x"])), "26 by 5 are expected"),
    "no words": (replaced("skipgram", 2, dictionary([])), "0 entries"),
    "empty words": (
        replaced("skipgram", 2, dictionary([b"", b"", *WORDS[2:]])),
        "entry 2 of 5 .* the second empty one",
    ),
    "empty ends": (
        replaced("skipgram", 2, dictionary([b"", *WORDS[1:4], b""])),
        "entry 5 of 5 .* the second empty one",
    ),
    "empty label": (
        replaced("supervised", 2, dictionary(WORDS, [b"", *LABELS[1:]])),
        "a label of the dictionary is empty",
    ),
    "twice": (replaced("skipgram", 2, dictionary([b"one", *WORDS[1:]])), "'one' occurs twice"),
    "long word": (replaced("skipgram", 2, dictionary([b"x" * 70_000, *WORDS[1:]])), "longer than 65536 bytes"),
    "no end": (b"".join(SECTIONS["skipgram"][:2]) + struct.pack("<3i2q", 5, 5, 0, 9, -1) + b"x" * 60, "does not end"),
    "tokens": (replaced("skipgram", 2, dictionary(WORDS, tokens=-1)), "-1 tokens"),
    "no labels": (replaced("supervised", 2, dictionary(WORDS)), "0 labels"),
    "a word for a label": (
        replaced(
            "supervised",
            2,
            dictionary(WORDS, LABELS).replace(
                LABELS[0] + b"\0" + struct.pack("<qb", 4, 1), LABELS[0] + b"\0" + struct.pack("<qb", 4, 0)
            ),
        ),
        "is no label",
    ),
    "label count": (replaced("supervised", 2, dictionary(WORDS, LABELS[:2])), "2 by 5 are expected"),
    "negative count": (
        replaced(
            "supervised", 2, dictionary(WORDS, LABELS).replace(struct.pack("<qb", 9, 0), struct.pack("<qb", -9, 0))
        ),
        "has the count -9",
    ),
    "flag": (replaced("skipgram", 3, b"\2"), "the flag of the input is 2"),
    "not finite": (replaced("skipgram", 6, dense(5)[:-4] + struct.pack("<f", float("inf"))), "not a finite number"),
    "pruned but dense": (
        b"".join([*SECTIONS["pruned"][:3], b"\0", dense(7), b"\0", dense(3)]),
        "pruned, but the input is not quantised",
    ),
    "bucket beyond": (replaced("pruned", 2, dictionary(WORDS, LABELS, kept=[(20, 1), (3, 0)])), "beyond 20"),
    "bucket twice": (replaced("pruned", 2, dictionary(WORDS, LABELS, kept=[(3, 1), (3, 0)])), "twice"),
    "row beyond": (replaced("pruned", 2, dictionary(WORDS, LABELS, kept=[(7, 2), (3, 0)])), "beyond 2"),
    "codes": (
        replaced("quantised", 4, quantised(25)[:17] + struct.pack("<i", 26) + quantised(25)[21:]),
        "26 codes do not fit 25 rows",
    ),
    "quantiser": (
        replaced("quantised", 4, quantised(25)[:96] + struct.pack("<4i", 5, 3, 2, 2) + quantised(25)[112:]),
        "says",
    ),
    "parts": (
        replaced("quantised", 4, quantised(25)[:96] + struct.pack("<4i", 5, 3, 0, 1) + quantised(25)[112:]),
        "says",
    ),
    "order of a tree": (
        replaced(
            "version 11", 2, dictionary(WORDS, LABELS).replace(struct.pack("<qb", 4, 1), struct.pack("<qb", 2, 1))
        ),
        "not in the order of their counts",
    ),
    "gzip": (b"\x1f\x8b\x08" + bytes(200), "compressed with gzip; decompress it first"),
    "text": (b"3 2\nthe 0.1 0.2\n" * 20, "magic number"),
    "nothing": (b"", "truncated"),
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_files(name, tmp_path):
    content, message = BAD[name]
    with pytest.raises(FormatError, match=message):
        read_fasttext(written(tmp_path / "model", content))


def test_long_words_and_long_ngrams_alone_are_no_damage(tmp_path):
    sections = [HEAD, settings(minn=3, maxn=6), dictionary([b"x" * 65_000, b"y"]), b"\0", dense(22), b"\0", dense(2)]
    assert len(read_fasttext(written(tmp_path / "model", b"".join(sections))).subword_table[1]) == 259_994 + 1 + 2
    sections[1:3] = [settings(minn=2, maxn=1000), dictionary([b"abc", b"d"])]
    model = read_fasttext(written(tmp_path / "model", b"".join(sections)))
    assert np.diff(model.subword_table[0]).tolist() == [1 + 4 + 3 + 2 + 1, 1 + 2 + 1]


@pytest.mark.parametrize("block", [70_000, 70_009])
def test_a_file_of_many_blocks(block, tmp_path, monkeypatch):
    words = [b"w%d" % place for place in range(20_000)] + [b"x" * 65_000, b"last"]
    sections = [HEAD, settings(bucket=0, maxn=0), dictionary(words), b"\0", dense(20_002), b"\0", dense(20_002)]
    whole = read_fasttext(written(tmp_path / "model", b"".join(sections)))
    for module in ("dictionary", "reader"):
        monkeypatch.setattr(f"wenmai.formats.fasttext.{module}._BLOCK_BYTES", block)
    model = read_fasttext(tmp_path / "model")
    assert [word.encode() for word in model.vocab.tokens] == words
    assert model.vocab == whole.vocab
    assert np.array_equal(model.input, whole.input)
    assert np.array_equal(model.output, whole.output)
    sections[4] = sections[4][:-4] + struct.pack("<f", float("nan"))
    with pytest.raises(FormatError, match="the input has a value that is not a finite number"):
        read_fasttext(written(tmp_path / "model", b"".join(sections)))


def test_reading_loads_no_compiler(tmp_path):
    path = written(tmp_path / "model", b"".join(SECTIONS["supervised"]))
    program = (
        "import sys; from wenmai.formats.fasttext import read_fasttext\n"
        f"read_fasttext({str(path)!r}); sys.exit('numba' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_no_file(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        read_fasttext(tmp_path / "nowhere")
    with pytest.raises(FormatError, match="this is a folder"):
        read_fasttext(tmp_path)


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(FormatError, match="zero byte"):
        write_fasttext(tmp_path / "model", FastText(FastTextConfig(vector_size=2, buckets=3), Vocab(["a\0"], [1])))
    config = FastTextConfig(vector_size=2, buckets=3, window=1 << 40)
    with pytest.raises(FormatError, match="does not fit"):
        write_fasttext(tmp_path / "model", FastText(config, Vocab(["a"], [1])))
    assert not list(tmp_path.iterdir())


# --- small models ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classifier():
    """A model whose labels can be told apart: each is near the words of its own."""
    words = ["</s>", *(f"w{place}" for place in range(300))]
    config = FastTextClassifierConfig(vector_size=9, word_ngrams=2, buckets=700)
    model = FastText(config, Vocab(words, range(400, 99, -1)), Vocab([f"l{place}" for place in range(300)], [9] * 300))
    model.initialise(3)
    model.output[:, :9] = DRAW.normal(size=(300, 9)) * 3
    model.input[1:301, :9] += model.output[:300, :9]
    return model


@pytest.mark.parametrize(
    "choices",
    [{}, {"norms": True}, {"part": 4}, {"cutoff": 400, "norms": True}, {"output": True, "cutoff": 330, "norms": True}],
)
def test_quantised_models_answer_nearly_the_same(choices, classifier, tmp_path):
    before = classifier.input.copy()
    small = quantise_fasttext(classifier, **choices)
    assert np.array_equal(classifier.input, before)
    write_fasttext(tmp_path / "model.ftz", small)
    again = read_fasttext(tmp_path / "model.ftz")
    texts = [f"w{place}" for place in range(300)]
    answers = again.predict(texts, k=5)
    assert answers == small.predict(texts, k=5)
    same = [one[0][0] == other[0][0] for one, other in zip(answers, classifier.predict(texts), strict=True)]
    assert np.mean(same) > 0.6
    write_fasttext(tmp_path / "again.ftz", again)
    assert (tmp_path / "again.ftz").read_bytes() == (tmp_path / "model.ftz").read_bytes()


def test_one_dimension_is_quantised_too(tmp_path):
    config = FastTextClassifierConfig(vector_size=1, buckets=0)
    model = FastText(config, Vocab([f"w{place}" for place in range(300)], [1] * 300), Vocab(["a", "b"], [1, 1]))
    model.initialise(1)
    write_fasttext(tmp_path / "model.ftz", quantise_fasttext(model))
    np.testing.assert_allclose(read_fasttext(tmp_path / "model.ftz").input.dense(), model.input[:, :1], atol=0.02)


def test_pruning_keeps_the_longest_rows(classifier):
    pruned = prune_fasttext(classifier, 310)
    lengths = np.linalg.norm(classifier.input, axis=1)
    lengths[0] = np.inf
    rows = np.argsort(-lengths, kind="stable")[:310]
    words = np.sort(rows[rows < 301])
    assert list(pruned.vocab.tokens) == [classifier.vocab.tokens[row] for row in words]
    assert pruned.kept_buckets[:, 0].tolist() == (rows[rows >= 301] - 301).tolist()
    assert np.array_equal(pruned.input[: len(words)], classifier.input[words])
    assert np.array_equal(pruned.input[len(words) :], classifier.input[rows[rows >= 301]])
    seen = []
    quantise_fasttext(classifier, cutoff=310, retrain=lambda model: seen.append(len(model.input)))
    assert seen == [310]


def test_what_cannot_be_quantised(classifier, tmp_path):
    vectors = FastText(FastTextConfig(vector_size=2, buckets=300), Vocab(["a"], [1]))
    small = quantise_fasttext(classifier)
    few = FastText(classifier.config, classifier.vocab, Vocab(["a"], [1]))
    for model, choices, message in (
        (vectors, {}, "only classifiers"),
        (small, {}, "quantised already"),
        (classifier, {"cutoff": 255}, "at least 256 rows, and the input has 255"),
        (classifier, {"part": 0}, "parts of at least 1 number"),
        (few, {"output": True}, "the output has 1"),
    ):
        with pytest.raises(SettingError, match=message):
            quantise_fasttext(model, **choices)
    with pytest.raises(SettingError, match="a pruned model is written quantised only"):
        write_fasttext(tmp_path / "model", prune_fasttext(classifier, 300))
    with pytest.raises(SettingError, match="pruned already"):
        prune_fasttext(prune_fasttext(classifier, 300), 280)
