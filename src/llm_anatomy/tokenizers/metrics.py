r"""What a vocabulary costs and what it buys: the trade-off between its size, the length of a text, and the context.

A larger vocabulary makes a text shorter in tokens. That pays twice: a context of the same length holds more text, and
attention, whose cost grows with the square of the length, gets cheaper. It costs embedding parameters, and rarer tokens
are seen less often in training.
"""

from collections.abc import Iterable, Mapping

from llm_anatomy.tokenizers.base import Tokenizer, as_bytes, check_texts


def bytes_per_token(tokenizer: Tokenizer, texts: Iterable[str]) -> float:
    r"""How much text a token holds on average. Bytes, not characters, so that scripts can be compared.

    Args:
        tokenizer: any.
        texts: best such as the tokenizer was not trained on.

    Raises:
        ValueError: if the texts give no token.

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
        raise ValueError("texts give no token; there is nothing to measure")
    return n_bytes / n_tokens


def tokens_per_word(tokenizer: Tokenizer, texts: Mapping[str, Iterable[str]]) -> dict[str, float]:
    """Fertility: into how many tokens a word is split on average, for each language. Languages of which the tokenizer
    saw little get many, and so a shorter context and a higher price for the same text.

    Words are what white space separates, and the tokens for the white space are counted too, as a model has to read
    them. For a script without spaces compare the lengths of the same text instead.

    Args:
        tokenizer: any.
        texts: for each language.

    Raises:
        ValueError: for a language without words.

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
            raise ValueError(f"texts[{language!r}] hold no word; there is nothing to measure")
        result[language] = n_tokens / n_words
    return result


def embedding_parameters(n_vocab: int, d_model: int) -> int:
    r"""Parameters of the matrix that gives each token its vector.

    .. math:: n_\mathrm{vocab} \cdot d_\mathrm{model}

    Args:
        n_vocab: how many tokens.
        d_model: width of a vector.

    Source: UCL-04, UCL-06, GT-41.

    >>> embedding_parameters(350_000, 4096)  # a token for each English word of the slide's dictionary
    1433600000
    """
    return n_vocab * d_model


def context_bytes(n_ctx: int, bytes_per_token: float) -> float:
    r"""How much text fits into a context.

    .. math:: n_\mathrm{ctx} \cdot \text{bytes per token}

    Args:
        n_ctx: length of the context in tokens.
        bytes_per_token: of the tokenizer, on such text.

    Source: UCL-09.

    >>> context_bytes(1024, 1.0), context_bytes(1024, 4.4)
    (1024.0, 4505.6)
    """
    return n_ctx * bytes_per_token


def attention_flops(n_tokens: int, d_model: int, n_layers: int = 1) -> int:
    r"""Floating point operations for the scores and the weighted sums of attention, without its projections and
    without the half that a causal mask makes needless. Half as many tokens cost a quarter.

    .. math:: n_\mathrm{layers} \cdot 4\, n_\mathrm{tokens}^2\, d_\mathrm{model}

    Args:
        n_tokens: how many attend to each other.
        d_model: width of the model.
        n_layers: how many attend.

    Source: Kaplan et al. (2020), section 2.1, doubled for the two products; UCL-05, UCL-09.

    >>> attention_flops(2048, 768) / attention_flops(1024, 768)
    4.0
    """
    return 4 * n_layers * n_tokens**2 * d_model


def compare_tokenizers(
    tokenizers: Mapping[str, Tokenizer], text: str, d_model: int
) -> list[dict[str, str | int | float]]:
    """The lecture's trade-off for one text: a row for each tokenizer.

    Args:
        tokenizers: each with the name of its row.
        text: the same for all.
        d_model: width of the model that would read it.

    Returns:
        For each: ``name, n_vocab, n_tokens, bytes_per_token, embedding_parameters, attention_flops``.

    Raises:
        ValueError: for an empty text.

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
