"""An input key by key: what an input method shows, and what is chosen of it."""

from collections.abc import Callable
from typing import NamedTuple

from wenmai.core.errors import SettingError

__all__ = ["MOST", "SENTENCES", "InputSession", "Offer", "first_offers"]

SENTENCES = 3  # candidates for the whole input; the others are words or characters that it may begin with
MOST = 9  # candidates that are shown


class Offer(NamedTuple):
    """A candidate.

    Attributes:
        text: Its characters.
        probability: Of a candidate for the whole input, how likely it is among all that the search kept; of a word that
            the input may begin with, None.
        letters: How many of the letters that are typed it stands for.
    """

    text: str
    probability: float | None
    letters: int


class InputSession:
    """An input under way: the last syllable may be incomplete; initials stand for syllables where others do not fit.

    Args:
        offered: Gives the candidates for letters after a text.
        context: The text before the cursor.

    Attributes:
        letters: What is typed and not chosen yet.
    """

    def __init__(self, offered: Callable[[str, str], list[Offer]], *, context: str = "") -> None:
        self._offered, self._context = offered, context
        self._chosen: list[tuple[str, str]] = []  # texts, with the letters they stand for
        self.letters = ""
        self._offers: list[Offer] | None = None

    @property
    def text(self) -> str:
        """What has been chosen."""
        return "".join([text for text, _ in self._chosen])

    @property
    def candidates(self) -> list[Offer]:
        """The candidates for what is typed: the best for all of it, then words that it may begin with, long ones first.

        Raises:
            FormatError: if the model is damaged.
        """
        if self._offers is None:
            self._offers = self._offered(self.letters, self._context + self.text) if self.letters else []
        return list(self._offers)

    @property
    def preview(self) -> str:
        """What is chosen, and the best candidate for the rest."""
        return self.text + (self.candidates[0].text if self.candidates else self.letters)

    def type(self, letters: str) -> list[Offer]:
        """Adds letters, and returns the candidates."""
        self.letters += letters
        self._offers = None
        return self.candidates

    def backspace(self) -> list[Offer]:
        """Takes the last letter back; without letters, the last choice. Returns the candidates."""
        if self.letters:
            self.letters = self.letters[:-1]
        elif self._chosen:
            self.letters = self._chosen.pop()[1]
        self._offers = None
        return self.candidates

    def choose(self, number: int = 0) -> str:
        """Chooses a candidate; the letters that it does not stand for remain.

        Args:
            number: Its place among the candidates, from 0.

        Returns:
            What has been chosen so far.

        Raises:
            SettingError: if there is no such candidate.
        """
        offers = self.candidates
        if not 0 <= number < len(offers):
            raise SettingError(f"there is no candidate {number}; there are {len(offers)}, numbered from 0")
        offer = offers[number]
        self._chosen.append((offer.text, self.letters[: offer.letters]))
        self.letters = self.letters[offer.letters :]
        self._offers = None
        return self.text

    def finish(self) -> str:
        """Chooses the best candidate for all that is typed, returns the text, and begins the next input after it."""
        text = self.preview
        self._context += text
        self._chosen, self.letters, self._offers = [], "", None
        return text


def first_offers(whole: list[Offer], first: list[Offer], *, most: int = MOST) -> list[Offer]:
    """Returns candidates for the whole input, and after them those for its beginning, each text once."""
    found = {offer.text: offer for offer in whole}
    for offer in first:
        if offer.letters:  # er of r5 begins where it ends
            found.setdefault(offer.text, offer)
    return list(found.values())[:most]
