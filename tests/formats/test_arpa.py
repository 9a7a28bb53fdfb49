"""ARPA files: both ways, what they leave out, and what is wrong with them."""

import gzip
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wenmai
from wenmai.core.errors import FormatError, SettingError
from wenmai.formats.arpa import read_arpa, write_arpa
from wenmai.inference.ngram_model import NgramModel
from wenmai.models.ngram import NgramConfig
from wenmai.runs.formats import export_run, import_run

EXAMPLE = ["d b", "d", "c a", "d b", "a d c d", "c"]
SMALL = """\\data\\
ngram 1=5
ngram 2=3
ngram 3=1

\\1-grams:
-1.5\t<unk>
-99\t<s>\t-0.25
-0.75\t</s>
-0.5\ta\t-0.125
-1\tb\t0.25

\\2-grams:
-0.25\t<s> a\t-0.5
-0.5\ta b
-0.125\tb </s>

\\3-grams:
-0.0625\t<s> a b

\\end\\
"""


QUICK_LM = """Language model created by QuickLM on Thu Jan  1 00:00:00 EST 1970
Copyright (c) 1996-2002
Carnegie Mellon University and Alexander I. Rudnicky

This model based on a corpus of 2 sentences and 3 words
The (fixed) discount mass is 0.5

"""
CMU = """#############################################################################
## Copyright (c) 1996, Carnegie Mellon University, Cambridge University,
#############################################################################
This is a 3-gram language model, based on a vocabulary of 3 words,
  which begins "</s>", "<s>", "a"...
This file is in the ARPA-standard format introduced by Doug Paul.

p(wd2|wd1)= if(bigram exists)   p_2(wd1,wd2)
            else                bo_wt_1(wd1)*p_1(wd2)

The beginning of data mark: \\data\\
ngram 1=nr            # number of 1-grams

probabilities and back-offs: \\1-grams:
end of data mark: \\end\\


"""


