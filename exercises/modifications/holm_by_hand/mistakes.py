P = {"A": 0.004, "B": 0.030, "C": 0.009, "D": 0.60, "E": 0.012, "F": 0.028, "G": 0.007}
RIGHT = {"A": 0.028, "B": 0.084, "C": 0.045, "D": 0.6, "E": 0.048, "F": 0.084, "G": 0.042}
COUNTS = {"uncorrected": 6, "bonferroni": 2, "holm": 4}


def smaller_than_the_value_before():
    """Only B is wrong: its corrected value is smaller than that of a variant with a smaller p-value."""
    return RIGHT | COUNTS | {"B": 0.06}


def bonferroni_for_all():
    """You multiply every p-value by 7, which is Bonferroni's correction."""
    return {letter: 7 * p for letter, p in P.items()} | COUNTS | {"holm": 2}


def bonferroni_up_to_one():
    """You multiply every p-value by 7 and stop at 1, which is Bonferroni's correction."""
    return {letter: min(1.0, 7 * p) for letter, p in P.items()} | COUNTS | {"holm": 2}


def bonferroni_with_the_right_number():
    """Your numbers of variants are right, but your values are Bonferroni's: only the smallest p-value is multiplied by
    7."""
    return {letter: min(1.0, 7 * p) for letter, p in P.items()} | COUNTS


def factors_the_wrong_way_round():
    """You give the factor 1 to the smallest p-value. It gets the largest factor."""
    ranked = sorted(P, key=P.__getitem__)
    return {letter: min(1.0, (i + 1) * P[letter]) for i, letter in enumerate(ranked)} | COUNTS | {"holm": 2}


def order_of_the_letters():
    """You give the factors in the order of the letters. They go by the sizes of the p-values."""
    found = {letter: min(1.0, (7 - i) * p) for i, (letter, p) in enumerate(P.items())}
    return found | COUNTS | {"holm": sum(p < 0.05 for p in found.values())}


def factors_from_six():
    """Your factors are too small by one: with seven variants, the smallest p-value is multiplied by 7."""
    ranked, largest, found = sorted(P, key=P.__getitem__), 0.0, {}
    for i, letter in enumerate(ranked):
        largest = max(largest, max(6 - i, 1) * P[letter])
        found[letter] = largest
    return found | COUNTS


def p_values_as_they_are():
    """Your p-values are not corrected."""
    return P | COUNTS


def counts_of_holm_as_bonferroni():
    """Only the number for Bonferroni's correction is wrong: there, each value is multiplied by 7."""
    return RIGHT | COUNTS | {"bonferroni": 4}


def counts_exchanged():
    """You have exchanged the numbers of the two corrections."""
    return RIGHT | COUNTS | {"bonferroni": 4, "holm": 2}


def one_too_many():
    """Only the number for Holm's correction is wrong: count the corrected values below 0.05 again."""
    return RIGHT | COUNTS | {"holm": 3}


def products_counted():
    """Only the number for Holm's correction is wrong: it is larger than that of your corrected values below 0.05."""
    return RIGHT | COUNTS | {"holm": 5}


def all_seven_uncorrected():
    """Only the number without a correction is wrong: one variant has a p-value far above 0.05."""
    return RIGHT | COUNTS | {"uncorrected": 7}


def numbers_of_variants_alone():
    """Your numbers of variants are right, but your corrected p-values are percentages. Leave them as they are."""
    return {letter: 100 * p for letter, p in RIGHT.items()} | COUNTS


def multiplied_by_the_rank_from_below():
    """You give the factor 1 to the smallest p-value. It gets the largest factor."""
    ranked = sorted(P, key=P.__getitem__)
    return {letter: min(1.0, (i + 1) * P[letter]) for i, letter in enumerate(ranked)} | COUNTS


def benjamini_and_hochberg():
    """Your values are those of Benjamini and Hochberg, who divide by ranks and control another rate of errors."""
    ranked, smallest, found = sorted(P, key=P.__getitem__), 1.0, {}
    for i in range(7, 0, -1):
        smallest = min(smallest, 7 * P[ranked[i - 1]] / i)
        found[ranked[i - 1]] = smallest
    return found | COUNTS | {"holm": 6}


def divided_by_ranks():
    """You multiply by 7 and divide by the rank, as Benjamini and Hochberg do, who control another rate of errors."""
    ranked = sorted(P, key=P.__getitem__)
    return {letter: 7 * P[letter] / (i + 1) for i, letter in enumerate(ranked)} | COUNTS | {"holm": 6}


def smaller_of_two_neighbours():
    """F and B are wrong: where a product is smaller than the one before it, it is raised to that one. You lower the one
    before it."""
    return RIGHT | COUNTS | {"F": 0.06, "B": 0.06}


def two_decimals():
    """Your numbers are rounded to two decimals. Give three."""
    return {letter: round(p, 2) for letter, p in RIGHT.items()} | COUNTS


def smallest_bonferroni_alone():
    """Only the number for Bonferroni's correction is wrong: the second smallest value times 7 is below 0.05, too."""
    return RIGHT | COUNTS | {"bonferroni": 1}


def third_bonferroni_as_well():
    """Only the number for Bonferroni's correction is wrong: the third smallest value times 7 is above 0.05."""
    return RIGHT | COUNTS | {"bonferroni": 3}
