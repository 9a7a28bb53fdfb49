"""gensim's own tests of ``KeyedVectors``, asked of :class:`WordVectors`."""

import importlib.util
import unittest
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from wenmai.vectors.word_vectors import WordVectors

gensim = pytest.importorskip("gensim")

pytestmark = pytest.mark.parity

LEFT_OUT = {
    "Gensim320Test.test": "it opens a pickle",
    "LoadWord2VecFormatTest.test_load_word2vec_format_space_stripping": "it reads, by a private function, a binary "
    "file with two newlines before a word; here a word has at most one there, and more are damage",
}
TESTS = 33  # of gensim 4.4


class KeyedVectors(WordVectors):
    """:class:`WordVectors` as gensim calls them: made empty, and with counts that nobody has counted.

    Where there are no counts, gensim makes up V, V - 1, ..., 1; here they are unknown.
    """

    def __init__(self, vector_size: int, count: int = 0, dtype: type = np.float32) -> None:
        super().__init__([], np.empty((0, vector_size), dtype))

    @classmethod
    def _with_counts(cls, found: WordVectors) -> "KeyedVectors":
        made = cls(found.vector_size)
        counts = np.arange(len(found), 0, -1) if found.counts is None else found.counts
        made.add_vectors(found.index_to_key, found.vectors, {"count": counts})
        return made

    @classmethod
    def load_word2vec_format(cls, *args, **options) -> "KeyedVectors":
        return cls._with_counts(WordVectors.load_word2vec_format(*args, **options))

    def vectors_for_all(self, *args, **options) -> "KeyedVectors":
        return self._with_counts(super().vectors_for_all(*args, **options))


def load_in_blocks(cls, fname, binary_chunk_size, **options) -> KeyedVectors:
    """For gensim's private function; the size of blocks is ours, see ``tests/formats/test_word2vec.py``."""
    return cls.load_word2vec_format(fname, **options)


@pytest.fixture(scope="module")
def suite() -> ModuleType:
    """gensim's module of tests, in which the names of what is tested stand for the adapter."""
    spec = importlib.util.find_spec("gensim.test.test_keyedvectors")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tested = SimpleNamespace(KeyedVectors=KeyedVectors, _load_word2vec_format=load_in_blocks)
    models = SimpleNamespace(KeyedVectors=KeyedVectors, keyedvectors=tested)
    module.KeyedVectors = KeyedVectors
    module.gensim = SimpleNamespace(
        models=models, utils=gensim.utils, test=SimpleNamespace(utils=importlib.import_module("gensim.test.utils"))
    )
    return module


def cases(suite: ModuleType) -> Iterator[unittest.TestCase]:
    for group in unittest.defaultTestLoader.loadTestsFromModule(suite):
        yield from group


def name(case: unittest.TestCase) -> str:
    return f"{type(case).__name__}.{case._testMethodName}"


def test_all_tests_pass_but_those_that_are_left_out(suite):
    passed, failed = [], []
    for case in cases(suite):
        if name(case) in LEFT_OUT:
            continue
        result = unittest.TestResult()
        case.run(result)
        (passed if result.wasSuccessful() else failed).append((name(case), result))
    assert not failed, "\n".join(trace for _, result in failed for _, trace in result.errors + result.failures)
    assert len(passed) == TESTS - len(LEFT_OUT)
    assert {name(case) for case in cases(suite)} >= set(LEFT_OUT)


def test_every_public_method_is_there():
    theirs = {method for method in dir(gensim.models.KeyedVectors) if not method.startswith("_")}
    refused_there_too = {"index2entity", "index2word", "vectors_norm", "vocab"}
    assert theirs - set(dir(WordVectors)) == refused_there_too
    vectors = WordVectors.empty(3)
    for attribute in refused_there_too:
        with pytest.raises(AttributeError, match="use "):
            getattr(vectors, attribute)
