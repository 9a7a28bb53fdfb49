"""Scripts without spaces are found where nothing separates their words, and nowhere else."""

import pytest

from wenmai.text.unspaced import find_unspaced

CHINESE = "今天天气很好，我们一起去公园里散步，顺便买些东西吃。\n"
JAPANESE = "東京タワーは東京都港区芝公園にある総合電波塔である。\n"
THAI = "ประเทศไทยเป็นประเทศที่ตั้งอยู่ในเอเชีย ตะวันออกเฉียงใต้มีพรมแดน\n"
ENGLISH = "The quick brown fox jumps over the lazy dog, as every typist knows by heart.\n"


@pytest.mark.parametrize(
    ("sample", "language", "segment"),
    [
        (CHINESE, "Chinese", "chinese"),
        ("圖文：美國股市收盤 道瓊工業指數上漲 科技股領軍大漲\n", "Chinese", "chinese"),  # titles have some spaces
        (CHINESE + "它的英文名称叫做 machine learning，大家都在学习和使用它。\n", "Chinese", "chinese"),
        (CHINESE + ENGLISH, "Chinese", "chinese"),
        (JAPANESE, "Japanese", "characters"),
        ("学而时习\n不亦说乎\n", "Chinese", "chinese"),  # lines as short as words
        (THAI, "Thai, Lao, Khmer, Burmese or Tibetan", "characters"),
    ],
)
def test_text_without_spaces_is_found(sample, language, segment):
    found = find_unspaced(sample * 3)
    assert (found.language, found.segment) == (language, segment)
    assert 0.2 < found.share <= 1


@pytest.mark.parametrize(
    "sample",
    [
        "",
        "你好",
        ENGLISH,
        ENGLISH + "The Chinese word 你好世界朋友们 means hello.\n",
        "今天 天气 很 好 ， 我们 一起 去 公园 里 散步 。\n",  # segmented before
        "今 天 天 气 很 好 ， 我 们 一 起 去 公 园 。\n",
        "東京 タワー は 東京 都 港 区 芝公園 に ある 総合 電波 塔 で ある 。\n",
        "ประเทศ ไทย เป็น ประเทศ ที่ ตั้ง อยู่ ใน เอเชีย ตะวันออก\n",
        "대한민국은 동아시아의 한반도 남부에 있는 나라이다\n",
        "苹果 apple\n香蕉 banana\n橙子 orange\n",  # a dictionary
    ],
)
def test_text_with_spaces_is_left_alone(sample):
    assert find_unspaced(sample * 5) is None