def lines(seed, count=300):
    draw = np.random.default_rng(seed)
    return [" ".join(f"w{n}" for n in draw.zipf(1.5, draw.integers(1, 9)) if n < 1000) or "w1" for _ in range(count)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arpa")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(folder / "cache"))
        return wenmai.train("ngram", lines(1), out=folder / "run", order=4, prune="0,0,0,1")


def written(tmp_path, text, name="small.arpa"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def log10s(model, text):
    (score,) = NgramModel(model).score([text])
    return [value / math.log(10) for value in score.token_log_probs]


# --- out and in ----------------------------------------------------------------------------------------------------


def test_a_model_written_and_read_scores_the_same(run, tmp_path):
    write_arpa(tmp_path / "model.arpa", run.model.model)
    again = NgramModel(read_arpa(tmp_path / "model.arpa"))
    assert again.model.ngrams == run.model.model.ngrams
    ours, theirs = (list(model.score(lines(2))) for model in (run.model, again))
    for one, other in zip(ours, theirs, strict=True):
        assert np.allclose(one.token_log_probs, other.token_log_probs, rtol=0, atol=2e-6)
        assert one.oov == other.oov


def test_runs_go_out_and_come_in(run, tmp_path):
    path = export_run(run, "arpa", tmp_path / "model.arpa")
    imported = import_run("arpa", path, tmp_path / "imported")
    assert imported.recipe.sections["model"].order == 4
    assert imported.recipe.sections["model"].smoothing == imported.model.model.config.smoothing == "arpa"
    one, other = (next(iter(model.score(["w1 w2 w3"]))) for model in (run.model, wenmai.load(tmp_path / "imported")))
    assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)
    assert wenmai.load(tmp_path / "imported").generate("w1", max_tokens=3)


def test_the_file_is_the_one_that_lmplz_writes(tmp_path):
    made = wenmai.train("ngram", EXAMPLE, out=tmp_path / "run", order=2)
    write_arpa(tmp_path / "example.arpa", made.model.model)
    text = (tmp_path / "example.arpa").read_text()
    assert text.startswith("\\data\\\nngram 1=7\nngram 2=12\n\n\\1-grams:\n")
    assert text.endswith("\n\n\\end\\\n")
    found = dict(line.split("\t")[1::-1] for line in text.splitlines() if "\t" in line)
    for words, probability in (("<unk>", 0.111111), ("</s>", 0.261111), ("d b", 0.203926), ("<s> a", 0.204961)):
        assert float(found[words]) == pytest.approx(math.log10(probability), abs=2e-6)
    assert float(found["<s>"]) == 0  # never predicted
    backoffs = {line.split("\t")[1]: line.split("\t")[2] for line in text.splitlines() if line.count("\t") == 2}
    assert float(backoffs["d"]) == pytest.approx(-0.123013, abs=1e-6)


def test_whether_the_unknown_word_is_one_of_the_text_goes_out_and_comes_in(tmp_path):
    for word, oov in (("<unk>", [0, 1]), ("rare", [1, 1])):  # both have n-grams of <unk>
        text = [*["a b", "b c a"] * 2, f"a {word} b"]
        made = wenmai.train("ngram", text, out=tmp_path / word, order=2, min_count=2)
        imported = import_run("arpa", export_run(made, "arpa", tmp_path / f"{word}.arpa"), tmp_path / f"{word}-again")
        for model in (made.model, imported.model):
            assert [score.oov for score in model.score(["a <unk> b", "a zzz b"])] == oov


def test_in_files_of_others_the_unknown_word_is_unknown(tmp_path):
    (score,) = NgramModel(read_arpa(written(tmp_path, "# <unk> is nothing special\n" + SMALL))).score(["<unk> a"])
    assert score.oov == 1


def test_zero_probabilities_are_written_as_minus_99(tmp_path):
    made = wenmai.train("ngram", EXAMPLE, out=tmp_path / "run", order=2, smoothing="mle")
    write_arpa(tmp_path / "mle.arpa", made.model.model)
    assert "\n-99\t<unk>\t0\n" in (tmp_path / "mle.arpa").read_text()


def test_add_k_cannot_be_written(tmp_path):
    made = wenmai.train("ngram", EXAMPLE, out=tmp_path / "run", order=2, smoothing="add-k")
    with pytest.raises(SettingError, match="add-k gives all unseen words the same probability"):
        export_run(made, "arpa", tmp_path / "model.arpa")
    assert not (tmp_path / "model.arpa").exists()


# --- what files may look like ---------------------------------------------------------------------------------------


def test_reading(tmp_path):
    model = read_arpa(written(tmp_path, SMALL))
    assert model.config == NgramConfig(order=3, smoothing="arpa")
    assert model.ngrams == (5, 3, 1)
    assert log10s(model, "a b") == pytest.approx([-0.25, -0.0625, -0.125], abs=1e-6)
    assert log10s(model, "b a") == pytest.approx([-0.25 - 1, 0.25 - 0.5, -0.125 - 0.75], abs=1e-6)
    assert log10s(model, "x a") == pytest.approx([-0.25 - 1.5, -0.5, -0.125 - 0.75], abs=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\n# a remark\n\n" + text,
        lambda text: text.replace("\t", " "),
        lambda text: text.replace("-0.125", "-1.25e-1").replace("-99", "-inf"),
        lambda text: text.replace("<unk>", "<UNK>"),
        lambda text: text.replace("\n\n", "\n\n\n"),
        lambda text: "\n" * 5_000_000 + text.replace("\n\n", "\n" + " \r\n\t\n\n" * 300_000),
        lambda text: text.replace("\n\n\\2", "\n\\2").replace("\n\n\\3", "\n\\3"),
        lambda text: text.replace("\n-", "\n -").replace("\n\\", "\n \\"),
        lambda text: text.replace("\n-", "\n \t\n\n-"),
        lambda text: "\ufeff" + text,
        lambda text: QUICK_LM + text,
        lambda text: CMU + text,
        lambda text: (CMU + text).replace("\n", "\r\n"),
        lambda text: "Mod\xe8le\n".encode("latin-1") + text.encode(),
    ],
)
def test_spellings_of_the_same(change, tmp_path):
    assert log10s(read_arpa(written(tmp_path, change(SMALL))), "a b") == pytest.approx(
        [-0.25, -0.0625, -0.125], abs=1e-6
    )


