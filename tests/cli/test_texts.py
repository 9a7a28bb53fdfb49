"""One convention for texts, files and standard input, and one form of JSON, over all verbs that take text."""

import json
import math

import numpy as np
import pytest

import wenmai

TEXTS = ["a b c", "d a"]
PAIRS = [(" ".join("abcd"[: n % 4 + 1]), " ".join("ABCD"[: n % 4 + 1])) for n in range(60)]
TINY = {"threads": 1, "epochs": 1}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run of each kind, by name."""
    folder = tmp_path_factory.mktemp("runs")
    lines = ["a b c d", "b c d a", "c d a b"] * 30
    labelled = folder / "labelled.txt"
    labelled.write_text("".join(f"__label__{line[0]} {line}\n" for line in lines))
    network = TINY | {"hidden_size": 8, "num_layers": 1, "num_heads": 1, "ffn_size": 8, "max_length": 16}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(tmp_path_factory.mktemp("cache")))
        made = {
            "words": wenmai.train(
                "word2vec", lines, out=folder / "words", vector_size=4, min_count=1, sample=0, lowercase=True, **TINY
            ),
            "classifier": wenmai.train(
                "fasttext-supervised", labelled, out=folder / "classifier", vector_size=4, buckets=100, **TINY
            ),
            "ngram": wenmai.train("ngram", lines, out=folder / "ngram", order=2),
            "translator": wenmai.train(
                "transformer", PAIRS, out=folder / "translator", kind="words", min_count=1, **network
            ),
        }
    return {name: run.path for name, run in made.items()}


# Of each verb: a run, its arguments besides texts, and the fields of a line of JSON; those of a list in it.
VERBS = {
    "embed": ("words", [], {"text", "vector"}, None),
    "nearest": ("words", [], {"words", "nearest"}, {"word", "score"}),
    "score": ("ngram", [], {"text", "log_prob", "tokens", "oov"}, None),
    "next": ("ngram", [], {"text", "next"}, {"token", "probability"}),
    "generate": (
        "ngram",
        ["--max-tokens", "3"],
        {"prompt", "text", "log_prob", "tokens", "reason", "cut_tokens"},
        None,
    ),
    "classify": ("classifier", ["--k", "2"], {"text", "labels"}, {"label", "probability"}),
    "translate": (
        "translator",
        [],
        {"text", "translations"},
        {"text", "score", "log_prob", "tokens", "pieces", "cut"},
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_arguments_file_and_stdin_are_one(verb, runs, shell):
    name, options, fields, inner = VERBS[verb]
    path = shell.folder / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS))
    expected = shell(verb, runs[name], "--file", "texts.txt", *options, "--json").out
    assert shell(verb, runs[name], "-", *options, "--json", stdin=path.read_text()).out == expected
    assert shell(verb, runs[name], "--file", "-", *options, "--json", stdin=path.read_text()).out == expected
    if verb not in ("next", "generate"):  # which begin from nothing
        assert shell(verb, runs[name], *options, "--json", stdin=path.read_text()).out == expected
    if verb == "nearest":  # whose words are one question
        given = "".join(shell(verb, runs[name], *text.split(), *options, "--json").out for text in TEXTS)
    else:
        given = shell(verb, runs[name], *TEXTS, *options, "--json").out
    assert given == expected

    rows = [json.loads(line) for line in expected.splitlines()]
    if verb == "score":
        total = rows.pop()
        assert total["log_prob"] == pytest.approx(sum(row["log_prob"] for row in rows))
        assert total["perplexity"] == pytest.approx(math.exp(-total["log_prob"] / total["tokens"]))
    for row, text in zip(rows, TEXTS, strict=True):
        assert set(row) == fields
        assert next(iter(row.values())) in (text, text.split())
        for listed in row[verb if verb in row else "labels" if verb == "classify" else "translations"] if inner else ():
            assert set(listed) == inner

    for arguments, message in (
        (["texts.txt"], "'texts.txt' names a file, but texts are expected here: --file texts.txt reads it"),
        (["data:wikitext"], "'data:wikitext' names a file"),
        (["a", "--file", "texts.txt"], "not both"),
        (["a", "-"], "must be the only text"),
    ):
        if verb != "nearest" or "not both" in message:
            assert message in shell(verb, runs[name], *arguments, code=2).err
    assert "missing.txt: no such file" in shell(verb, runs[name], "--file", "missing.txt", code=3).err


def test_a_table_is_said_to_be_read_by_line(runs, shell, tmp_path):
    for name, noted in (("a.csv", True), ("a.txt", False)):
        (tmp_path / name).write_text("text,label\na b,x\n")
        told = shell("classify", runs["classifier"], "--file", tmp_path / name)
        assert len(told.out.splitlines()) == 2
        assert ("cut out the column with the texts" in told.err) == noted


def test_a_prompt_has_a_seed_of_its_own(runs, shell):
    sampled = shell("generate", runs["ngram"], *["a"] * 8, "--max-tokens", "4").out.splitlines()
    assert len(set(sampled)) > 1
    assert shell("generate", runs["ngram"], "a", "--max-tokens", "4").out.splitlines() == sampled[:1]


def test_a_verb_that_a_model_lacks_is_named_as_typed(runs, shell):
    for verb in ("score", "next", "generate", "translate", "embed"):
        name = "translator" if verb == "embed" else "classifier"
        assert f", which has no {verb}; it has " in shell(verb, runs[name], "a", code=6).err
    found = shell("evaluate", runs["translator"], code=2).err
    assert found == "wenmai: name at least one test set: --on FILE, for translators\n"


def test_a_word_without_a_vector_is_named_with_its_line(runs, shell):
    (shell.folder / "words.txt").write_text("a\n\nb\nzzz\nc\n")
    found = shell("nearest", runs["words"], "--file", "words.txt", "--topn", "1", code=4)
    assert [line for line in found.out.splitlines() if " " not in line] == ["a", "b"]
    assert found.err.startswith("wenmai: words.txt: line 4: no vector for 'zzz'")
    (shell.folder / "words.txt").write_text("a\nb\nzzz\nc\n")
    found = shell("embed", runs["words"], "--words", "--file", "words.txt", code=4)
    assert [line.partition("\t")[0] for line in found.out.splitlines()] == ["a", "b"]
    assert found.err.startswith("wenmai: words.txt: line 3: no vector for 'zzz'")


def test_vectors_of_words_and_texts(runs, shell):
    vectors = wenmai.load(runs["words"])
    rows = [line.split("\t") for line in shell("embed", runs["words"], "a", "A b").out.splitlines()]
    assert [text for text, _ in rows] == ["a", "A b"]  # cut as the text of the training was: in lower case
    found = np.array([numbers.split() for _, numbers in rows], np.float32)
    assert np.array_equal(found[0], vectors["a"])
    assert np.allclose(found[1], (vectors["a"] + vectors["b"]) / 2)
    assert np.array_equal(found, wenmai.Run(runs["words"]).embed(["a", "A b"]))
    assert np.array_equal(found[1:], vectors.embed([["a", "b"]]))
    exact = shell("embed", runs["words"], "a", "--words", "--json").out
    assert np.array_equal(np.float32(json.loads(exact)["vector"]), vectors["a"])
    assert "no vector for 'A'" in shell("embed", runs["words"], "A", "--words", code=4).err
    unknown = shell("embed", runs["words"], "zzz", "a")
    assert unknown.err == "note: texts without a word that has a vector: 1; theirs are zero\n"

    saved = shell("embed", runs["words"], *TEXTS, "--weighting", "sif", "--out", "vectors.npy")
    assert saved.err == "vectors.npy: 2 vectors of 4 dimensions\n"
    sif = np.load(shell.folder / "vectors.npy", allow_pickle=False)
    p = vectors.counts / vectors.counts.sum()
    weights = [0.001 / (0.001 + p[vectors.key_to_index[word]]) for word in "abc"]
    expected = np.average([vectors[word] for word in "abc"], axis=0, weights=weights)
    assert np.allclose(sif[0], expected, atol=1e-6)
    assert sif.dtype == np.float32
    texts = wenmai.load(runs["classifier"]).embed(TEXTS)
    lines = shell("embed", runs["classifier"], *TEXTS, "--json").out.splitlines()
    assert np.array_equal(np.float32([json.loads(line)["vector"] for line in lines]), texts)
    assert "is for word vectors" in shell("embed", runs["classifier"], "a", "--weighting", "sif", code=2).err
    assert "expected mean or sif" in shell("embed", runs["words"], "a", "--weighting", "idf", code=2).err
    assert ".npy" in shell("embed", runs["words"], "a", "--out", "vectors.txt", code=2).err
    for place, why in (("vectors.npy/a.npy", "vectors.npy is a file"), ("folder.npy", "folder.npy is a folder")):
        (shell.folder / "folder.npy").mkdir(exist_ok=True)
        refused = shell("embed", runs["words"], "--file", "nowhere.txt", "--out", place, code=2).err
        assert refused == f"wenmai: --out {place}: {why}; name another file\n"


def test_similarity_is_a_cosine(runs, shell):
    expected = wenmai.load(runs["words"]).similarity("a", "b")
    assert shell("similarity", runs["words"], "a", "b").out == f"{expected:.4f}\n"
    found = json.loads(shell("similarity", runs["words"], "a", "b", "--json").out)
    assert found == {"words": ["a", "b"], "score": pytest.approx(float(expected))}


def test_an_export_may_go_to_standard_output(runs, shell):
    shell("export", runs["words"], "word2vec", "vectors.txt")
    assert shell("export", runs["words"], "word2vec", "-").out == (shell.folder / "vectors.txt").read_text()
    assert not (shell.folder / "-").exists()
    assert "name a folder" in shell("export", runs["words"], "projector", "-", code=2).err
    assert "leave one of them out" in shell("export", runs["words"], "word2vec", "-", "--json", code=2).err


def test_a_device_is_chosen_in_one_way(runs, shell):
    texts = ("a b",)
    plain = shell("translate", runs["translator"], *texts).out
    for device in ("cpu", "auto"):
        assert shell("translate", runs["translator"], *texts, "--device", device).out == plain
    assert "finds no GPU here" in shell("translate", runs["translator"], *texts, "--device", "cuda", code=2).err
    assert "expected auto, cpu or cuda" in shell("translate", runs["translator"], *texts, "--device", "mps", code=2).err
    assert "computes on the processor" in shell("classify", runs["classifier"], "a", "--device", "cuda", code=2).err
    assert shell("classify", runs["classifier"], "a", "--device", "auto").out
