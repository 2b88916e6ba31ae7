r"""Metrics of tokenizers: the trade-off between the size of the vocabulary and the number of tokens in a text.

A larger vocabulary encodes a text in fewer tokens. This has two benefits: a context of the same length holds more text,
and attention, whose cost grows with the square of the length, becomes cheaper. The price is more embedding parameters,
and rare tokens that the model seldom sees in training.
"""

from collections.abc import Iterable, Mapping

from llm_anatomy.tokenizers.base import Tokenizer, as_bytes, check_texts


def bytes_per_token(tokenizer: Tokenizer, texts: Iterable[str]) -> float:
    r"""Average number of UTF-8 bytes per token. Bytes, unlike characters, allow a comparison between scripts.

    Args:
        tokenizer: the tokenizer to measure.
        texts: preferably texts that the tokenizer was not trained on.

    Raises:
        ValueError: if the texts have no tokens.

    Source: UCL-05, UCL-09.

    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> bytes_per_token(ByteTokenizer(), ["plain text"])
    1.0
    """
    n_bytes = n_tokens = 0
    for text in check_texts(texts):
        n_bytes += len(as_bytes(text))
        n_tokens += len(tokenizer.encode(text))
    if not n_tokens:
        raise ValueError("texts have no tokens; at least one text must not be empty")
    return n_bytes / n_tokens


def tokens_per_word(tokenizer: Tokenizer, texts: Mapping[str, Iterable[str]]) -> dict[str, float]:
    """Fertility: the average number of tokens per word, for each language.

    A language that was rare in the tokenizer's training text has a high fertility, so the same content fills more of
    the context and costs more. Words are separated by white space. The tokens of the white space count too, since a
    model has to read them. For scripts without spaces, compare the lengths of parallel texts instead.

    Args:
        tokenizer: the tokenizer to measure.
        texts: the texts of each language.

    Raises:
        ValueError: if the texts of a language contain no words.

    Source: Rust et al. (2021), "How Good is Your Tokenizer?", section 3.1; UCL-06, UCL-09.

    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> tokens_per_word(ByteTokenizer(), {"English": ["the cat"], "French": ["le château"]})
    {'English': 3.5, 'French': 5.5}
    """
    result = {}
    for language, samples in texts.items():
        n_words = n_tokens = 0
        for text in check_texts(samples):
            n_words += len(text.split())
            n_tokens += len(tokenizer.encode(text))
        if not n_words:
            raise ValueError(f"texts[{language!r}] contain no words; at least one text must contain a word")
        result[language] = n_tokens / n_words
    return result


def embedding_parameters(n_vocab: int, d_model: int) -> int:
    r"""Number of parameters in the embedding table.

    .. math:: n_\mathrm{vocab} \cdot d_\mathrm{model}

    Args:
        n_vocab: number of tokens in the vocabulary.
        d_model: width of an embedding vector.

    Source: UCL-04, UCL-06, GT-41.

    >>> embedding_parameters(350_000, 4096)  # one token for each word of the slide's English dictionary
    1433600000
    """
    return n_vocab * d_model


def context_bytes(n_ctx: int, bytes_per_token: float) -> float:
    r"""Number of bytes of text that fit into a context.

    .. math:: n_\mathrm{ctx} \cdot \text{bytes per token}

    Args:
        n_ctx: length of the context in tokens.
        bytes_per_token: average of the tokenizer on this kind of text.

    Source: UCL-09.

    >>> context_bytes(1024, 1.0), context_bytes(1024, 4.4)
    (1024.0, 4505.6)
    """
    return n_ctx * bytes_per_token


def attention_flops(n_tokens: int, d_model: int, n_layers: int = 1) -> int:
    r"""Floating-point operations of the scores and the weighted sums of attention.

    The projections are left out, and no saving by a causal mask is assumed. Half as many tokens cost a quarter.

    .. math:: n_\mathrm{layers} \cdot 4\, n_\mathrm{tokens}^2\, d_\mathrm{model}

    Args:
        n_tokens: number of tokens that attend to each other.
        d_model: width of the model.
        n_layers: number of attention layers.

    Source: Kaplan et al. (2020), section 2.1, doubled for the two products; UCL-05, UCL-09.

    >>> attention_flops(2048, 768) / attention_flops(1024, 768)
    4.0
    """
    return 4 * n_layers * n_tokens**2 * d_model


def compare_tokenizers(
    tokenizers: Mapping[str, Tokenizer], text: str, d_model: int
) -> list[dict[str, str | int | float]]:
    """Compare tokenizers on one text: the lecture's trade-off in numbers.

    Args:
        tokenizers: the tokenizers, each with a name for its row.
        text: the text that each of them encodes.
        d_model: width of the model that would read the text.

    Returns:
        A row for each tokenizer: ``name, n_vocab, n_tokens, bytes_per_token, embedding_parameters, attention_flops``.

    Raises:
        ValueError: if the text is empty.

    Source: UCL-09, GT-41.

    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> compare_tokenizers({"bytes": ByteTokenizer()}, "four", d_model=8)[0]["attention_flops"]
    512
    """
    rows = []
    for name, tokenizer in tokenizers.items():
        n_tokens = len(tokenizer.encode(text))
        rows.append(
            {
                "name": name,
                "n_vocab": tokenizer.n_vocab,
                "n_tokens": n_tokens,
                "bytes_per_token": bytes_per_token(tokenizer, [text]),
                "embedding_parameters": embedding_parameters(tokenizer.n_vocab, d_model),
                "attention_flops": attention_flops(n_tokens, d_model),
            }
        )
    return rows
