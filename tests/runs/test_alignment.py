"""The page and the picture of attention weights: complete, escaped, self-contained."""

import base64
import json
import re
import struct
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from wenmai.core import wording
from wenmai.core.errors import SettingError
from wenmai.runs.alignment import Alignment, alignment_html, write_alignment_page, write_alignment_picture

HOSTILE = "</script><script>alert('\"&amp;')<!--\u2028"
SOURCE = ["我", "爱", "<b>", HOSTILE, "$x_1$", "</s>"]
TARGET = ["i", "love", "\"'&", "</s>"]


class Page(HTMLParser):
    """The visible text, the attributes, the elements and the data of a page whose elements close in order."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.text, self.data = [], [], [], "", ""
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in {"meta", "link"}:
            self.open.append((tag, dict(attrs).get("id")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == ("script", "data"):
            self.data += data
        elif self.open and self.open[-1][0] not in {"script", "style"}:
            self.text += data


def attention(heads, queries, keys, *, seed=0):
    weights = np.random.default_rng(seed).random((heads, queries, keys)) ** 4
    return weights / weights.sum(axis=2, keepdims=True)


def an_alignment(tokens=(SOURCE, TARGET), *, layers=2, heads=3, **texts):
    source, target = tokens
    weights = {}
    for layer in reversed(range(layers)):
        weights[f"encoder.layers.{layer}.self"] = attention(heads, len(source), len(source), seed=layer)
        weights[f"decoder.layers.{layer}.self"] = attention(heads, len(target), len(target), seed=layer)
        weights[f"decoder.layers.{layer}.cross"] = attention(heads, len(target), len(source), seed=layer)
    return Alignment(source_tokens=source, target_tokens=target, weights=weights, **texts)


def recurrent(source, target):
    weights = {"decoder.layers.0.cross": attention(1, len(target), len(source)).astype(np.float32)}
    return Alignment(source_tokens=source, target_tokens=target, weights=weights)


def test_the_page_holds_tokens_and_weights_as_they_are():
    alignment = an_alignment(source="我爱<b>", translation=HOSTILE)
    (stored,) = json.loads(Page(alignment_html([alignment], title="t")).data)
    assert (stored["source"], stored["target"]) == (SOURCE, TARGET)
    assert (stored["sourceText"], stored["targetText"]) == ("我爱<b>", HOSTILE)
    assert len(stored["maps"]) == len(alignment.weights)
    sizes = {"source": len(SOURCE), "target": len(TARGET)}
    names = {"encoderself": "encoder.layers.{}.self", "decoderself": "decoder.layers.{}.self"}
    for drawn in stored["maps"]:
        weights = alignment.weights[names.get(drawn["kind"], "decoder.layers.{}.cross").format(drawn["layer"])]
        shape = (drawn["heads"], sizes[drawn["queries"]], sizes[drawn["keys"]])
        found = np.frombuffer(base64.b64decode(drawn["weights"]), np.uint8).reshape(shape) / 255
        np.testing.assert_allclose(found, weights, atol=0.5 / 255 + 1e-9)
    assert [(drawn["queries"], drawn["keys"]) for drawn in stored["maps"][:3]] == [
        ("source", "source"),
        ("target", "target"),
        ("target", "source"),
    ]
    assert [drawn["layer"] for drawn in stored["maps"]] == [0, 0, 0, 1, 1, 1]


def test_hostile_words_stay_words():
    source = alignment_html([an_alignment(translation=HOSTILE)], title=HOSTILE)
    page = Page(source)
    assert page.tags.count("script") == 2
    assert "b" not in page.tags
    assert page.text.count(HOSTILE) == 2  # the title and the heading
    assert "alert" not in "".join(value for _, _, value in page.attributes)


def test_the_page_needs_no_network():
    source = alignment_html([an_alignment((["a", "b"], ["c"]))], title="t")
    page = Page(source)
    policy = next(value for tag, name, value in page.attributes if tag == "meta" and value.startswith("default-src"))
    assert policy.startswith("default-src 'none'")
    links = [value for _, name, value in page.attributes if name in {"src", "href", "action"}]
    assert links == ["data:,"]
    assert set(re.findall(r"https?://[^\"' ]+", source)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in source
    assert "$" not in re.sub(r"<script>.*?</script>", "", source, flags=re.DOTALL)  # every place was filled


def test_every_element_that_the_script_looks_up_is_on_the_page():
    source = alignment_html([an_alignment()], title="t")
    ids = {value for _, name, value in Page(source).attributes if name == "id"}
    asked = set(re.findall(r'byId\("([^"]+)"\)', source)) | set(re.findall(r'getElementById\("([^"]+)"\)', source))
    assert len(asked) > 10
    assert asked <= ids


def test_the_page_tells_how_much_there_is():
    page = Page(alignment_html([an_alignment(), recurrent(["a"], ["b", "c"])], title="t"))
    assert "2 sentences, 2 layers, 3 heads" in page.text
    page = Page(alignment_html([recurrent(["a"], ["b", "c"])], title="t"))
    assert "1 sentence, 1 layer, 1 head" in page.text
    (stored,) = json.loads(page.data)
    assert (stored["sourceText"], stored["targetText"]) == ("a", "b c")  # without texts, the tokens


def test_the_page_of_a_long_sentence_stays_small(tmp_path):
    tokens = [f"token{i}" for i in range(45)]
    alignment = an_alignment((tokens, tokens), layers=6, heads=8)
    write_alignment_page(tmp_path / "deep" / "page.html", [alignment], title="Long")
    size = (tmp_path / "deep" / "page.html").stat().st_size
    weights = sum(weights.size for weights in alignment.weights.values())
    assert weights * 4 / 3 < size < weights * 4 / 3 + 60_000


def test_lone_surrogates_do_not_stop_the_page(tmp_path):
    write_alignment_page(tmp_path / "page.html", [recurrent(["\ud800"], ["b"])], title="t")
    assert json.loads(Page((tmp_path / "page.html").read_text("utf-8")).data)[0]["source"] == ["?"]


def test_an_alignment_whose_parts_do_not_fit_is_refused():
    def aligned(name="decoder.layers.0.cross", weights=None, **tokens):
        weights = attention(2, 2, 3) if weights is None else weights
        tokens = {"source_tokens": ["a", "b", "c"], "target_tokens": ["d", "e"], **tokens}
        return Alignment(weights={name: weights}, **tokens)

    assert aligned().source == ""
    with pytest.raises(
        ValueError, match=r"cross has the shape \(2, 3, 2\); expected \(heads, 2 target tokens, 3 source"
    ):
        aligned(weights=attention(2, 3, 2))
    with pytest.raises(ValueError, match=r"expected \(heads, 3 source tokens, 3 source tokens\)"):
        aligned("encoder.layers.0.self")
    with pytest.raises(ValueError, match="expected"):
        aligned(weights=attention(2, 2, 3)[0])
    for name in ("encoder.layers.0.cross", "decoder.cross", "decoder.layers.x.self"):
        with pytest.raises(ValueError, match="no place for weights"):
            aligned(name)
    for wrong in (np.log(attention(2, 2, 3)), np.full((2, 2, 3), np.nan), np.full((2, 2, 3), 1.5)):
        with pytest.raises(ValueError, match="not between 0 and 1"):
            aligned(weights=wrong)
    with pytest.raises(ValueError, match="needs source tokens"):
        aligned(source_tokens=[])
    with pytest.raises(ValueError, match="at least one alignment"):
        alignment_html([], title="t")


def test_the_picture_is_a_png_of_the_chosen_map(tmp_path):
    alignment = an_alignment((["a", "$x_1$", "</s>"], ["<b>", "c"]))
    pictures = {}
    for name, head in ((None, None), ("decoder.layers.1.cross", None), ("decoder.layers.0.self", 2)):
        write_alignment_picture(tmp_path / "picture.png", alignment, name=name, head=head)
        pictures[name, head] = (tmp_path / "picture.png").read_bytes()
    assert all(picture.startswith(b"\x89PNG\r\n") for picture in pictures.values())
    assert pictures[None, None] == pictures["decoder.layers.1.cross", None]  # the last layer that looks at the source
    assert pictures[None, None] != pictures["decoder.layers.0.self", 2]


def test_characters_that_no_font_has_are_one_note(tmp_path, caplog):
    pytest.importorskip("matplotlib")
    path = tmp_path / "picture.png"
    write_alignment_picture(path, an_alignment((["a\ue0ff"], ["\ue0fe"])))
    assert caplog.messages == [
        f"{path}: no font here has all characters of this chart; install one such as Noto Sans CJK"
    ]


def test_a_picture_of_many_tokens_has_fewer_dots_for_each(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("wenmai.runs.alignment.MOST_DOTS", 200)
    write_alignment_picture(tmp_path / "picture.png", an_alignment())
    width, height = struct.unpack(">II", (tmp_path / "picture.png").read_bytes()[16:24])
    assert max(width, height) == 200


def test_a_picture_of_nothing_is_refused(tmp_path):
    alignment = an_alignment((["a"], ["b"]))
    with pytest.raises(ValueError, match=r"no weights 'cross'; there are encoder\.layers\.1\.self, "):
        write_alignment_picture(tmp_path / "picture.png", alignment, name="cross")
    for head in (-1, 3):
        with pytest.raises(ValueError, match=f"no head {head} in decoder"):
            write_alignment_picture(tmp_path / "picture.png", alignment, head=head)
    assert not list(tmp_path.iterdir())


def test_a_missing_matplotlib_is_explained(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SettingError, match=r"pip install .*\[plot\]"):
        write_alignment_picture(tmp_path / "picture.png", an_alignment((["a"], ["b"])))


def test_a_chinese_page_has_chinese_words_and_punctuation():
    wording.speak("zh")
    try:
        page = alignment_html([an_alignment()], title="t")
    finally:
        wording.speak(None)
    assert "1 个句子，" in page
    assert '"weight {0}":"权重 {0}"' in page
