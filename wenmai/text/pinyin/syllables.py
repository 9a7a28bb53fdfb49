"""The syllables of Mandarin in pinyin, and their forms.

The *canonical form* of a syllable is lower-case letters with a tone digit from 1 to 5, or without one: ``zhong1``,
``zhong``. Tone 5 is the neutral tone. ü is written ``v`` after l and n (``lv4``, ``nve4``), and ``u`` after j, q, x and
y, as pinyin itself writes it. :func:`normal_syllable` reads the other forms: ``lü4``, ``lu:4``, ``lǜ``, ``LV4``,
``lue4``, ``ma0``.

Erhua (``zher4`` for 这儿) is two characters in one syllable. It is read into two syllables, ``zhe4 er5``, by
:func:`split_erhua`.

Source: the readings of GB 2312's characters and of phrases in pypinyin's dictionaries, the syllables of the transcripts
of AISHELL-1 and THCHS-30, and a few syllables of the spoken language (``biang4``, ``rua2``). Sounds without a vowel
have the syllable that is typed for them: ``ń`` of 嗯 is ``en2``, ``m2`` is ``mu2``; and ``ê`` is ``ei``.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Final, Literal

from wenmai.core.errors import PinyinError, nearest_name

__all__ = [
    "NEUTRAL",
    "TONED",
    "TONELESS",
    "Style",
    "normal_syllable",
    "spelt",
    "split_erhua",
    "split_tone",
    "without_tone",
]

Style = Literal["number", "mark", "bare"]
"""How a syllable is spelt: ``lv4``, ``lǜ`` or ``lv``."""

NEUTRAL: Final = 5
"""The neutral tone (轻声)."""

_TABLE = """
    a12345 ai1234 an1234 ang124 ao1234 e12345 ei2 en1234 eng1 er2345 o1245 ou134
    ba12345 bai1234 ban134 bang134 bao1234 bei1345 ben134 beng1234 bi1234 bian1345 biang24 biao134 bie1234 bin14
    bing134 bo12345 bu12345
    pa124 pai1234 pan124 pang1234 pao1234 pei124 pen124 peng1234 pi1234 pian1234 piao1234 pie13 pin1234 ping124
    po12345 pou1234 pu1234
    ma12345 mai234 man1234 mang23 mao1234 me5 mei234 men1245 meng1234 mi1234 mian234 miao1234 mie145 min23 ming234
    miu4 mo12345 mou123 mu234
    fa1234 fan1234 fang12345 fei1234 fen1234 feng1234 fo2 fou13 fu12345
    da12345 dai134 dan134 dang134 dao1234 de25 dei3 den4 deng134 di12345 dia3 dian134 diao134 die123 ding134 diu1
    dong134 dou134 du1234 duan134 dui14 dun134 duo12345
    ta1345 tai1234 tan1234 tang1234 tao1234 te4 tei1 teng25 ti1234 tian1234 tiao12345 tie134 ting1234 tong1234
    tou12345 tu1234 tuan1234 tui1234 tun1234 tuo1234
    na12345 nai2345 nan1234 nang1235 nao1234 ne245 nei34 nen4 neng2 ni1234 nia1 nian1234 niang24 niao34 nie14 nin2
    ning234 niu1234 nong24 nou4 nu234 nuan23 nun24 nuo24 nv34 nve4
    la12345 lai24 lan234 lang1234 lao12345 le145 lei12345 len4 leng1234 li12345 lia3 lian234 liang2345 liao1234
    lie12345 lin1234 ling1234 liu1234 lo5 long1234 lou12345 lu12345 luan234 lun124 luo1234 lv234 lve34
    ga1234 gai134 gan134 gang134 gao134 ge12345 gei3 gen1234 geng134 gong134 gou134 gu12345 gua134 guai134 guan134
    guang134 gui134 gun34 guo1234
    ka13 kai134 kan134 kang1234 kao134 ke12345 kei1 ken34 keng13 kong134 kou134 ku134 kua134 kuai34 kuan13 kuang1234
    kui1234 kun134 kuo4
    ha1234 hai1234 han1234 hang1234 hao1234 he1245 hei1 hen234 heng1245 hong1234 hou234 hu12345 hua124 huai245
    huan1234 huang12345 hui1234 hun124 huo12345
    ji1234 jia12345 jian134 jiang134 jiao1234 jie12345 jin134 jing134 jiong13 jiu1345 ju12345 juan134 jue1234 jun14
    qi12345 qia134 qian1234 qiang1234 qiao1234 qie1234 qin1234 qing1234 qiong12 qiu1234 qu12345 quan1234 que124
    qun123
    xi12345 xia124 xian1234 xiang1234 xiao1234 xie1234 xin1245 xing1234 xiong124 xiu134 xu12345 xuan1234 xue1234
    xun124
    zha12345 zhai1234 zhan134 zhang134 zhao1234 zhe12345 zhei4 zhen134 zheng134 zhi1234 zhong134 zhou1234 zhu1234
    zhua13 zhuai134 zhuan134 zhuang134 zhui14 zhun13 zhuo12
    cha1234 chai124 chan1234 chang1234 chao1234 che134 chen12345 cheng1234 chi1234 chong1234 chou1234 chu1234 chua1
    chuai134 chuan1234 chuang1234 chui124 chun123 chuo14
    sha1234 shai134 shan134 shang1345 shao1234 she1234 shei2 shen1234 sheng12345 shi12345 shou12345 shu1234 shua134
    shuai134 shuan14 shuang134 shui2345 shun34 shuo124
    ran23 rang12345 rao234 re234 ren234 reng124 ri4 rong123 rou234 ru234 rua2 ruan3 rui234 run4 ruo24
    za123 zai134 zan12345 zang134 zao1234 ze24 zei2 zen34 zeng14 zi1345 zong134 zou134 zu123 zuan134 zui134 zun123
    zuo1234
    ca13 cai1234 can1234 cang12 cao1234 ce4 cei4 cen12 ceng124 ci1234 cong12 cou134 cu124 cuan124 cui134 cun1234
    cuo1234
    sa134 sai14 san134 sang134 sao134 se4 sen13 seng1 si1345 song134 sou134 su124 suan14 sui1234 sun13 suo1345
    ya12345 yan1234 yang1234 yao1234 ye1234 yi12345 yin1234 ying1234 yo15 yong1234 you1234 yu1234 yuan1234 yue1234
    yun1234
    wa12345 wai134 wan1234 wang1234 wei1234 wen1234 weng134 wo134 wu1234
