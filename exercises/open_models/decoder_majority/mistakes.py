from collections import Counter


def _fractions(years, branches, words=("decoder",)):
    counts = Counter(years)
    of_words = Counter(year for year, branch in zip(years, branches, strict=True) if branch in words)
    return {year: of_words[year] / n for year, n in sorted(counts.items())}


def _for_good(shares, least=0.5, also_equal=False):
    found = 0
    for year in sorted(shares, reverse=True):
        if not (shares[year] > least or also_equal and shares[year] == least):
            break
        found = year
    return found


def first_majority(years, branches):
    """You return the first year with a majority of decoders. In a later year they may lose it again."""
    return next((year for year, share in _fractions(years, branches).items() if share > 0.5), 0)


def half_is_enough(years, branches):
    """You take half of the models for a majority. More than half is asked for."""
    return _for_good(_fractions(years, branches), also_equal=True)


def encoder_decoders_counted(years, branches):
    """You count encoder-decoders as decoders. They are a branch of their own."""
    return _for_good(_fractions(years, branches, ("decoder", "encoder-decoder")))


def encoders_counted(years, branches):
    """You look for a majority of encoders. The question is about decoders."""
    return _for_good(_fractions(years, branches, ("encoder",)))


def last_year_without(years, branches):
    """You return the last year without a majority. The answer is the next year that has a model."""
    return max((year for year, share in _fractions(years, branches).items() if share <= 0.5), default=0)


def year_after(years, branches):
    """You return the year that follows the last one without a majority. There need not be a model in it."""
    last = max((year for year, share in _fractions(years, branches).items() if share <= 0.5), default=0)
    return last + 1 if last else min(years)


def decoders_alone(years, branches):
    """You look for years in which all models are decoders. More than half is enough."""
    return _for_good(_fractions(years, branches), least=0.999)


def last_year(years, branches):
    """You return the last year with a majority. The question is since when there has been one."""
    shares = _fractions(years, branches)
    return max(shares) if shares[max(shares)] > 0.5 else 0


def largest_branch(years, branches):
    """You ask whether decoders are more numerous than each of the other branches. A majority is more than half."""
    found = 0
    for year in sorted(set(years), reverse=True):
        counts = Counter(branch for y, branch in zip(years, branches, strict=True) if y == year)
        if counts["decoder"] <= max(counts["encoder"], counts["encoder-decoder"]):
            break
        found = year
    return found


def all_later_models_together(years, branches):
    """You count the models of all later years together. Every single year should have a majority."""
    pairs = list(zip(years, branches, strict=True))
    for first in sorted(set(years)):
        later = [branch == "decoder" for year, branch in pairs if year >= first]
        if 2 * sum(later) > len(later):
            return first
    return 0
