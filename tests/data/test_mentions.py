"""Plain text as a document with entities: words, sentences, and which mentions are one entity."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wenmai.data import mentions
from wenmai.data.mentions import Found, aliased, cut_words, entities_of
from wenmai.data.relations import docred_documents
from wenmai.text.segment import treebank_spans

ENGLISH = "Marie Curie met Dr. Langevin in the U.S. in 1911. Curie's prize, 1,000.50 francs, was state-of-the-art!"
CHINESE = "清华大学在北京。它由GPT-4 研究！"


def test_words_and_sentences():
    assert [[word.text for word in words] for words in cut_words(ENGLISH)] == [
        ["Marie", "Curie", "met", "Dr", ".", "Langevin", "in", "the", "U.S", ".", "in", "1911", "."],
        ["Curie", "'s", "prize", ",", "1,000.50", "francs", ",", "was", "state-of-the-art", "!"],
    ]
    assert [[word.text for word in words] for words in cut_words(CHINESE)] == [
        [*"清华大学在北京。"],
        [*"它由", "GPT-4", *"研究！"],
    ]
    assert cut_words("") == cut_words(" \n\t") == []


def test_accents_of_their_own():
    assert [word.text for word in cut_words("cafe\u0301s, e\u0301")[0]] == ["cafe\u0301s", ",", "e\u0301"]


@pytest.mark.parametrize("text", ["भारत की राजधानी दिल्ली", "جاء مُحَمَّد اليوم", "co\u00adopera\u00adtion now"])
def test_words_keep_their_vowels_and_other_marks(text):
    assert [word.text for word in cut_words(text)[0]] == text.split()
    assert [text[low:high] for low, high in treebank_spans(text)] == text.split()


def test_lines_have_sentences_of_their_own():
    found = cut_words("A title\nof two lines\r\n\n  and a third")
    assert [[word.text for word in words] for words in found] == [
        ["A", "title"],
        ["of", "two", "lines"],
        ["and", "a", "third"],
    ]


def test_borders_and_what_is_apart():
    text = "alpha-beta gamma"
    found = cut_words(text, inside="-", borders=(1, 7, 11, 13), apart=(11,))
    assert [[word.text for word in words] for words in found] == [["a", "lpha", "-", "b", "eta"], ["ga", "mma"]]


TEXTS = st.text(alphabet="ab Z.!?,\n'-’1中国。！\u3000\u00e9\u0301\U00020000\u2028\"", max_size=60)


@given(text=TEXTS, inside=st.sampled_from(["", "-.'"]), borders=st.lists(st.integers(-3, 70), max_size=4))
def test_every_word_is_where_it_says(text, inside, borders):
    words = [word for sentence in cut_words(text, inside=inside, borders=borders) for word in sentence]
    assert all(cut_words(text))
    place = 0
    for word in words:
        assert place <= word.start < word.end
        assert text[word.start : word.end] == word.text
        assert not text[place : word.start].strip()
        assert not any(word.start < border < word.end for border in borders)
        assert len(word.text) == 1 or not set(word.text) & set(inside)
        place = word.end
    assert not text[place:].strip()


# --- which mentions are one entity -----------------------------------------------------------------------------------


def places(text, *names):
    """A mention for each name, from left to right, of the type before a colon."""
    found, begin = [], 0
    for name in names:
        kind, _, name = name.rpartition(":")
        begin = text.index(name, begin)
        found.append(Found(begin, begin + len(name), kind or "PER"))
        begin += len(name)
    return found


def joined(text, *names):
    document = entities_of("t", cut_words(text), places(text, *names))
    for entity in document.entities:
        for mention in entity.mentions:
            words = document.sentences[mention.sentence][mention.start : mention.end]
            assert "".join(words) == "".join(mention.name.split())
    docred_documents([document], "here")  # all places are right
    return [[mention.name for mention in entity.mentions] for entity in document.entities]


def test_a_document_of_a_text():
    text = "Ada Lovelace wrote. Ada met Charles Babbage."
    found = places(text, "Ada Lovelace", "Ada", "Charles Babbage")
    document = entities_of("t", cut_words(text), reversed(found))
    assert document.title == "t"
    assert document.sentences == (("Ada", "Lovelace", "wrote", "."), ("Ada", "met", "Charles", "Babbage", "."))
    assert [[tuple(one) for one in entity.mentions] for entity in document.entities] == [
        [("Ada Lovelace", 0, 0, 2, "PER"), ("Ada", 1, 0, 1, "PER")],
        [("Charles Babbage", 1, 2, 4, "PER")],
    ]
    assert (document.relations, document.pairs) == ((), None)


def test_an_alias_is_of_the_one_mentioned_last_before():
    text = "Marie Curie met Pierre Curie. Curie wrote to Marie Curie. Curie answered. Pierre left."
    assert joined(text, "Marie Curie", "Pierre Curie", "Curie", "Marie Curie", "Curie", "Pierre") == [
        ["Marie Curie", "Marie Curie", "Curie"],
        ["Pierre Curie", "Curie", "Pierre"],
    ]


def test_a_name_that_is_longer_later():
    text = "Curie won. Marie Curie was glad. The WHO wrote. WORLD HEALTH ORGANIZATION, the W.H.O."
    assert joined(text, "Curie", "Marie Curie", "ORG:WHO", "ORG:WORLD HEALTH ORGANIZATION", "ORG:W.H.O.") == [
        ["Curie", "Marie Curie"],
        ["WHO", "WORLD HEALTH ORGANIZATION", "W.H.O."],
    ]


def test_a_name_that_two_may_have_joins_them_not():
    text = "Curie won. Marie Curie thanked Pierre Curie. Irene Curie read."
    assert joined(text, "Curie", "Marie Curie", "Pierre Curie", "Irene Curie") == [
        ["Curie", "Marie Curie"],
        ["Pierre Curie"],
        ["Irene Curie"],
    ]


def test_chinese_names():
    text = "清华大学在北京。清华的张伟和张伟民去北京市，北京大学也在北京。"
    names = ("ORG:清华大学", "LOC:北京", "ORG:清华", "张伟", "张伟民", "LOC:北京市", "ORG:北京大学", "LOC:北京")
    assert joined(text, *names) == [
        ["清华大学", "清华"],
        ["北京", "北京市", "北京"],
        ["张伟", "张伟民"],
        ["北京大学"],
    ]


def test_other_types_are_other_entities():
    assert joined("Paris loves Paris.", "PER:Paris", "LOC:Paris") == [["Paris"], ["Paris"]]


def test_mentions_that_overlap_cross_sentences_or_have_no_word():
    text = "New York City is big. Very big."
    given = [Found(0, 13, "LOC"), Found(0, 8, "LOC"), Found(4, 8, "LOC"), Found(17, 26, "LOC"), Found(3, 4, "LOC")]
    given += [Found(5, 5, "LOC"), Found(90, 99, "LOC"), Found(-5, 0, "LOC"), Found(23, 25, "LOC")]
    document = entities_of("", cut_words(text), given)
    found = [tuple(one.mentions[0]) for one in document.entities]
    assert found == [("New York City", 0, 0, 3, "LOC"), ("Very", 1, 0, 1, "LOC")]  # a part of a word is the word


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Curie", "Marie Curie", True),
        ("Marie", "Marie Curie", True),
        ("Curie", "Marie Curie Institute", False),  # neither first nor last
        ("marie curie", "MARIE CURIE", True),
        ("U.S.", "US", True),
        ("U.S.", "United States", True),
        ("USA", "United States of America", True),
        ("us", "United States", False),
        ("WHO", "World Health Organization", True),
        ("WHO", "World Hunger Office", True),
        ("WHO", "World Health", False),
        ("Who", "World Health Organization", False),
        ("The", "The Beatles", False),
        ("of the", "of the Rings", False),
        ("A", "A Tribe", False),
        ("York New", "New York City", False),
        ("Jean-Paul", "Jean-Paul Sartre", True),
        ("Jean", "Jean-Paul Sartre", False),
        ("清华", "清华大学", True),
        ("清", "清华大学", False),
        ("大学", "清华大学", False),
        ("清华大学", "清华大学", True),
        ("北京", "北京 大学", False),
        ("", "Curie", False),
        ("!", "?", False),
        ("", "", True),
    ],
)
def test_aliases(one, other, expected):
    assert aliased(one, other, "PER") == aliased(other, one, "PER") == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("United States", "the United States", True),
        ("The US", "US", True),
        ("the University of York", "University of York", True),
        ("New York", "New York City", False),
        ("Albany", "Albany County", False),
        ("Korean", "South Korean", False),
        ("three", "three million", False),
        ("2009", "June 2009", False),
        ("The", "The the", False),
        ("WHO", "World Health Organization", True),
        ("清华", "清华大学", True),
    ],
)
def test_parts_of_names_of_anything_but_people_are_others(one, other, expected):
    assert aliased(one, other, "ORG") == aliased(other, one, "ORG") == expected


@pytest.mark.parametrize("kind", ["PERSON", "person", "人名", "nr"])
def test_people_are_called_by_many_names(kind):
    assert aliased("Curie", "Marie Curie", kind)


def test_few_names_are_compared_however_many_share_a_part(monkeypatch):
    count, compared = 400, []
    tried = [
        [f"Name{place} Smith" for place in range(count)] + ["Smith"] * count,
        [f"Dr Name{place}" for place in range(count)],
        [f"清华{chr(0x4E00 + place)}大学" for place in range(count)],
    ]
    monkeypatch.setattr(mentions, "aliased", lambda *names: compared.append(names) or aliased(*names))
    for names in tried:
        text = "; ".join(names)
        found, begin = [], 0
        for name in names:
            found.append(Found(begin, begin + len(name), "PER"))
            begin += len(name) + 2
        document = entities_of("", cut_words(text, borders=[at for one in found for at in one[:2]]), found)
        assert len(document.entities) == count
    assert len(compared) < 4 * count


def test_many_mentions_of_a_long_text():
    """Thousands of mentions in a moment."""
    text = " ".join(f"Name{place % 400} Family{place % 700} spoke." for place in range(6000))
    found, begin = [], 0
    for place in range(6000):
        name = f"Name{place % 400} Family{place % 700}"
        begin = text.index(name, begin)
        found.append(Found(begin, begin + len(name), "PER"))
        begin += len(name)
    document = entities_of("", cut_words(text), found)
    assert sum(len(one.mentions) for one in document.entities) == 6000


def test_what_is_tried_is_enough(monkeypatch):
    """Names are compared only where they may fit; comparing all of them comes to the same."""
    draw = random.Random(1)
    parts = [
        "Marie",
        "Curie",
        "Pierre",
        "World",
        "Health",
        "of",
        "the",
        "MC",
        "M.C.",
        "WH",
        "P",
        "清华",
        "大学",
        "清华大学",
    ]
    for _ in range(60):
        words, found = [], []
        for _ in range(25):
            name = " ".join(draw.choices(parts, k=draw.randrange(1, 4)))
            begin = len(" ".join(words)) + bool(words)
            words += [name, "x"]
            found.append(Found(begin, begin + len(name), draw.choice(("PER", "ORG"))))
        sentences = cut_words(" ".join(words))
        quick = entities_of("", sentences, found)
        with monkeypatch.context() as patched:
            patched.setattr(mentions, "_keys", lambda name, kind: ({""}, {""}))
            assert quick == entities_of("", sentences, found)