def test_unknown_words_in_capitals_are_unknown_words_in_every_order(tmp_path):
    text = SMALL.replace("-0.5\ta b\n", "-0.5\ta b\n-0.75\t<unk> a\n").replace("ngram 2=3", "ngram 2=4")
    plain, capital = read_arpa(written(tmp_path, text)), read_arpa(written(tmp_path, text.replace("<unk>", "<UNK>")))
    assert log10s(capital, "x a") == log10s(plain, "x a")
    assert log10s(plain, "x a")[1] == pytest.approx(-0.75, abs=1e-6)


def test_what_cannot_come_next_is_not_among_the_next(tmp_path):
    text = SMALL.replace("-0.5\ta\t", "-inf\ta\t").replace("-0.75\t</s>", "-inf\t</s>")
    found = NgramModel(read_arpa(written(tmp_path, text))).next("b b", topn=9)
    assert [word for word, _ in found] == ["\n", "b", "<unk>"]  # \n by its bigram


def test_compressed(tmp_path):
    assert read_arpa(written(tmp_path, gzip.compress(SMALL.encode()), "small.arpa.gz")).ngrams == (5, 3, 1)


def test_only_spaces_tabs_and_line_ends_separate_words(tmp_path):
    model = read_arpa(
        written(tmp_path, SMALL.replace("a b", "a b\v").replace("\tb\t", "\tb\v\t").replace("b </s>", "b\v </s>"))
    )
    assert model.vocab.get("b\v") is not None


def test_contexts_and_suffixes_that_are_left_out_are_put_in(tmp_path):
    text = SMALL.replace("-0.25\t<s> a\t-0.5\n-0.5\ta b\n", "").replace("ngram 2=3", "ngram 2=1")
    model = read_arpa(written(tmp_path, text))
    assert model.ngrams == (5, 3, 1)
    assert log10s(model, "a b") == pytest.approx([-0.25 - 0.5, -0.0625, -0.125], abs=1e-6)  # as if they were not there
    assert log10s(model, "a a") == pytest.approx([-0.75, -0.125 - 0.5, -0.125 - 0.75], abs=1e-6)


TWICE = (
    SMALL.replace("ngram 1=5\nngram 2=3", "ngram 1=7\nngram 2=5")
    .replace("-1\tb\t0.25\n", "-1\tb\t0.25\n-0.25\tb\t-1\n-2\t<UNK>\n")
    .replace("-0.5\ta b\n", "-0.5\ta b\n-0.125\ta b\n-0.75\t<UNK> a\n")
)


def test_what_stands_twice_counts_once_and_a_note_says_so(tmp_path, caplog):
    model = read_arpa(written(tmp_path, TWICE))
    assert model.ngrams == (5, 4, 1)
    assert log10s(model, "a b") == log10s(read_arpa(written(tmp_path, SMALL)), "a b")
    assert log10s(model, "b x a") == pytest.approx([-0.25 - 1, 0.25 - 2, -0.75, -0.125 - 0.75], abs=1e-6)
    assert "3 n-grams stand twice; the first of each counts" in caplog.text


def test_words_that_are_not_utf8_are_latin_1_and_a_note_says_so(tmp_path, caplog):
    text = SMALL.encode().replace(b"b", "caf\xe9".encode("latin-1")).replace(b"ngrcaf\xe9m", b"ngram")
    model = read_arpa(written(tmp_path, text))
    assert log10s(model, "a caf\xe9") == log10s(read_arpa(written(tmp_path, SMALL)), "a b")
    assert "1 words are not UTF-8, and are taken for Latin-1" in caplog.text


@pytest.mark.parametrize("place", ["\\data\\", "\\1-grams", "-0.5\ta\t", "-0.5\ta b", "\\end\\"])
def test_a_small_file_of_very_many_blank_lines_is_read_soon(place, tmp_path):
    zstandard = pytest.importorskip("zstandard")
    packed = zstandard.compress(SMALL.replace(place, "\n" * (10 << 20) + place).encode())
    assert len(packed) < 2000
    begin = time.process_time()
    assert read_arpa(written(tmp_path, packed, "small.arpa.zst")).ngrams == (5, 3, 1)
    assert time.process_time() - begin < 5  # 0.1 s; a line at a time it was 22 s


