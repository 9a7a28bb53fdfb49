"""The systems of wenmai, which ``wenmai.core.registry`` finds; nothing heavy is imported here."""

from functools import partial

from wenmai.core.registry import System
from wenmai.models.bert_presets import PRESETS as BERT_PRESETS
from wenmai.models.gpt_presets import PRESETS

__all__ = ["SYSTEMS"]

_FASTTEXT = "wenmai.models.fasttext:FastText"
_word2vec = partial(System, task="wenmai.tasks.word2vec:Word2VecTask", model="wenmai.models.word2vec:Word2Vec")
_fasttext = partial(System, task="wenmai.tasks.fasttext:FastTextTask", model=_FASTTEXT)


def _network(task: str, sections: str, module: str, model: str) -> partial[System]:
    """A system of a network, whose settings can be listed without torch."""
    return partial(
        System,
        task=f"wenmai.tasks.{task}",
        sections=f"wenmai.tasks.settings:{sections}",
        model=f"wenmai.models.{module}:{model}",
        config=f"wenmai.models.settings:{model}Config",
    )


_language_model = partial(_network, "language:LanguageTask", "LANGUAGE")
_translator = partial(_network, "translation:TranslationTask", "TRANSLATION")
_bert = _network("masked:MaskedTask", "MASKED", "bert", "Bert")
_ernie = _network("ernie:ErnieTask", "CONTINUAL", "bert", "Bert")
_ernie_2 = _network("ernie:Ernie2Task", "CONTINUAL", "bert", "Bert")
_elmo = _network("elmo:ElmoTask", "BIDIRECTIONAL", "elmo", "Elmo")
_gpt = _language_model("gpt", "Gpt")
_transformer = _translator("transformer", "Transformer")


def _fine_tuned(task: str, room: str, model: str, summary: str) -> System:
    return System(
        name=f"finetuned-{task}",
        summary=f"fine-tuned encoder: {summary}",
        task="wenmai.tasks.finetuning:FineTuningTask",
        sections="wenmai.tasks.settings:FINE_TUNED",
        model=f"wenmai.inference.finetuned_{room}:{model}",
        settings={**_FINE_TUNED, "min_updates": 600},
    )


_FINE_TUNED = {
    "epochs": 3,
    "batch_tokens": 16_384,
    "optimiser": "adamw",
    "beta2": 0.999,
    "weight_decay": 0.01,
    "schedule": "linear",
    "clip": 1.0,
}
_LANGUAGE = {"epochs": 10, "schedule": "cosine", "learning_rate": 1e-3, "clip": 1.0}
_MASKED = {
    "epochs": 40,
    "optimiser": "adamw",
    "learning_rate": 1e-3,
    "weight_decay": 0.01,
    "schedule": "linear",
    "clip": 1.0,
}
_EFFICIENT = {
    "positions": "relative",
    "norm": "nested",
    "gated": True,
    "activation": "gelu_tanh",
    "epsilon": 1e-7,
    "segments": 0,
}
_HYBRID = {"shifted": True, "causal": 0.5}
_ERNIE_2 = {"lowercase": True, "sentences": "split", "segments": 4, "task_types": 16, "pooler": "tanh"}
_ELMO = {
    **_LANGUAGE,
    "kind": "whitespace",
    "vocab_size": 100_000,
    "min_count": 1,
    "segment_length": 20,
    "batch_tokens": 640,
}
_ELMO_SMALL = {"predicted": 10_000, **_ELMO}
_ELMO_ORIGINAL = {
    **_ELMO,
    "filters": (32, 32, 64, 128, 256, 512, 1024),
    "highway_layers": 2,
    "hidden_size": 512,
    "cell_size": 4096,
    "vocab_size": 793_471,
    "min_count": 3,
    "sampled": 8192,
    "batch_tokens": 2560,
    "accumulation": 3,
    "clip": 10.0,
}
_PINYIN = {
    "epochs": 20,
    "batch_tokens": 2048,
    "optimiser": "adamw",
    "beta2": 0.999,
    "learning_rate": 2e-3,
    "weight_decay": 0.01,
    "schedule": "linear",
    "clip": 1.0,
}
_RECURRENT = {
    "schedule": "constant",
    "warmup": 0,
    "learning_rate": 1e-3,
    "beta2": 0.999,
    "clip": 1.0,
    "label_smoothing": 0.0,
}
_PAPER = {"warmup": 4000, "batch_tokens": 25_000}

