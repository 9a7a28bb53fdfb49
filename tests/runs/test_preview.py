"""What a model is asked: examples of a training, as they are, for every objective of pre-training."""

import json
import re

import pytest
import yaml

import wenmai
from wenmai.cli.main import main
from wenmai.cli.preview import preview as preview_command
from wenmai.core import wording
from wenmai.core.errors import CorpusError, RunError, SettingError, WenmaiError
from wenmai.runs.formats import export_run, import_run
from wenmai.runs.preview import asked_in_words, preview, write_preview_page
from wenmai.tasks.asked import Asked, AskedToken

SENTENCES = [
    "The old bridge over the river was built by Roman soldiers.",
    "However, it fell in the winter of that year.",
    "Nobody knew why the water had risen so high.",
    "Ada Lovelace wrote about it in a long letter to her friend in London.",
]
CHINESE = [
    "北京是中国的首都，有许多古老的建筑。",
    "他每年春天都到杭州去看西湖。",
    "但是今年下了很大的雨，所以他没有去。",
]
SMALL = {"hidden_size": 16, "num_layers": 1, "num_heads": 2}


@pytest.fixture
def english(tmp_path):
    path = tmp_path / "english.txt"
    path.write_text("\n\n".join("\n".join(SENTENCES) for _ in range(200)) + "\n")
    return path


@pytest.fixture
def chinese(tmp_path):
    path = tmp_path / "chinese.txt"
    path.write_text("\n".join(CHINESE * 60) + "\n")
    return path


@pytest.fixture
def recipe(tmp_path):
    def written(system, corpus, **sections):
        path = tmp_path / f"{system}.yaml"
        path.write_text(yaml.safe_dump({"version": 1, "system": system, "corpus": [str(corpus)], **sections}))
        return path

    return written


def _answered(asked):
    """The tokens of an example with the right answers in the place of what was asked for."""
    return [token.answer if token.fate in ("masked", "replaced", "kept") else token.shown for token in asked.tokens]


def test_masked_tokens_and_pairs(english, recipe):
    path = recipe(
        "bert",
        english,
        tokenizer={"kind": "words"},
        objective={"pairs": "next"},
        model={**SMALL, "max_length": 40, "heads": ["mlm", "pair"], "pooler": "tanh"},
    )
    groups = preview(path, examples=3, quiet=True)
    assert len(groups) == 3
    words = set(" ".join(SENTENCES).replace(".", " .").replace(",", " ,").split())
    for (asked,) in groups:
        assert asked.label in ("next", "not next")
        assert any(token.fate for token in asked.tokens)
        assert all(bool(token.answer) == bool(token.fate) for token in asked.tokens)
        assert all((token.shown == "[MASK]") == (token.fate == "masked") for token in asked.tokens)
        assert all((token.shown == token.answer) == (token.fate == "kept") for token in asked.tokens if token.fate)
        assert {*_answered(asked)} <= words | {"[CLS]", "[SEP]"}
        assert {token.segment for token in asked.tokens} == {0, 1}


def test_as_many_of_masked_and_of_next_tokens(english, recipe):
    sizes = {**SMALL, "max_length": 40, "shifted": True}
    chosen = {"tokenizer": {"kind": "words"}, "objective": {"causal": 0.3}, "train": {"batch_tokens": 256}}
    path = recipe("bert", english, model=sizes, **chosen)
    groups = preview(path, examples=2, quiet=True)
    assert [asked.task for (asked,) in groups] == ["masked tokens"] * 2 + ["next tokens"] * 2


def test_three_levels_of_masking_on_the_same_text(chinese, recipe, tmp_path):
    (tmp_path / "names.txt").write_text("北京\n西湖\n杭州\n")
    tasks = {"language": "chinese", "entities_list": str(tmp_path / "names.txt")}
    path = recipe("ernie", chinese, tokenizer={"kind": "characters"}, tasks=tasks, model={**SMALL, "max_length": 32})
    groups = preview(path, examples=2, quiet=True)
    assert [[one.task for one in group] for group in groups] == [["characters", "phrases", "entities"]] * 2
    for group in groups:
        (text,) = {"".join(_answered(one)) for one in group}
        assert any(sentence[:8] in text for sentence in CHINESE)
    for group in groups:
        tokens = group[2].tokens
        text = "".join(_answered(group[2])).replace("[CLS]", "^").replace("[SEP]", "$")
        for name in ("北京", "西湖", "杭州"):
            for start in (found.start() for found in re.finditer(name, text)):
                asked_for = {token.fate is not None for token in tokens[start : start + len(name)]}
                assert len(asked_for) == 1, name  # the whole of it, or nothing


