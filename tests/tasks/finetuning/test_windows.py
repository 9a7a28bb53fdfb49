"""Fine-tuning on long texts: windows, answers in them, and batches that have no room in memory."""

import json
import unicodedata

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.tasks.finetuning.trained import loss_of
from wenmai.inference import framing
from wenmai.inference.backbones import Pieces
from wenmai.inference.finetuned_spans import _Read, _Text, tuned_threshold
from wenmai.nn import recomputing
from wenmai.objectives.loss import GroupLoss


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
    monkeypatch.setitem(framing._BATCH_TOKENS, "cpu", 24)
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
    monkeypatch.setitem(framing._BATCH_TOKENS, "cpu", most)
    parts = job.parts(batch)
    assert len(parts) > 1
    assert sorted(np.concatenate(parts).tolist()) == sorted(batch.tolist())
    assert all(len(part) * job._train.widths[part].max() <= most for part in parts)
    for ours, theirs in zip(gradients(parts), whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("start", ["bert", "gpt", "elmo"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_windows_that_are_made_again_have_the_same_gradients(begin, monkeypatch, start, dropout):
    content = "".join(f"{one} {'AB'[one in 'aceg']}\n" for one in "abcdefgh" * 9) + "\na A\n"
    job = begin("tagging", start, content, valid_share=0, max_length=12, dropout=dropout)
    place = int(np.argmax(job._train.widths))
    counts = list(job.counts([place]).values()) if len(job.loss_weights) > 1 else None
    monkeypatch.setitem(framing._BATCH_TOKENS, "cpu", 24)

    def gradients():
        torch.manual_seed(5)
        job.module.zero_grad()
        update = GroupLoss(job.loss_weights, counts, torch.device("cpu"))
        update.backward(job.loss(job.module.train(), np.array([place]), 0))
        found = [one.grad.clone() for one in job.module.parameters() if one.grad is not None]
        update.finish(found)
        return found

    calls = []
    monkeypatch.setattr(recomputing, "checkpoint", lambda *given, **more: calls.append(1) or checkpoint(*given, **more))
    again = gradients()
    assert len(calls) > 2
    assert any(one.abs().max() > 0 for one in again)
    monkeypatch.setattr(recomputing, "checkpoint", lambda compute, part, **_: compute(part))
    for ours, theirs in zip(again, gradients(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_states_that_are_kept_are_not_read_in_parts(begin, monkeypatch):
    job = begin("classification", "bert", valid_share=0, mode="frozen")
    room = np.empty(job._train.numbers(job.fine_tuned), np.float32)
    job._train.compute_features(job.fine_tuned, room, lambda done: None)
    monkeypatch.setitem(framing._BATCH_TOKENS, "cpu", 1)
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
    assert _Text.of("ｶﾞ", Pieces([5], [(0, 1)])).offsets == [(0, 2)]
    hangul = unicodedata.normalize("NFD", "서울은")  # letters that NFC joins to syllables
    assert _Text.of(hangul, Pieces([5, 6, 7], [(0, 1), (2, 3), (5, 6)])).offsets == [(0, 2), (2, 5), (5, 8)]


def test_answers_neither_begin_nor_end_with_white_space(begin):
    model = begin("span", "bert").fine_tuned
    (item,) = model.items([("a", "b c d e")])
    text = _Text("b\n\u3000e", [5, 6, 7, 8], [(0, 1), (2, 2), (3, 3), (3, 4)], np.array([True, False, False, True]))
    read = item.info._replace(text=text)
    output = np.array([[0, 0], [1, 2], [9, 9], [9, 9], [2, 1]], np.float32)
    found = model.answers(item._replace(info=read), output, 9)
    places = {"b": (0, 1), "e": (3, 4), "b\n\u3000e": (0, 4)}
    assert {one.text: (one.start, one.end) for one in found if one.text} == places
    assert model.answers(item._replace(info=read), output, -1) == found
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
