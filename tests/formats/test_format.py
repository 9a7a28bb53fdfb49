"""What formats say of themselves."""

import sys
from importlib import import_module
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from wenmai.core.errors import SettingError
from wenmai.core.registry import find_system, systems
from wenmai.formats.format import Format, formats, is_a
from wenmai.models.glove import GloVe


@pytest.mark.parametrize("name", formats())
def test_every_format_has_a_summary_a_way_and_models_that_exist(name):
    one = formats()[name]
    assert one.name == name
    assert one.summary
    assert one.write or one.read
    for model in one.models:
        module, _, kind = model.partition(":")
        assert is_a(getattr(import_module(module), kind), model)


def test_a_format_takes_subclasses_of_its_models():
    class Mine(GloVe):
        """A model of another package."""

    assert formats()["glove-binary"].takes(Mine, ())
    assert not formats()["glove-binary"].takes(dict, ("nearest",))
    assert formats()["projector"].takes(dict, ("nearest",))


def test_the_formats_of_each_system():
    taken = {
        name: [one.name for one in formats().values() if one.takes(task.model, task.verbs)]
        for name, task in ((name, find_system(name).load()) for name in systems())
    }
    vectors = ["glove", "projector", "word2vec", "word2vec-binary"]
    assert taken["word2vec"] == taken["ppmi-svd"] == vectors
    assert taken["glove"] == sorted([*vectors, "glove-binary", "glove-both", "glove-parameters", "glove-words"])
    assert taken["fasttext"] == ["fasttext", *vectors]
    assert taken["fasttext-supervised"] == ["fasttext"]
    assert taken["gpt"] == taken["gpt-2"] == ["ctranslate2", "huggingface", "onnx"]
    assert (taken["transformer"], taken["seq2seq"]) == (["ctranslate2", "onnx"], ["onnx"])
    assert taken["ngram"] == ["arpa"]
    assert not any(taken[name] for name in ("classifier", "nnlm", "rnnlm", "transformer-xl"))


def announce(monkeypatch, *points):
    points = [EntryPoint(name, value, "wenmai.formats") for name, value in points]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: points if group == "wenmai.formats" else [])


def test_other_packages_add_formats_but_do_not_replace_ours(monkeypatch):
    module = ModuleType("other_formats")
    module.FORMAT = Format(name="other", summary="another", verb="nearest", write=lambda path, run: None)
    monkeypatch.setitem(sys.modules, "other_formats", module)
    announce(monkeypatch, ("other", "other_formats:FORMAT"), ("arpa", "nowhere:Nothing"))
    assert formats()["other"] is module.FORMAT
    assert formats()["arpa"].read is not None
    announce(monkeypatch, ("other", "collections:OrderedDict"))
    with pytest.raises(SettingError, match=r"names .*; expected a wenmai\.formats\.format\.Format of that name"):
        formats()
