from collections import Counter

import torch


def verbs_and_nouns(instructions: list[list[tuple[str, str]]], n_top: int) -> tuple[int, float]:
    """Return the number of different pairs, and the share of the most frequent ones."""
    pairs = Counter()
    for words in instructions:
        nouns = [word.lower() for word, tag in words[1:] if tag == "noun"]
        if words and words[0][1] == "verb" and nouns:
            pairs[words[0][0].lower(), nouns[0]] += 1
    return len(pairs), sum(n for _, n in pairs.most_common(n_top)) / len(instructions)


def accepted_sorted(instructions, n_top):
    """Sorts counts, and returns a list."""

    def pair_of(words):
        (verb, tag), *rest = words
        noun = next((word for word, tag in rest if tag == "noun"), None)
        return f"{verb} {noun}".lower() if tag == "verb" and noun is not None else None

    pairs = [pair for pair in map(pair_of, instructions) if pair is not None]
    counts = sorted(map(pairs.count, set(pairs)))[::-1]
    return [len(counts), sum(counts[:n_top]) / len(instructions)]


def accepted_tensor(instructions, n_top):
    """Deletes the most frequent pair again and again, and returns a tensor."""
    counts = {}
    for words in instructions:
        tags = [tag for _, tag in words]
        if tags[0] == "verb" and "noun" in tags:
            key = words[0][0].upper(), words[tags.index("noun")][0].upper()
            counts[key] = counts.get(key, 0) + 1
    n_pairs, covered = len(counts), 0
    for _ in range(min(n_top, n_pairs)):
        covered += counts.pop(max(counts, key=counts.get))
    return torch.tensor([n_pairs, covered / len(instructions)])


def observe(returned, instructions, n_top):
    """the number of pairs and the share"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 2, "two numbers are needed"
    return tuple(map(float, numbers))


NAMES = ("instructions", "n_top")


def _tagged(text):
    """Words with a tag after an underscore, v or n."""
    parts = [word.partition("_") for word in text.split()]
    return [(word, {"v": "verb", "n": "noun"}.get(tag, "other")) for word, _, tag in parts]


def _case(texts, n_top):
    return dict(zip(NAMES, ([_tagged(text) for text in texts], n_top), strict=True))


def cases(generator):
    lecture = [
        "Write_v a poem_n about rain_n",
        "write_v a sad poem_n",
        "Write_v a story_n",
        "Name_v three birds_n",
        "Name_v birds_n of the sea_n",
        "Explain_v why",
        "Why do birds_n sing_v",
        "Write_v a Poem_n for a friend_n",
    ]
    return [
        _case(lecture, 1),
        _case(["Sing_v a song_n", "Sing_v songs_n"], 1),
        _case(["Sing_v a song_n", "Name_v a song_n"], 1),
        _case(["Poems_n write_v no poet_n", "Sing_v it", "Sing_v"], 2),
        _case(["Add_v the numbers_n", "List_v a noun_n", "add_v numbers_n", "Please sort_v words_n"], 5),
        _case(["Name_v birds_n of the sea_n", "Name_v fish_n of the sea_n"], 1),
        _case(lecture[2:] + lecture[:5], 2),
        _case(lecture + ["Sort_v words_n by length_n", "Sort_v the Words_n", "Is it spam_n"], 3),
    ]


def property_variety(answer, generator):
    same = [[("Name", "verb"), ("birds", "noun")]] * 6
    found = [float(number) for number in answer(same, 3)]
    assert found[0] == 1 and abs(found[1] - 1) < 1e-6, (
        "Six times the same instruction should have one pair with a share of 1. Yours has not."
    )


def hidden_cases(generator):
    verbs, nouns = ("Write_v", "write_v", "Name_v", "Sort_v", "Why", "Lists_n"), ("a", "poem_n", "Poem_n", "fish_n")

    def text():
        i, j, k = (int(torch.randint(n, (1,), generator=generator)) for n in (6, 4, 4))
        return f"{verbs[i]} the {nouns[j]} of see_v {nouns[k]}"

    return [_case([text() for _ in range(n)], n_top) for n, n_top in ((20, 2), (31, 3), (40, 1), (12, 9))]
