import torch


def _seen(value, attention_mask):
    return torch.ones(len(value), len(value), dtype=torch.bool).tril() & attention_mask


def _scores(value, table):
    return table[: len(value), : len(value)]


def table_cut_first(value, table, attention_mask):
    """You cut the table to the length of the text before the softmax, which is needed. But what the mask hides still
    has a part in the sum by which the softmax divides."""
    return _scores(value, table).softmax(-1).masked_fill(~_seen(value, attention_mask), 0) @ value


def zero_scores(value, table, attention_mask):
    """You set hidden scores to 0 before the softmax. A score of 0 leads to a weight above 0."""
    return _scores(value, table).masked_fill(~_seen(value, attention_mask), 0).softmax(-1) @ value


def zero_scores_hidden_again(value, table, attention_mask):
    """Hidden scores are 0 in your softmax, and the weights are hidden once more. A score of 0 still adds 1 to the sum
    by which the softmax divides."""
    seen = _seen(value, attention_mask)
    return (_scores(value, table).masked_fill(~seen, 0).softmax(-1) * seen) @ value


def padding_seen(value, table, attention_mask):
    """Your rows are averages now, but padding has a part in them."""
    causal = _seen(value, torch.ones_like(attention_mask))
    return _scores(value, table).masked_fill(~causal, -torch.inf).softmax(-1) @ value


def later_tokens_seen(value, table, attention_mask):
    """Your rows are averages now, but later tokens have a part in them."""
    return _scores(value, table).masked_fill(~attention_mask, -torch.inf).softmax(-1) @ value


def nothing_hidden(value, table, attention_mask):
    """Your rows are averages now, but nothing is hidden any more."""
    return _scores(value, table).softmax(-1) @ value


def columns_for_rows(value, table, attention_mask):
    """You read the table the wrong way round. A row belongs to the token that attends."""
    return _scores(value, table.T).masked_fill(~_seen(value, attention_mask), -torch.inf).softmax(-1) @ value


def longest_text_alone(value, table, attention_mask):
    """Your softmax leaves out what the mask hides in the text, but the columns beyond the text still have a part in the
    sum."""
    n = len(value)
    scores = table[:n].clone()
    scores[:, :n] = scores[:, :n].masked_fill(~_seen(value, attention_mask), -torch.inf)
    return scores.softmax(-1)[:, :n] @ value


def divided_by_the_number_of_tokens(value, table, attention_mask):
    """You divide by the number of tokens that a row sees. Divide by the sum of their weights."""
    seen = _seen(value, attention_mask)
    weights = table.softmax(-1)[: len(value), : len(value)] * seen
    return weights @ value / seen.sum(-1, keepdim=True)


def plain_average(value, table, attention_mask):
    """You average the tokens that a row sees, whatever the table says."""
    seen = _seen(value, attention_mask).float()
    return seen @ value / seen.sum(-1, keepdim=True)


def rows_of_padding_empty(value, table, attention_mask):
    """The rows of padding are zero. They should be averages as well, of the tokens before them."""
    scores = _scores(value, table).masked_fill(~_seen(value, attention_mask), -torch.inf)
    return (scores.softmax(-1) @ value) * attention_mask[:, None]


def last_rows_of_the_table(value, table, attention_mask):
    """You read the end of the table. The first token of a text has the first position."""
    n = len(value)
    return table[-n:, -n:].masked_fill(~_seen(value, attention_mask), -torch.inf).softmax(-1) @ value