"""


def _table() -> dict[str, str]:
    """Returns the tones of each syllable."""
    entries = (entry.rstrip("12345") for entry in _TABLE.split())
    return {letters: entry[len(letters) :] for letters, entry in zip(entries, _TABLE.split(), strict=True)}


_TONES: Final = _table()

TONELESS: Final[tuple[str, ...]] = tuple(sorted(_TONES))
"""The syllables without tones, sorted."""

TONED: Final[tuple[str, ...]] = tuple(sorted(letters + tone for letters, tones in _TONES.items() for tone in tones))
"""The syllables with the tones that they have in words, sorted. Other tones of a syllable are read too."""

_COMBINING: Final = {"\u0304": 1, "\u0301": 2, "\u030c": 3, "\u0300": 4}  # macron, acute, caron, grave
_MARKS: Final = {tone: mark for mark, tone in _COMBINING.items()}
_DIAERESIS: Final = "\u0308"
_CIRCUMFLEX: Final = "\u0302"
_TONE_BEFORE_R: Final = re.compile(r"([0-9])([rR])$")
_TYPED: Final = {"m": "mu", "n": "en", "ng": "en", "hm": "heng", "hng": "heng"}


@lru_cache(1 << 14)
def split_tone(syllable: str) -> tuple[str, int]:
    """Returns the letters and the tone of a syllable in canonical form: ``("zhong", 1)``, or 0 without a tone.

    What has one character alone, such as a digit of a text, has no tone.
    """
    return (syllable[:-1], ord(syllable[-1]) - ord("0")) if syllable[1:] and syllable[-1] in "12345" else (syllable, 0)


def without_tone(syllable: str) -> str:
    """Returns the letters of a syllable in canonical form; what has one character alone stays."""
    return split_tone(syllable)[0]


@lru_cache(1 << 14)
def normal_syllable(text: str) -> str:
    """Returns the canonical form of a syllable.

    Args:
        text: The syllable, in any case and width; with a tone digit (0 is the neutral tone), a tone mark, or neither;
            ü as ``ü``, ``v``, ``u:`` or, after l and n before e, ``u``; ``r5`` is the 儿 of erhua.

    Raises:
        PinyinError: if the letters form no syllable, or there is no such tone.
    """
    letters, tone = _parse(text)
    if letters not in _TONES:
        raise PinyinError(
            f"{_shown(text)} is no syllable of pinyin{nearest_name(letters, TONELESS)}; syllables are such as"
            " zhong, zhong1, zhōng, lv4 or lǜ"
        )
    return f"{letters}{tone}" if tone else letters


def _parse(text: str) -> tuple[str, int]:
    """Returns the letters, ü as v or u, and the tone or 0."""
    plain = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).strip().lower())
    letters, tones = "", []
    for place, character in enumerate(plain):
        if "a" <= character <= "z":
            letters += character
        elif character in (_DIAERESIS, ":") and letters.endswith("u"):
            letters = letters[:-1] + "v"
        elif character == _CIRCUMFLEX and letters == "e":
            letters = "ei"
        elif character in _COMBINING and letters:
            tones.append(_COMBINING[character])
        elif "0" <= character <= "9" and letters and place == len(plain) - 1:
            tones.append(int(character) or NEUTRAL)
        else:
            raise PinyinError(f"{_shown(text)} is no syllable of pinyin, because of {character!r}")
    if len(tones) > 1:
        raise PinyinError(f"{_shown(text)} has two tones; write one: a digit from 1 to 5, or a mark")
    if tones and tones[0] > NEUTRAL:
        raise PinyinError(
            f"{_shown(text)}: there is no tone {tones[0]}; tones are 1 to 4, and 5 or 0 for the neutral one"
        )
    if letters[:1] in ("j", "q", "x", "y"):
        letters = letters[0] + letters[1:].replace("v", "u", 1)
    elif letters in ("lue", "nue"):
        letters = f"{letters[0]}ve"
    elif letters == "r" and tones == [NEUTRAL]:  # erhua, as dictionaries write it
        letters = "er"
    return _TYPED.get(letters, letters), tones[0] if tones else 0


def _shown(text: str) -> str:
    return repr(text if len(text) <= 20 else f"{text[:20]}…")


def spelt(syllable: str, style: Style) -> str:
    """Returns a syllable as people write it.

    Args:
        syllable: In canonical form.
        style: ``number`` (``lv4``), ``mark`` (``lǜ``), or ``bare`` (``lv``). The neutral tone has no mark.
    """
    if style == "number":
        return syllable
    letters, tone = split_tone(syllable)
    if style == "bare":
        return letters
    if tone in _MARKS:
        place = _vowel(letters)
        letters = letters[: place + 1] + _MARKS[tone] + letters[place + 1 :]
    return unicodedata.normalize("NFC", letters.replace("v", f"u{_DIAERESIS}"))


def _vowel(letters: str) -> int:
    """Returns the index of the vowel with the mark: a or e if there is one, the o of ou, else the last vowel."""
    for found in (letters.find("a"), letters.find("e"), letters.find("ou")):
        if found >= 0:
            return found
    return max(letters.rfind(vowel) for vowel in "iouv")


@lru_cache(1 << 12)
def split_erhua(text: str) -> tuple[str, ...]:
    """Returns the canonical forms of the syllables that a written syllable stands for.

    They are one, or two with erhua: ``zher4`` and ``zhe4r`` are ``("zhe4", "er5")``, and ``nar`` is ``("na", "er")``.

    Raises:
        PinyinError: as of :func:`normal_syllable`.
    """
    letters, tone = _parse(_TONE_BEFORE_R.sub(r"\2\1", text))
    stem = letters.removesuffix("r")
    if letters in _TONES or stem == letters or stem not in _TONES:
        return (normal_syllable(text),)
    return (f"{stem}{tone}", f"er{NEUTRAL}") if tone else (stem, "er")
