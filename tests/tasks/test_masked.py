"""What the task of masked language models makes of a text and settings."""

import math

import numpy as np
import pytest
import torch

from tests.contract.examples import EXAMPLES, TEXTS
from wenmai.config.recipe import Recipe
from wenmai.core.errors import CorpusError, SettingError
from wenmai.core.registry import find_system

PLAIN = {"heads": ("mlm",), "pooler": "none", "pairs": "none", "short_length": None, "short_share": 0.9}


def begin(tmp_path, text=TEXTS["documents.txt"]["enough"], start=None, **settings):
    task = find_system("bert").load()
    path = tmp_path / "documents.txt"
    path.write_text(text)
    opened = task.source.open([path])
    chosen = EXAMPLES["bert"].settings | settings
    recipe = Recipe.build("bert", task.sections, chosen, corpus=opened.names, start=start)
    return task.begin(recipe, task.source.read(recipe, opened.source, lambda done, total: None, None))


def losses_by_hand(job, made, labels):
    """The mean cross-entropies of masked tokens and of pairs, in float64, row by row and without any trick."""
    model = job.masked_model.module.double().eval()
    hidden = model(made.tokens, segments=made.segments, mask=made.mask, positions=made.positions)
    table = model.heads["mlm"](hidden).log_softmax(-1)
    places = made.places.flatten()[made.masked].tolist()
    rows = [place // made.places.shape[1] for place in made.masked.tolist()]
    found = [-table[row, place, target] for row, place, target in zip(rows, places, made.targets, strict=True)]
    mlm = torch.stack(found).mean().item()
    if labels is None:
        return {"mlm": mlm}
    scores = model.heads["pair"](torch.tanh(model.pooler(hidden[:, 0]))).log_softmax(-1)
    return {"mlm": mlm, "pair": -scores.gather(1, labels[:, None]).mean().item()}


@pytest.mark.parametrize("settings", [{}, PLAIN, PLAIN | {"boundaries": "masked"}, {"pairs": "order"}])
def test_the_loss_is_the_mean_of_each_part(tmp_path, settings):
    job = begin(tmp_path, **settings)
    batch = job.plan(0)[0]
    made, labels = job._tensors(batch, job._train)
    expected = losses_by_hand(job, made, labels)
    losses = job.loss(job.module, batch, 0)
    assert losses.keys() == expected.keys() == job.loss_weights.keys()
    for name, loss in losses.items():
        assert float(loss.nll) / loss.targets == pytest.approx(expected[name], rel=1e-6)
    assert {name: loss.targets for name, loss in losses.items()} == {
        name: count for name, count in job.counts(batch).items() if name in losses
    }


@pytest.mark.parametrize("boundaries", ["joined", "masked"])
def test_masked_and_next_tokens_are_predicted_from_the_state_before_them(tmp_path, boundaries):
    job = begin(tmp_path, **PLAIN, boundaries=boundaries, shifted=True, causal=0.5)
    model, seen = job.masked_model.module.double().eval(), set()
    for batch in job.plan(0):
        made, _ = job._tensors(batch, job._train)
        pieces = torch.zeros_like(made.tokens) if made.positions is None else (made.positions == 0).cumsum(1)
        reads = pieces[:, :, None] == pieces[:, None, :]
        targets = {}
        if batch.causal:  # every token but [CLS], from what stands before it in its piece
            reads = reads.tril()
            real = made.tokens != job.masked_model.tokenizer.pad_id
            firsts = torch.cat([torch.ones_like(real[:, :1]), pieces[:, 1:] != pieces[:, :-1]], 1)
            targets = {(row, place): made.tokens[row, place] for row, place in (real & ~firsts).nonzero().tolist()}
        else:
            places = made.places.flatten()[made.masked].tolist()
            rows = [place // made.places.shape[1] for place in made.masked.tolist()]
            targets = dict(zip(zip(rows, places, strict=True), made.targets, strict=True))
        table = model.heads["mlm"](model(made.tokens, mask=reads[:, None], positions=made.positions)).log_softmax(-1)
        losses = [-table[row, place - 1, wanted] for (row, place), wanted in targets.items()]
        ((name, loss),) = job.loss(job.module, batch, 0).items()
        assert (name, loss.targets) == ("causal" if batch.causal else "mlm", len(losses))
        assert float(loss.nll) / loss.targets == pytest.approx(torch.stack(losses).mean().item(), rel=1e-5)
        assert job.counts(batch)[name] == len(losses)
        seen.add(name)
    assert seen == {"mlm", "causal"} == job.loss_weights.keys()
    found = job.evaluate()
    assert {"mlm_loss", "causal_loss", "masked_accuracy", "next_accuracy"} <= found.keys()
    fates = {one.task: {token.fate for token in one.tokens} for (one,) in job.asked(9)}
    assert fates["next tokens"] == {None, "asked"}
    assert "masked" in fates["masked tokens"]


def test_no_token_sees_what_it_should_say(tmp_path):
    job = begin(tmp_path, **PLAIN, shifted=True, causal=0.5, dropout=0)
    batch = next(batch for batch in job.plan(0) if batch.causal)
    made, _ = job._tensors(batch, job._train)
    model, length = job.masked_model.module.eval(), made.tokens.shape[1]
    before = model(made.tokens, mask=made.mask)
    changed = made.tokens.clone()
    changed[:, -1] = job.masked_model.tokenizer.mask_id
    after = model(changed, mask=made.mask)
    assert torch.equal(before[:, : length - 1], after[:, : length - 1])
    assert not torch.equal(before[:, -1], after[:, -1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (PLAIN | {"causal": 0.5}, "add shifted=true"),
        (PLAIN | {"pairs": "next", "causal": 0.5, "heads": ("mlm", "pair"), "pooler": "tanh"}, "leave out pairs"),
        ({"heads": (), "shifted": True}, "no effect without the head mlm"),
    ],
)
def test_hybrids_that_make_no_sense(tmp_path, settings, message):
    with pytest.raises(SettingError, match=message):
        begin(tmp_path, **settings)


@pytest.mark.parametrize("settings", [{}, PLAIN, PLAIN | {"boundaries": "masked"}])
def test_sequences_have_special_tokens_where_the_paper_has_them(tmp_path, settings):
    job = begin(tmp_path, **settings)
    tokenizer = job.masked_model.tokenizer
    for batch in job.plan(0):
        made, _ = job._tensors(batch, job._train)
        assert made.tokens.numel() <= job.config.batch_tokens
        positions = torch.arange(made.tokens.shape[1]).expand_as(made.tokens)
        firsts = (positions if made.positions is None else made.positions) == 0
        assert (made.tokens[firsts & (made.tokens != tokenizer.pad_id)] == tokenizer.cls_id).all()
        assert not {tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, tokenizer.mask_id} & set(
            made.targets.tolist()
        )
        rows = sum(len(row.labels) for row in batch.rows)
        ends = (made.tokens == tokenizer.sep_id).sum().item()
        if settings.get("boundaries") == "masked" or not settings:
            assert ends == rows * (1 if settings else 2)
        if made.segments is not None:
            for tokens, segments in zip(made.tokens, made.segments, strict=True):
                places = (tokens == tokenizer.sep_id).nonzero().flatten().tolist()
                assert segments[: places[0] + 1].sum() == 0
                assert segments[places[0] + 1 : places[1] + 1].all()
        else:
            assert made.segments is None


def test_running_text_has_no_padding_and_no_mask(tmp_path):
    job = begin(tmp_path, **PLAIN)
    for batch in job.plan(0):
        made, _ = job._tensors(batch, job._train)
        assert made.mask is None
        assert made.positions is None
        assert made.tokens.shape[1] == job.model.config.max_length


def test_masks_change_with_the_epoch_or_return_with_dupe_factor(tmp_path):
    def seen(job, epoch):
        rows = {}
        for batch in job.plan(epoch):
            made, _ = job._tensors(batch, job._train)
            numbers = np.concatenate([row.numbers for row in batch.rows]).tolist()
            rows |= {number: tuple(tokens.tolist()) for number, tokens in zip(numbers, made.tokens, strict=True)}
        return rows

    dynamic, static = begin(tmp_path, **PLAIN), begin(tmp_path, **PLAIN, dupe_factor=2)
    assert seen(dynamic, 0) == seen(dynamic, 0)
    assert seen(dynamic, 0) != seen(dynamic, 2)
    assert seen(static, 0) == seen(static, 2) != seen(static, 1)


def test_long_sequences_come_last(tmp_path):
    job = begin(tmp_path, epochs=4, short_share=0.625, batch_tokens=24)
    longest = [[max(job._size(row) for row in batch.rows) for batch in job.plan(epoch)] for epoch in range(4)]
    assert max(longest[0] + longest[1]) == 8
    assert max(longest[3]) == 12
    cut = next(place for place, size in enumerate(longest[2]) if size > 8)
    assert cut > 0
    assert max(longest[2][:cut]) <= 8


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("steps", [10, 60, 150])
def test_steps_that_end_a_training_decide_when_long_sequences_come(tmp_path, steps, accumulation):
    phases = PLAIN | {"short_length": 8, "short_share": 0.75, "batch_tokens": 24}
    limits = phases | {"steps": steps, "accumulation": accumulation}
    job = begin(tmp_path, epochs=1000, **limits)
    read, epoch = [], 0
    while len(read) < steps:
        plan = job.plan(epoch)
        groups = [plan[place : place + accumulation] for place in range(0, len(plan), accumulation)]
        read += [max(job._size(row) for batch in group for row in batch.rows) for group in groups]
        epoch += 1
    short = [size <= 8 for size in read[:steps]]
    assert sum(short) == pytest.approx(0.75 * steps, abs=2)
    assert short == sorted(short, reverse=True)
    few = begin(tmp_path, epochs=4, **phases)
    many = begin(tmp_path, epochs=4, **limits | {"steps": 10**6})
    assert [len(few.plan(epoch)) for epoch in range(4)] == [len(many.plan(epoch)) for epoch in range(4)]


def test_minutes_may_end_before_long_sequences_come(tmp_path):
    job = begin(tmp_path, epochs=4, short_share=0.5, minutes=1.0, batch_tokens=24)
    (warning,) = job.warnings()
    assert "the epochs decide when sequences of max_length=12 come: with minutes=1.0" in warning
    _, (note,) = job.changes(None)
    assert note == "the training ended before sequences of max_length=12 tokens: all were of short_length=8"
    job.state.epoch, job.state.batch = 2, 1
    assert job.changes(None) == ({}, [])
    job = begin(tmp_path, **PLAIN)
    assert job.changes(None) == ({}, [])
    assert job.warnings() == []


def test_evaluations_repeat(tmp_path):
    job = begin(tmp_path)
    job.module.eval()
    with torch.no_grad():
        first, second = job.evaluate(), job.evaluate()
    assert first == second
    assert first["loss"] == pytest.approx(first["mlm_loss"] + first["pair_loss"])
    assert first["mlm_loss"] == pytest.approx(math.log(20), rel=0.2)
    assert 0 <= first["masked_accuracy"] < 0.5
    assert 0 <= first["pair_accuracy"] <= 1


def test_accuracy_is_the_fraction_of_targets_that_are_most_probable(tmp_path):
    job = begin(tmp_path, **PLAIN)
    bias = job.module.heads["mlm"].output.bias.data
    found = []
    for token in range(job.module.vocab_size):  # who always says the same is right where that stood
        bias.zero_()[token] = 1e3
        with torch.no_grad():
            found.append(job.evaluate()["masked_accuracy"])
    assert sum(found) == pytest.approx(1)
    assert max(found) < 1


def test_a_tokenizer_without_special_tokens_is_refused(tmp_path):
    from wenmai.text.pieces import TokenizerConfig
    from wenmai.text.tokenizer import Tokenizer

    Tokenizer.train(["a b c d"], TokenizerConfig(kind="whitespace", min_count=1)).save(tmp_path / "tokenizer.json")
    with pytest.raises(SettingError, match=r"has no token for \[CLS\] \(cls\), \[SEP\] \(sep\), \[MASK\] \(mask\)"):
        begin(tmp_path, file=str(tmp_path / "tokenizer.json"), kind="bpe", vocab_size=8000, min_count=None)


def test_parts_that_nothing_trains_are_refused_unless_they_are_continued(tmp_path):
    for settings, said in (
        ({"heads": ("mlm", "replaced")}, "heads=mlm,replaced: replaced would not be trained; leave out"),
        ({"heads": ("mlm", "classification"), "labels": ("a", "b"), "pooler": "tanh"}, "classification would not be"),
        ({"pooler": "tanh"}, "pooler=tanh would not be trained without the head pair; leave it out"),
        ({"heads": ("mlm", "pair"), "pooler": "tanh"}, "the head pair is not trained with pairs=none; add pairs=next"),
        ({"task_types": 3}, "task_types=3 would not be trained; leave it out, or train ernie-2"),
    ):
        with pytest.raises(SettingError, match=said):
            begin(tmp_path, **PLAIN | settings)
        assert begin(tmp_path, start="runs/imported", **PLAIN | settings).plan(0)


def test_a_text_of_another_language_than_the_vocabulary_is_told(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc我爱"]))
    chosen = PLAIN | {"file": str(tmp_path / "vocab.txt"), "kind": "bpe", "vocab_size": 8000, "min_count": None}
    told = "the vocabulary lacks 83% of the pieces of the text; take one that was made of such text"
    assert begin(tmp_path, "我们在北京学\n" * 40, **chosen).warnings() == [told]
    assert begin(tmp_path, "我爱我爱我\n" * 40, **chosen).warnings() == []


@pytest.mark.parametrize("missing", ["[CLS]", "[PAD]"])
def test_a_vocabulary_without_a_special_token_is_refused(tmp_path, missing):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens if token != missing))
    role = missing.strip("[]").lower()
    with pytest.raises(SettingError, match=rf"vocab\.txt: has no token for \{missing} \({role}\), which"):
        begin(tmp_path, file=str(tmp_path / "vocab.txt"), kind="bpe", vocab_size=8000, min_count=None)


@pytest.mark.parametrize("segments", [0, 1])
def test_pairs_of_a_network_that_tells_no_segments_apart(tmp_path, segments):
    job = begin(tmp_path, segments=segments)
    made, labels = job._tensors(job.plan(0)[0], job._train)
    assert made.segments is None
    losses = job.loss(job.module, job.plan(0)[0], 0)
    assert losses["pair"].targets == len(labels)


@pytest.mark.parametrize("name", ["max_length", "short_length"])
@pytest.mark.parametrize("kind", ["next", "order"])
def test_pairs_need_room_for_two_texts(tmp_path, name, kind):
    chosen = {"pairs": kind, "max_length": 12, "short_length": None, "short_share": 0.9}
    if name == "short_length":
        chosen["short_share"] = 0.5
    with pytest.raises(SettingError, match=f"{name}=4 has no room for pairs={kind}: .* set at least 5"):
        begin(tmp_path, **chosen | {name: 4})
    assert begin(tmp_path, **chosen | {name: 5}, short_pairs=1).plan(0)


def test_heads_that_a_continued_network_lacks_come_with_a_new_model(tmp_path):
    for settings, said in (
        ({"pairs": "next"}, "pairs=next needs the head pair; train a new model with heads=mlm,pair pooler=tanh"),
        ({"heads": ("replaced",)}, "heads=replaced cannot predict masked tokens; train a new model with heads=mlm"),
    ):
        with pytest.raises(SettingError, match=said):
            begin(tmp_path, start="runs/imported", **PLAIN | settings)


def test_pairs_need_documents(tmp_path):
    text = TEXTS["documents.txt"]["enough"]
    with pytest.raises(CorpusError, match=r"^the text is one document"):
        begin(tmp_path, text.replace("\n\n", "\n"))
    with pytest.raises(CorpusError, match=r"^the text has no document of two sentences"):
        begin(tmp_path, text.replace("\n", "\n\n"), pairs="order")
    with pytest.raises(CorpusError, match=r"^the text has no document of two .* pairs=next .* set sentences=split, or"):
        begin(tmp_path, text.replace("\n", "\n\n"))


@pytest.mark.parametrize("kind", ["next", "order"])
def test_the_text_set_aside_may_be_too_little_for_pairs(tmp_path, kind):
    text = TEXTS["documents.txt"]["enough"]
    end = text.replace("\n\n", "\n") if kind == "next" else text.replace("\n", "\n\n")
    with pytest.raises(CorpusError, match=r"^the text set aside to validate on .*; give one with --valid, or"):
        begin(tmp_path, text + "\n" + end, pairs=kind)


@pytest.mark.parametrize("kind", ["characters", "wordpiece"])
def test_whole_words_of_chinese_are_those_of_its_segmentation(tmp_path, kind):
    whole = {"masking": "whole-word", "mask_probability": 0.3, "mask_replace": 1.0, "random_replace": 0.0}
    text = ("我们在北京学习中文\n" * 3 + "\n") * 20
    job = begin(tmp_path, text, **PLAIN, **whole, kind=kind, boundaries="masked")
    tokenizer = job.masked_model.tokenizer
    first = {tokenizer.id(word[0]): tokenizer.id(word[1]) for word in ("我们", "北京", "学习", "中文")}
    both = 0
    for batch in job.plan(0):
        made, _ = job._tensors(batch, job._train)
        places = (made.tokens == tokenizer.mask_id).flatten().nonzero().flatten().tolist()
        masked = dict(zip(places, made.targets.tolist(), strict=True))
        for place, target in masked.items():
            if target in first and place + 1 in masked:
                assert masked[place + 1] == first[target]
                both += 1
            elif target in first:  # the end of a sequence may cut a word
                assert made.tokens.flatten()[place + 1] in (tokenizer.sep_id, tokenizer.pad_id)
    assert both > 10


def test_its_speed_is_told_in_words_as_that_of_other_language_models(tmp_path):
    job = begin(tmp_path)
    job.state.tokens, job.state.seconds = 600, 2.0
    stats = job._data.text.stats
    assert job.summary()["words_per_second"] == pytest.approx(300 * stats.words / stats.tokens)
