OUTCOMES = {"a": 1.0, "b": 0.0, "tie": 0.5, "both_bad": 0.5, "tie (bothbad)": 0.5}


def _clean(
    rows, outcomes=OUTCOMES, spell=lambda s: s.strip().lower(), key=lambda r: (r["battle"], r["voter"]), **rules
):
    counted, found = set(), {}
    for row in rows:
        winner, vote = spell(row["winner"]), key(row)
        usable = winner in outcomes and (rules.get("itself") or row["model_a"] != row["model_b"])
        if (rules.get("too_early") or usable) and vote in counted:
            continue
        if rules.get("too_early") or usable:
            counted.add(vote)
        if not usable:
            continue
        names = [row["model_a"], row["model_b"]]
        if not rules.get("as_they_stand"):
            names.sort()
        score = outcomes[winner]
        if names[0] != row["model_a"] and not rules.get("score_of_a"):
            score = 1 - score
        number, total = found.get(" ".join(names), (0, 0.0))
        found[" ".join(names)] = number + 1, total + score
    return found


def duplicates_kept(rows):
    """You count a voter more than once in the same battle."""
    numbers = iter(range(len(rows)))
    return _clean(rows, key=lambda row: next(numbers))


def one_vote_for_a_battle(rows):
    """You count one vote for each battle. Different voters may vote on it."""
    return _clean(rows, key=lambda row: row["battle"])


def one_vote_for_a_voter(rows):
    """You count one vote for each voter. A voter may vote on different battles."""
    return _clean(rows, key=lambda row: row["voter"])


def last_vote_counts(rows):
    """If a voter has several votes in a battle, you count the last one. The later ones are left out."""
    return _clean(rows[::-1])


def unusable_votes_count_as_cast(rows):
    """A row that is left out takes away the voter's later vote in the same battle. It should not."""
    return _clean(rows, too_early=True)


def model_against_itself(rows):
    """You keep rows in which a model meets itself."""
    return _clean(rows, itself=True)


def capitals_refused(rows):
    """You leave out winners with capital letters."""
    return _clean(rows, spell=str.strip)


def spaces_refused(rows):
    """You leave out winners with spaces around them."""
    return _clean(rows, spell=str.lower)


def old_spelling_refused(rows):
    """You leave out `tie (bothbad)`. It means that both are bad."""
    return _clean(rows, outcomes={name: score for name, score in OUTCOMES.items() if "(" not in name})


def ties_left_out(rows):
    """You leave out ties. They count half for each model."""
    return _clean(rows, outcomes={"a": 1.0, "b": 0.0})


def both_bad_left_out(rows):
    """You leave out votes for *both bad*. They count as ties."""
    return _clean(rows, outcomes={"a": 1.0, "b": 0.0, "tie": 0.5})


def both_bad_as_zero(rows):
    """You give no points if both answers are bad. Each model gets half a point, as in a tie."""

    def score(row, first):
        said = row["winner"].strip().lower()
        return 0.0 if "bad" in said else OUTCOMES[said] if first == row["model_a"] else 1 - OUTCOMES[said]

    counted, found = set(), {}
    for row in rows:
        vote, names = (row["battle"], row["voter"]), sorted((row["model_a"], row["model_b"]))
        if row["winner"].strip().lower() not in OUTCOMES or names[0] == names[1] or vote in counted:
            continue
        counted.add(vote)
        number, total = found.get(" ".join(names), (0, 0.0))
        found[" ".join(names)] = number + 1, total + score(row, names[0])
    return found


def sides_exchanged(rows):
    """Your scores are those of the model that comes last in the alphabet. The exercise asks for the first."""
    return {pair: (number, number - total) for pair, (number, total) in _clean(rows).items()}


def mean_scores(rows):
    """Your second numbers are means. The score is the sum over all votes."""
    return {pair: (number, total / number) for pair, (number, total) in _clean(rows).items()}


def order_of_the_rows(rows):
    """You keep the names in the order of the row, so that one pair of models has two entries. Sort them."""
    return _clean(rows, as_they_stand=True)


def score_of_model_a(rows):
    """The names are sorted, but the score is that of `model_a`. If the second model comes first in the alphabet, turn
    it round."""
    return _clean(rows, score_of_a=True)


def all_duplicates_left_out(rows):
    """If a voter has several votes in a battle, you leave out all of them. The first one stays."""
    votes = [(row["battle"], row["voter"]) for row in rows]
    return _clean([row for row, vote in zip(rows, votes, strict=True) if votes.count(vote) == 1])


def joined_names(rows):
    """You join the battle and the voter to one string, in which the voter 11 of battle 1 looks like the voter 1 of
    battle 11. Use a pair."""
    return _clean(rows, key=lambda row: row["battle"] + row["voter"])


def any_kind_of_tie(rows):
    """You count every winner that begins with *tie*. Only `tie` and `tie (bothbad)` are known."""

    def spell(text):
        text = text.strip().lower()
        return "tie" if text.startswith("tie") else text

    return _clean(rows, spell=spell)
