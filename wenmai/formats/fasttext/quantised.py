"""Small classifiers: the longest rows of a fastText model, in a few bytes each, for ``.ftz`` files.

Joulin et al. 2016, "FastText.zip: Compressing text classification models", arXiv:1612.03651, sec. 3: product
quantisation with or without norms, and pruning by the norms of rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge
from typing_extensions import Doc

from wenmai.core.errors import SettingError
from wenmai.models.fasttext import END_OF_LINE, FastText
from wenmai.models.fasttext.matrices import zero_rows
from wenmai.text.vocab import Vocab

__all__ = ["QuantisationConfig", "prune_fasttext", "quantise_fasttext", "quantised_by"]

_OUTPUT_PART = 2
_REMEDIES = {
    "input": "write so small a model unquantised, under a name that ends in .bin",
    "cutoff": "keep at least {} with cutoff",
    "output": "quantise the input alone (qout=false)",
}
_MANY_LABELS = 256  # from which on their rows are quantised too unless the settings say otherwise


@dataclass(frozen=True, kw_only=True, slots=True)
class QuantisationConfig:
    """How a classifier becomes small; the names are those of the fastText program."""

    cutoff: Annotated[int, Ge(0), Doc("rows of words and n-grams that are kept, the longest; 0 keeps all")] = 0
    retrain: Annotated[bool, Doc("train the rows that cutoff keeps once more, on the text of the run")] = False
    qnorm: Annotated[bool, Doc("keep the lengths of rows apart, in a byte each")] = True
    qout: Annotated[bool | None, Doc("quantise the rows of labels too; none: if there are 256 or more")] = None
    dsub: Annotated[int, Ge(1), Doc("numbers of a row that one byte encodes")] = 2


def prune_fasttext(model: FastText, cutoff: int) -> FastText:
    """Returns a classifier with the ``cutoff`` longest input rows alone, ``</s>`` always one of them.

    The output is copied, so that the result can be trained on without changing ``model``.

    Raises:
        SettingError: if the model is quantised or pruned already, or has fewer rows.
    """
    width, size = model.config.vector_size, len(model.vocab)
    rows = model.dense("input")[:, :width]
    if model.kept_buckets is not None:
        raise SettingError("the model is pruned already; use the original")
    if not 0 < cutoff <= len(rows):
        raise SettingError(f"cutoff={cutoff}: expected 1 to {len(rows)}, the rows of the model")
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    if (end := model.vocab.get(END_OF_LINE)) is not None:
        norms[end] = np.inf
    chosen = np.argsort(-norms, kind="stable")[:cutoff]
    words, buckets = np.sort(chosen[chosen < size]), chosen[chosen >= size]
    if not len(words):
        raise SettingError(f"cutoff={cutoff} keeps no word, only n-grams; keep more rows")
    kept = zero_rows(cutoff, width)
    kept[:, :width] = rows[np.concatenate([words, buckets])]
    return FastText(
        model.config,
        Vocab([model.vocab.tokens[word] for word in words.tolist()], model.vocab.counts[words]),
        model.labels,
        tokens=model.tokens,
        input=kept,
        output=model.dense("output").copy(),
        kept_buckets=np.stack([buckets - size, np.arange(len(buckets))], axis=1).astype(np.int32),
        arguments=model.arguments,
        label_prefix=model.label_prefix,
    )


def quantise_fasttext(
    model: FastText,
    *,
    cutoff: int = 0,
    norms: bool = False,
    output: bool = False,
    part: int = 2,
    retrain: Callable[[FastText], None] | None = None,
) -> FastText:
    """Returns a small classifier, which is written as an ``.ftz`` file.

    Args:
        model: A classifier that is not quantised; it is not changed.
        cutoff: Input rows that are kept, the longest; 0 keeps all.
        norms: Keep the rows' lengths apart, in one byte each (qnorm).
        output: Quantise the rows of the labels too (qout).
        part: Numbers of a row that one byte encodes (dsub).
        retrain: Trains the pruned model, in place, before it is quantised.

    Raises:
        SettingError: if this is no classifier, is quantised already, or has fewer than 256 rows to quantise.
    """
    from wenmai.kernels.quantise import CENTRES, quantise

    width = model.config.vector_size
    if model.kind != "supervised":
        raise SettingError(
            "only classifiers are quantised, and these are fastText word vectors; write them as they are, under a name "
            "that ends in .bin"
        )
    if cutoff < 0 or part < 1:
        raise SettingError(f"cutoff={cutoff}, part={part}: expected 0 or more rows, and parts of at least 1 number")
    smaller = prune_fasttext(model, cutoff) if 0 < cutoff < len(model.dense("input")) else model
    matrices = {"input": smaller.dense("input")[:, :width]}
    if output:
        matrices["output"] = smaller.dense("output")[:, :width]
    for name, matrix in matrices.items():
        if len(matrix) < CENTRES:
            what = "output" if name == "output" else "cutoff" if smaller is not model else "input"
            remedy = _REMEDIES[what].format(CENTRES)
            raise SettingError(f"quantising takes at least {CENTRES} rows, and the {name} has {len(matrix)}; {remedy}")
    if smaller is not model and retrain is not None:
        retrain(smaller)
    parts = {"input": part, "output": _OUTPUT_PART}
    small = {name: quantise(matrix, parts[name], with_norms=norms) for name, matrix in matrices.items()}
    return FastText(
        model.config,
        smaller.vocab,
        smaller.labels,
        tokens=smaller.tokens,
        input=small["input"],
        output=small.get("output", smaller.output),
        kept_buckets=smaller.kept_buckets,
        arguments=smaller.arguments,
        label_prefix=smaller.label_prefix,
    )


def quantised_by(
    config: QuantisationConfig, model: FastText, retrain: Callable[[FastText], None] | None = None
) -> FastText:
    """Returns a small classifier as the settings ask for it.

    Args:
        config: The settings.
        model: As for :func:`quantise_fasttext`.
        retrain: What trains a pruned model, for ``retrain=true``.

    Raises:
        SettingError: as :func:`quantise_fasttext`; or if there is nothing to train again.
    """
    if config.retrain and not config.cutoff:
        raise SettingError("retrain=true trains the rows that cutoff keeps; set cutoff too, for example cutoff=100000")
    return quantise_fasttext(
        model,
        cutoff=config.cutoff,
        norms=config.qnorm,
        output=len(model.classes) >= _MANY_LABELS if config.qout is None else config.qout,
        part=config.dsub,
        retrain=retrain if config.retrain else None,
    )
