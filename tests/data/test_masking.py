"""Masks of masked language models."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.core.errors import SettingError
from wenmai.data.masking import CHOICES, POLICIES, Masker, MaskingConfig
from wenmai.text.pieces import TokenizerConfig
from wenmai.text.tokenizer import Tokenizer

WORDS = [f"w{number}" for number in range(60)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    config = TokenizerConfig(kind="whitespace", vocab_size=100, min_count=1)
    return Tokenizer.train([" ".join(WORDS)], config, roles=("cls", "sep", "mask"))


def rows(tokenizer, lengths, *, seed=0):
    """Padded rows [CLS] ... [SEP] of so many tokens, and the sequence of each token."""
    draw = np.random.default_rng(seed)
    tokens = np.full((len(lengths), max(lengths)), tokenizer.pad_id)
    sequences = np.full(tokens.shape, -1)
    for row, length in enumerate(lengths):
        tokens[row, :length] = draw.integers(7, tokenizer.vocab_size, length)
        tokens[row, 0], tokens[row, length - 1] = tokenizer.cls_id, tokenizer.sep_id
        sequences[row, :length] = row
    return tokens, sequences


def masked(tokenizer, lengths, *, words=None, seed=0, epoch=0, **config):
    masker = Masker(MaskingConfig(**config), tokenizer)
    tokens, sequences = rows(tokenizer, lengths)
    begins = np.ones(tokens.shape, bool) if words is None else words
    keys = masker.keys(np.arange(len(lengths)), seed=seed, epoch=epoch)
    found = masker.mask(tokens, maskable=masker.maskable(tokens), sequences=sequences, keys=keys, begins=begins)
    return tokens, found


def pieces(shape, share, seed=1):
    """Where words begin, if each token goes on with the word before it with some probability."""
    return np.random.default_rng(seed).random(shape) >= share


@pytest.mark.parametrize(
    ("length", "most", "count"),
    [
        (128, None, 19),
        (128, 20, 19),
        (512, 20, 20),
        (512, None, 77),
        (512, 77, 77),
        (20, None, 3),
        (7, None, 1),
        (3, None, 1),
    ],
)
def test_as_many_targets_as_bert_has(tokenizer, length, most, count):
    _, found = masked(tokenizer, [length] * 5, max_masked=most)
    assert found.targets.sum(1).tolist() == [count] * 5


def test_halves_are_rounded_to_even():
    config = MaskingConfig(mask_probability=0.25)
    assert config.budgets(np.array([10, 14, 18, 1, 0])).tolist() == [2, 4, 4, 1, 0]


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(2, 60), min_size=1, max_size=6),
    probability=st.sampled_from([0.05, 0.15, 0.5, 0.9]),
    share=st.sampled_from([0.0, 0.3, 0.8]),
    seed=st.integers(0, 2**63 - 1),
)
def test_what_every_mask_keeps_to(tokenizer, policy, lengths, probability, share, seed):
    shape = (len(lengths), max(lengths))
    words = pieces(shape, share, seed % 1000)
    config = MaskingConfig(masking=policy, mask_probability=probability)
    tokens, found = masked(tokenizer, lengths, words=words, seed=seed, masking=policy, mask_probability=probability)
    special = np.isin(tokens, [tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id])
    assert not (found.targets & special).any()
    assert np.array_equal(found.tokens[~found.targets], tokens[~found.targets])
    changed = found.tokens[found.targets & (found.tokens != tokens)]
    assert not np.isin(changed, [*(tokenizer.special_ids - {tokenizer.mask_id})]).any()
    counts, budgets = found.targets.sum(1), config.budgets(np.array(lengths))
    assert (counts <= budgets).all() or policy == "released"
    available = (~special).sum(1)
    if policy == "token":
        assert np.array_equal(counts, np.minimum(budgets, available))
    else:
        for row, length in enumerate(lengths):
            starts = [place for place in range(1, length - 1) if place == 1 or words[row, place]]
            sizes = np.diff([*starts, length - 1])
            for begin, size in zip(starts, sizes, strict=True):  # whole or not at all
                assert (
                    found.targets[row, begin : begin + size].all() or not found.targets[row, begin : begin + size].any()
                )
            taken = [bool(found.targets[row, begin]) for begin in starts]
            left = budgets[row] - counts[row]
            if policy in ("whole-word", "unit"):  # a word that was left out does not fit
                assert all(size > left for size, one in zip(sizes, taken, strict=True) if not one)
            elif (
                policy == "span" and len(sizes) and sizes.min() <= budgets[row] and (sizes <= budgets[row]).mean() > 0.5
            ):
                assert counts[row]


@pytest.mark.parametrize("policy", POLICIES)
def test_masks_belong_to_sequences_not_to_batches(tokenizer, policy):
    lengths = [30, 12, 50, 7]
    masker = Masker(MaskingConfig(masking=policy), tokenizer)
    tokens, sequences = rows(tokenizer, lengths)
    begins = pieces(tokens.shape, 0.3)
    maskable, keys = masker.maskable(tokens), masker.keys(np.arange(4), seed=3, epoch=5)
    whole = masker.mask(tokens, maskable=maskable, sequences=sequences, keys=keys, begins=begins)
    for row, length in enumerate(lengths):
        alone = masker.mask(
            tokens[row, :length],
            maskable=maskable[row, :length],
            sequences=np.zeros(length, np.int64),
            keys=masker.keys(np.array([row]), seed=3, epoch=5),
            begins=begins[row, :length],
        )
        assert np.array_equal(alone.tokens, whole.tokens[row, :length])
        assert np.array_equal(alone.targets, whole.targets[row, :length])
    real = sequences >= 0
    packed = masker.mask(
        tokens[real], maskable=maskable[real], sequences=sequences[real], keys=keys, begins=begins[real]
    )
    assert np.array_equal(packed.tokens, whole.tokens[real])


@pytest.mark.parametrize("policy", POLICIES)
def test_masks_are_new_in_every_epoch_or_return(tokenizer, policy):
    lengths = [40] * 8

    def targets(epoch, **config):
        return masked(tokenizer, lengths, epoch=epoch, masking=policy, **config)[1].tokens

    assert np.array_equal(targets(0), targets(0))
    assert not np.array_equal(targets(0), targets(1))
    assert not np.array_equal(targets(0), masked(tokenizer, lengths, seed=1, masking=policy)[1].tokens)
    assert not np.array_equal(targets(0, dupe_factor=2), targets(1, dupe_factor=2))
    for epoch in range(2):
        assert np.array_equal(targets(epoch, dupe_factor=2), targets(epoch + 2, dupe_factor=2))


@pytest.mark.parametrize("policy", POLICIES)
def test_masks_random_tokens_and_the_same_have_their_shares(tokenizer, policy):
    lengths = [102] * 400
    for changed in ({}, {"mask_replace": 0.5, "random_replace": 0.5}, {"mask_replace": 1, "random_replace": 0}):
        config = MaskingConfig(**changed)
        tokens, found = masked(tokenizer, lengths, masking=policy, **changed)
        count = found.targets.sum()
        after, before = found.tokens[found.targets], tokens[found.targets]
        same = 1 - config.mask_replace - config.random_replace + config.random_replace / (tokenizer.vocab_size - 7)
        wide = 0.06 if policy == "span" else 0.03  # a span is masked as a whole
        assert (after == tokenizer.mask_id).sum() / count == pytest.approx(config.mask_replace, abs=wide)
        assert (after == before).sum() / count == pytest.approx(same, abs=wide)
    _, found = masked(tokenizer, lengths, masking=policy, mask_replace=0, random_replace=1)
    drawn = np.bincount(found.tokens[found.targets], minlength=tokenizer.vocab_size)
    assert (drawn[:7] == 0).all()
    assert drawn[7:].min() > 0.6 * drawn[7:].mean()


@pytest.mark.parametrize("policy", POLICIES)
def test_all_places_are_targets_equally_often(tokenizer, policy):
    length, sequences = 42, 4000
    _, found = masked(tokenizer, [length] * sequences, masking=policy)
    shares = found.targets.mean(0)[1:-1]
    inner = shares[10:] if policy == "span" else shares  # fewer spans reach the first words
    assert inner == pytest.approx(inner.mean(), abs=0.025)


def runs(targets):
    """The places of targets in a row."""
    places = np.flatnonzero(targets)
    return np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)


def test_spans_have_the_lengths_of_spanbert(tokenizer):
    _, found = masked(tokenizer, [20_002] * 20, masking="span", mask_probability=0.01)
    lengths = [len(places) for row in found.targets for places in runs(row)]
    assert np.mean(lengths) == pytest.approx(3.8, abs=0.3)  # section 3.1; a few touch or are cut
    assert max(lengths) >= 10


def test_a_span_has_one_fate(tokenizer):
    _, found = masked(tokenizer, [300] * 100, masking="span", mask_probability=0.03)
    spans = [(row, places) for row in range(100) for places in runs(found.targets[row])]
    hidden = [(found.tokens[row, places] == tokenizer.mask_id).mean() for row, places in spans]
    assert len(spans) > 150
    assert sum(0 < share < 1 for share in hidden) < 10  # two spans that touch


def test_spans_and_words_stop_at_what_cannot_be_a_target(tokenizer):
    masker = Masker(MaskingConfig(masking="whole-word", mask_probability=0.4), tokenizer)
    tokens = np.array([[4, 7, 8, 5, 9, 10, 5]])
    begins = np.zeros(tokens.shape, bool)  # one word, but for the special tokens
    found = masker.mask(
        tokens,
        maskable=masker.maskable(tokens),
        sequences=np.zeros_like(tokens),
        keys=masker.keys(np.zeros(1, int), seed=0, epoch=0),
        begins=begins,
    )
    assert found.targets[0].tolist() in ([False, True, True] + [False] * 4, [False] * 4 + [True, True, False])


def test_an_unknown_word_may_be_a_target(tokenizer):
    masker = Masker(MaskingConfig(), tokenizer)
    tokens = np.array([tokenizer.unk_id, tokenizer.cls_id, tokenizer.pad_id, 8])
    assert masker.maskable(tokens).tolist() == [True, False, False, True]


def test_a_batch_without_candidates_is_left_alone(tokenizer):
    for policy in POLICIES:
        masker = Masker(MaskingConfig(masking=policy), tokenizer)
        tokens = np.array([[4, 5], [0, 0]])
        found = masker.mask(
            tokens,
            maskable=masker.maskable(tokens),
            sequences=np.array([[0, 0], [-1, -1]]),
            keys=masker.keys(np.arange(1), seed=0, epoch=0),
            begins=np.ones((2, 2), bool),
        )
        assert not found.targets.any()
        assert np.array_equal(found.tokens, tokens)


def test_settings_and_arguments_without_sense_are_refused(tokenizer):
    assert tuple(POLICIES) == CHOICES["masking"]
    with pytest.raises(SettingError, match="more than 1 together"):
        MaskingConfig(mask_replace=0.9, random_replace=0.2)
    with pytest.raises(SettingError, match="is not one of"):
        MaskingConfig(masking="words")
    with pytest.raises(SettingError, match="max_masked=20 has no effect with masking=released"):
        MaskingConfig(masking="released", max_masked=20)
    with pytest.raises(SettingError, match="no token for the mask"):
        Masker(MaskingConfig(), Tokenizer.train(["a b"] * 2, TokenizerConfig(kind="whitespace")))
    masker = Masker(MaskingConfig(masking="span"), tokenizer)
    tokens, sequences = rows(tokenizer, [5, 6])
    whole = {"maskable": masker.maskable(tokens), "keys": masker.keys(np.arange(2), seed=0, epoch=0)}
    with pytest.raises(ValueError, match="where words begin"):
        masker.mask(tokens, sequences=sequences, **whole)
    begins = np.ones(tokens.shape, bool)
    with pytest.raises(ValueError, match="different shapes"):
        masker.mask(tokens, sequences=sequences[:1], begins=begins, **whole)
    with pytest.raises(ValueError, match="rising order"):
        masker.mask(tokens, sequences=np.where(sequences < 0, -1, 1 - sequences), begins=begins, **whole)
    with pytest.raises(ValueError, match="numbers from 0 to 1"):
        masker.mask(tokens, sequences=np.where(sequences < 0, -1, 1 + sequences), begins=begins, **whole)
