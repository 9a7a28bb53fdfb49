"""Other names of settings and systems, as people know them from other tools: one table of each.

Upper and lower case, ``-`` and ``_`` make no difference: ``minCount``, ``min-count`` and ``min_count`` are one name.
"""

from collections.abc import Collection
from typing import TypeVar

from wenmai.core.errors import nearest_name

__all__ = ["find_setting", "nearest_setting", "nearest_system"]

_T = TypeVar("_T")

# The same quantity under another name is accepted; the first of the settings that a system has is meant.
_SETTINGS = {
    "size dim dims dimension dimensions emb embdim embsize embeddim embedding embeddings embeddingdim veclen": (
        "vector_size",
        "embedding_size",
        "hidden_size",
    ),
    "hidden hiddendim hiddenunits dmodel modeldim nembd nhid width": ("hidden_size",),
    "embeddingsize vectorsize": ("vector_size", "embedding_size"),
    "lr alpha rate stepsize learningrate": ("learning_rate",),
    "epoch iter iters iterations maxiter nepochs numepochs maxepochs numtrainepochs": ("epochs",),
    "ws win windowsize contextwindow": ("window",),
    "mincounts minfreq minfrequency minwordcount": ("min_count",),
    "neg negatives numneg numnegatives negativesamples numnegativesamples": ("negative",),
    "bs batch minibatch": ("batch_size",),
    "batchtokens maxtokens tokensperbatch": ("batch_tokens",),
    "heads nheads nhead attentionheads numattentionheads": ("num_heads",),
    "layers nlayers nlayer numhiddenlayers depth": ("num_layers",),
    "ffn ffndim dff feedforward feedforwardsize intermediatesize ninner": ("ffn_size",),
    "vocab vocabulary vocabularysize nvocab": ("vocab_size", "max_size"),
    "vocabsize maxvocab maxvocabsize maxfinalvocab maxvocabularysize": ("max_size", "vocab_size"),
    "thread workers nthreads numthreads numworkers njobs": ("threads",),
    "hs": ("hierarchical",),
    "nsexponent": ("noise_exponent",),
    "minn": ("min_ngram",),
    "maxn": ("max_ngram",),
    "bucket": ("buckets",),
    "wordngrams ngrams": ("word_ngrams", "order"),
    "n ngram": ("order",),
    "wd l2reg": ("weight_decay", "l2"),
    "drop dropoutrate pdrop": ("dropout",),
    "blocksize contextlength nctx npositions maxlen maxseqlen": ("max_length",),
    "bptt seqlen sequencelength": ("segment_length",),
    "memlen": ("memory_length",),
    "warmupsteps numwarmupsteps": ("warmup",),
    "maxsteps updates": ("steps",),
    "gradclip maxgradnorm clipnorm": ("clip",),
    "randomstate randomseed": ("seed",),
    "optimizer": ("optimiser",),
    "lower lowercased": ("lowercase",),
    "xmax": ("x_max",),
}

# Another quantity for the same purpose is only named.
_INSTEAD = {
    "batchsize batch bs minibatch": ("batch_tokens", "the size of a batch in tokens, not in lines"),
    "sg cbow skipgram model": ("algorithm", "which is skipgram or cbow"),
    "tokenizer tokeniser": ("kind", "the kind of tokenizer"),
    "gpu cuda": ("device", "which is auto, cpu or cuda"),
}

_SYSTEMS = {
    "w2v wordtovec embedding": "word2vec",
    "skipgram sg sgns": "word2vec-sgns",
    "sghs": "word2vec-sghs",
    "cbow cbowns": "word2vec-cbow-ns",
    "cbowhs": "word2vec-cbow-hs",
    "ft fasttextsg": "fasttext",
    "fasttextclassifier supervised fasttextsup": "fasttext-supervised",
    "ppmi svd lsa pmi": "ppmi-svd",
    "logreg logisticregression softmaxregression tfidf linear": "classifier",
    "kenlm lm kneserney ngramlm trigram bigram": "ngram",
    "bengio feedforwardlm ffnn": "nnlm",
    "rnn lstm gru lstmlm": "rnnlm",
    "decoder transformerlm causallm": "gpt",
    "transformerxl txl xl": "transformer-xl",
    "nmt attention rnnsearch bahdanau encoderdecoder": "seq2seq",
    "vaswani transformersmall": "transformer",
}


def find_setting(name: str, known: Collection[str]) -> str | None:
    """Returns the setting that a name stands for: itself, another spelling, or what it is called elsewhere.

    Args:
        name: What a user typed.
        known: The settings there are.
    """
    if name in known:
        return name
    plain = _plain(name)
    for setting in known:
        if _plain(setting) == plain:
            return setting
    return next((setting for setting in _listed(plain, _SETTINGS) or () if setting in known), None)


def nearest_setting(name: str, known: Collection[str]) -> str:
    """Returns ``"; did you mean 'x'?"`` for the setting that may be meant, or ``""``."""
    setting, what = _listed(_plain(name), _INSTEAD) or ("", "")
    if setting in known:
        return f"; did you mean {setting!r}, {what}?"
    return nearest_name(name, known)


def nearest_system(name: str, known: Collection[str]) -> str:
    """Returns ``"; did you mean 'x'?"`` for the system that may be meant, or ``""``."""
    listed = _listed(_plain(name), _SYSTEMS)
    return f"; did you mean {listed!r}?" if listed in known else nearest_name(name, known)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _listed(plain: str, table: dict[str, _T]) -> _T | None:
    return next((found for names, found in table.items() if plain in names.split()), None)
