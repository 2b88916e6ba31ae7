import torch

from llm_anatomy.shapes import Float, Tensor
from llm_anatomy.tokenizers.bpe import BPE
from llm_anatomy.training.data.stories import story_text


def longer_tokens(seed: int) -> tuple[Float[Tensor, "2 2"], str]:
    """The bytes per token (rows: 512 and 1024 tokens; columns: training text, new text), and what they say."""
    texts = story_text(20000, seed), story_text(20000, seed + 100)
    table = torch.empty(2, 2)
    for row, n_vocab in enumerate((512, 1024)):
        tokenizer = BPE.train([texts[0]], n_vocab)
        for column, text in enumerate(texts):
            table[row, column] = len(text.encode()) / len(tokenizer.encode(text))
    small, large = (table[:, 0] / table[:, 1]).tolist()
    if max(small, large) < 1.03:
        return table, "fair"
    return table, "flatters, more with more tokens" if large - small >= 0.03 else "flatters, equally at both sizes"


def accepted_lists(seed):
    """Returns lists of numbers, from the vocabulary's own bytes."""
    new, rows = story_text(20000, seed + 100), []
    old = story_text(20000, seed)
    for n_vocab in (512, 1024):
        tokenizer, row = BPE.train([old], n_vocab), []
        for text in (old, new):
            lengths = [len(tokenizer.vocabulary[i]) for i in tokenizer.encode(text)]
            row.append(sum(lengths) / len(lengths))
        rows.append(row)
    return [rows, "flatters, more with more tokens"]


def accepted_story_by_story(seed):
    """Trains and measures paragraph by paragraph, which changes little."""
    old, new = (story_text(20000, s).split("\n\n") for s in (seed, seed + 100))
    rows = []
    for n_vocab in (512, 1024):
        tokenizer = BPE.train([text + "\n\n" for text in old], n_vocab)
        rows.append([])
        for texts in (old, new):
            n_bytes = sum(len(text.encode()) + 2 for text in texts)
            rows[-1].append(n_bytes / sum(len(tokenizer.encode(text + "\n\n")) for text in texts))
    return torch.tensor(rows, dtype=torch.float64), "flatters, more with more tokens"


def cases(generator):
    return [{"seed": 0}, {"seed": 1}]


CONCLUSIONS = ["fair", "flatters, equally at both sizes", "flatters, more with more tokens"]
EXPECTED = torch.tensor([[2.42, 2.27], [3.72, 3.18]])


def observe(returned, seed):
    """your four numbers with those of the experiment, and your conclusion with your numbers"""
    assert isinstance(returned, tuple | list) and len(returned) == 2, (
        "you should return two things, the table and the conclusion"
    )
    table, conclusion = returned
    assert not isinstance(table, str), "the table should come first, then the conclusion"
    numbers = torch.as_tensor(table).double()
    assert numbers.shape == (2, 2), f"the table has shape {tuple(numbers.shape)}, not (2, 2)"
    assert conclusion in CONCLUSIONS, f"the conclusion is {conclusion!r}, which is not one of the three strings"
    ratios, names = (numbers / EXPECTED).flatten().tolist(), ["too small", "right", "too large", "far too large"]
    words = [names[sum(x > bound for bound in (0.95, 1.05, 20))] for x in ratios]
    if words != ["right"] * 4:
        inverse = (numbers * EXPECTED - 1).abs().max() < 0.1
        turned = (numbers.T / EXPECTED - 1).abs().max() < 0.05
        if inverse:
            return "1 divided by what is expected"
        if turned:
            return "transposed"
        return "512 tokens: training text {}, new text {}; 1024 tokens: training text {}, new text {}".format(*words)
    small, large = (numbers[:, 0] / numbers[:, 1]).tolist()
    follows = CONCLUSIONS[0 if max(small, large) < 1.03 else 1 + (large - small >= 0.03)] == conclusion
    return f"all four numbers are right, and the conclusion {'follows' if follows else 'does not follow'} from them"


def hidden_cases(generator):
    return [{"seed": seed} for seed in (2, 3, 40)]