def test_without_unknown_words_they_are_as_good_as_impossible(tmp_path):
    text = SMALL.replace("-1.5\t<unk>\n", "").replace("ngram 1=5", "ngram 1=4")
    assert log10s(read_arpa(written(tmp_path, text)), "x")[0] == pytest.approx(-100.25, abs=1e-4)


# --- what is wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "data", r"is not an ARPA file: expected a line \\data\\"),
        ("\\data\\", "a remark\n" * 10_000 + "\\data\\", r"is not an ARPA file: expected a line \\data\\"),
        ("ngram 2=3", "ngram 3=3", "line 3 should be `ngram 2=COUNT`"),
        ("ngram 2=3", "ngram 2=x", "line 3 should be `ngram 2=COUNT`"),
        ("ngram 1=5", "ngram 1=6", "has 5 1-grams up to line .*, but announces 6"),
        ("ngram 2=3", "ngram 2=4", "there are 3, not the 4 2-grams"),
        ("ngram 2=3", "ngram 2=2", "there are more than the 2 2-grams"),
        ("ngram 2=3", "ngram 2=4000000000", "there are 3, not the 4,000,000,000 2-grams"),
        ("ngram 2=3", "ngram 2=99999999999", "at most 4,294,967,294 can be read"),
        ("\\2-grams:", "\\4-grams:", r"line 13 should be \\2-grams:"),
        ("\\3-grams:\n-0.0625\t<s> a b\n", "", r"should be \\3-grams:"),
        ("-0.5\ta b", "nan\ta b", "line 15 expected a logarithm"),
        ("-0.5\ta\t", "nan\ta\t", "line 10 expected a logarithm"),
        ("-0.5\ta b", "-0.5x\ta b", "line 15 expected a logarithm"),
        ("-0.5\ta b", "0.5\ta b", "line 15 has a positive logarithm"),
        ("-0.5\ta\t", "0.5\ta\t", "line 10 has a positive logarithm"),
        ("-0.5\ta b", "-0.5\ta", "line 15 expected a logarithm, 2 words"),
        ("-0.5\ta b", "-0.5\ta b 0 0", "line 15 expected a logarithm, 2 words"),
        ("-0.5\ta b", "-0.5\ta c", "line 15 has a word that is not among the 1-grams"),
        ("-0.5\ta\t-0.125", "-0.5\ta\t1e39", "line 10 has a back-off weight above 1e99"),
        ("<s> a\t-0.5", "<s> a\t100", "line 14 has a back-off weight above 1e99"),
        ("-0.5\ta\t", "-1_0\ta\t", "line 10 expected a logarithm"),
        ("<s> a b\n", "<s> a b\t-0.5\n", "the highest order, have back-off weights"),
        ("-0.75\t</s>", "-0.75\tc", "lacks </s>"),
    ],
)
def test_mistakes_are_named(old, new, message, tmp_path):
    assert old in SMALL
    with pytest.raises(FormatError, match=message):
        read_arpa(written(tmp_path, SMALL.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("ngram 2=3", "line 3 should be `ngram 2=COUNT`, but is 'ngram'"),
        ("-0.5\ta\t", "line 10 expected a logarithm, 1 words"),
        ("\\2-grams:", "line 13 should be"),
    ],
)
def test_of_a_file_cut_short_the_cut_line_is_named(end, message, tmp_path):
    cut = SMALL.index(end) + 5
    with pytest.raises(FormatError, match=message):
        read_arpa(written(tmp_path, SMALL[:cut]))


@pytest.mark.parametrize("content", [b"", b"\n", b"\\data\\", b"\x00" * 100, b"x" * (7 << 20)])
def test_files_that_are_no_arpa_files(content, tmp_path):
    with pytest.raises(FormatError):
        read_arpa(written(tmp_path, content))


