"""Masks of units: as the paper of ERNIE has them, and as the released reader draws them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.data.masking import Candidates, Masker, MaskingConfig
from wenmai.text.pieces import TokenizerConfig
from wenmai.text.tokenizer import Tokenizer

SELECT, FATE = 0, 3  # what is drawn


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    config = TokenizerConfig(kind="whitespace", vocab_size=100, min_count=1)
    return Tokenizer.train([" ".join(f"w{number}" for number in range(60))], config, roles=("cls", "sep", "mask"))


def batch(tokenizer, begins, **config):
    """Masks rows of text between [CLS] and [SEP]; ``begins`` is (B, T) of the text."""
    masker = Masker(MaskingConfig(**config), tokenizer)
    count, length = begins.shape
    tokens = np.random.default_rng(3).integers(7, tokenizer.vocab_size, (count, length + 2))
    tokens[:, 0], tokens[:, -1] = tokenizer.cls_id, tokenizer.sep_id
    keys = masker.keys(np.arange(count), seed=1, epoch=0)
    edge = np.ones((count, 1), begins.dtype)
    found = masker.mask(
        tokens,
        maskable=masker.maskable(tokens),
        sequences=np.repeat(np.arange(count)[:, None], length + 2, 1),
        keys=keys,
        begins=np.concatenate([edge, begins, edge], 1),
    )
    return masker, tokens[:, 1:-1], found.tokens[:, 1:-1], found.targets[:, 1:-1], keys


def units_of(begins):
    """The places of each unit of a row."""
    return np.split(np.arange(len(begins)), np.flatnonzero(begins[1:]) + 1)


def released_reader(firsts, numbers, rate=0.15):
    """What the reader of ERNIE 1.0 makes of a row, with one number a token: mask, random, keep, or none."""
    fates, chosen = [], False
    for first, number in zip(firsts, numbers, strict=True):
        if first:
            chosen = number <= rate
            number /= rate
        fates.append(("mask" if number > 0.2 else "random" if number > 0.1 else "keep") if chosen else "none")
    return fates


def test_the_values_of_the_released_reader(tokenizer):
    assert released_reader([1, 0], [0.10, 0.15]) == ["mask", "random"]
    assert released_reader([1, 0], [0.10, 0.05]) == ["mask", "keep"]
    assert released_reader([1, 0], [0.10, 0.5]) == ["mask", "mask"]
    assert released_reader([1, 0], [0.16, 0.5]) == ["none", "none"]
    masker = Masker(MaskingConfig(masking="released"), tokenizer)
    for number, fate in (
        (0.10 / 0.15, "mask"),
        (0.15, "random"),
        (0.05, "keep"),
        (0.5, "mask"),
        (0.02 / 0.15, "random"),
    ):
        masked, other = masker.fates(np.array([1 - number]))
        assert ("mask" if masked[0] else "random" if other[0] else "keep") == fate


def test_released_masks_are_those_of_a_naive_reader(tokenizer):
    begins = np.random.default_rng(0).random((40, 50)) < 0.6
    begins[:, 0] = True
    _, tokens, found, targets, keys = batch(tokenizer, begins, masking="released")
    empty = np.zeros(0, np.int64)
    draws = Candidates(empty, empty > 0, empty > 0, empty, empty, keys, 0.15)
    place = np.arange(50)
    seen = set()
    for row in range(40):
        rows = np.full(50, row)
        select, fate = ((draws.draw(what, rows, place) >> np.uint64(11)) * 2.0**-53 for what in (SELECT, FATE))
        first = np.where(select < 0.15, 0.15 * (1 - fate), 0.15 + select)  # one number for both, as the reader has it
        wanted = released_reader(begins[row], np.where(begins[row], first, 1 - fate))
        assert targets[row].tolist() == [one != "none" for one in wanted]
        for at, one in enumerate(wanted):
            masked, same = found[row, at] == tokenizer.mask_id, found[row, at] == tokens[row, at]
            assert masked if one == "mask" else same if one in ("keep", "none") else not masked
            seen.add(one)
    assert seen == {"mask", "random", "keep", "none"}


def test_released_masks_have_fifteen_percent_of_the_units_and_parts_of_them(tokenizer):
    begins = np.random.default_rng(0).random((400, 100)) < 0.5
    begins[:, 0] = True
    _, _, found, targets, _ = batch(tokenizer, begins, masking="released")
    chosen, counted, partly = 0, 0, 0
    for row in range(400):
        for unit in units_of(begins[row]):
            share = targets[row, unit].mean()
            assert share in (0, 1)  # all of a unit, or nothing
            counted, chosen = counted + 1, chosen + int(share)
            if share:
                hidden = (found[row, unit] == tokenizer.mask_id).mean()
                partly += 0 < hidden < 1
    assert chosen / counted == pytest.approx(0.15, abs=0.01)
    assert partly > 100
    spread = targets.sum(1)
    assert spread.min() < 8 < 22 < spread.max()  # nothing bounds them


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.15, 0.4]))
def test_units_are_whole_and_have_one_fate(tokenizer, seed, rate):
    begins = np.random.default_rng(seed).random((6, 60)) < 0.5
    begins[:, 0] = True
    _, tokens, found, targets, _ = batch(tokenizer, begins, masking="unit", mask_probability=rate)
    assert (targets.sum(1) <= round(rate * 62)).all()
    assert targets.sum() > 0.7 * 6 * round(rate * 62)
    for row in range(6):
        for unit in units_of(begins[row]):
            assert targets[row, unit].mean() in (0, 1)
            if targets[row, unit].all():
                masked, same = found[row, unit] == tokenizer.mask_id, found[row, unit] == tokens[row, unit]
                assert masked.all() or not masked.any()
                assert same.mean() in (0, 1) or not masked.any()


def test_preferred_units_come_first(tokenizer):
    begins = np.ones((200, 40), np.uint8)
    begins[:, 10:13] = 2, 0, 0  # an entity of three tokens
    begins[100:, 20:30] = 2, 0, 0, 0, 0, 0, 0, 0, 0, 0  # one of ten, which is more than the budget of six
    _, _, _, targets, _ = batch(tokenizer, begins, masking="unit")
    assert targets[:, 10:13].all()
    assert not targets[100:, 20:30].any()
    assert (targets.sum(1) == 6).all()  # the rest are others
    assert targets[:, [*range(10), *range(13, 20)]].sum(0).min() > 5
