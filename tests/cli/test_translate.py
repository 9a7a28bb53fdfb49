"""``wenmai translate`` and ``wenmai evaluate --on`` as people and scripts use them."""

import json
import random

import pytest

import wenmai


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Finished runs by name."""
    folder, draw = tmp_path_factory.mktemp("runs"), random.Random(1)
    made = [draw.choices("abcdefgh", k=draw.randint(1, 6)) for _ in range(60)]
    pairs = [(" ".join(words), " ".join(reversed(words)).upper()) for words in made]
    common = {"hidden_size": 16, "num_layers": 1, "kind": "words", "min_count": 1, "epochs": 1, "threads": 1}
    attentive = common | {"num_heads": 2, "ffn_size": 16, "max_length": 12}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(tmp_path_factory.mktemp("cache")))
        return {
            "transformer": wenmai.train("transformer", pairs, out=folder / "transformer", **attentive),
            "blind": wenmai.train(
                "seq2seq", pairs, out=folder / "blind", embedding_size=8, context="first_state", **common
            ),
            "words": wenmai.train("word2vec", [["a", "b"] * 50] * 20, out=folder / "words", vector_size=4, threads=1),
        }


@pytest.fixture
def call(shell, runs):
    """Runs a command; the first run is named by its name."""

    def called(verb, name, *arguments, **options):
        finished = shell(verb, runs[name].path, *arguments, **options)
        return finished.out, finished.err

    return called


def test_arguments_file_and_stdin_give_the_same_lines_in_order(call, tmp_path, runs):
    texts = ["a b c", "", "h g", "  ", "never seen", "a"]
    path = tmp_path / "texts"
    path.write_text("".join(f"{text}\n" for text in texts))
    expected = "".join(f"{line}\n" for line in runs["transformer"].model.translate(texts))
    assert call("translate", "transformer", *texts)[0] == expected
    assert call("translate", "transformer", "--file", path)[0] == expected
    assert call("translate", "transformer", stdin=path.read_bytes())[0] == expected
    assert (
        call("translate", "transformer", "--file", "-", stdin=path.read_bytes().replace(b"\n", b"\r\n"))[0] == expected
    )
    assert expected.count("\n") == len(texts)
    assert call("translate", "transformer")[0] == ""


def test_what_a_translation_may_be_is_an_option(call):
    def tokens(*options):
        out, _ = call("translate", "transformer", "a b c", "h g", "--json", *options)
        return [json.loads(line)["translations"][0]["pieces"] for line in out.splitlines()]

    assert all(found[:2] == ["B", "A"] for found in tokens("--prefix", "B A", "--stop", "limit"))
    assert all(
        3 <= len(set(found)) <= 4
        for found in tokens(
            "--min-length", "3", "--max-length", "4", "--no-repeat-ngram", "1", "--repetition-penalty", "1.5"
        )
    )
    assert all(len(found) <= 2 for found in tokens("--max-ratio", "0.5"))
    assert tokens("--exhaustive", "--max-length", "2", "--length-penalty", "none") == tokens(
        "--beam", "20", "--max-length", "2", "--length-penalty", "none"
    )


def test_a_long_line_is_cut_with_a_note(call):
    out, err = call("translate", "transformer", "a b", "a " * 50)
    assert out.count("\n") == 2
    assert err == "note: text 2 is longer than 11 tokens; its end was left out\n"


def test_scores_and_several_translations(call):
    out, err = call("translate", "transformer", "a b", "", "--n-best", 3, "--scores", "--beam", 60)
    scores = [float(line.split("\t")[0]) for line in out.splitlines()]
    assert (len(scores), scores.pop(), err) == (4, 0.0, "")  # the last of the empty text
    out, err = call("translate", "transformer", "a b", "--n-best", 3, "--scores")
    scores = [float(line.split("\t")[0]) for line in out.splitlines()]
    missing = f"text 1 has {len(scores)} of 3 translations: no other in a beam of 5 finished; a larger --beam"
    assert 1 <= len(scores) <= 3
    assert (missing in err) == (len(scores) < 3)
    assert scores == sorted(scores, reverse=True)
    _, err = call("translate", "transformer", "a b", "--n-best", 100, "--exhaustive", "--max-length", 2)
    assert "of 100 translations: there are no others of so few tokens; a larger --max-length has more" in err
    found = json.loads(call("translate", "transformer", "a b", "--n-best", 3, "--json")[0])
    assert found["text"] == "a b"
    assert [f"{one['score']:.4f}" for one in found["translations"]] == [f"{score:.4f}" for score in scores]
    assert set(found["translations"][0]) == {"text", "score", "log_prob", "tokens", "pieces", "cut"}


def test_a_seed_decides_what_is_drawn(call):
    first, again, other = (
        call("translate", "transformer", "a b", "c d", "e", "--sample", "--seed", seed)[0] for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize(
    "options",
    [
        ("--length-penalty", "long"),
        ("--sample", "--temperature", 0, "--top-k", 3),
        ("--sample", "--top-p", 0),
        ("--sample", "--n-best", 2),
        ("--sample", "--beam", 4),
        ("--top-k", 3),
        ("--attention", "attention.pdf"),
        ("--file", "texts"),
    ],
)
def test_options_that_make_no_sense_are_one_message(options, call):
    out, err = call("translate", "transformer", "a b", *options, code=2)
    assert out == ""
    assert err.startswith("wenmai: ")
    assert err.count("\n") == 1


def test_what_cannot_be_read_is_one_message(call, tmp_path):
    _, err = call("translate", "transformer", "--file", tmp_path / "nothing", code=3)
    assert "nothing" in err
    out, err = call("translate", "transformer", stdin=b"a\n\xff\n", code=3)
    assert "standard input, line 2: is not UTF-8" in err
    assert out == ""
    out, err = call("translate", "transformer", stdin=b"a\n\0\n", code=3)
    assert "standard input, line 2: has a NUL" in err


def test_attention_is_written_beside_the_translations(call, tmp_path):
    out, err = call("translate", "transformer", "a b", "", "--attention", tmp_path / "a.html")
    assert out.count("\n") == 2
    assert err == f"attention: {tmp_path / 'a.html'}\n"
    assert "<html" in (tmp_path / "a.html").read_text(encoding="utf-8")
    out, err = call("translate", "blind", "a b", "--attention", tmp_path / "b.html", code=2)
    assert (out, err.count("\n")) == ("", 1)
    assert "has no attention (context=first_state)" in err


def test_the_attention_is_that_of_the_translation_that_was_printed(call, tmp_path):
    drawn = ("--sample", "--seed", 5, "--temperature", 5)
    out, _ = call("translate", "transformer", "a b c", *drawn, "--attention", tmp_path / "a.html")
    assert out != call("translate", "transformer", "a b c")[0]
    assert f'"targetText":"{out.strip()}"' in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_verbs_of_other_systems_are_explained(call):
    assert "is a run of word2vec, which has no translate" in call("translate", "words", "a", code=6)[1]
    assert "is a run of transformer, which has no vectors of words" in call("nearest", "transformer", "a", code=6)[1]
    assert "--on: not for word vectors" in call("evaluate", "words", "--on", "builtin:numerals-valid", code=2)[1]


def test_evaluation_ends_with_one_line_of_json(call, tmp_path, runs):
    path = tmp_path / "test.tsv"
    path.write_text("a b\tB A\nc d e\tE D C\n")
    out, _ = call("evaluate", "transformer", "--on", path, "--json")
    found = json.loads(out.splitlines()[-1])
    assert {"bleu", "chrf", "signature", "exact_match"} <= set(found)
    out, _ = call("evaluate", "transformer", "--on", path, "--against", runs["blind"].path, "--json", "--beam", 1)
    assert json.loads(out)["difference"]["bleu"]["p_value"] <= 1
    out, _ = call("evaluate", "transformer", "--on", path, "--against", runs["blind"].path, "--beam", 1)
    assert "BLEU" in out
    assert "p = " in out


def test_a_damaged_model_is_one_message(call, tmp_path, runs):
    config = runs["blind"].path / "model" / "config.json"
    kept = config.read_bytes()
    config.write_text("{}")
    try:
        _, err = call("translate", "blind", "a", code=5)
    finally:
        config.write_bytes(kept)
    assert "config.json: is not the configuration of a model" in err
    assert err.count("\n") == 1
