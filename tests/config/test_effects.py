"""Settings that have no effect beside others are refused, and where they have one they are taken."""

import pytest

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.core.registry import find_system

CASES = [
    ("word2vec", "cbow_mean", False, {}, {"algorithm": "cbow"}),
    ("word2vec", "true_gradient", True, {}, {"algorithm": "cbow"}),
    ("word2vec", "true_gradient", True, {"algorithm": "cbow", "cbow_mean": False}, {"algorithm": "cbow"}),
    ("word2vec", "shared_negatives", False, {"algorithm": "cbow"}, {}),
    ("word2vec", "noise_exponent", 1.0, {"negative": 0, "hierarchical": True}, {}),
    ("word2vec", "model.subsampling", "paper", {"sample": 0}, {}),
    ("word2vec", "phrase_threshold", 7.0, {}, {"phrases": 1}),
    ("glove", "phrase_min_count", 7, {}, {"phrases": 1}),
    ("glove", "subsampling", "clean", {}, {"sample": 1e-3}),
    ("classifier", "epochs", 3, {"solver": "closed"}, {}),
    ("bert", "short_pairs", 0.5, {}, {"pairs": "next"}),
    ("gpt", "rate_floor", 0.5, {"schedule": "constant"}, {"schedule": "cosine"}),
    ("gpt", "momentum", 0.9, {}, {"optimiser": "sgd", "weight_decay": 0}),
    ("seq2seq", "sampling_floor", 0.5, {}, {"scheduled_sampling": "linear"}),
    ("finetuned-tagging", "lora_rank", 4, {"mode": "top"}, {"mode": "lora"}),
    ("finetuned-tagging", "top_layers", 1, {}, {"mode": "top"}),
]


@pytest.mark.parametrize(("system", "name", "value", "beside", "needed"), CASES)
def test_a_setting_without_effect_is_refused(system, name, value, beside, needed):
    sections = find_system(system).load_sections()

    def built(**settings):
        return Recipe.build(system, sections, settings)

    with pytest.raises(SettingError, match=rf"{name.rpartition('.')[2]} has no effect with .*, or add"):
        built(**{name: value}, **beside)
    assert built(**{name: value}, **needed)
