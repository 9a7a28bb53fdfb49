"""Probes of every layer of every model, word vectors among them."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import wenmai
from wenmai.core.errors import CorpusError, RunError, SettingError
from wenmai.data.datasets import Dataset
from wenmai.data.drawing import drawn
from wenmai.data.examples import ExamplesStats, open_examples
from wenmai.data.typed import TextExample
from wenmai.inference.states import LayerStates
from wenmai.runs.probing.regression import STRENGTHS, fit_probe, fit_probes, scaling_of, standardised
from wenmai.runs.probing.sets import open_probe_set
from wenmai.runs.probing.vectors import SeenLayers

LOOP = {"epochs": 1, "threads": 1, "batch_tokens": 64, "min_count": 1, "vocab_size": 40, "dropout": 0.0, "quiet": True}
SIZES = {"hidden_size": 8, "num_layers": 2, "num_heads": 2, "max_length": 12, "kind": "whitespace"}
ANIMALS, THINGS = ["cat", "dog", "cow", "hen"], ["mat", "log", "hut", "bed"]


def sentences(count, seed=0):
    """Sentences, the class of each, which is that of its last word, and the tags of its words."""
    draws = np.random.default_rng(seed)
    for _ in range(count):
        animal, thing = ANIMALS[draws.integers(4)], THINGS[draws.integers(4)]
        last = (animal, thing)[int(draws.integers(2))]
        words = ["the", animal, "saw", "the", thing, "near", "a", last]
        tags = ["DT", "NN", "VB", "DT", "NN", "IN", "DT", "NN"]
        yield words, "animal" if last in ANIMALS else "thing", tags


def written(path, rows):
    path.write_text("".join(f"{row}\n" for row in rows))
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probing")
    every = list(sentences(160))
    text = written(folder / "text.txt", [" ".join(words) for words, _, _ in every])
    for name, part in (("train", every[:120]), ("test", every[120:])):
        written(folder / f"{name}.tsv", ["text\tlabel", *(f"{' '.join(words)}\t{label}" for words, label, _ in part)])
        tagged = ["\n".join(f"{word} {tag}" for word, tag in zip(words, tags, strict=True)) for words, _, tags in part]
        written(folder / f"{name}.conll", [f"{one}\n" for one in tagged])
        pairs = pairwise(part)
        rows = [f"{' '.join(a)}\t{' '.join(b)}\t{'same' if x == y else 'other'}" for (a, x, _), (b, y, _) in pairs]
        written(folder / f"{name}-pairs.tsv", ["sentence1\tsentence2\tlabel", *rows])
    wenmai.train("bert", text, out=folder / "bert", **SIZES, **LOOP, warmup=0)
    wenmai.train("word2vec", text, out=folder / "word2vec", vector_size=8, epochs=5, min_count=1, threads=1, quiet=True)
    wenmai.train("ngram", text, out=folder / "ngram", order=2, min_count=1, quiet=True)
    return folder


def on(folder, kind):
    ending = {"tagging": ".conll", "pair": "-pairs.tsv", "classification": ".tsv"}[kind]
    return f"{folder}/train{ending},{folder}/test{ending}"


@pytest.mark.parametrize("task", ["classification", "pair", "tagging"])
def test_each_layer_of_each_model_is_probed_on_the_same_examples(folder, task):
    found = wenmai.probe([folder / "bert", folder / "word2vec"], on(folder, task), task=task, quiet=True)
    bert, words = found.results
    assert [layer.layer for layer in bert.layers] == [0, 1, 2]
    assert [layer.layer for layer in words.layers] == [0]
    assert (bert.static, words.static, words.covered) == (False, True, 1.0)
    assert bert.trained == words.trained
    assert bert.strength == words.strength
    assert bert.strength in STRENGTHS
    assert (bert.measured, bert.majority) == (words.measured, words.majority)
    for one in found.results:
        assert one.best == max(one.layers, key=lambda layer: layer.chosen).layer
        for layer in one.layers:
            assert layer.low <= layer.score <= layer.high
            assert layer.selectivity == pytest.approx(layer.accuracy - layer.control)
    if task == "tagging":  # tags depend on the word alone
        assert words.layers[0].accuracy == 1
        assert words.layers[0].selectivity >= 0
    again = wenmai.probe([folder / "bert", folder / "word2vec"], on(folder, task), task=task, quiet=True)
    assert again.results == found.results


def test_what_was_fine_tuned_is_probed_too(folder, tmp_path):
    settings = {"epochs": 1, "threads": 1, "quiet": True, "learning_rate": 1e-9}
    tuned = {
        "classification": wenmai.finetune(
            folder / "bert", folder / "train.tsv", task="classification", out=tmp_path / "class", **settings
        ),
        "tagging": wenmai.finetune(
            folder / "bert", folder / "train.conll", task="tagging", out=tmp_path / "tags", **settings
        ),
    }
    (before,) = wenmai.probe([folder / "bert"], on(folder, "classification"), task="classification", quiet=True).results
    for run in tuned.values():
        (after,) = wenmai.probe([run.path], on(folder, "classification"), task="classification", quiet=True).results
        assert [one.accuracy for one in after.layers] == pytest.approx([one.accuracy for one in before.layers], abs=0.1)


def test_states_are_those_that_embed_gives(folder):
    model = wenmai.load(folder / "bert")
    texts = ["the cat saw", "", "a bed", "the dog saw the mat near a log the cat saw the bed near a hen"]
    states = LayerStates(model)
    found = np.zeros((3, len(texts), 8), np.float32)
    states.of_texts(texts, found)
    assert states.cut == 1
    for layer in range(3):
        assert found[layer, [0, 2, 3]] == pytest.approx(model.embed([texts[0], *texts[2:]], layer=layer), abs=1e-5)
    LayerStates(model, pooling="text").of_texts(texts, found)
    assert found[2, [0, 2, 3]] == pytest.approx(model.embed([texts[0], *texts[2:]], pooling="cls"), abs=1e-5)


def test_words_have_the_state_of_their_first_piece_in_the_window_with_most_context(folder):
    model = wenmai.load(folder / "bert")
    short, long = ["the", "cat", "saw"], ["the", "dog", "saw", "the", "mat", "near", "a"] * 4
    found = np.zeros((3, 31, 8), np.float32)
    LayerStates(model).of_words([short, long], found)
    (whole,) = model.layers([" ".join(short)])
    assert found[:, :3] == pytest.approx(whole.vectors, abs=1e-5)
    room, stride = 10, 3
    begins = [*range(0, 28 - room, stride), 28 - room]
    for word in range(28):
        begin = min(begins, key=lambda one: abs(word + 0.5 - (one + room / 2)))
        (window,) = model.layers([" ".join(long[begin : begin + room])])
        assert found[:, 3 + word] == pytest.approx(window.vectors[:, word - begin], abs=1e-5)


def test_states_of_gpt_depend_on_nothing_behind_a_word(folder):
    text = folder / "text.txt"
    gpt = wenmai.train("gpt", text, out=folder / "gpt", **SIZES, **LOOP, segment_length=10)
    states = LayerStates(gpt.model)
    one, two = np.zeros((2, 3, 4, 8), np.float32)
    states.of_words([["the", "cat", "saw", "a"]], one)
    states.of_words([["the", "cat", "hut", "hut"]], two)
    assert one[:, :2] == pytest.approx(two[:, :2], abs=1e-6)  # nothing behind a word changes its state
    assert np.abs(one[1:, 3] - two[1:, 3]).max() > 1e-4
    module = gpt.model.module
    with torch.inference_mode():
        ids = torch.tensor([[module.bos_id, *gpt.model.tokenizer.encode("the cat saw a").ids]])
        last = module(ids)[0, 1:].numpy()
    assert one[2] == pytest.approx(last, abs=1e-5)
    probed = wenmai.probe([gpt.path], on(folder, "classification"), task="classification", quiet=True)
    assert [layer.layer for layer in probed.results[0].layers] == [0, 1, 2]


def test_states_of_elmo_are_those_of_its_words(folder):
    sizes = {"character_size": 4, "filters": (4, 6), "hidden_size": 8, "cell_size": 12, "max_characters": 8}
    loop = {name: value for name, value in LOOP.items() if name != "vocab_size"}
    elmo = wenmai.train("elmo", folder / "text.txt", out=folder / "elmo", **sizes, **loop, segment_length=6).model
    texts = ["the cat saw a dog", "a bed"]
    words, found = np.zeros((3, 7, 16), np.float32), np.zeros((3, 2, 16), np.float32)
    states = LayerStates(elmo, pooling="text")
    states.of_words([text.split() for text in texts], words)
    states.of_texts(texts, found)
    first, second = (one.vectors for one in elmo.layers(texts))
    assert words == pytest.approx(np.concatenate([first, second], axis=1), abs=1e-5)
    assert found == pytest.approx(np.stack([first.mean(1), second.mean(1)], axis=1), abs=1e-5)


def test_the_probe_is_at_the_minimum_of_its_loss():
    draws = np.random.default_rng(3)
    features, labels = draws.normal(size=(60, 3)), draws.integers(0, 3, 60)

    def loss(parameters, strength):
        weights, bias = parameters[:9].reshape(3, 3), parameters[9:]
        scores = features @ weights.T + bias
        logs = np.log(np.exp(scores).sum(1)) - scores[np.arange(60), labels]
        return strength * logs.sum() + (weights**2).sum() / 2

    for strength in STRENGTHS:
        best = minimize(loss, np.zeros(12), (strength,), tol=1e-10).fun
        probe = fit_probe(features, labels, strength=strength)
        assert loss(np.concatenate([probe.weights.ravel(), probe.bias]), strength) == pytest.approx(best, rel=1e-4)
    along = fit_probes(features, labels, tolerance=1e-6)  # each from the one before
    assert [one.strength for one in along] == [*STRENGTHS]
    assert along[-1].weights == pytest.approx(probe.weights, abs=1e-2)


def test_features_without_a_vector_stay_zero():
    features = np.array([[1, 5], [3, 5], [0, 0]], np.float32)
    scaled = standardised(features, scaling_of(features))
    assert scaled.tolist() == [[-1, 0], [1, 0], [0, 0]]
    nothing = np.zeros((2, 3), np.float32)
    assert standardised(nothing, scaling_of(nothing)).tolist() == nothing.tolist()


def test_pairs_have_differences_and_products(folder):
    found = open_probe_set(on(folder, "pair"), task="pair")
    texts, numbers = found.texts
    states = np.random.default_rng(1).normal(size=(1, len(texts), 4)).astype(np.float32)
    features = SeenLayers(states=states, static=True).features(found, 0)
    first, second = (np.array([texts.index(one[place]) for one in found.examples]) for place in (0, 1))
    u, v = states[0][first], states[0][second]
    assert features == pytest.approx(np.hstack([abs(u - v), u * v]))
    assert numbers.shape == (len(found.examples), 2)


def test_control_tasks_have_random_labels_as_frequent_as_the_real_ones(folder):
    tagged = open_probe_set(on(folder, "tagging"), task="tagging")
    labels, random = tagged.control(1)
    words = [word for sentence in tagged.sentences for word in sentence]
    assert len(set(zip(words, random.tolist(), strict=True))) == len(set(words))  # one tag for each word type
    assert set(random.tolist()) <= set(range(len(labels)))
    drawn = np.concatenate([tagged.control(seed)[1] for seed in range(300)])
    real = tagged.gold[1][tagged.parts[0]]
    types = {word: place for place, word in enumerate(words)}
    shares = np.bincount(drawn.reshape(300, -1)[:, list(types.values())].ravel(), minlength=len(labels))
    assert shares / shares.sum() == pytest.approx(np.bincount(real) / len(real), abs=0.03)
    texts = open_probe_set(on(folder, "classification"), task="classification")
    _, random = texts.control(1)
    train, choose, test = texts.parts
    assert sorted(random[train]) == sorted(texts.gold[1][train])
    assert (random[train] != texts.gold[1][train]).any()
    assert (random[choose.start : test.stop] == -1).all()


def test_the_parts_of_a_set_are_apart(folder):
    for spec in (f"{folder}/train.tsv", on(folder, "classification"), "data:sst2"):
        if spec.startswith("data:"):
            continue
        found = open_probe_set(spec, task="classification")
        fit, choose, measured = found.sizes
        assert min(found.sizes) > 0
        texts = [example.text for example in found.examples]
        assert not set(texts[:fit]) & set(texts[fit : fit + choose])
        assert len(texts) == fit + choose + measured
    limited = open_probe_set(on(folder, "classification"), task="classification", limit=50)
    assert (sum(limited.sizes[:2]), limited.available, limited.sizes[2]) == (50, 120, 40)
    learnt = [
        placed.example for placed in open_examples(str(folder / "train.tsv"), "classification").read(ExamplesStats())
    ]
    fine_tuned = [learnt[place] for place in drawn([one.label for one in learnt], 50, 1)]
    assert sorted(limited.examples[:50]) == sorted(fine_tuned)


def test_a_folder_has_its_splits(folder, tmp_path):
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text(
            (folder / ("train" if name == "train" else "test")).with_suffix(".tsv").read_text()
        )
    assert open_probe_set(str(tmp_path), task="classification").sizes[2] == 40
    for ending in ("tsv", "csv"):
        (tmp_path / f"test.{ending}").write_text("text\tlabel\n")
    with pytest.raises(CorpusError, match="expected one file called test"):
        open_probe_set(str(tmp_path), task="classification")


def test_a_data_set_may_be_measured_on_a_file(tmp_path, monkeypatch):
    made = {split: [f"{split}{at} {'xy'[at % 2]}" for at in range(40)] for split in ("train", "dev")}
    monkeypatch.setattr(Dataset, "path", lambda self, split: tmp_path / split)
    monkeypatch.setattr(
        Dataset, "read_file", lambda self, path, split, reader: [TextExample(*one.split()) for one in made[split]]
    )
    (tmp_path / "own.tsv").write_text("sentence\tkind\n" + "a\tx\nb\ty\n" * 9)
    columns = {"text_column": "sentence", "label_column": "kind"}
    for name, first in (("data:trec", "train"), ("data:trec/dev", "dev")):
        found = open_probe_set(f"{name},{tmp_path / 'own.tsv'}", columns=columns)
        assert found.examples[0].text.startswith(first)
        assert found.sizes[2] == 18
    (tmp_path / "two.tsv").write_text("text\tlabel\na\tx\nb\ty\n")
    with pytest.raises(CorpusError, match="too few examples to set some aside"):
        open_probe_set(str(tmp_path / "two.tsv"), task="classification")


def test_texts_that_return_are_not_counted_twice(tmp_path):
    rows = [f"{text}\t{label}" for text, label in (("a b", "x"), ("c d", "y")) for _ in range(40)]
    (tmp_path / "few.tsv").write_text("\n".join(["text\tlabel", *rows]))
    with pytest.raises(CorpusError, match=r"few\.tsv.*: a probe needs more different texts than [12]; give"):
        open_probe_set(f"{tmp_path}/few.tsv", task="classification")


def test_what_to_do_is_told_where_none_of_the_texts_that_are_drawn_are_to_choose_by(tmp_path):
    path = written(tmp_path / "many.tsv", ["text\tlabel", *(f"{n} dogs\t{'xy'[n % 2]}" for n in range(80))])
    assert open_probe_set(path, task="classification", limit=20, seed=1).available > 20
    with pytest.raises(CorpusError, match="needs more different texts than 20; give more, or a higher limit"):
        open_probe_set(path, task="classification", limit=20, seed=11)


def test_sets_of_the_same_title_are_told_apart(folder, tmp_path):
    written(tmp_path / "train.tsv", (folder / "train.tsv").read_text().splitlines()[:60])
    specs = [f"{place}/train.tsv" for place in (folder, tmp_path)]
    found = wenmai.probe(folder / "word2vec", specs, task="classification", control=False, quiet=True)
    assert [one.dataset for one in found.results] == specs
    assert found.results[0].layers[0].selectivity is None


def test_sets_may_be_given_as_paths(folder):
    given = {"task": "classification", "control": False, "quiet": True}
    path = folder / "train.tsv"
    named = wenmai.probe(folder / "word2vec", str(path), **given)
    assert wenmai.probe(folder / "word2vec", path, **given).results == named.results
    assert wenmai.probe(folder / "word2vec", [path], **given).results == named.results


def test_what_is_left_out_is_told(folder, tmp_path):
    rows = [f"{'a ' * number}cat\t{'xy'[number % 2]}" for number in range(1, 90)]
    written(tmp_path / "half.tsv", ["text\tlabel", *rows, "\tx", "\ty"])
    found = wenmai.probe(folder / "word2vec", str(tmp_path / "half.tsv"), task="classification", quiet=True)
    assert found.notes == ["half.tsv: 2 examples were left out because a text is empty"]


MISTAKES = [
    ({"on": "data:squad1"}, SettingError, "is of questions"),
    ({"on": "data:nothing"}, SettingError, "no labelled data set is called"),
    ({"on": "{}/train.tsv"}, SettingError, "name what its examples are"),
    ({"on": "{}/train.tsv", "task": "span"}, SettingError, "a probe is for"),
    ({"on": "data:sst2", "task": "tagging"}, SettingError, "not for tagging"),
    ({"on": "{}/one.tsv", "task": "classification"}, CorpusError, "all training examples have the label 'x'"),
    ({"on": "{}/few.tsv,{}/test.tsv", "task": "classification"}, CorpusError, "more different texts"),
    ({"on": "{}/few.tsv", "task": "classification"}, CorpusError, "to measure on; name what to measure on, TRAIN,TEST"),
    ({"on": "{}/train.tsv,{}/one.tsv", "task": "classification"}, CorpusError, "no label is one of those"),
    ({"on": "{}/text.txt", "task": "tagging"}, CorpusError, "text.txt"),
    ({"on": "{}/none.tsv", "task": "tagging"}, CorpusError, "no such file"),
    ({"on": []}, RunError, "nothing to probe"),
    ({"on": [("a", "x"), ("b", "y")]}, SettingError, "a probe takes names of sets and files, not tuple"),
    ({"on": {"text": ["a"], "label": ["x"]}}, SettingError, "a probe takes names of sets and files, not dict"),
    ({"limit": 3}, SettingError, "limit=3"),
    ({"pooling": "cls"}, SettingError, "pooling='cls'"),
    ({"seed": -1}, SettingError, "seed=-1: expected 0 or more"),
    ({"runs": "ngram"}, RunError, "neither layers nor vectors"),
    ({"out": "{}/bert"}, RunError, "is a run"),
]


@pytest.mark.parametrize(("given", "kind", "message"), MISTAKES)
def test_mistakes_are_one_clear_message(folder, given, kind, message):
    written(folder / "one.tsv", ["text\tlabel", *(f"{'a ' * number}cat\tx" for number in range(1, 60))])
    written(folder / "few.tsv", ["text\tlabel", "the cat\tanimal", "a bed\tthing"])
    options = {"on": on(folder, "classification"), "task": "classification"} | given
    if given.get("on") is not None and "task" not in given:
        options["task"] = None
    run = folder / options.pop("runs", "word2vec")
    options = {
        name: value.format(folder, folder) if isinstance(value, str) else value for name, value in options.items()
    }
    with pytest.raises(kind, match=message):
        wenmai.probe(run, options.pop("on"), quiet=True, **options)


def test_the_command_prints_a_table_json_and_writes_a_page(folder, shell, tmp_path):
    given = ["probe", folder / "bert", folder / "word2vec", "--on", on(folder, "classification"), "--task"]
    given += ["classification", "--quiet"]
    table = shell(*given, "--out", tmp_path / "page").out.splitlines()
    assert table[0].startswith("train.tsv: accuracy (texts: 40); always the most frequent label: accuracy 0.")
    assert table[1].split()[:3] == ["system", "layer", "accuracy"]
    assert [line.split()[0] for line in table[2:]] == ["bert", "word2vec"]
    every = shell(*given, "--layers", "--no-control").out
    assert every.count("bert") == 3
    assert every.count("*") == 1
    assert "selectivity" not in every
    found = json.loads(shell(*given, "--json").out)
    assert [len(one["layers"]) for one in found["results"]] == [3, 1]
    assert found["results"][0]["metric"] == "accuracy"
    page = (tmp_path / "page" / "report.html").read_text()
    stored = json.loads((tmp_path / "page" / "comparison.json").read_text())
    assert "Probes by layer" in page
    lines = stored["systems"][0]["lines"], stored["systems"][1]["lines"]
    assert [point["x"] for point in lines[0]["probe train.tsv"]] == [0, 1, 2]
    level = lines[1]["probe train.tsv"]
    assert [point["x"] for point in level] == [0, 2]
    assert level[0]["y"] == level[1]["y"]
    assert [panel["title"] for panel in stored["panels"].values()] == [
        "Probes of each layer on train.tsv: accuracy",
        "Selectivity of each layer on train.tsv",
    ]
    chinese = shell(*given, "--lang", "zh").out
    assert chinese.startswith("train.tsv：准确率（文本：40）；")
    assert "选择性" in chinese
    assert "system" not in chinese
