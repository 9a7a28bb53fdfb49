"""Encoders by the shell: scores, masks, vectors, evaluations beside other models, and mistakes."""

import json
import math
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

import wenmai
from wenmai.core.errors import SettingError
from wenmai.runs.planning import plan

TEXT = "the cat sat on the mat\nthe dog sat on the log\n" * 40
SETTINGS = {
    "bert": {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "max_length": 12, "kind": "whitespace", "epochs": 1}
    | {"threads": 1, "batch_tokens": 64, "learning_rate": 0.02, "warmup": 0, "vocab_size": 20, "dropout": 0.0},
    "ngram": {"order": 3},
    "word2vec": {"vector_size": 8, "epochs": 1, "threads": 1},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders")
    (folder / "text.txt").write_text(TEXT)
    (folder / "test.txt").write_text("the cat sat on the log\n\nthe zebra sat\n")
    for system, settings in SETTINGS.items():
        out = folder / system
        wenmai.train(system, folder / "text.txt", out=out, min_count=1, quiet=True, **settings)
    return folder


def test_scores_are_marked_as_pseudo(shell, runs):
    *lines, total = map(
        json.loads, shell("score", runs / "bert", "--file", runs / "test.txt", "--json").out.splitlines()
    )
    assert [(line["tokens"], line["oov"], line["pseudo"]) for line in lines] == [
        (6, 0, True),
        (0, 0, True),
        (3, 1, True),
    ]
    assert total["pseudo"] is True
    assert total["bits_per_character"] == pytest.approx(-total["log_prob"] / math.log(2) / (22 + 13))
    shown = shell("score", runs / "bert", "the cat sat", "sat cat the").out
    assert shown.startswith("pseudo_log_prob\ttokens\toov\ttext\n")
    assert "pseudo bits per character, pseudo-perplexity" in shown
    evaluated = json.loads(shell("evaluate", runs / "bert", "--on", runs / "test.txt", "--json").out)
    assert evaluated["log_prob"] == pytest.approx(total["log_prob"])
    assert evaluated["pseudo"] is True
    assert "pseudo" not in json.loads(shell("score", runs / "ngram", "the cat", "--json").out.splitlines()[0])


def test_masked_models_are_compared_with_others_without_mixing_metrics(shell, runs, tmp_path):
    folders = [runs / "bert", runs / "ngram"]
    compared = wenmai.compare(folders, on=[str(runs / "test.txt")], out=tmp_path / "report")
    kinds = [{measure.kind for measure in system.measures} for system in compared.systems]
    assert kinds == [{"pseudo-bits", "pseudo-perplexity"}, {"bits", "perplexity"}]
    assert not compared.systems[0].lines
    assert compared.systems[1].lines
    for shown in (str(compared), (tmp_path / "report" / "report.html").read_text()):
        assert "seudo bits per character" in shown
    alone = wenmai.compare(folders[:1], on=[str(runs / "test.txt")], out=tmp_path / "alone")
    assert alone.panels == {}


def test_masks_are_filled_in(shell, runs):
    run = runs / "bert"
    model = wenmai.load(run)
    rows = [line.split() for line in shell("fill", run, "the cat sat [MASK] the mat", "--topn", "3").out.splitlines()]
    (expected,) = model.fill("the cat sat [MASK] the mat", 3)
    assert rows == [[f"{probability:.4f}", token] for token, probability in expected]
    found = json.loads(shell("fill", run, "the [MASK] sat on [MASK] log", "--topn", "2", "--json").out)
    assert found["text"] == "the [MASK] sat on [MASK] log"
    expected = model.fill(found["text"], 2)
    assert [[(one["token"], one["probability"]) for one in mask] for mask in found["masks"]] == expected
    piped = shell("fill", run, "-", stdin="the cat [MASK] on\n\n[MASK] dog sat\n").out
    assert [line for line in piped.splitlines() if "[MASK]" in line] == ["the cat [MASK] on", "[MASK] dog sat"]
    assert "mask 2:" in shell("fill", run, "[MASK] cat [MASK] on").out


def test_a_text_without_a_mask_is_named_by_its_line(shell, runs, tmp_path):
    assert "'' has no mask; write [MASK]" in shell("fill", runs / "bert", "", code=2).err
    path = tmp_path / "masks.txt"
    path.write_text("the cat [MASK] on\n\nthe cat sat\n")
    found = shell("fill", runs / "bert", "--file", path, code=2)
    assert "the cat [MASK] on" in found.out
    assert f"{path}: line 3: 'the cat sat' has no mask" in found.err
    assert "standard input: line 1: 'a' has no mask" in shell("fill", runs / "bert", "-", stdin="a\n", code=2).err


def test_mistakes_say_what_is_wrong_and_what_to_do(shell, runs, tmp_path):
    run = runs / "bert"
    assert "which has no vectors of words; it has score" in shell("analogy", run, "a", "b", "c", code=6).err
    (tmp_path / "empty.txt").touch()
    for verb in ("fill", "embed", "score"):
        assert "empty.txt: is empty; expected text" in shell(verb, run, "--file", tmp_path / "empty.txt", code=3).err
        assert shell(verb, run, "-", code=3 if verb == "score" else 0).out.count("\n") == (verb == "score")
    with pytest.raises(SettingError, match="fill takes one text, not a list; call it for each text"):
        wenmai.load(run).fill(["the [MASK] sat"])
    shutil.copytree(run, tmp_path / "run")
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        content = (run / "model" / name).read_bytes()
        (tmp_path / "run" / "model" / name).write_bytes(content[: len(content) // 2])
        said = shell("fill", tmp_path / "run", "a [MASK]", code=5).err
        assert said.count("\n") == 1
        assert said.endswith("; copy or train the model again\n")
        (tmp_path / "run" / "model" / name).write_bytes(content)


def test_settings_that_do_not_fit_are_refused_before_the_text_is_read(runs):
    for system, wrong, said in (
        ("gpt-bert", {"shifted": False}, "causal=0.5: a token that predicts itself"),
        ("bert", {"pairs": "next"}, "pairs=next needs the head pair"),
        ("bert", {"heads": ("mlm", "pair"), "pooler": "tanh"}, "is not trained with pairs=none"),
        ("bert", {"pooler": "tanh"}, "pooler=tanh would not be trained"),
        ("bert", {"short_length": 512}, "short_length=512 is more than max_length=128"),
        ("bert", {"seed": 2**63}, "seed=9223372036854775808: expected less than 9223372036854775808"),
    ):
        with pytest.raises(SettingError, match=said):
            plan(system, runs / "text.txt", **wrong)


def test_vectors_of_texts_and_of_words(shell, runs, tmp_path):
    run = runs / "bert"
    model = wenmai.load(run)
    texts = ["the cat sat", "a dog"]
    rows = [json.loads(line) for line in shell("embed", run, *texts, "--layer", "-1,-2", "--json").out.splitlines()]
    np.testing.assert_allclose([row["vector"] for row in rows], model.embed(texts, layer="-1,-2"), atol=1e-5)
    options = ["--pooling", "pooler" if "pooler" in model.poolings else "cls", "--normalise"]
    shell("embed", run, *texts, *options, "--out", tmp_path / "a.npy")
    np.testing.assert_allclose(np.linalg.norm(np.load(tmp_path / "a.npy"), axis=1), [1, 1], atol=1e-5)

    shown = json.loads(shell("embed", run, "the cat sat", "--words", "--json").out)
    assert [(one["word"], one["start"], one["end"]) for one in shown["words"]] == [
        ("the", 0, 3),
        ("cat", 4, 7),
        ("sat", 8, 11),
    ]
    shell("embed", run, *texts, "--words", "--concat", "--layer", "0,1", "--out", tmp_path / "b.safetensors")
    written = load_file(tmp_path / "b.safetensors")
    assert written["vectors"].shape == (5, 32)
    assert written["counts"].tolist() == [3, 2]
    lines = shell("embed", run, *texts, "--pieces").out.split("\n")
    assert [line.partition("\t")[0] for line in lines[:4]] == ["the", "cat", "sat", ""]


def test_an_elmo_says_by_which_weights_it_mixed_its_layers(shell, tmp_path):
    sizes = {"hidden_size": 4, "cell_size": 4, "filters": (4,), "max_characters": 8, "epochs": 1, "threads": 1}
    run = wenmai.train("elmo", TEXT.splitlines()[:8], out=tmp_path / "elmo", quiet=True, **sizes).path
    shown = {}
    for layer in ([], ["--layer", "mix"], ["--layer", "0,1,2"]):
        done = shell("embed", run, "the cat", "--json", *layer)
        shown[tuple(layer)] = json.loads(done.out)["vector"]
        assert ("weights of the layers from 0 on: 0.333, 0.333, 0.333; γ = 1.000" in done.err) == ("0,1,2" not in layer)
        assert ("0.333" in shell("embed", run, "the cat", "--words", *layer).err) == ("0,1,2" not in layer)
    one, *others = shown.values()
    for other in others:
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert "elmo has no prompts that stand before texts" in shell("embed", run, "a", "--prompt", "query", code=2).err


def test_pairs_of_texts_are_scored_by_the_cosine_of_their_vectors(shell, runs, tmp_path):
    run, model = runs / "bert", wenmai.load(runs / "bert")
    one, other = model.embed(["the cat sat", "the dog"])
    expected = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    found = json.loads(shell("similarity", run, "the cat sat", "the dog", "--json").out)
    assert found == {"words": ["the cat sat", "the dog"], "score": pytest.approx(expected, abs=1e-6)}
    assert shell("similarity", run, "the cat sat", "the dog").out == f"{expected:.4f}\n"
    assert shell("similarity", run, "the cat", "the cat").out == "1.0000\n"
    assert "which has no similarity" in shell("similarity", runs / "ngram", "the", "cat", code=6).err

    texts = ["the cat sat", "the dog sat on the log", "the mat, on", "on the mat sat", "log", "cat on log"]
    pairs = [(first, second) for first in texts for second in texts if first < second]
    vectors = dict(zip(texts, model.embed(texts), strict=True))
    cosines = [
        float(vectors[a] @ vectors[b] / np.linalg.norm(vectors[a]) / np.linalg.norm(vectors[b])) for a, b in pairs
    ]
    file = tmp_path / "pairs.tsv"
    for sign in (1, -1):  # people who agree with the model, and who do not
        lines = [f"{a}\t{b}\t{sign * cosine}\n" for (a, b), cosine in zip(pairs, cosines, strict=True)]
        file.write_text("".join(lines))
        found = json.loads(shell("evaluate", run, "--similarity", file, "--json").out)
        static = json.loads(shell("evaluate", runs / "word2vec", "--similarity", file, "--json").out)
        (result,) = found["similarity"]
        assert found.keys() == static.keys()
        assert result.keys() == static["similarity"][0].keys()
        assert result["spearman"] == pytest.approx(sign)
        assert (result["covered"], result["total"], static["similarity"][0]["covered"]) == (15, 15, 0)
    assert "Spearman -1.0000" in shell("evaluate", run, "--similarity", file).out
    compared = wenmai.compare([run, runs / "word2vec"], similarity=[file], out=tmp_path / "report")
    assert [system.measures[0].covered for system in compared.systems] == [15, 15]  # texts for both
    assert compared.systems[0].measures[0].value == pytest.approx(-1)
    assert "no such file" in shell("evaluate", run, "--similarity", tmp_path / "no", code=5).err


def test_word_vectors_know_what_is_not_for_them(shell, runs, tmp_path):
    run = runs / "word2vec"
    shell("embed", run, "the cat", "--normalise", "--out", tmp_path / "a.safetensors")
    assert np.linalg.norm(load_file(tmp_path / "a.safetensors")["vectors"]) == pytest.approx(1)
    for options, named in ((["--layer", "last"], "--layer"), (["--pieces"], "--pieces")):
        error = shell("embed", run, "the cat", *options, code=2).err
        assert f"{named}: for contextual encoders such as bert, not for word2vec" in error
    with pytest.raises(SettingError, match="pooling: for contextual encoders"):
        wenmai.Run(run).embed(["the cat"], pooling="cls")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fill", "the cat"], "'the cat' has no mask; write [MASK]"),
        (["score", "the cat", "--context", "carried"], "reads each line by itself; leave it out"),
        (["score", "the cat", "--memory", "4"], "leave out --memory"),
        (["embed", "the cat", "--layer", "7"], "layer=7: expected last, last4"),
        (["embed", "the cat", "--layer", "last4"], "the model has only 2 of 4 layers; layer=1,2 means them all"),
        (["embed", "the cat", "--pooling", "sum"], "pooling=sum: the model has mean"),
        (["embed", "the cat", "--weighting", "sif"], "weighting=sif is for word vectors"),
        (["embed", "the cat", "--words", "--pieces"], "two kinds of vectors"),
        (["embed", "the cat", "--words", "--pooling", "cls"], "are for texts"),
        (["embed", "the cat", "--out", "a.txt"], "ends in .npy or .safetensors"),
        (["evaluate", "--on", "data:sst2", "--few-shot", "2"], "a bert does not predict what follows a prompt"),
    ],
)
def test_mistakes_are_explained_in_one_line(shell, runs, arguments, message):
    verb, *others = arguments
    error = shell(verb, runs / "bert", *others, code=2).err
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_a_name_with_sizes_of_its_own_continues_no_run_of_others(shell, runs):
    arguments = ("bert-tiny", runs / "text.txt", "--from", runs / "bert", "--out", "run", "--steps", 1)
    message = shell("train", *arguments, code=2).err
    assert "embedding.weight of shape" in message  # and not the kind of its tokenizer, which nobody typed
    assert "name the system that the continued run is of" in message
    assert not (shell.folder / "run").exists()
    assert "kind=bpe has no effect on a run" in shell("train", *arguments, "--kind", "bpe", code=2).err
