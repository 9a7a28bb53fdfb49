"""The lattice of typed letters, against a search that knows nothing of lattices."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wenmai.core.errors import SettingError
from wenmai.text.pinyin.letters import (
    FUZZY_PAIRS,
    Edge,
    completions,
    edges_of,
    normal_letters,
    typed_letters,
    typed_places,
)
from wenmai.text.pinyin.readings import readings_of
from wenmai.text.pinyin.syllables import TONELESS

SYLLABLES = {one: one for one in TONELESS} | {"lue": "lve", "nue": "nve"}


def naive(letters):
    """All ways to write letters as syllables, one letter more at a time."""

    @cache
    def ways(rest):
        if not rest:
            return [()]
        heads = (rest[:length] for length in range(1, 7) if rest[:length] in SYLLABLES)
        return [(SYLLABLES[head], *tail) for head in dict.fromkeys(heads) for tail in ways(rest[len(head) :])]

    return ways(letters)


def paths(edges, end):
    ways = {end: [()]}
    for edge in reversed(edges):
        ways.setdefault(edge.begin, []).extend((edge, *rest) for rest in ways.get(edge.end, []))
    return ways.get(0, [])


def segmentations(letters):
    """All ways to read letters as full syllables, those with the fewest first."""
    edges = [edge for edge in edges_of(letters, incomplete=False, abbreviated=False) if edge.kind == "full"]
    found = [tuple(edge.syllable for edge in path) for path in paths(edges, len(letters))]
    return sorted(found, key=lambda one: (len(one), tuple(-len(syllable) for syllable in one)))


def kinds(text, **settings):
    return {(text[edge.begin : edge.end], edge.syllable, edge.kind) for edge in edges_of(text, **settings)}


@given(st.text("aeginoxhzdu", max_size=12))
def test_segmentations_are_all_there_are(letters):
    found = segmentations(letters) if letters else [()]
    assert sorted(found) == sorted(naive(letters))
    assert len(set(found)) == len(found)
    assert [len(one) for one in found] == sorted(map(len, found))


@given(st.text("aegnoxhzulr'135 。我A", max_size=14), st.booleans(), st.booleans(), st.booleans())
def test_every_edge_is_on_a_path_and_there_is_one(text, incomplete, abbreviated, spaced):
    letters = normal_letters(text)
    edges = edges_of(letters, incomplete=incomplete, abbreviated=abbreviated, spaced=spaced)
    if not letters.strip("' \t\n"):
        assert edges == []
        return
    assert edges == sorted(edges, key=lambda edge: edge.begin)
    assert len(set(edges)) == len(edges)
    begins, ends = {edge.begin for edge in edges}, {edge.end for edge in edges}
    assert begins - {0} <= ends
    assert ends - {len(letters)} <= begins
    assert {0} <= begins
    assert {len(letters)} <= ends
    for edge in edges:
        typed = letters[edge.begin : edge.end].strip("' ")
        letters_alone = typed.rstrip("0135"), edge.syllable.rstrip("135")
        assert edge.kind == "erhua" or edge.syllable == typed or letters_alone[0] == letters_alone[1].replace("v", "u")


def test_examples():
    assert segmentations("xian") == [("xian",), ("xi", "an")]
    assert segmentations("fangan") == [("fang", "an"), ("fan", "gan")]
    assert segmentations("xi'an") == [("xi", "an")]
    assert segmentations("xx") == []
    assert edges_of("") == []


def test_an_apostrophe_and_spaces_belong_to_the_edge_before_them():
    assert edges_of("xi'an", incomplete=False) == [Edge(0, 3, "xi", "full"), Edge(3, 5, "an", "full")]
    assert edges_of(normal_letters("xi’an"), incomplete=False) == edges_of("xi'an", incomplete=False)
    assert [edge[:2] for edge in edges_of("  wo ai ", incomplete=False)] == [(0, 5), (5, 8)]
    assert edges_of("xian nar", incomplete=False, spaced=True) == [
        Edge(0, 5, "xian", "full"),
        Edge(5, 7, "na", "full"),
        Edge(7, 8, "er", "erhua"),
    ]


def test_tones():
    assert edges_of("zhong1wen2") == [Edge(0, 6, "zhong1", "full"), Edge(6, 10, "wen2", "full")]
    assert ("ma0", "ma5", "full") in kinds("ma0")
    assert kinds("ma6") == {("ma", "ma", "full"), ("6", "6", "other")}
    assert {("3", "3", "other"), ("0", "0", "other")} <= kinds("wo30sui4")
    assert ("3", "3", "other") in kinds("b3")
    assert kinds("nar3") == {("na", "na", "full"), ("na", "na3", "full"), ("r3", "er5", "erhua")}


def test_a_syllable_may_be_incomplete_where_the_text_ends():
    assert ("zho", "zho", "incomplete") in kinds("wozho")
    assert completions("zho") == ("zhong", "zhou")
    assert ("j", "j", "incomplete") in kinds("woj")
    assert not any(kind == "incomplete" for _, _, kind in kinds("woj。") | kinds("woj", incomplete=False))


def test_initials_stand_for_syllables_only_where_syllables_do_not_cover_the_letters():
    assert {"z", "g", "r", "m"} == {syllable for _, syllable, kind in kinds("zgrm") if kind == "initial"}
    assert ("zh", "zh", "initial") in kinds("zhg")
    assert not any(kind == "initial" for _, _, kind in kinds("woaini"))
    assert {kind for _, _, kind in kinds("zgrm", abbreviated=False)} == {"letters"}
    assert {"zhong", "zi"} < set(completions("z"))


@pytest.mark.parametrize("word", ["wifi", "usb", "vip"])
def test_letters_that_initials_do_not_cover_stay_together(word):
    assert kinds(word) == {(word, word, "letters")}
    assert ("zho", "zho", "incomplete") in kinds(f"{word}wozho")


def test_letters_stay_from_where_no_syllable_begins_to_where_one_does():
    full = {(one, one, "full") for one in ("wo", "o", "ne", "e")}
    stretches = {(one, one, "letters") for one in ("iph", "ipho", "iphon", "iphone")}
    assert kinds("woiphone") == full | stretches
    assert {typed for typed, _, kind in kinds("wovaini") if kind == "letters"} == {"v", "vai", "vaini", "i", "ini"}


def test_others_pass_through():
    assert kinds("我u。") == {("我", "我", "other"), ("u", "u", "letters"), ("。", "。", "other")}
    assert {("‘", "‘", "other"), ("’", "’", "other")} <= kinds(normal_letters("‘wo’，"))


def test_fuzzy_pairs():
    found = {syllable for typed, syllable, _ in kinds("zan", fuzzy={"zh/z", "an/ang"}) if typed == "zan"}
    assert found == {"zan", "zang", "zhan", "zhang"}
    assert ("zan", "zan", "full") in kinds("zan", fuzzy=FUZZY_PAIRS)
    assert ("lv", "nv", "fuzzy") in kinds("lv", fuzzy={"n/l"})
    assert ("lu", "lv", "fuzzy") in kinds("lu", fuzzy={"v/u"})
    assert ("lu", "lu", "full") in kinds("lu", fuzzy={"v/u"})
    assert ("lu4", "nv4", "fuzzy") in kinds("lu4", fuzzy=FUZZY_PAIRS)
    assert ("lue4", "lve4", "full") in kinds("lue4")
    assert ("guan", "guang", "fuzzy") in kinds("guan", fuzzy={"an/ang"})
    assert ("qian", "qiang", "fuzzy") in kinds("qian", fuzzy={"an/ang"})
    assert ("xing4", "xin4", "fuzzy") in kinds("xing4", fuzzy={"in/ing"})
    assert ("ten", "teng", "fuzzy") in kinds("ten", fuzzy={"en/eng"})  # which is a syllable only so
    assert not any(kind == "fuzzy" for _, _, kind in kinds("zan"))
    with pytest.raises(SettingError, match="'z/zh' is not one of the fuzzy pairs"):
        edges_of("zan", fuzzy={"z/zh"})


def test_letters_in_other_forms():
    assert normal_letters("ＷｏＡＩ３ Lü lu:4 NǗ") == "woai3 lv lv4 nv2"
    assert normal_letters("Běijīng") == "bei3jing1"
    assert normal_letters("zhōngguó nǎr fǎngǎn fāng'àn xīān") == "zhong1guo2 nar3 fan3gan3 fang1'an4 xi1an1"
    assert normal_letters("lǜsè de") == "lv4se4 de"
    assert normal_letters("jüzi jǘzi QǗ xu:exi yve lüe") == "juzi ju2zi qu2 xuexi yue lve"
    assert normal_letters("fuwu:hao url: u:") == "fuwu:hao url: u:"  # a colon, as these have no ü
    assert normal_letters("ni\u030c hu\u0308") == "ni3 hv"
    assert normal_letters("yi1 hui4 r5 wan2r0 r50 huar5") == "yi1 hui4 er5 wan2er0 r50 huar5"
    assert normal_letters("xyzō") == "xyzo"
    assert normal_letters("woai3。，'我") == "woai3。，'我"
    assert normal_letters("xi’ān wo3’ai ‘hǎo’ 我’a") == "xi'an1 wo3'ai ‘hao3’ 我’a"
    assert normal_letters("İ WO") == "İ wo"  # whose small form is two characters


@given(st.text("aegnoxhzulr'’135 。我Aāǚü:", max_size=14))
def test_the_form_of_letters_is_stable(text):
    assert normal_letters(normal_letters(text)) == normal_letters(text)


def test_letters_of_a_reading():
    assert typed_letters(["wo3", "ai4", "ni3", "。"]) == ["wo", "ai", "ni", "。"]
    assert typed_letters(["na3", "er5", "1"], toned=True) == ["na", "r3", "1"]
    assert typed_letters(["er2", "er5"]) == ["er", "er"]
    assert typed_letters(["you3", "3", "ge4"]) == ["you", "3", "ge"]
    assert typed_letters(["nv", "er"], erhua=()) == ["nv", "er"]
    assert typed_letters(["na", "er"], erhua=(1,)) == ["na", "r"]


@pytest.mark.parametrize("toned", [False, True])
def test_what_is_typed_for_a_text_is_in_its_lattice(toned):
    text = "一会儿在哪儿吃西安的包子？女儿说：ok，略略略"
    reading = readings_of(text)
    typed = typed_letters(reading, toned=toned)
    edges = {(edge.begin, edge.syllable) for edge in edges_of("".join(typed))}
    begin = 0
    for letters, syllable in zip(typed, reading, strict=True):
        assert (begin, syllable if toned else syllable.rstrip("12345") or syllable) in edges or len(syllable) == 1
        begin += len(letters)


def test_long_input_ends():
    assert len(edges_of("xian" * 2_500)) > 7_500
    assert edges_of("u" * 10_000) == [Edge(0, 10_000, "u" * 10_000, "letters")]
    assert len(edges_of("iphone" * 1_600)) < 96_000
    assert normal_letters("woai" * 20_000 + "nǐ") == "woai" * 20_000 + "ni3"
    assert normal_letters("woai" * 20_000) == "woai" * 20_000


@pytest.mark.parametrize(
    ("text", "beginnings"),
    [
        ("wo ai'ni", ["w", "o", " ", "a", "i", "'", "n", "i"]),
        ("xi’ān’", ["x", "i", "’", "ā", "n", "’", "’"]),
        ("iPhone", ["i", "P", "h", "o", "n", "e"]),
        ("lu:se", ["l", "u:", "s", "e"]),
        ("ＬＵ:se", ["Ｌ", "Ｕ:", "s", "e"]),
        ("fuwu:hao", ["f", "u", "w", "u", ":", "h", "a", "o"]),
        ("lǜse", ["l", "ǜ", "s", "s", "e"]),  # lv4se: the tone begins where the next letter does
        ("nǐhǎo", ["n", "ǐ", "h", "h", "ǎ", "o", ""]),
        ("ni\u030chao", ["n", "i\u030c", "h", "h", "a", "o"]),
        ("wo r5", ["w", "o", " ", "r", "r", "5"]),  # er5
        ("ＬÜ3我", ["Ｌ", "Ü", "3", "我"]),
        ("", []),
    ],
)
def test_each_letter_has_its_place_in_what_was_typed(text, beginnings):
    letters = normal_letters(text)
    places = [*typed_places(text, letters)]
    assert len(places) == len(letters) + 1
    assert places[-1] == len(text)
    assert places == sorted(places)
    assert all(text[place:].startswith(one) for place, one in zip(places, beginnings, strict=False))
    assert len(beginnings) == len(letters)


@given(st.text(alphabet="aeilnorsuｕvü:ǐǜń r5我'’A\u030cİ", max_size=12))
def test_places_lead_from_the_beginning_to_the_end(text):
    letters = normal_letters(text)
    places = [*typed_places(text, letters)]
    assert len(places) == len(letters) + 1
    assert places == sorted(places)
    assert places[-1] == len(text)


@pytest.mark.parametrize("typed", ["hua1r", "huar1", "hua1r5"])
def test_the_tone_of_erhua_is_before_the_r_or_behind(typed):
    found = {(edge.begin, edge.syllable, edge.kind) for edge in edges_of(typed, incomplete=False, abbreviated=False)}
    place = typed.index("r")
    assert (0, "hua1", "full") in found
    assert (place, "er5", "erhua") in found