def test_levels_are_shown_where_there_are_entities(recipe, tmp_path):
    text = tmp_path / "rare.txt"
    text.write_text("\n".join((CHINESE[1] if number % 12 == 5 else CHINESE[2]) for number in range(360)) + "\n")
    (tmp_path / "names.txt").write_text("西湖\n")
    tasks = {"language": "chinese", "entities_list": str(tmp_path / "names.txt")}
    path = recipe("ernie", text, tokenizer={"kind": "characters"}, tasks=tasks, model={**SMALL, "max_length": 32})
    for group in preview(path, examples=3, quiet=True):
        assert "西湖" in "".join(_answered(group[2]))


def test_tasks_of_several_kinds(english, recipe):
    tasks = ["phrases", "capitalisation", "reordering"]
    path = recipe(
        "ernie-2",
        english,
        stages={"tasks": tasks},
        tasks={"language": "english"},
        model={**SMALL, "max_length": 48, "pooler": "tanh"},
    )
    groups = preview(path, examples=1, quiet=True)
    assert [[one.task for one in group] for group in groups] == [["phrases", "capitalisation"], ["reordering"]]
    phrases, capitals = groups[0]
    assert _answered(phrases) == [
        token.answer.split(", ")[0] if token.fate in ("masked", "replaced", "kept") else token.shown
        for token in capitals.tokens
    ]
    assert {token.answer.split(", ")[-1] for token in capitals.tokens if token.fate} == {"small", "capital"}
    assert {*groups[1][0].label} <= {*"1234"}


def test_the_next_and_the_previous_token(english, recipe):
    path = recipe("gpt", english, model={**SMALL, "max_length": 16})
    ((asked,),) = preview(path, examples=1, quiet=True)
    assert [token.shown for token in asked.tokens[1:]] == [token.answer for token in asked.tokens[:-1]]
    path = recipe("elmo", english, objective={"segment_length": 8})
    ((ahead, back),) = preview(path, examples=1, quiet=True)
    for one in (ahead, back):
        assert [token.shown for token in one.tokens[1:]] == [token.answer for token in one.tokens[:-1]]
    text = " ".join(" ".join(SENTENCES) for _ in range(3)).split()
    words = [token.shown for token in reversed(back.tokens) if not token.shown.startswith("<")]
    assert any(text[place : place + 3] == words[-3:] for place in range(len(text)))


@pytest.mark.parametrize("system", ["pinyin", "pinyin-letters"])
def test_characters_of_pinyin(system, chinese, recipe):
    objective = {"reversed_share": 0} if system == "pinyin" else {}
    ((asked,),) = preview(recipe(system, chinese, objective=objective), examples=1, quiet=True)
    answers = "".join(token.answer for token in asked.tokens if token.answer != "<blank>")
    marks = str.maketrans("", "", "，。")
    assert any(answers in sentence.translate(marks) for sentence in CHINESE)


def test_a_run_and_its_recipe_ask_the_same(english, tmp_path, capsys):
    settings = {**SMALL, "max_length": 24, "steps": 2, "epochs": 1}
    run = wenmai.train("bert", english, out=tmp_path / "run", quiet=True, **settings)
    before = sorted(path.name for path in tmp_path.glob("run/**/*"))
    groups = wenmai.preview(run, examples=2)
    assert groups == preview(tmp_path / "run", examples=2)
    assert groups == preview(tmp_path / "run" / "recipe.yaml", examples=2, quiet=True)
    assert sorted(path.name for path in tmp_path.glob("run/**/*")) == before
    page = tmp_path / "page.html"
    assert main(["preview", str(run.path), "-n", "2", "--json", "--html", str(page)]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["text"] for one in printed] == [1, 2]
    shown = [[AskedToken(**token) for token in one["tokens"]] for one in printed]
    assert shown == [list(one.tokens) for (one,) in groups]
    assert page.read_text().count("<ruby") == sum(token.fate is not None for row in shown for token in row)
    assert main(["preview", str(run.path)]) == 0
    printed_text = capsys.readouterr().out
    assert printed_text.startswith("masked tokens: 24 tokens (")


