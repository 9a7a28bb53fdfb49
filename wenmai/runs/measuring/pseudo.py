"""How the metrics of masked language models are shown, which are of another kind than those of a probability."""

from wenmai.runs.comparison import Kind

__all__ = ["PSEUDO_KINDS"]

PSEUDO_KINDS = {
    "pseudo-bits": Kind(
        title="Pseudo bits per character",
        name="pseudo bits per character",
        items="tokens",
        about="is the pseudo-log-likelihood of a text in bits, divided by its characters: a masked language model "
        "predicts each token from all others of its line, those behind it too. It is no cross-entropy, and must not be "
        "compared with bits per character. An unknown word costs 8 bits more for each of its bytes.",
    ),
    "pseudo-perplexity": Kind(
        title="Pseudo-perplexity by word",
        name="pseudo-perplexity by word",
        about="is the same by word, and no more a perplexity; models whose words have several tokens have it easier, "
        "as each token is predicted from the others of its word.",
        short=True,
        judged=False,
    ),
}
