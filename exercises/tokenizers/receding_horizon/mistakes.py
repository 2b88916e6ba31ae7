def _steps(tokens, third):
    return third[tokens[:-2], tokens[1:-1], tokens[2:]]


def _second(tokens, second):
    return second[tokens[:-1], tokens[1:]][:1]


def first_two_left_out(tokens, first, second, third):
    """You add only what the third table says. The first token and the second have probabilities too."""
    return _steps(tokens, third).log().sum()


def first_token_left_out(tokens, first, second, third):
    """You leave out the probability of the first token."""
    return _second(tokens, second).log().sum() + _steps(tokens, third).log().sum()


def second_token_left_out(tokens, first, second, third):
    """You leave out the probability of the second token, which sees only one token."""
    return first[tokens[0]].log() + _steps(tokens, third).log().sum()


def horizon_of_one(tokens, first, second, third):
    """You predict every token from the one before it. The horizon is two tokens, so use the third table from the third
    token on."""
    return first[tokens[0]].log() + second[tokens[:-1], tokens[1:]].log().sum()


def no_horizon(tokens, first, second, third):
    """You use the first table for every token. It holds only for the beginning of a text: what comes later depends on
    the tokens before."""
    return first[tokens].log().sum()


def axes_reversed(tokens, first, second, third):
    """You look up the past in the wrong order. The first axis of the third table is the older of the two tokens."""
    total = first[tokens[0]].log() + _second(tokens, second).log().sum()
    return total + third[tokens[1:-1], tokens[:-2], tokens[2:]].log().sum()


def next_token_first(tokens, first, second, third):
    """You look up the predicted token on the first axis. In all tables it is on the last axis."""
    total = first[tokens[0]].log() + second[tokens[1:], tokens[:-1]][:1].log().sum()
    return total + third[tokens[2:], tokens[1:-1], tokens[:-2]].log().sum()


def probability_not_logarithm(tokens, first, second, third):
    """You return the probability itself. Return its logarithm."""
    return first[tokens[0]] * _second(tokens, second).prod() * _steps(tokens, third).prod()


def probabilities_added(tokens, first, second, third):
    """You add the probabilities. Probabilities are multiplied, so add their logarithms."""
    return first[tokens[0]] + _second(tokens, second).sum() + _steps(tokens, third).sum()


def logarithm_of_the_sum(tokens, first, second, third):
    """You add the probabilities and take the logarithm of the sum. Take the logarithm of each probability first."""
    return (first[tokens[0]] + _second(tokens, second).sum() + _steps(tokens, third).sum()).log()


def base_two(tokens, first, second, third):
    """Your logarithms have base 2. Here they have base e."""
    total = first[tokens[0]].log2() + _second(tokens, second).log2().sum()
    return total + _steps(tokens, third).log2().sum()


def mean_not_sum(tokens, first, second, third):
    """You divide by the number of tokens. Return the logarithm of the probability of the whole text."""
    total = first[tokens[0]].log() + _second(tokens, second).log().sum() + _steps(tokens, third).log().sum()
    return total / len(tokens)


def negative(tokens, first, second, third):
    """You return the loss, minus the logarithm. Return the logarithm itself, which is below 0."""
    return -first[tokens[0]].log() - _second(tokens, second).log().sum() - _steps(tokens, third).log().sum()


def last_token_left_out(tokens, first, second, third):
    """You leave out the last token. It is predicted too."""
    total = first[tokens[0]].log() + _second(tokens, second).log().sum()
    return total + _steps(tokens, third)[:-1].log().sum()


def base_ten(tokens, first, second, third):
    """Your logarithms have base 10. Here they have base e."""
    total = first[tokens[0]].log10() + _second(tokens, second).log10().sum()
    return total + _steps(tokens, third).log10().sum()


def second_table_for_every_pair(tokens, first, second, third):
    """You add the second table for every token. Only the second token is predicted from it; from the third token on the
    third table says it all."""
    pairs = second[tokens[:-1], tokens[1:]].log().sum()
    return first[tokens[0]].log() + pairs + _steps(tokens, third).log().sum()