def test_what_cannot_be_shown(english, recipe, tmp_path, capsys):
    with pytest.raises(SettingError, match="no examples that can be put in words"):
        preview(recipe("word2vec", tmp_path / "nowhere.txt"), quiet=True)
    for name in ("nothing", "x" * 300):
        with pytest.raises(RunError, match="no such run folder or recipe"):
            preview(tmp_path / name, quiet=True)
    run = wenmai.train("bert", english, out=tmp_path / "run", quiet=True, **SMALL, max_length=24, steps=2, epochs=1)
    export_run(run, "huggingface", tmp_path / "exported")
    import_run("huggingface", tmp_path / "exported", tmp_path / "imported")
    with pytest.raises(RunError, match="imported without its training text; there is nothing to show"):
        preview(tmp_path / "imported", quiet=True)
    with pytest.raises(CorpusError):
        preview(recipe("bert", tmp_path / "nowhere.txt"), quiet=True)
    with pytest.raises(SettingError, match="at least 1"):
        preview(recipe("bert", english), examples=0)
    path = tmp_path / "none.yaml"
    path.write_text("version: 1\nsystem: bert\n")
    with pytest.raises(WenmaiError, match="corpus"):
        preview(path, quiet=True)
    assert main(["preview", str(recipe("bert", english)), "--html", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err
    with pytest.raises(SettingError, match="is a folder"):
        write_preview_page(tmp_path, [], training="x", system="bert")


def test_names_of_tasks_stay_as_they_are_set():
    wording.speak("zh")
    try:
        assert asked_in_words(Asked("characters", ())).startswith("characters")
        assert not asked_in_words(Asked("next token", ())).startswith("next")
    finally:
        wording.speak(None)


def test_words_of_a_page_are_escaped(tmp_path):
    asked = Asked("<b>", (AskedToken("<i>", "<u>", "masked"), AskedToken("&")), "<s>")
    assert asked_in_words(asked) == "<b>: 2 tokens (1 masked) -> <s>"
    write_preview_page(tmp_path / "page.html", [[asked]], training="<run>", system="bert")
    page = (tmp_path / "page.html").read_text()
    assert "segment 1" not in page
    assert not any(tag in page for tag in ("<b>", "<i>", "<u>", "<s>", "<run>"))


def test_white_space_is_seen(tmp_path, recipe, capsys):
    text = tmp_path / "spaced.txt"
    text.write_text("\n".join(["wild grass"] * 300) + "\n")
    path = recipe("ernie", text, tokenizer={"kind": "characters"}, tasks={"language": "english"}, model=SMALL)
    assert main(["preview", str(path), "--html", str(tmp_path / "page.html"), "--quiet"]) == 0
    assert "␣" in capsys.readouterr().out
    assert "␣" in (tmp_path / "page.html").read_text()
    assert main(["preview", str(path), "--json", "--quiet"]) == 0
    assert " " in {token["shown"] for token in json.loads(capsys.readouterr().out.splitlines()[0])["tokens"]}


def test_segments_are_told_apart(tmp_path):
    tokens = AskedToken("a", "b", "kept", 1), AskedToken("c", segment=1), AskedToken("d", segment=4), AskedToken("e")
    write_preview_page(tmp_path / "page.html", [[Asked("x", tokens)]], training="run", system="bert")
    page = (tmp_path / "page.html").read_text()
    assert '<span class="s1">segment 1</span>' in page
    assert (
        '<span class="s1 token"><ruby class="fate kept">a<rt>b</rt></ruby></span> <span class="s1">c</span> d e' in page
    )


def test_the_page_is_there_although_the_output_is_not_read(english, recipe, tmp_path, monkeypatch):
    def closed(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr("wenmai.cli.preview.print", closed, raising=False)
    with pytest.raises(BrokenPipeError):
        preview_command(recipe("bert", english), html=tmp_path / "page.html")
    assert "</html>" in (tmp_path / "page.html").read_text()
