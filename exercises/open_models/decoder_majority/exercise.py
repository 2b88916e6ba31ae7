from collections import Counter


def decoder_majority(years: list[int], branches: list[str]) -> int:
    """Return the first year from which on decoders have the majority in every year with a model, or 0."""
    of_all = Counter(years)
    decoders = Counter(year for year, branch in zip(years, branches, strict=True) if branch == "decoder")
    found = 0
    for year in sorted(of_all, reverse=True):
        if 2 * decoders[year] <= of_all[year]:
            break
        found = year
    return found


def accepted_later_than_the_last_exception(years, branches):
    """Looks for the last year without a majority, and returns a float."""
    pairs = list(zip(years, branches, strict=True))
    shares = {
        year: sum(branch == "decoder" for y, branch in pairs if y == year) / sum(y == year for y in years)
        for year in set(years)
    }
    last = max([year for year, share in shares.items() if share <= 0.5], default=0)
    return float(min([year for year in shares if year > last], default=0))


def accepted_every_year_tried(years, branches):
    """Tries every year as a candidate."""
    for first in sorted(set(years)):
        later = {year for year in years if year >= first}
        rows = [[b == "decoder" for y, b in zip(years, branches, strict=True) if y == year] for year in later]
        if all(2 * sum(row) > len(row) for row in rows):
            return first
    return 0


E, D, B = "encoder", "decoder", "encoder-decoder"


def cases(generator):
    book = {
        "Transformer": (2017, B), "GPT": (2018, D), "BERT": (2018, E), "GPT-2": (2019, D), "T5": (2019, B),
        "GPT-3": (2020, D), "mT5": (2020, B), "DeBERTa": (2020, E), "Gopher": (2021, D), "GPT-J": (2021, D),
        "RoFormer": (2021, E), "PaLM": (2022, D), "OPT": (2022, D), "BLOOM": (2022, D), "GPT-NeoX": (2022, D),
        "LLaMA": (2023, D), "Mistral": (2023, D),
    }  # fmt: skip
    lists = [
        list(book.values()),
        [(2005, D), (2001, E), (2003, D), (2003, D), (2003, B)],
        [(2001, D), (2003, E), (2003, D), (2004, D)],
        [(2001, D), (2002, E), (2002, D)],
        [(2012, D), (2010, D), (2011, B), (2012, E), (2012, D), (2010, D)],
        [(2007, D), (2006, D)],
        [(2001, E), (2003, D), (2002, E)],  # only the last year has a decoder
        [(2004, D), (2005, B)],  # without decoders and without encoders
        [(2032, D), (2033, D), (2033, E), (2033, B), (2033, D), (2034, D)],
    ]
    return [{"years": [y for y, _ in each], "branches": [b for _, b in each]} for each in lists]


def hidden_cases(generator):
    lists = [
        [(2014, D), (2013, E), (2013, D), (2016, D), (2016, D), (2016, B)],
        [(2001, D), (2002, E), (2003, D)],
        [(2021, B), (2020, D)],
        [(2030, D), (2030, D), (2030, E), (2028, B), (2029, D), (2029, E), (2029, E)],
        [(2004, D), (2002, D), (2003, D), (2003, B), (2001, D)],
        [(2011, B), (2011, E), (2011, D), (2011, D), (2010, D), (2012, D)],
        [(2018, D), (2015, D), (2016, D), (2016, D), (2016, E)],
    ]
    return [{"years": [y for y, _ in each], "branches": [b for _, b in each]} for each in lists]
