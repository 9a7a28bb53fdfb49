"""Linear probes on the vectors of a run: text classification and tagging with frozen vectors."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.data.datasets import Dataset, find_dataset
from wenmai.data.drawing import drawn
from wenmai.data.features import FeaturesConfig, VectorFeatures, segmented
from wenmai.measures.probes import TaggingProbe, TextProbe, accuracy_interval, measure_tags
from wenmai.runs.probing.regression import fit_probe
from wenmai.text.normalise import normaliser
from wenmai.text.settings import TextConfig
from wenmai.training.run import Run
from wenmai.vectors.pooling import StaticTokens, TokenVectors, Windows, token_encoder

__all__ = [
    "WEIGHTINGS",
    "covered",
    "probe",
    "probe_encoder",
    "probe_model",
    "require_probed",
    "words_of_sentences",
    "words_of_texts",
]

WEIGHTINGS: tuple[Literal["mean", "tfidf", "sif"], ...] = ("mean", "tfidf", "sif")

_WINDOW = 1
_BATCH, _EPOCHS, _RATE = 64, 10, 0.05  # of the probe of tags
_SAMPLE = 2000  # sentences to find out whether the vectors are of lower-cased text


def probe(
    run: str | Path | Run, dataset: str, *, split: str = "dev", limit: int | None = None, seed: int = 1
) -> list[TextProbe | TaggingProbe]:
    """Trains linear probes on the vectors of a finished run, and evaluates them.

    Args:
        run: A run or its folder; its model has vectors of words.
        dataset: A classification or tagging set, such as ``data:sst2`` or ``conll2003``.
        split: What to evaluate on.
        limit: Most training examples, those that fine-tuning draws with this limit and seed; None: all.
        seed: Seed of what is drawn, of the order of examples and of the intervals.

    Returns:
        A result for each weighting of the average of texts; one for tags.

    Raises:
        RunError: if the run is not finished or has no vectors.
        SettingError: if there is no such data set or split, it is one of sentence pairs or multiple choice, or has more
            labels than ``limit``.
    """
    opened = run if isinstance(run, Run) else Run(run)
    return probe_model(opened.model, dataset, opened.recipe, split=split, limit=limit, seed=seed)


def probe_model(
    model: Any,  # noqa: ANN401  any model with word vectors
    dataset: str,
    recipe: Recipe,
    *,
    split: str = "dev",
    limit: int | None = None,
    seed: int = 1,
) -> list[TextProbe | TaggingProbe]:
    """Trains linear probes on the vectors of a model that was trained by a recipe; see :func:`probe`."""
    found = find_dataset(dataset)
    text = recipe.sections.get("text", TextConfig())
    return probe_encoder(token_encoder(model, recipe.system), found, split=split, limit=limit, seed=seed, text=text)


def probe_encoder(
    encoder: TokenVectors,
    dataset: Dataset,
    *,
    split: str = "dev",
    limit: int | None = None,
    seed: int = 1,
    text: TextConfig | None = None,
) -> list[TextProbe | TaggingProbe]:
    """Trains linear probes on anything that gives tokens vectors; see :func:`probe`.

    Texts are averages of their words' vectors (mean, tf-idf and SIF weights), classified by logistic regression with
    scikit-learn's penalty C = 1. Tags are predicted by softmax regression on the vectors of a token and its
    neighbours. Every dimension is scaled to mean 0 and deviation 1 on the training part.

    Args:
        encoder: Gives tokens their vectors.
        dataset: A classification or tagging set.
        split: What to evaluate on.
        limit: Most training examples, those that fine-tuning draws with this limit and seed; None: all.
        seed: Seed of what is drawn, of the order of examples and of the intervals.
        text: How the text of the vectors was made. Words are cut as it says, or as the data set needs if it cuts at
            white space only, and lower-cased if more of them are in the vocabulary then.

    Raises:
        SettingError: if the set is one of sentence pairs or multiple choice, or has more labels than ``limit``.
    """
    require_probed(dataset)
    text = text or TextConfig()
    train = list(dataset.read("train"))
    if limit is not None:
        kept = drawn([getattr(example, "label", None) for example in train], limit, seed)
        train = [train[place] for place in sorted(kept)]
    if dataset.task == "classification":
        return _probe_texts(encoder, dataset, train, split, text)
    return [_probe_tags(encoder, dataset, train, split, seed, text)]


def require_probed(dataset: Dataset) -> None:
    """Raises SettingError if no probe can be trained on a data set."""
    if dataset.task not in ("classification", "tagging"):
        kind = {"pairs": "sentence pairs", "span": "questions"}.get(dataset.task, "multiple choice")
        raise SettingError(f"data:{dataset.name} is of {kind}; a probe needs texts with classes, or tags")


def _probe_texts(
    encoder: TokenVectors, dataset: Dataset, train: list[Any], split: str, text: TextConfig
) -> list[TextProbe | TaggingProbe]:
    segment = dataset.segment if text.segment == "whitespace" else text.segment
    measured = list(dataset.read(split))
    words = words_of_texts(encoder, [one.text for one in chain(train, measured)], replace(text, segment=segment))
    tokens, measured_tokens = words[: len(train)], words[len(train) :]
    labels, gold = [example.label for example in train], [example.label for example in measured]
    majority = Counter(labels).most_common(1)[0][0]
    shared: dict[str, Any] = {
        "dataset": dataset.name,
        "split": split,
        "majority": gold.count(majority) / len(gold),
        "examples": len(gold),
        "covered": covered(encoder, measured_tokens),
    }
    known = sorted(set(labels))
    found: list[TextProbe | TaggingProbe] = []
    for weighting in WEIGHTINGS:
        features = VectorFeatures(FeaturesConfig(features="vectors", weighting=weighting), encoder)
        model = fit_probe(features.fit_transform(tokens), [known.index(label) for label in labels])
        named = [known[number] for number in model.predict(features.transform(measured_tokens))]
        accuracy, low, high = accuracy_interval(gold, named)
        found.append(TextProbe(weighting=weighting, accuracy=accuracy, low=low, high=high, **shared))
    return found


def _probe_tags(
    encoder: TokenVectors, dataset: Dataset, train: list[Any], split: str, seed: int, text: TextConfig
) -> TaggingProbe:
    from wenmai.kernels.descent import Descent, coded_targets

    measured = list(dataset.read(split))
    words = words_of_sentences(encoder, [sentence.tokens for sentence in chain(train, measured)], text)
    features = Windows(encoder, words[: len(train)], _WINDOW)
    given = list(chain.from_iterable(sentence.tags for sentence in train))
    tags = sorted(set(given))
    number = {tag: place for place, tag in enumerate(tags)}
    targets = coded_targets("softmax", np.array([number[tag] for tag in given]), len(tags))
    descent = Descent("softmax", features, targets, batch_size=_BATCH, seed=seed)
    for epoch in range(_EPOCHS):
        parts = np.linspace(0, len(given) // _BATCH, 11).astype(np.int64) * _BATCH
        parts[-1] = len(given)
        for part, (first, last) in enumerate(zip(parts[:-1].tolist(), parts[1:].tolist(), strict=True)):
            if first < last:
                descent.train(epoch, first, last, _RATE * (1 - (epoch + part / 10) / _EPOCHS))
    weights, bias = descent.settle()
    seen = Windows(encoder, words[len(train) :], _WINDOW, features.scaling)
    best = np.concatenate(
        [(seen[np.arange(start, min(start + 8192, len(seen)))] @ weights + bias).argmax(axis=1)
         for start in range(0, len(seen), 8192)]
    )  # fmt: skip
    named = [tags[place] for place in best]
    gold = [sentence.tags for sentence in measured]
    ends = np.cumsum([0, *map(len, gold)]).tolist()
    metrics = measure_tags(gold, [named[a:b] for a, b in pairwise(ends)], seed=seed)
    majority = Counter(given).most_common(1)[0][0]
    return TaggingProbe(
        dataset=dataset.name,
        split=split,
        window=_WINDOW,
        accuracy=metrics.accuracy,
        majority=sum(tag == majority for sentence in gold for tag in sentence) / len(named),
        precision=metrics.precision,
        recall=metrics.recall,
        f1=metrics.f1,
        low=metrics.low,
        high=metrics.high,
        sentences=len(gold),
        tokens=len(named),
        covered=seen.covered,
    )


def words_of_texts(encoder: TokenVectors, texts: Sequence[str], text: TextConfig) -> list[list[str]]:
    """Returns the words of texts, lower-cased if more of them are in the vocabulary then.

    Args:
        encoder: Gives them their vectors.
        texts: The texts.
        text: How the text of the vectors was made; its phrases are left out.
    """
    plain = replace(text.without_phrases, format="auto", encoding="utf-8")
    sample = segmented(texts[:_SAMPLE], plain)
    return segmented(texts, replace(plain, lowercase=plain.lowercase or _lowercase_covers_more(encoder, sample)))


def words_of_sentences(encoder: TokenVectors, sentences: Sequence[Sequence[str]], text: TextConfig) -> list[list[str]]:
    """Returns given words as :func:`words_of_texts` does."""
    lowercase = text.lowercase or _lowercase_covers_more(encoder, sentences[:_SAMPLE])
    normalise = normaliser(replace(text, lowercase=lowercase))
    return [[normalise(word) for word in sentence] for sentence in sentences]


def covered(encoder: TokenVectors, sentences: Sequence[Sequence[str]]) -> float:
    """Returns the proportion of words that have a vector."""
    found = sum(int(vectors.any(axis=1).sum()) for vectors in encoder.token_vectors(sentences))
    return found / max(1, sum(map(len, sentences)))


def _lowercase_covers_more(encoder: TokenVectors, sentences: Sequence[Sequence[str]]) -> bool:
    """Whether the text of the vectors had more of the tokens in lower case; with subwords all have vectors anyway."""
    lower = [[token.lower() for token in sentence] for sentence in sentences]
    if isinstance(encoder, StaticTokens):
        known = [
            sum(encoder.in_vocabulary(token) for tokens in found for token in tokens) for found in (lower, sentences)
        ]
        return known[0] > known[1]
    return covered(encoder, lower) > covered(encoder, sentences)
