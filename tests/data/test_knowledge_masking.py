"""Tasks that mask characters, phrases or entities, and where these are from."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.data.spans import entity_spans
from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_text import LinesConfig
from wenmai.data.marking import marker_of, mined_phrases, read_names
from wenmai.data.masking import Masker, MaskingConfig
from wenmai.data.pretraining import TASKS, Context, task_of
from wenmai.data.pretraining.settings import TasksConfig
from wenmai.data.running_text import LanguageData, read_language_data
from wenmai.data.token_marks import CAPITAL, ENTITY, PHRASE, unit_begins
from wenmai.text.pieces import StreamTokenizerConfig
from wenmai.text.word_starts import WordStarts

CHINESE = [
    "哈尔滨是黑龙江的省会，我爱北京天安门。",
    "乔治·华盛顿出生于美国的弗吉尼亚州。",
    "数学是研究数量和结构的科学，历史悠久。",
    "",
    "他在北京大学学习，后来去了上海工作。",
] * 12
NAMES = ["哈尔滨", "黑龙江", "北京天安门", "北京大学", "乔治·华盛顿", "弗吉尼亚州", "上海", "西安"]
ROLES = ("cls", "sep", "mask")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))


def written(folder, name, lines):
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def marking(config, bits):
    return lambda corpus, lines, progress: marker_of(config, bits, corpus, lines, progress=progress)


def read(folder, lines, config, bits, **data) -> LanguageData:
    corpus = Corpus.of_paths([written(folder, "text.txt", lines)])
    tokenizer = StreamTokenizerConfig(kind="wordpiece", vocab_size=400, lowercase=True)
    return read_language_data(corpus, LinesConfig(**data), tokenizer, inherited=None, roles=ROLES,
                              marking=marking(config, bits))  # fmt: skip


def chinese(folder, **settings) -> tuple[LanguageData, TasksConfig]:
    path = written(folder, "names.txt", NAMES)
    config = TasksConfig(language="chinese", entities_list=str(path), **settings)
    return read(folder, CHINESE, config, PHRASE | ENTITY), config


def task(name, data, config, **masking):
    context = Context(tokenizer=data.tokenizer, max_length=32, masking=MaskingConfig(**masking), settings=config)
    return task_of(name, context)


def masks(found, data, stream):
    """All rows of a task masked, with what the policy is told."""
    masker = Masker(found.masking, data.tokenizer)
    plan = found.examples(stream, np.random.default_rng(0))
    words = WordStarts(data.tokenizer)
    for place in range(len(plan.lengths)):
        row = found.row(stream, plan, place)
        assert len(row.tokens) == plan.lengths[place] <= 32
        assert row.labels is None
        begins = words(row.tokens) if row.units is None else row.units
        keys = masker.keys(np.array([place]), seed=0, epoch=0)
        yield row, begins, masker.mask(
            row.tokens, maskable=masker.maskable(row.tokens), sequences=np.zeros(len(row.tokens), np.int64), keys=keys,
            begins=begins,
        )  # fmt: skip


def spelled(data, tokens):
    return "".join(data.tokenizer.token(number).removeprefix("##") for number in tokens.tolist())


@pytest.mark.parametrize("name", ["characters", "phrases", "entities", "knowledge"])
def test_fifteen_percent_of_the_tokens_are_asked_for(tmp_path, name):
    data, config = chinese(tmp_path)
    stream, _ = data.sentences(separator=data.tokenizer.sep_id)
    found = task(name, data, config)
    found.require(stream)
    rows = list(masks(found, data, stream))
    asked = [masked.targets.sum() for _, _, masked in rows]
    assert max(asked) <= 5  # of 32
    assert np.mean(asked) > 4
    assert {tuple(row.segments) for row, *_ in rows} == {(0,) * len(rows[0][0].tokens)}


def test_units_are_phrases_and_entities(tmp_path):
    data, config = chinese(tmp_path)
    stream, _ = data.sentences(separator=data.tokenizer.sep_id)
    names, split = set(), 0
    for row, begins, masked in masks(task("entities", data, config), data, stream):
        places = np.flatnonzero(np.append(begins, 1))
        assert begins[0] == begins[-1] == 1
        for low, high in pairwise(places):
            unit = spelled(data, row.tokens[low:high])
            if begins[low] == 2:
                names.add(unit)
            assert masked.targets[low:high].all() or not masked.targets[low:high].any()
            split += unit in ("哈尔", "天安门")
        entities = int((begins == 2).sum())
        asked = begins[masked.targets]
        if entities and masked.targets.any():  # entities that fit are asked for before others
            assert (asked == 2).any()
    assert names <= {name[:size] for name in NAMES for size in range(1, 9)}
    assert {"哈尔滨", "北京大学", "乔治·华盛顿"} <= names
    phrases = set()
    for row, begins, _ in masks(task("phrases", data, config), data, stream):
        places = np.flatnonzero(np.append(begins, 1))
        phrases |= {spelled(data, row.tokens[low:high]) for low, high in pairwise(places)}
    assert {"数学", "研究", "数量", "结构", "科学"} <= phrases


def test_knowledge_prefers_nothing_and_characters_are_alone(tmp_path):
    data, config = chinese(tmp_path)
    stream, _ = data.sentences(separator=data.tokenizer.sep_id)
    knowledge = [begins for _, begins, _ in masks(task("knowledge", data, config), data, stream)]
    entities = [begins for _, begins, _ in masks(task("entities", data, config), data, stream)]
    assert [(one > 0).tolist() for one in entities] == [(one > 0).tolist() for one in knowledge]
    assert max(map(max, knowledge)) == 1
    assert all(begins.all() for _, begins, _ in masks(task("characters", data, config), data, stream))


def test_the_released_reader_is_a_setting(tmp_path):
    data, config = chinese(tmp_path)
    stream, _ = data.sentences(separator=data.tokenizer.sep_id)
    for name in ("characters", "phrases", "entities"):
        found = task(name, data, config, masking="released")
        assert found.masking.masking == "released"
        assert any(masked.targets.any() for *_, masked in masks(found, data, stream))
    kinds = {name: task(name, data, config, masking="span").masking.masking for name in ("characters", "phrases")}
    assert kinds == {"characters": "token", "phrases": "unit"}
    english = replace(config, language="english")
    assert task("characters", data, english).masking.masking == "whole-word"


def test_phrases_of_english_are_mined(tmp_path):
    generator = np.random.default_rng(0)
    words = [f"word{number}" for number in range(300)]
    lines = [" ".join(generator.choice(words, 10)) for _ in range(400)]
    lines[::4] = [f"{line} New York City {line}" for line in lines[::4]]
    config = TasksConfig()
    corpus = Corpus.of_paths([written(tmp_path, "text.txt", lines)])
    found = mined_phrases(corpus, replace(config, phrases_threshold=10.0), LinesConfig(), "words")
    assert "new york city" in found.names
    assert len(found.names) < 5
    data = read(tmp_path, lines, replace(config, phrases_threshold=10.0), PHRASE | CAPITAL)
    marks = np.asarray(data.text.marks)
    places = [*np.flatnonzero(unit_begins(marks, entities=False)).tolist(), len(marks)]
    units = [spelled(data, data.text.tokens[low:high]) for low, high in pairwise(places)]
    assert units.count("newyorkcity") == 100
    assert data.text.marked.capitals >= 300


def test_entities_marked_in_the_text(tmp_path):
    lines = ["[[Ada Lovelace]] wrote about the [[Analytical Engine]] of Charles Babbage in her notes."] * 12
    config = TasksConfig(entities_inline=True, phrases_from="words")
    data = read(tmp_path, lines, config, PHRASE | ENTITY)
    marks = np.asarray(data.text.marks)
    found = {spelled(data, data.text.tokens[low:high]) for low, high in entity_spans(marks)}
    assert found == {"adalovelace", "analyticalengine"}
    assert data.tokenizer.unk_id not in data.text.tokens
    assert not [n for n in range(data.tokenizer.vocab_size) if "[[" in data.tokenizer.token(n)]
    assert data.describe()["marks"]["entities"] == 24


def test_data_with_marks_are_opened_again(tmp_path):
    data, _ = chinese(tmp_path)
    again = LanguageData.reopen(data.fingerprint)
    assert again.text.marks.tolist() == data.text.marks.tolist()
    train, held = again.sentences(separator=again.tokenizer.sep_id)
    assert (train.held_out, held.held_out) == (False, True)
    assert len(held.read_marks(0, len(held))) == len(held)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["西安", "咸阳"], r"text\.txt: no entity was found in the text by the names of .*names\.txt"),
        (["", "  "], r"names\.txt: has no name; expected one a line"),
        (None, r"names\.txt"),
    ],
)
def test_names_that_are_of_no_use(tmp_path, names, message):
    path = tmp_path / "names.txt" if names is None else written(tmp_path, "names.txt", names)
    config = TasksConfig(language="chinese", entities_list=str(path))
    with pytest.raises(CorpusError, match=message):
        read(tmp_path, CHINESE, config, PHRASE | ENTITY)


def test_names_in_another_encoding(tmp_path):
    path = tmp_path / "names.txt"
    path.write_bytes("北京\n".encode("gb18030"))
    with pytest.raises(CorpusError, match=r"names\.txt: line 1: 0xb1 is not utf-8"):
        read_names(path)


def test_settings_without_sense_are_refused(tmp_path):
    with pytest.raises(SettingError, match=r"nothing says what the entities are.*entities_list=FILE"):
        read(tmp_path, CHINESE, TasksConfig(), ENTITY)
    with pytest.raises(SettingError, match="entities_inline=True has no effect, as no task masks entities"):
        read(tmp_path, CHINESE, TasksConfig(entities_inline=True), PHRASE)
    for settings in ({"phrases_passes": 3}, {"phrases_threshold": 9.0}, {"phrases_min_count": 2}):
        with pytest.raises(SettingError, match=r"has no effect, as no task masks phrases"):
            read(tmp_path, CHINESE, TasksConfig(**settings), CAPITAL)
        for words in ({"language": "chinese"}, {"phrases_from": "words"}):
            with pytest.raises(SettingError, match=r"has no effect on phrases that are words of the segmenter"):
                read(tmp_path, CHINESE, TasksConfig(**settings, **words), PHRASE)
    data = read(tmp_path, CHINESE, TasksConfig(), 0)
    assert data.text.marks is None
    with pytest.raises(SettingError, match="nothing says what the entities are"):
        task("entities", data, TasksConfig())
    with pytest.raises(SettingError, match="no pre-training task is called 'entity'"):
        task("entity", data, TasksConfig())
    with pytest.raises(SettingError, match="phrases_from='chunks' is not one of"):
        TasksConfig(phrases_from="chunks")
    stream, _ = data.sentences(separator=data.tokenizer.sep_id)
    phrases = task("phrases", data, TasksConfig())
    with pytest.raises(CorpusError, match="was encoded without marks"):
        phrases.row(stream, phrases.examples(stream, np.random.default_rng(0)), 0)
    assert TASKS["phrases"].marks == PHRASE
    assert TASKS["entities"].marks == PHRASE | ENTITY
