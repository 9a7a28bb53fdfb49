"""What the networks of pinyin are trained on: tones that are dropped, beginnings that are known, labels of letters."""

from types import SimpleNamespace

import numpy as np
import pytest

from wenmai.config.recipe import Recipe
from wenmai.core.registry import find_system
from wenmai.data.encoded_transliteration import read_transliteration_data
from wenmai.data.sources import open_texts
from wenmai.inference.pinyin_numbers import BLANK, UNKNOWN
from wenmai.runs.train import train

GOLD = "".join(
    f"{number}\t{pinyin}\t{hanzi}\n"
    for number, (pinyin, hanzi) in enumerate(
        [
            ("wo3 ai4 bei3 jing1", "我爱北京"),
            ("ni3 hao3", "你好"),
            ("yin2 hang2 hao3", "银行好"),
            ("wo3 ai4 ni3", "我爱你"),
            ("bei3 jing1 hao3", "北京好"),
            ("ni3 ai4 wo3", "你爱我"),
        ]
    )
)


@pytest.fixture
def begin(tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "gold.tsv"
    path.write_text(GOLD, "utf-8")

    def begun(name, **settings):
        system = find_system(name)
        task = system.load()
        small = {"hidden_size": 12, "num_layers": 1, "num_heads": 2, "threads": 1, "min_count": 1, "device": "cpu"}
        recipe = Recipe.build(name, dict(task.sections), {**system.settings, **small, **settings})
        data = read_transliteration_data(open_texts(str(path))[0], recipe.sections["data"])
        return task.begin(recipe, data)

    return begun


def made_of(job, epochs=1):
    return [job._drawn(batch) for epoch in range(epochs) for batch in job.plan(epoch)]


def shown(job, made, row):
    numbers = job.labelling.numbers
    inputs = [*numbers.symbols.tokens, *numbers.characters.tokens]
    return [inputs[one] for one, real in zip(made.symbols[row], made.real[row], strict=True) if real]


def test_a_network_that_has_not_learned_readings_is_continued_without_them(tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "gold.tsv"
    path.write_text(GOLD, "utf-8")
    small = {"hidden_size": 12, "num_layers": 1, "num_heads": 2, "threads": 1, "min_count": 1, "device": "cpu"}
    before = train("pinyin", path, out=tmp_path / "before", epochs=1, reversed_share=0, **small)
    after = train("pinyin", path, out=tmp_path / "after", start=before, epochs=1, device="cpu", threads=1)
    assert list(after.model.module.heads) == ["characters"]


def test_labels_stand_beside_their_syllables(begin):
    job = begin("pinyin", tone_dropout=0, symbol_dropout=0, known_share=0, reversed_share=0)
    assert list(job.module.heads) == ["characters"]
    gold = {" ".join(line.split("\t")[1].split()): line.split("\t")[2] for line in GOLD.splitlines()}
    (made,) = made_of(job)
    assert made.wanted["characters"].sum() == made.real.sum() == len(made.targets["characters"])
    targets = iter(made.targets["characters"].tolist())
    tokens = job.labelling.numbers.characters.tokens
    for row in range(len(made.symbols)):
        read = shown(job, made, row)
        assert gold[" ".join(read)] == "".join(tokens[next(targets)] for _ in read)


def test_tones_are_dropped_at_the_rate_that_is_set(begin):
    def toned(share):
        job = begin("pinyin", tone_dropout=share, symbol_dropout=0, known_share=0, reversed_share=0)
        read = [one for made in made_of(job, 60) for row in range(len(made.symbols)) for one in shown(job, made, row)]
        return np.mean([one[-1].isdigit() for one in read])

    assert toned(0) == 1
    assert toned(1) == 0
    assert toned(0.5) == pytest.approx(0.5, abs=0.1)


def test_a_draw_depends_on_seed_epoch_and_batch_alone(begin):
    one, other = begin("pinyin"), begin("pinyin")
    made_of(one, 3)
    for first, second in zip(made_of(one), made_of(other), strict=True):
        assert np.array_equal(first.symbols, second.symbols)
    assert not np.array_equal(*(job._drawn(job.plan(epoch)[0]).symbols[:2, :2] for job, epoch in ((one, 0), (one, 5))))


def test_known_beginnings_are_read_and_not_predicted(begin):
    job = begin("pinyin", known_share=0.99, reversed_share=0, symbol_dropout=0)
    given = 0
    for made in made_of(job, 5):
        characters = made.symbols >= len(job.labelling.numbers.symbols)
        assert not (characters & made.wanted["characters"]).any()
        assert ((characters | made.wanted["characters"]) == made.real).all()
        assert (np.diff(characters.astype(int), axis=1) <= 0).all()  # a beginning
        given += characters.sum()
    assert given


def test_reversed_sentences_have_characters_in_and_readings_out(begin):
    job = begin("pinyin", reversed_share=0.99, known_share=0)
    assert job.loss_weights == {"characters": 1.0, "readings": 0.99}
    tokens = job.labelling.numbers.symbols.tokens
    found = set()
    for made in made_of(job, 5):
        assert (made.symbols[made.wanted["readings"]] >= len(tokens)).all()
        found |= {tokens[one] for one in made.targets["readings"]}
    assert {"wo3", "ai4"} <= found
    assert all(one[-1].isdigit() for one in found)


def test_some_syllables_cannot_be_read(begin):
    job = begin("pinyin", symbol_dropout=0.5, known_share=0, reversed_share=0)
    symbols = np.concatenate([made.symbols[made.real] for made in made_of(job, 20)])
    assert np.mean(symbols == UNKNOWN) == pytest.approx(0.5, abs=0.1)


def test_the_first_letter_of_a_syllable_has_its_character(begin):
    job = begin("pinyin-letters", tone_dropout=0)
    tokens = job.labelling.numbers.characters.tokens
    (made,) = made_of(job)
    assert (made.wanted["characters"] == made.real).all()
    targets, rows = iter(made.targets["characters"].tolist()), {}
    for row in range(len(made.symbols)):
        read = "".join(shown(job, made, row))
        labels = [next(targets) for _ in read]
        rows[read] = "".join("_" if one == BLANK else tokens[one] for one in labels)
    assert rows.keys() <= {line.split("\t")[1].replace(" ", "") for line in GOLD.splitlines()}
    known = {"ni3hao3": "你__好___", "wo3ai4ni3": "我__爱__你__", "yin2hang2hao3": "银___行____好___"}
    assert len(rows.keys() & known.keys()) >= 2
    assert {read: rows[read] for read in rows if read in known} == {read: known[read] for read in rows if read in known}


def test_rows_of_letters_have_few_lengths(begin):
    assert {made.symbols.shape[1] % 16 for made in made_of(begin("pinyin-letters"), 2)} == {0}
    assert {made.symbols.shape[1] for made in made_of(begin("pinyin-letters", max_length=12))} == {12}


def test_letters_lose_their_tones_alike(begin):
    job = begin("pinyin-letters", tone_dropout=1)
    for made in made_of(job, 2):
        for row in range(len(made.symbols)):
            assert "".join(shown(job, made, row)).isalpha()


def test_the_loss_counts_what_was_announced(begin):
    job = begin("pinyin", reversed_share=0.4)
    for batch in job.plan(0):
        counted = job.counts(batch)
        losses = job.loss(job.module, batch, 0)
        assert {name: loss.targets for name, loss in losses.items()} == counted
    metrics = job.evaluate()
    assert {"loss", "characters_loss", "readings_loss", "toned_accuracy", "toneless_accuracy"} <= metrics.keys()
    assert isinstance(job.facts(), dict)
    assert SimpleNamespace(**job.summary()).vocabulary == len(job.labelling.numbers.characters)
