RIGHT = {"GPT-2": "D", "T5 11B": "C", "LLaMA 65B": "A", "Llama 3 70B": "E", "Gemma 2B": "B", "ratio": 2.0}


def embeddings_exchanged():
    """The two models with the largest shares of embeddings are exchanged. Only one of them shares key-value heads, so
    look at attention."""
    return RIGHT | {"GPT-2": "B", "Gemma 2B": "D"}


def the_two_of_the_same_width_exchanged():
    """LLaMA 65B and Llama 3 70B are exchanged. Which of them has key-value heads that are shared, and the larger MLP
    factor?"""
    return RIGHT | {"LLaMA 65B": "E", "Llama 3 70B": "A"}


def factor_of_64():
    """T5 11B and Llama 3 70B are exchanged. For T5, an MLP factor of 64 makes the feed-forward layers large, but its
    attention is wide, too."""
    return RIGHT | {"T5 11B": "E", "Llama 3 70B": "C"}


def t5_and_llama_exchanged():
    """T5 11B and LLaMA 65B are exchanged. In one of them, some layers have two attentions. And with the two tables of
    LLaMA, are the embeddings larger or smaller than those of T5, beside the rest of the model?"""
    return RIGHT | {"T5 11B": "A", "LLaMA 65B": "C"}


def ratio_too_small():
    """Your ratio is too small. Which part of the bar is divided by which?"""
    return RIGHT | {"ratio": 0.5}


def ratio_too_large():
    """Your ratio is too large. Divide the shares of two parts of the same bar, that of LLaMA 65B."""
    return RIGHT | {"ratio": 2.6875}


def three_models_in_the_wrong_order():
    """The three models with few embeddings are in the wrong order. Begin with the one that has most of its parameters
    outside attention: which two things in its config lead to that?"""
    return RIGHT | {"T5 11B": "A", "LLaMA 65B": "E", "Llama 3 70B": "C"}


def t5_and_llama_exchanged_with_the_ratio():
    """T5 11B and LLaMA 65B are exchanged, and so your ratio is that of T5. In one of them, some layers have two
    attentions."""
    return RIGHT | {"T5 11B": "A", "LLaMA 65B": "C", "ratio": 1.33}


def the_two_of_the_same_width_exchanged_with_the_ratio():
    """LLaMA 65B and Llama 3 70B are exchanged, and so your ratio is that of Llama 3. Which of them has key-value heads
    that are shared, and the larger MLP factor?"""
    return RIGHT | {"LLaMA 65B": "E", "Llama 3 70B": "A", "ratio": 4.67}
