"""What a language task makes of a text and settings."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.contract.examples import EXAMPLES
from wenmai.config.recipe import Recipe
from wenmai.core.errors import CorpusError
from wenmai.core.registry import find_system
from wenmai.data import pydocs
from wenmai.data.running_text import LanguageData
from wenmai.objectives.language import next_token_loss
from wenmai.runs.planning import plan
from wenmai.tasks.language import LanguageTask

TASKS = {name: task for name in EXAMPLES if isinstance(task := find_system(name).load(), LanguageTask)}
CARRYING = [name for name, task in TASKS.items() if task.model.stateful]
ISOLATING = [name for name, task in TASKS.items() if task.model.masks_documents]


def lines(number=80, seed=1):
    draw = random.Random(seed)
    return [" ".join(draw.choices("abcdefgh", k=draw.randint(1, 6))) for _ in range(number)]


def begin(system, texts=None, **settings):
    task = TASKS[system]
    opened = task.source.open(lines() if texts is None else texts)
    recipe = Recipe.build(system, task.sections, EXAMPLES[system].settings | settings, corpus=opened.names)
    return task.begin(recipe, task.source.read(recipe, opened.source, lambda done, total: None, None))


def read_once(task, epoch=0):
    """The first tokens and targets that batches of an epoch have, as pairs of places in the stream."""
    return [(int(start), batch.length) for batch in task.plan(epoch) for start in batch.starts]


def test_lines_that_are_left_out_of_a_text_that_is_read_once_are_counted():
    task = begin("gpt", [*lines(), "\ud800", "a \0"], bad_lines="skip")
    assert task._data.describe()["stats"]["skipped_lines"] == 2


@pytest.mark.parametrize("system", CARRYING)
def test_rows_read_the_text_side_by_side_and_nearly_every_token_once(system):
    task = begin(system)
    size = len(task._data.train_stream)
    seen = np.concatenate([np.arange(start, start + length) for start, length in read_once(task)])
    assert len(set(seen)) == len(seen) == size // 4 * 4
    plan = task.plan(0)
    for one, other in pairwise(plan):
        assert (other.starts == one.starts + one.length).all()
    assert task.plan(1)[0].starts.tolist() == plan[0].starts.tolist()


def test_a_model_of_fixed_length_reads_segments_in_another_order_and_cut_each_epoch():
    task = begin("gpt")
    size = len(task._data.train_stream)
    first, second = read_once(task), read_once(task, 1)
    for seen in (first, second):
        places = sorted(place for place, _ in seen)
        assert all(other - one == 6 for one, other in pairwise(places))
        assert size - 12 < places[-1] + 6 - places[0] <= size
    assert first != second
    assert first == read_once(task)


@pytest.mark.parametrize("system", TASKS)
def test_the_loss_of_a_batch_is_that_of_its_next_tokens(system):
    task = begin(system)
    task.module.eval()
    stream = task._data.train_stream
    batch = task.plan(0)[0]
    tokens = np.concatenate([[stream.end], stream.tokens])  # the end of a line stands before the text
    with torch.no_grad():
        total = 0.0
        for start in batch.starts:
            fed = torch.tensor(tokens[start : start + batch.length][None].astype(np.int64))
            wanted = torch.tensor(stream.tokens[start : start + batch.length].astype(np.int64))
            total += float(next_token_loss(task.module.output, task.module(fed)[0], wanted).nll)
        assert float(task.loss(task.module, batch, 0).nll) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("system", CARRYING)
def test_the_state_is_carried_through_an_epoch_and_begins_anew_with_the_next(system):
    task = begin(system)
    task.module.eval()
    with torch.no_grad():
        losses = [[float(task.loss(task.module, batch, 0).nll) for batch in task.plan(epoch)] for epoch in (0, 1)]
        alone = [float(begin_again(task, batch)) for batch in task.plan(0)]
    assert losses[0] == losses[1]
    assert losses[0][0] == alone[0]
    assert losses[0][1:] != alone[1:]


def begin_again(task, batch):
    task._state = None
    return task.loss(task.module, batch, 0).nll


@pytest.mark.parametrize("system", ISOLATING)
def test_masked_boundaries_make_a_line_the_same_whatever_stands_before_it(system):
    same = ["c d e"] * 2
    texts = [["a b", *same] * 20, ["g h", *same] * 20]
    scores = []
    for text in texts:
        task = begin(system, text, boundaries="masked", segment_length=7)
        vocabulary = task._data.tokenizer
        fed = [vocabulary.eos_id, *vocabulary.encode(text[0]).ids, vocabulary.eos_id, *vocabulary.encode("c d e").ids]
        tokens = torch.tensor([fed])
        documents = (tokens == vocabulary.eos_id).cumsum(1)
        task.module.eval()
        torch.manual_seed(0)
        for parameter in task.module.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        hidden = task.module(tokens, documents=documents)[0]
        scores.append(hidden[-4:])
    assert torch.allclose(*scores, atol=1e-6)


@pytest.mark.parametrize(("boundaries", "context"), [("joined", "carried"), ("masked", "fresh")])
def test_lines_are_scored_with_the_context_that_they_were_trained_with(boundaries, context, tmp_path):
    task = begin("gpt", boundaries=boundaries)
    task.save(tmp_path)
    assert TASKS["gpt"].load(tmp_path).context == context


def test_every_token_of_the_validation_text_counts_once(tmp_path):
    path = tmp_path / "valid.txt"
    path.write_text("\n".join(lines(23, seed=2)) + "\n")
    for system in TASKS:
        task = begin(system, valid=str(path))
        stream = task._data.valid_stream
        with torch.no_grad():
            figures = task.evaluate()
        counted = [
            place
            for batch in task._validation_segments(stream)
            for start in batch.starts
            for place in range(int(start), int(start) + batch.length)
        ]
        assert sorted(counted) == list(range(len(stream)))
        assert figures["perplexity"] == pytest.approx(math.exp(figures["loss"]))
        characters = path.stat().st_size
        assert figures["bits_per_character"] == pytest.approx(figures["loss"] * len(stream) / math.log(2) / characters)


def test_the_end_of_the_text_is_set_aside_at_the_end_of_a_line():
    data = begin("gpt", lines(400))._data
    assert data.train_stream.tokens[-1] == data.tokenizer.eos_id
    aside = len(data.valid_stream) / len(data.text)
    assert 0.02 < aside < 0.1
    assert len(data.train_stream) + len(data.valid_stream) == len(data.text)
    written = [line for line in lines(400) if line.strip()]
    tail = written[-int(np.count_nonzero(data.valid_stream.tokens == data.tokenizer.eos_id)) :]
    assert data.valid_stream.characters == sum(len(line) + 1 for line in tail)


def test_where_no_line_ends_near_the_end_the_text_is_cut_inside_one():
    data = begin("gpt", iter([" ".join(lines(400)), "a b"]))._data
    assert data.train_stream.tokens[-1] != data.tokenizer.eos_id
    assert data.valid_stream.characters is None


def test_too_short_a_text_asks_for_one_to_validate_on(tmp_path):
    with pytest.raises(CorpusError, match=r"2 tokens are too few .*--valid"):
        begin("gpt", iter(["a"]))
    path = tmp_path / "valid.txt"
    path.write_text("a\n")
    task = begin("gpt", iter(["a"]), valid=str(path))
    assert task.plan(0)
    assert math.isfinite(task.evaluate()["loss"])


def test_what_was_read_is_found_again_in_the_cache_alone():
    data = begin("gpt")._data
    found = LanguageData.reopen(data.fingerprint)
    assert found.fingerprint == data.fingerprint
    assert found.tokenizer.fingerprint == data.tokenizer.fingerprint
    assert np.array_equal(found.train_stream.tokens, data.train_stream.tokens)
    assert LanguageData.reopen("0" * 64) is None


def test_what_the_catalogue_knows_of_a_text_becomes_the_settings_of_a_tokenizer(monkeypatch):
    monkeypatch.setattr(pydocs, "lines", lambda: iter(["a line of text", "and another one"]))
    _, hints, names, *_ = TASKS["gpt"].source.open("builtin:pydocs")
    assert names == ("builtin:pydocs",)
    recipe, _ = plan("gpt", "builtin:pydocs")
    assert recipe.corpus == names
    known = {name: value for name, value in hints.items() if name in ("tokenizer.lowercase", "tokenizer.nfkc")}
    assert known
    assert {name: recipe.flat_settings()[name] for name in known} == known
