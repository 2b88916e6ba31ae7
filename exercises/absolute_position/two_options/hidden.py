import torch


def cases(generator):
    def drawn(n_sentences, n_tokens):
        lengths = torch.randint(1, n_tokens, (n_sentences, 1), generator=generator)  # none fills its row
        lengths[0] = 1
        return {"is_word": torch.arange(n_tokens) >= n_tokens - lengths}

    return [drawn(4, 9), drawn(6, 5), drawn(3, 40), {"is_word": torch.ones(2, 11, dtype=torch.bool)}]