def test_missing_files(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        read_arpa(tmp_path / "none.arpa")


def test_a_file_cut_short_anywhere_is_refused(tmp_path):
    whole = SMALL.encode()
    for size in range(len(whole.rstrip())):
        with pytest.raises(FormatError):
            read_arpa(written(tmp_path, whole[:size]))


@given(st.integers(0, len(SMALL) - 1), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_makes_another_model(tmp_path_factory, place, byte):
    damaged = bytearray(SMALL.encode())
    damaged[place] = byte
    path = written(tmp_path_factory.mktemp("damaged"), bytes(damaged))
    try:
        model = read_arpa(path)
    except FormatError:
        return
    assert len(log10s(model, "a b")) == 3


# --- KenLM ----------------------------------------------------------------------------------------------------------

KENLM_SENTENCES = [
    "looking on a little more loin",  # by 5-grams
    "looking on a little",
    "also would consider higher looking",  # whose contexts and suffixes are left out
    "also would consider higher",
    "not found also would consider higher looking",
    "to look a little",
    "foo bar baz",  # bar has a positive back-off
    "bar foo bar",
    "<unk> however <unk>",
    "zebra however quux",
    "screening a little zebra",
    "zebra",
    "a b a b",
    "b b b a",
    "a zebra a b",
    "c b",
]


@pytest.mark.parity
@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["test", "test_nounk", "toy0", "toy1"])
def test_the_files_that_kenlm_is_tested_with(name, shared_data):
    kenlm = pytest.importorskip("kenlm")
    path = shared_data / "formats" / "kenlm" / f"{name}.arpa"
    ours, theirs = NgramModel(read_arpa(path)), kenlm.Model(str(path))
    unknown = 0
    for score in ours.score(KENLM_SENTENCES):
        found = list(theirs.full_scores(score.text))
        log10s = np.array(score.token_log_probs) / math.log(10)
        # The share of the size is for -100, what test_nounk gives unknown words: single precision has 7 digits of it.
        assert np.allclose(log10s, [log10 for log10, _, _ in found], rtol=1e-6, atol=1e-5)
        assert score.oov == sum(oov for _, _, oov in found)
        unknown += score.oov
    assert unknown


@pytest.mark.parity
@pytest.mark.parametrize("change", [lambda text: TWICE, lambda text: text.replace("\n-", "\n -"), lambda text: text])
def test_kenlm_reads_such_files_so(change, tmp_path):
    kenlm = pytest.importorskip("kenlm")
    path = written(tmp_path, change(SMALL))
    theirs, ours = kenlm.Model(str(path)), read_arpa(path)
    for text in ("a b", "b a", "x a b", "b x a"):
        assert log10s(ours, text) == pytest.approx([log10 for log10, _, _ in theirs.full_scores(text)], abs=1e-6)


@pytest.mark.parity
def test_kenlm_reads_files_whose_unknown_word_is_one_of_the_text(tmp_path):
    kenlm = pytest.importorskip("kenlm")
    made = wenmai.train("ngram", ["a <unk> b", "a <unk> c", "c b"], out=tmp_path / "run", order=2)
    path = export_run(made, "arpa", tmp_path / "model.arpa")
    (score,) = made.model.score(["a <unk> c"])
    assert kenlm.Model(str(path)).score("a <unk> c") == pytest.approx(score.log10, abs=1e-5)


@pytest.mark.parity
@pytest.mark.parametrize("settings", [{}, {"prune": "0,0,1"}, {"smoothing": "absolute"}, {"smoothing": "kneser-ney"}])
def test_kenlm_reads_our_files_and_scores_the_same(settings, tmp_path):
    kenlm = pytest.importorskip("kenlm")
    made = wenmai.train("ngram", lines(1), out=tmp_path / "run", order=4, **settings)
    write_arpa(tmp_path / "model.arpa", made.model.model)
    theirs = kenlm.Model(str(tmp_path / "model.arpa"))
    for score in made.model.score(lines(3)):
        found = list(theirs.full_scores(score.text))
        ours = np.array(score.token_log_probs) / math.log(10)
        assert np.allclose(ours, [log10 for log10, _, _ in found], rtol=0, atol=1e-5)
        assert score.oov == sum(oov for _, _, oov in found)
