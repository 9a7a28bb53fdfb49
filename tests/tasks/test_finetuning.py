"""Fine-tuning: what is read of examples, what is minimised, and what is trained of the encoder."""

import json
import math
import re
import shutil
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import wenmai
from tests.contract.examples import EXAMPLES, TEXTS
from wenmai.core.errors import CorpusError, SettingError
from wenmai.core.registry import find_system
from wenmai.data.examples import open_examples
from wenmai.data.typed import TaggedSentence
from wenmai.inference import finetuned as inference_finetuned
from wenmai.inference.backbones import Pieces
from wenmai.inference.families import backbone_like
from wenmai.inference.finetuned_network import fitted
from wenmai.inference.finetuned_spans import _Read, _Text, tuned_threshold
from wenmai.inference.finetuned_tokens import scheme_of
from wenmai.objectives.loss import GroupLoss
from wenmai.runs.planning import plan
from wenmai.runs.train import train_recipe
from wenmai.tasks import finetuning
from wenmai.tasks.settings import FineTuneConfig
from wenmai.text.segment import treebank_spans
from wenmai.training.callback import Callback

PLAIN = {"threads": 1, "epochs": 1, "learning_rate": 0.01, "batch_size": 8, "precision": "float32"}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Trains the example of a system that others start from."""

    @cache
    def trained(name):
        folder = tmp_path_factory.mktemp(name)
        example = EXAMPLES[name]
        (folder / example.data).write_text(TEXTS[example.data]["enough"])
        return wenmai.train(name, folder / example.data, out=folder / "run", quiet=True, **example.settings)

    return trained


@pytest.fixture
def data(tmp_path):
    """Writes the examples of a task."""

    def written(task, content=None):
        name = EXAMPLES[f"finetuned-{task}"].data
        (tmp_path / name).write_text(TEXTS[name]["enough"] if content is None else content)
        return tmp_path / name

    return written


@pytest.fixture
def begin(base, data):
    """Begins a training without running it."""

    def begun(task, start, content=None, **settings):
        run = base(start)
        chosen = {name: value for name, value in {**PLAIN, **settings}.items() if value is not None}
        recipe, opened = plan(f"finetuned-{task}", data(task, content), start=run.path, **chosen)
        known = find_system(recipe.system).load()
        read = known.source.read(recipe, opened.source, lambda done, total: None, run.read_base())
        return known.begin(recipe, read, run.read_base())

    return begun


# --- rows -----------------------------------------------------------------------------------------------------------


def test_bert_reads_texts_between_its_marks(base):
    backbone = backbone_like(base("bert").model)
    tokenizer = backbone.tokenizer
    row = backbone.framed([7, 8], [9])
    assert row.tokens == [tokenizer.cls_id, 7, 8, tokenizer.sep_id, 9, tokenizer.sep_id]
    assert backbone.begins(row) == (1, 4)
    fed = backbone.fed([row, backbone.framed([7])])
    assert fed.segments.tolist() == [[0, 0, 0, 0, 1, 1], [0] * 6]
    assert fed.real.sum(1).tolist() == [6, 3]
    assert fed.places[:, 0].tolist() == [0, 0]


def test_gpt_has_three_tokens_more_which_say_where_texts_are(begin):
    model = begin("pair", "gpt").fine_tuned
    size, known = model.module.encoder.vocab_size, model.backbone.tokenizer.vocab_size
    assert size == known + 3
    start, delimiter, extract = range(known, size)
    row = model.backbone.framed([1, 2], [3])
    assert row.tokens == [start, 1, 2, delimiter, 3, extract]
    assert model.backbone.place(row) == 5


def test_the_state_of_gpts_last_token_sees_no_padding(begin):
    model = begin("pair", "gpt").fine_tuned
    alone, together = [("a b", "c")], [("a b", "c"), ("a b c d e", "f g h")]
    np.testing.assert_allclose(model.probabilities(alone)[0], model.probabilities(together)[0], rtol=1e-5)


def test_elmo_reads_two_texts_one_by_one_and_compares_them(begin):
    model = begin("pair", "elmo").fine_tuned
    (item,) = model.items([("a b", "c")])
    assert [row.tokens for row in item.rows] == [["a", "b"], ["c"]]
    u, v = torch.randn(2, model.backbone.size)
    found = model.compared(torch.stack([u, v]), 2)
    torch.testing.assert_close(found[0], torch.cat([u, v, (u - v).abs(), u * v]))


@pytest.mark.parametrize(
    ("sizes", "room", "left"),
    [([3, 9], 8, [3, 5]), ([9, 9], 8, [4, 4]), ([2, 3], 8, [2, 3]), ([1, 30], 8, [1, 7]), ([12], 8, [8])],
)
def test_of_texts_that_are_too_long_the_longest_is_cut_first(sizes, room, left):
    assert [len(one) for one in fitted([list(range(size)) for size in sizes], room, "head")] == left


def test_beginning_and_end_of_a_long_text_are_kept():
    assert fitted([list(range(100))], 8, "both") == [[0, 1, *range(94, 100)]]
    assert fitted([list(range(100))], 8, "head") == [list(range(8))]


def test_texts_that_were_cut_are_counted(begin):
    job = begin("classification", "bert", max_length=8)
    longer = sum(len(one.text.split()) > 6 for one in job._data.train)
    assert job._train.cut == longer
    assert all(item.width <= 8 for item in job._train.items)
    texts = "text\tlabel\n" + "a b c d e f g h a b c\tearly\n" * 9 + "h\tlate\n" * 9
    _, (note,) = begin("classification", "bert", texts, max_length=8, valid_share=0).changes(None)
    assert note.startswith("9 of 18 examples are longer than the 8 tokens that the model reads, and were cut")


# --- losses ---------------------------------------------------------------------------------------------------------


def loss_of(job, places):
    with torch.no_grad():
        return job.loss(job.module.eval(), np.array(places), 0)


def vectors_of(job, places):
    """The vectors that the head takes, of one item after the other."""
    model = job.fine_tuned
    job.module.eval()
    with torch.no_grad():
        return [model.module(model.fed([job._train.items[place]])[0])[0].double() for place in places]


def test_balanced_classes_count_as_if_they_were_equally_frequent(begin):
    job = begin("classification", "bert", class_weight="balanced", valid_share=0)
    model, labels = job.fine_tuned, [one.label for one in job._data.train]
    head = model.module.head.double()
    table = [head(vector)[0].log_softmax(-1).detach() for vector in vectors_of(job, range(6))]
    model.module.head.float()
    found = loss_of(job, range(6))
    targets = [model.labels.index(label) for label in labels[:6]]
    weights = [len(labels) / (2 * labels.count(label)) for label in labels[:6]]
    terms = [-row[target].item() for row, target in zip(table, targets, strict=True)]
    assert float(found.nll) == pytest.approx(sum(terms), rel=1e-4)
    assert float(found.total) == pytest.approx(sum(w * t for w, t in zip(weights, terms, strict=True)), rel=1e-4)


def test_numbers_are_learnt_as_deviations_and_given_as_they_are(begin):
    job = begin("regression", "bert", valid_share=0)
    model, values = job.fine_tuned, np.array([one.score for one in job._data.train])
    assert model.numbers["mean"] == pytest.approx(values.mean())
    outputs = np.array([float(one[0]) for one in model.outputs(job._train.items)])
    expected = np.square(outputs - (values - values.mean()) / values.std())
    assert float(loss_of(job, range(5)).nll) == pytest.approx(expected[:5].sum(), rel=1e-4)
    rated = model.rate([one.first for one in job._data.train])
    np.testing.assert_allclose(rated, values.mean() + values.std() * outputs, rtol=1e-4)


def test_a_head_goes_on_with_numbers_of_another_scale(base, data, tmp_path):
    rows = [f"{'a b c d'[: 2 * n % 7 + 1]}\t{100 + n % 7}" for n in range(60)]
    first = wenmai.finetune(
        base("bert"), data("regression", "\n".join(["text\tlabel", *rows])), task="regression", out=tmp_path / "one",
        quiet=True, valid_share=0, **PLAIN
    )  # fmt: skip
    path = tmp_path / "other.tsv"
    path.write_text("\n".join(["text\tlabel", *(row.replace("\t10", "\t90") for row in rows)]))
    recipe, opened = plan("finetuned-regression", path, start=first.path, valid_share=0, **PLAIN)
    known = find_system(recipe.system).load()
    read = known.source.read(recipe, opened.source, lambda done, total: None, first.read_base())
    going_on = known.begin(recipe, read, first.read_base()).fine_tuned
    assert going_on.numbers["mean"] > 800
    texts = ["a b", "c", "a b c d"]
    np.testing.assert_allclose(going_on.rate(texts), first.model.rate(texts), rtol=1e-4)


def test_one_text_and_two_are_not_mixed(begin, tmp_path):
    job = begin("regression", "bert")
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"a b\tb {one}\t{place}\n" for place, one in enumerate("abcd")))
    with pytest.raises(CorpusError, match="'a b' comes with another text, but the model takes one"):
        [job.fine_tuned.gold(one) for one in open_examples(path, "regression")]


def test_gpt_also_predicts_the_tokens_of_its_texts(begin):
    job = begin("classification", "gpt", lm_weight=0.25)
    assert job.loss_weights == {"task": 1.0, "lm": 0.25}
    (row,) = job._train.items[3].rows
    losses = loss_of(job, [3])
    encoder = job.fine_tuned.module.encoder
    with torch.no_grad():
        logits = encoder.output(encoder(torch.tensor([row.tokens]))).double().log_softmax(-1)[0]
    expected = -sum(logits[place, token].item() for place, token in enumerate(row.tokens[1:]))
    assert float(losses["lm"].nll) == pytest.approx(expected, rel=1e-4)
    assert job.counts(np.array([3])) == {"task": 1, "lm": len(row.tokens) - 1}
    assert begin("classification", "gpt", lm_weight=0).loss_weights == {"loss": 1.0}


def test_begin_and_end_of_an_answer_have_one_loss(begin):
    job = begin("span", "bert", valid_share=0, max_length=10, stride=2)
    part, model = job._train, job.fine_tuned
    place = next(n for n, item in enumerate(part.items) if len(item.rows) > 1 and (0, 0) not in part.targets[n][:1])
    (logits,) = model.outputs([part.items[place]])
    terms, low = [], 0
    for row, target in zip(part.items[place].rows, part.targets[place], strict=True):
        some = torch.from_numpy(logits[low : low + 1 + len(row.places)]).double().log_softmax(0)
        low += 1 + len(row.places)
        terms += [-0.5 * (some[target[0], 0] + some[target[1], 1]).item()]
    found = loss_of(job, [place])
    assert float(found.nll) == pytest.approx(sum(terms), rel=1e-4)
    assert found.targets == len(terms)


def test_options_compete_with_each_other(begin):
    job = begin("choice", "bert", valid_share=0)
    model = job.fine_tuned
    item, answer = job._train.items[0], job._data.train[0].answer
    scores = [model.module.head(vectors.float()).item() for vectors in vectors_of(job, [0])[0].split(1)]
    expected = math.log(sum(map(math.exp, scores))) - scores[answer]
    assert len(item.rows) == len(scores) == 3
    assert float(loss_of(job, [0]).nll) == pytest.approx(expected, rel=1e-4)


# --- windows --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("crf", "stride"), [(False, 3), (True, 3), (False, 20)])
def test_each_word_of_a_long_sentence_is_tagged_once(begin, crf, stride):
    model = begin("tagging", "bert", max_length=8, stride=stride, crf=crf).fine_tuned
    words = ["a", "b", "c", "d", "e", "f", "g", "h", "a", "b", "c", "d", "e", "f", "g", "h", "a"]
    (item,) = model.items([words])
    assert len(item.rows) > 2
    places = [place for row in item.rows for place in row.places]
    tokens = [row.tokens[place] for row in item.rows for place in row.places]
    assert tokens == [model.backbone.tokenizer.id(word) for word in words]
    assert len(places) == len(words)
    (found,) = model.tag([words])
    assert found.tokens == words
    assert len(found.tags) == len(found.probabilities) == len(words)
    assert all(0 < one <= 1 for one in found.probabilities)


@pytest.mark.parametrize("crf", [False, True])
def test_tags_that_are_no_entities_are_of_no_scheme(begin, crf):
    content = "".join(f"a I-X\n{one} O\n\n" for one in "bcdefgh" * 9)
    job = begin("tagging", "bert", content, tag_scheme="none", crf=crf, valid_share=0)
    assert (job.fine_tuned.scheme, job.fine_tuned.best_by) == ("none", "accuracy")
    assert float(loss_of(job, range(5)).nll) < 1000


def test_a_window_is_as_good_as_the_sentence_where_all_of_it_fits(begin):
    model = begin("tagging", "bert", max_length=12, stride=3).fine_tuned
    (short,) = model.outputs(model.items([["a", "b", "c"]]))
    many = model.outputs(model.items([["a", "b", "c"], list("abcdefghabcdefgh")]))
    np.testing.assert_allclose(short, many[0], rtol=1e-4, atol=1e-6)
    assert many[1].shape == (16, len(model.labels))


def test_windows_of_one_sentence_may_be_read_some_at_a_time(begin, monkeypatch):
    model = begin("tagging", "bert", max_length=12, stride=3).fine_tuned
    items = model.items([list("abcdefgh") * 9, ["a"]])
    together = model.outputs(items)
    monkeypatch.setitem(inference_finetuned._BATCH_TOKENS, "cpu", 24)
    for one, other in zip(model.outputs(items), together, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("task", "start", "more"),
    [
        ("classification", "bert", {"class_weight": "balanced"}),
        ("regression", "bert", {}),
        ("tagging", "bert", {"crf": True}),
        ("span", "bert", {}),
        ("choice", "gpt", {}),
    ],
)
def test_a_batch_that_is_too_large_is_learned_from_in_parts(begin, monkeypatch, task, start, more):
    job = begin(task, start, valid_share=0, dropout=0, head_dropout=0, **more)
    batch = job.plan(0)[0]
    counts = list(job.counts(batch).values()) if len(job.loss_weights) > 1 else None

    def gradients(parts):
        update = GroupLoss(job.loss_weights, counts, torch.device("cpu"))
        job.module.zero_grad()
        for part in parts:
            update.backward(job.loss(job.module.eval(), part, 0))
        found = [one.grad for one in job.module.parameters() if one.grad is not None]
        update.finish(found)
        return [one.clone() for one in found]

    assert [part.tolist() for part in job.parts(batch)] == [batch.tolist()]
    whole, most = gradients([batch]), int(job._train.widths[batch].max())
    monkeypatch.setitem(finetuning._TOKENS_AT_ONCE, "cpu", most)
    parts = job.parts(batch)
    assert len(parts) > 1
    assert sorted(np.concatenate(parts).tolist()) == sorted(batch.tolist())
    assert all(len(part) * job._train.widths[part].max() <= most for part in parts)
    for ours, theirs in zip(gradients(parts), whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_states_that_are_kept_are_not_read_in_parts(begin, monkeypatch):
    job = begin("classification", "bert", valid_share=0, mode="frozen")
    job._train.compute_features(job.fine_tuned, lambda done: None)
    monkeypatch.setitem(finetuning._TOKENS_AT_ONCE, "cpu", 1)
    assert len(job.parts(job.plan(0)[0])) == 1


def test_the_window_with_most_context_counts():
    read = _Read(_Text("", [], [(0, 1)] * 10, np.ones(10, np.bool_)), [0, 4, 8], [6, 6, 2])

    def naive(window, piece):
        scores = []
        for begin, width in zip(read.begins, read.widths, strict=True):
            inside = begin <= piece < begin + width
            scores.append(min(piece - begin, begin + width - 1 - piece) + 0.01 * width if inside else -1)
        return scores.index(max(scores)) == window

    for window, (begin, width) in enumerate(zip(read.begins, read.widths, strict=True)):
        assert read.fullest(window).tolist() == [naive(window, begin + place) for place in range(width)]


def test_answers_are_the_exact_characters_of_the_text(begin):
    job = begin("span", "bert", valid_share=0, max_length=10, stride=2)
    for example, item, targets in zip(job._data.train, job._train.items, job._train.targets, strict=True):
        read = item.info
        told = {
            read.text.part(begin + first - 1, begin + last - 1)[0]
            for begin, (first, last) in zip(read.begins, targets, strict=True)
            if first
        }
        assert told == {answer.text for answer in example.answers[:1]}


def test_the_first_answer_that_the_text_has_is_learnt(begin):
    answers = [{"text": "z", "answer_start": 1}, {"text": "c d", "answer_start": 4}, {"text": "a", "answer_start": 0}]
    asked = {"context": "a b c d", "question": "h", "id": "q", "answers": answers}
    job = begin("span", "bert", json.dumps({"data": [asked]}), valid_share=0, bad_answers="repair")
    assert [answer.start for answer in job._data.train[0].answers] == [-1, 4, 0]
    (item,), (((first, last),),) = job._train.items, job._train.targets
    assert item.info.text.part(first - 1, last - 1)[0] == "c d"


def test_pieces_begin_behind_white_space_and_end_behind_accents():
    context = " ab\u3000 e\u0301 。\u200b"
    offsets = [(0, 2), (2, 3), (3, 4), (4, 6), (7, 9)]  # " a", "b", a wide space, " é" without its accent, " 。"
    text = _Text.of(context, Pieces([5, 6, 7, 8, 9], offsets))
    assert [context[low:high] for low, high in text.offsets] == ["a", "b", "", "e\u0301", "。"]
    assert text.seen.tolist() == [True, True, False, True, True]
    assert _Text.of("", Pieces([], [])).offsets == []


def test_answers_neither_begin_nor_end_with_white_space(begin):
    model = begin("span", "bert").fine_tuned
    (item,) = model.items([("a", "b c d e")])
    text = _Text("b\n\u3000e", [5, 6, 7, 8], [(0, 1), (2, 2), (3, 3), (3, 4)], np.array([True, False, False, True]))
    read = item.info._replace(text=text)
    output = np.array([[0, 0], [1, 2], [9, 9], [9, 9], [2, 1]], np.float32)
    found = model.answers(item._replace(info=read), output, 9)
    places = {"b": (0, 1), "e": (3, 4), "b\n\u3000e": (0, 4)}
    assert {one.text: (one.start, one.end) for one in found if one.text} == places
    blank = read._replace(text=text._replace(seen=np.zeros(4, np.bool_)))
    assert [one.start for one in model.answers(item._replace(info=blank), output, 9)] == [None]


def test_the_best_answer_is_that_of_all_pairs_of_begin_and_end(begin):
    model = begin("span", "bert", max_length=10, stride=2, answer_length=2, n_best=9).fine_tuned
    (item,) = model.items([("a", "c d e f g h a b c")])
    (output,) = model.outputs([item])
    output = np.random.default_rng(0).normal(size=output.shape).astype(np.float32)
    best, null = model.ranked(item, output)
    read, expected, nulls, low = item.info, [], [], 0
    for window, (begin_, width) in enumerate(zip(read.begins, read.widths, strict=True)):
        some = output[low : low + 1 + width].astype(np.float64)
        low += 1 + width
        nulls.append(some[0].sum())
        for first in np.flatnonzero(read.fullest(window)):
            for last in range(first, min(width, first + 2)):
                expected.append((some[1 + first, 0] + some[1 + last, 1], begin_ + first, begin_ + last))
    assert best == sorted(expected, reverse=True)[:9]
    assert null == min(nulls)


def test_the_threshold_of_no_answer_is_the_best_one():
    draw = np.random.default_rng(1)
    for _ in range(20):
        gaps = draw.normal(size=7).round(2)
        answered, unanswered = draw.random(7), draw.integers(0, 2, 7).astype(float)
        threshold = tuned_threshold(gaps, answered, unanswered)

        def reached(edge, of=(gaps, answered, unanswered)):
            return np.where(of[0] > edge, of[2], of[1]).sum()

        assert reached(threshold) == pytest.approx(max(reached(edge) for edge in [-9, *gaps, 9]))


# --- what is trained ------------------------------------------------------------------------------------------------


def encoder_of(run):
    return {name: tensor.clone() for name, tensor in run.model.module.encoder.state_dict().items()}


def tuned(base, data, tmp_path, task, start, **settings):
    out = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
    return wenmai.finetune(base(start), data(task), task=task, out=out, quiet=True, **{**PLAIN, **settings})


@pytest.mark.parametrize("start", ["bert", "gpt", "elmo"])
def test_a_frozen_encoder_stays_as_it_was(base, data, tmp_path, start):
    before = dict(base(start).model.module.state_dict())
    for mode in ("frozen", "mix"):
        after = encoder_of(tuned(base, data, tmp_path, "classification", start, mode=mode))
        assert all(
            torch.equal(before[name][: len(tensor)], tensor[: len(before[name])]) for name, tensor in after.items()
        )


def test_states_of_a_frozen_encoder_are_the_same_computed_once_or_each_time(base, data, tmp_path, monkeypatch):
    for task in ("classification", "tagging"):
        kept = tuned(base, data, tmp_path, task, "bert", mode="mix", dropout=0.5)
        with monkeypatch.context() as patch:
            patch.setattr(finetuning, "_MOST_KEPT", 0)
            anew = tuned(base, data, tmp_path, task, "bert", mode="mix", dropout=0.5)
        assert kept.summary["loss"] == pytest.approx(anew.summary["loss"], rel=1e-4)
        for name, tensor in kept.model.module.state_dict().items():
            torch.testing.assert_close(tensor, anew.model.module.state_dict()[name], rtol=1e-3, atol=1e-5)


def test_computing_the_states_of_a_frozen_encoder_is_followed(base, data, tmp_path):
    told = []

    class Follower(Callback):
        def evaluating(self, what, done, total):
            told.append((what, done, total))

    out = tmp_path / "run"
    settings = {**PLAIN, "mode": "frozen", "valid_share": 0.2}
    run = wenmai.finetune(
        base("bert"), data("classification"), task="classification", out=out, callback=Follower(), **settings
    )
    (what,) = {what for what, _, _ in told}
    assert what == "computing the states of the encoder, example"
    done = [done for _, done, _ in told]
    assert done == sorted(set(done))
    sizes = run.corpus
    assert told[-1][1] == told[-1][2] == sizes["examples"] + sizes["valid_examples"]


def test_a_limit_takes_examples_of_all_labels_of_a_sorted_file(base, data, tmp_path):
    lines = ["a b\tearly\n"] * 200 + ["g h\tlate\n"] * 100
    path = data("classification", "text\tlabel\n" + "".join(lines))
    (tmp_path / "dev.tsv").write_text("text\tlabel\na\tearly\nh\tlate\n")
    settings = PLAIN | {"limit": 9, "valid": str(tmp_path / "dev.tsv")}
    run = wenmai.finetune(base("bert"), path, task="classification", out=tmp_path / "run", quiet=True, **settings)
    assert run.corpus["examples"] == 9
    assert run.model.labels == ["early", "late"]


def test_a_limit_of_what_is_evaluated_is_the_same_for_all_seeds(begin):
    texts = "text\tlabel\n" + "".join(f"{one} a\tA\n{one} b\tB\n" for one in "abcdefgh")
    shorter = [begin("classification", "bert", texts, valid_share=0.5, valid_limit=3, seed=seed) for seed in (1, 2)]
    whole = begin("classification", "bert", texts, valid_share=0.5)
    assert shorter[0]._data.valid == shorter[1]._data.valid
    assert len(shorter[0]._data.valid) == 3 < len(whole._data.valid)
    assert set(shorter[0]._data.valid) < set(whole._data.valid)
    assert shorter[0]._data.train == whole._data.train
    assert shorter[0]._data.fingerprint != whole._data.fingerprint
    with pytest.raises(SettingError, match="valid_limit=3 has no effect without examples to evaluate on"):
        begin("classification", "bert", texts, valid_share=0, valid_limit=3)


def test_evaluations_that_take_most_of_the_time_are_noted(begin, tmp_path):
    texts = "text\tlabel\n" + "a b\tA\nb c\tB\n" * 9
    (tmp_path / "valid.tsv").write_text("text\tlabel\n" + "a c\tA\n" * 60)
    given = {"valid": str(tmp_path / "valid.tsv")}
    _, (note,) = begin("classification", "bert", texts, **given).changes(None)
    assert note.startswith("each evaluation reads 60 examples, 3 times the tokens of an epoch of training, and takes")
    assert begin("classification", "bert", texts, **given, valid_limit=20).changes(None) == ({}, [])
    assert begin("classification", "bert", texts, **given, mode="frozen").changes(None) == ({}, [])


def test_only_the_top_layers_are_trained(base, data, tmp_path):
    before = base("bert").model.module.state_dict()
    after = encoder_of(tuned(base, data, tmp_path, "classification", "bert", mode="top", top_layers=1))
    changed = {name for name, tensor in after.items() if not torch.equal(before[name], tensor)}
    assert changed
    assert all(name.startswith(("encoder.layers.1.", "pooler.")) for name in changed)


def test_from_scratch_nothing_is_taken_over(base, begin):
    trained = base("bert").model.module.state_dict()
    for scratch in (False, True):
        encoder = begin("classification", "bert", scratch=scratch).fine_tuned.module.encoder.state_dict()
        same = [torch.equal(trained[name], tensor) for name, tensor in encoder.items() if tensor.dim() > 1]
        assert all(same) is not scratch


def test_what_was_fine_tuned_needs_nothing_of_where_it_began(base, data, tmp_path):
    shutil.copytree(base("bert").path, tmp_path / "base")
    started = wenmai.Run(tmp_path / "base")
    run = wenmai.finetune(started, data("pair"), task="pair", out=tmp_path / "run", quiet=True, **PLAIN)
    shutil.rmtree(started.path)
    model = wenmai.load(run.path)
    assert [label for label, _ in model.predict([("a b", "c")], -1)[0]]
    assert not (run.path / "model" / "base").exists()


def test_a_fine_tuned_run_is_an_encoder_for_another_task(base, data, tmp_path):
    first = tuned(base, data, tmp_path, "classification", "bert", mode="lora", lora_rank=2)
    second = wenmai.finetune(first, data("tagging"), task="tagging", out=tmp_path / "second", quiet=True, **PLAIN)
    assert second.model.tag(["a b"])[0].tokens == ["a", "b"]
    assert not any("lora" in name for name in second.model.module.state_dict())


@pytest.mark.parametrize("start", ["gpt", "elmo"])
@pytest.mark.parametrize(("task", "metric"), [("tagging", "f1"), ("span", "f1"), ("choice", "accuracy")])
def test_gpt_and_elmo_learn_every_task(base, data, tmp_path, task, metric, start):
    examples = data(task)
    given = {**PLAIN, "epochs": 6, "mode": "full", "valid": str(examples)}
    run = wenmai.finetune(base(start), examples, task=task, out=tmp_path / "run", quiet=True, **given)
    records = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    evaluations = [one["figures"] for one in records if one["kind"] == "evaluation"]
    losses = [one["task_loss" if start == "gpt" else "loss"] for one in evaluations]
    assert losses[-1] < losses[0]
    measured = wenmai.evaluate(run.path, on=examples).as_dict()
    assert measured[metric] == pytest.approx(run.summary["validation"][metric], abs=1e-6)


def test_few_examples_are_read_more_often(begin):
    alone = {"valid_share": 0, "batch_size": 4}
    job = begin("classification", "bert", epochs=None, **alone)
    updates = len(job.plan(0))
    assert updates * 20 < 600
    assert job.facts()["epochs"] == job.config.epochs == 20
    enough = begin("classification", "bert", epochs=None, min_updates=updates * 5 - 1, **alone)
    assert enough.config.epochs == 5
    accumulated = begin("classification", "bert", epochs=None, min_updates=updates * 5, accumulation=2, **alone)
    assert accumulated.config.epochs == math.ceil(updates * 5 / math.ceil(updates / 2))
    assert begin("classification", "bert", epochs=None, min_updates=1, **alone).config.epochs == 3
    assert begin("classification", "bert", epochs=2, **alone).config.epochs == 2
    assert begin("classification", "bert", epochs=None, mode="frozen", **alone).config.epochs == 30


def test_recipes_say_how_often_examples_are_read(base, data, tmp_path):
    given = {name: value for name, value in PLAIN.items() if name != "epochs"} | {"min_updates": 20, "batch_size": 16}
    run = wenmai.finetune(base("bert"), data("classification"), task="classification", out=tmp_path / "run", **given)
    epochs = run.summary["epochs"]
    assert epochs > 3
    again = train_recipe(run.path / "recipe.yaml", out=tmp_path / "again", quiet=True)
    assert again.summary["epochs"] == epochs
    usual = wenmai.finetune(base("bert"), data("pair"), task="pair", out=tmp_path / "usual", steps=3, threads=1)
    text = (usual.path / "recipe.yaml").read_text()
    assert "min_updates: 600" in text
    once = train_recipe(usual.path / "recipe.yaml", out=tmp_path / "once", quiet=True, epochs=1)
    assert once.summary["epochs"] <= 1
    assert once.recipe.sections["tuning"].min_updates == 0
    (tmp_path / "old.yaml").write_text(re.sub("(?m)^  min_updates.*\n", "", text))  # before there was this setting
    assert train_recipe(tmp_path / "old.yaml", out=tmp_path / "old").recipe.sections["tuning"].min_updates == 0


def test_small_models_learn_at_higher_rates(begin, monkeypatch):
    job = begin("classification", "bert", learning_rate=None)
    assert job.learning_rate == 1e-3  # the highest one, for 16 dimensions
    for size, *expected in ((768, 5e-5, 2.5e-4, 5e-4), (384, 2e-4, 5e-4, 1e-3), (1024, 5e-5, 2.5e-4, 5e-4)):
        monkeypatch.setattr(type(job.fine_tuned.backbone), "size", size)
        found = []
        for tuning in (FineTuneConfig(), FineTuneConfig(scratch=True), FineTuneConfig(mode="lora")):
            job.tuning = tuning
            found.append(job.learning_rate)
        assert found == pytest.approx(expected)
    monkeypatch.undo()
    assert begin("classification", "bert", learning_rate=None, mode="frozen").learning_rate == 1e-3
    assert begin("classification", "elmo").recipe.sections["tuning"].mode == "mix"
    assert begin("regression", "gpt").fine_tuned.reading.both_orders
    assert begin("tagging", "bert", mode="frozen", epochs=2).recipe.sections["train"].epochs == 2


# --- what is refused ------------------------------------------------------------------------------------------------


def test_what_is_refused(begin, base, data, tmp_path):
    with pytest.raises(CorpusError, match="label 'early'"):
        begin("classification", "bert", "text\tlabel\na b\tearly\nc\tearly\n", valid_share=0)
    text = tmp_path / "text.txt"
    text.write_text(TEXTS["text.txt"]["enough"])
    ngram = wenmai.train("ngram", text, out=tmp_path / "ngram", quiet=True, order=2)
    with pytest.raises(SettingError, match="a ngram run has no encoder that can be fine-tuned"):
        wenmai.finetune(ngram, data("classification"), task="classification", out=tmp_path / "no")
    assert not (tmp_path / "no").exists()
    with pytest.raises(SettingError, match="no task is called 'tagged'; did you mean 'tagging'"):
        wenmai.finetune(base("bert"), data("tagging"), task="tagged")
    with pytest.raises(SettingError, match="name what the encoder is to learn"):
        wenmai.finetune(base("bert"), data("tagging"))


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["O", "B-X", "I-X"], "bio"),
        (["O", "B-X", "E-X", "S-Y"], "bioes"),
        (["O", "I-X"], "io"),
        (["NN", "VB"], "none"),
        (["O"], "none"),
        (["O", "B-X", "NN"], "none"),
    ],
)
def test_the_scheme_of_tags_is_seen(labels, scheme):
    assert scheme_of(labels) == scheme


def test_settings_of_other_tasks_are_refused(begin):
    reading = begin("classification", "bert").recipe.sections["reading"]
    for name, value in {"stride": 3, "answer_length": 2, "both_orders": True}.items():
        assert getattr(replace(reading, **{name: value}), name) == value
        with pytest.raises(SettingError, match=f"{name}={value} has no effect on finetuned-classification"):
            begin("classification", "bert", **{name: value})


@pytest.mark.parametrize(
    ("task", "start", "settings", "message"),
    [
        (
            "classification",
            "bert",
            {"lm_weight": 0.1},
            "lm_weight=0.1 has no effect on an encoder that does not predict",
        ),
        ("classification", "gpt", {"lm_weight": 0, "mode": "frozen"}, "lm_weight=0 has no effect with mode=frozen"),
        ("pair", "elmo", {"both_orders": True}, "both_orders has no effect on an encoder that reads two texts one by"),
    ],
)
def test_settings_that_the_encoder_does_not_heed_are_refused(begin, task, start, settings, message):
    with pytest.raises(SettingError, match=message):
        begin(task, start, **settings)


# --- what is said of the data ---------------------------------------------------------------------------------------


def test_what_is_left_out_of_the_validation_data_is_said(begin, tmp_path):
    valid = tmp_path / "dev.tsv"
    valid.write_text("text\tlabel\na b\tx\n\ty\nc d\ty\n")
    job = begin("classification", "bert", "text\tlabel\na b\tx\nb c\ty\n", valid=str(valid))
    _, notes = job.changes(None)
    assert "to validate on: 1 examples were left out because a text is empty" in notes


def test_labels_that_only_what_was_set_aside_has_are_named(begin):
    texts = [" ".join("abcdefgh"[place] for place in (number % 8, number // 8, number % 3)) for number in range(60)]
    lines = [f"{text}\t{'xy'[number % 2]}" for number, text in enumerate(dict.fromkeys(texts))]
    plain = begin("classification", "bert", "text\tlabel\n" + "\n".join(lines) + "\n")
    aside = plain._data.valid[0].text
    rare = [line.partition("\t")[0] + "\tz" if line.startswith(aside + "\t") else line for line in lines]
    job = begin("classification", "bert", "text\tlabel\n" + "\n".join(rare) + "\n")
    assert job._data.untrained == ("z",)
    _, notes = job.changes(None)
    assert any(
        note.startswith("no example that was trained on has the labels z: all of them were set") for note in notes
    )
    assert not plain._data.untrained


def test_questions_that_are_cut_are_counted(begin, caplog):
    model = begin("span", "bert").fine_tuned
    model.items([("a", "a b c"), ("a " * 70, "a b c")])
    (message,) = caplog.messages
    assert message.startswith("1 question longer than the ")
    caplog.clear()
    model.items([("a", "a b c")])
    assert not caplog.messages


@pytest.mark.parametrize(
    ("words", "cut"),
    [
        ("我 爱 NBA 2019 ， 去", ["我", "爱", "N.B.A", "，", "去", "北", "京", "2020"]),
        ("我 爱 去", ["我", "爱", "N", ".", "B", ".", "A", "，", "去", "北", "京", "2", "0", "2", "0"]),
        ("a cat", None),
        ("我们 喜欢 北京 NBA", None),
    ],
)
def test_sentences_are_cut_as_those_that_were_trained_on(begin, words, cut):
    model = begin("tagging", "bert").fine_tuned
    model.learn([TaggedSentence(words.split(), ["O"] * len(words.split()))])
    text = "我爱N.B.A，去北京2020"
    found = [text[low:high] for low, high in model.words(text)]
    assert found == (cut or [text[low:high] for low, high in treebank_spans(text)])


def test_what_was_learned_from_or_chosen_by_is_noted(base, data, tmp_path):
    path = data("classification")
    valid = tmp_path / "valid.tsv"
    shutil.copy(path, valid)
    run = wenmai.finetune(
        base("bert"), path, task="classification", out=tmp_path / "run", quiet=True, valid=str(valid), **PLAIN
    )
    assert any("was trained on these examples" in note for note in wenmai.evaluate(run, on=path).notes)
    assert any("was chosen by these examples" in note for note in wenmai.evaluate(run, on=valid).notes)
    other = tmp_path / "other.tsv"
    shutil.copy(path, other)
    assert not wenmai.evaluate(run, on=other).notes
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("train", "dev"):
        shutil.copy(path, folder / f"{name}.tsv")
    run = wenmai.finetune(base("bert"), folder, task="classification", out=tmp_path / "two", quiet=True, **PLAIN)
    assert any("was chosen by these examples" in note for note in wenmai.evaluate(run, on=folder).notes)