SYSTEMS = (
    _word2vec(
        name="word2vec",
        summary="word vectors; by default skip-gram with negative sampling (Mikolov et al. 2013)",
    ),
    _word2vec(
        name="word2vec-sgns",
        summary="word2vec: skip-gram, negative sampling",
        settings={"algorithm": "skipgram", "hierarchical": False},
    ),
    _word2vec(
        name="word2vec-sghs",
        summary="word2vec: skip-gram, hierarchical softmax",
        settings={"algorithm": "skipgram", "negative": 0, "hierarchical": True},
    ),
    _word2vec(
        name="word2vec-cbow-ns",
        summary="word2vec: continuous bag of words, negative sampling",
        settings={"algorithm": "cbow", "hierarchical": False},
    ),
    _word2vec(
        name="word2vec-cbow-hs",
        summary="word2vec: continuous bag of words, hierarchical softmax",
        settings={"algorithm": "cbow", "negative": 0, "hierarchical": True},
    ),
    System(
        name="glove",
        task="wenmai.tasks.cooccurrence:GloveTask",
        model="wenmai.models.glove:GloVe",
        summary="word vectors from co-occurrence counts: GloVe (Pennington et al. 2014)",
    ),
    System(
        name="ppmi-svd",
        task="wenmai.tasks.cooccurrence:PpmiTask",
        model="wenmai.models.ppmi:PpmiSvd",
        summary="word vectors from co-occurrence counts: PPMI and truncated SVD (Levy et al. 2015)",
        settings={"window": 5, "weighting": "linear"},
    ),
    _fasttext(
        name="fasttext",
        summary="word vectors with n-grams of characters; by default skip-gram (fastText; Bojanowski et al. 2017)",
    ),
    _fasttext(
        name="fasttext-skipgram",
        summary="fastText word vectors: skip-gram",
        settings={"algorithm": "skipgram"},
    ),
    _fasttext(
        name="fasttext-cbow",
        summary="fastText word vectors: continuous bag of words",
        settings={"algorithm": "cbow"},
    ),
    System(
        name="fasttext-supervised",
        task="wenmai.tasks.fasttext_classifier:FastTextClassifierTask",
        model=_FASTTEXT,
        summary="classifier of texts: the mean of words and n-grams (fastText; Joulin et al. 2017)",
    ),
    System(
        name="classifier",
        task="wenmai.tasks.classifier:ClassifierTask",
        model="wenmai.inference.linear_classifier:LinearTextClassifier",
        summary="text classification: softmax or logistic regression, perceptron or least squares",
    ),
    System(
        name="ngram",
        task="wenmai.tasks.ngram:NgramTask",
        model="wenmai.models.ngram:Ngram",
        summary="language model: n-gram counts, by default 5-grams, modified Kneser-Ney (Chen, Goodman 1999)",
        settings={"min_count": 1},
    ),
    System(
        name="pinyin-ngram",
        task="wenmai.tasks.pinyin_ngram:PinyinNgramTask",
        model="wenmai.inference.pinyin_ngram:PinyinNgramModel",
        summary="pinyin to Chinese characters: a lattice of words, scored by n-grams of characters and of words",
        settings={"segment": "chinese"},
    ),
    _language_model("nnlm", "Nnlm")(
        name="nnlm",
        summary="language model: a feed-forward network over the last words (Bengio et al. 2003)",
        settings={"kind": "whitespace", "vocab_size": 10_000, "batch_tokens": 2048, **_LANGUAGE},
    ),
    _language_model("rnnlm", "Rnnlm")(
        name="rnnlm",
        summary="language model: recurrent layers, by default an LSTM (Mikolov et al. 2010; Zaremba et al. 2014)",
        settings={"kind": "whitespace", "vocab_size": 10_000, "segment_length": 35, "batch_tokens": 700, **_LANGUAGE},
    ),
    _gpt(
        name="gpt",
        summary="language model: the decoder-only Transformer (GPT-2; Radford et al. 2019)",
        settings={"kind": "byte-bpe", "vocab_size": 8192, **_LANGUAGE},
    ),
    *(
        _gpt(
            name=name,
            summary="language model: the sizes of {}, {num_layers} layers of {hidden_size}".format(
                name.upper(), **preset
            ),
            settings={"kind": "byte-bpe", **_LANGUAGE, **preset},
        )
        for name, preset in PRESETS.items()
    ),
    _language_model("transformer_xl", "TransformerXL")(
        name="transformer-xl",
        summary="language model: Transformer-XL, with a memory of earlier segments (Dai et al. 2019)",
        settings={"kind": "whitespace", "vocab_size": 10_000, **_LANGUAGE, "clip": 0.25},
    ),
    _bert(
        name="bert",
        summary="contextual encoder: a Transformer that fills in masked tokens (BERT; Devlin et al. 2019)",
        settings={"kind": "wordpiece", "vocab_size": 8192, **_MASKED},
    ),
    _bert(
        name="bert-efficient",
        summary="contextual encoder for small corpora: relative positions, more norms, gated networks (LTG-BERT)",
        settings={"kind": "wordpiece", "vocab_size": 8192, **_MASKED, **_EFFICIENT},
    ),
    _bert(
        name="gpt-bert",
        summary="contextual encoder for small corpora: bert-efficient that also learns next tokens (GPT-BERT)",
        settings={"kind": "wordpiece", "vocab_size": 8192, **_MASKED, **_EFFICIENT, **_HYBRID},
    ),
    *(
        _bert(
            name=name,
            summary="contextual encoder: the sizes of {}, {num_layers} layers of {hidden_size}".format(
                name.replace("bert", "BERT"), **preset
            ),
            settings=preset,
        )
        for name, preset in BERT_PRESETS.items()
    ),
    _ernie(
        name="ernie",
        summary="contextual encoder: a BERT that learns characters, then phrases, then entities (ERNIE 1.0)",
        settings={"kind": "wordpiece", "vocab_size": 8192, **_MASKED, "stages": "sequential"},
    ),
    _ernie_2(
        name="ernie-2",
        summary="contextual encoder: tasks about words, structure and meaning, learned continually (ERNIE 2.0)",
        settings={"kind": "wordpiece", "vocab_size": 8192, **_MASKED, **_ERNIE_2},
    ),
    _elmo(
        name="elmo",
        summary="contextual encoder: words by characters, two LSTMs in opposite directions (ELMo; Peters et al. 2018)",
        settings=_ELMO_SMALL,
    ),
    _elmo(
        name="elmo-small",
        summary="contextual encoder: the sizes that elmo has by default, 256 dimensions a direction, an hour of CPU",
        settings=_ELMO_SMALL,
    ),
    _elmo(
        name="elmo-original",
        summary="contextual encoder: the sizes of ELMo, 512 dimensions a direction, cells of 4096",
        settings=_ELMO_ORIGINAL,
    ),
    System(
        name="pinyin",
        summary="pinyin to characters: a Transformer encoder that labels syllables, 3 layers of 312",
        task="wenmai.tasks.pinyin:PinyinTask",
        sections="wenmai.tasks.settings:PINYIN",
        model="wenmai.models.pinyin:Pinyin",
        config="wenmai.models.pinyin_settings:PinyinConfig",
        settings=_PINYIN,
    ),
    System(
        name="pinyin-letters",
        summary="pinyin to characters: labels letters without spaces with a Transformer, or with CBHG (Kyubyong 2017)",
        task="wenmai.tasks.pinyin_letters:PinyinLettersTask",
        sections="wenmai.tasks.settings:PINYIN_LETTERS",
        model="wenmai.models.pinyin_letters:PinyinLetters",
        config="wenmai.models.pinyin_settings:PinyinLettersConfig",
        settings=_PINYIN,
    ),
    _translator("seq2seq", "Seq2Seq")(
        name="seq2seq",
        summary="translation: recurrent encoder and decoder with attention (Bahdanau et al. 2015)",
        settings=_RECURRENT,
    ),
    _transformer(
        name="transformer",
        summary="translation: the Transformer (Vaswani et al. 2017), 3+3 layers of 256 for small data",
    ),
    _transformer(
        name="transformer-base",
        summary="translation: the Transformer of the paper, 6+6 layers of 512",
        settings={"hidden_size": 512, "num_layers": 6, "num_heads": 8, "ffn_size": 2048, **_PAPER},
    ),
    _transformer(
        name="transformer-big",
        summary="translation: the big Transformer of the paper, 6+6 layers of 1024",
        settings={
            "hidden_size": 1024,
            "num_layers": 6,
            "num_heads": 16,
            "ffn_size": 4096,
            "dropout": 0.3,
            **_PAPER,
        },
    ),
    System(
        name="ssan",
        summary="relations between the entities of documents: attention that knows sentences and entities (SSAN)",
        task="wenmai.tasks.relations:RelationTask",
        sections="wenmai.tasks.settings:RELATIONS",
        model="wenmai.models.ssan:Ssan",
        config="wenmai.models.ssan_settings:SsanConfig",
        settings={**_FINE_TUNED, "epochs": 30},
    ),
    _fine_tuned("classification", "texts", "Classification", "classes of texts"),
    _fine_tuned("pair", "texts", "Pair", "classes of two texts, such as what follows from what"),
    _fine_tuned("regression", "texts", "Regression", "numbers of texts, or of two texts, such as how alike they are"),
    _fine_tuned("tagging", "tokens", "Tagging", "tags of words: entities, parts of speech"),
    _fine_tuned("span", "spans", "Span", "answers to questions, which are parts of a text"),
    _fine_tuned("choice", "choices", "Choice", "one of several answers to a question about a text"),
)
