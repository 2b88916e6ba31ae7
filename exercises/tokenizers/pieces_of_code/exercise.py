import re


def pieces_of_code(text: str) -> list[str]:
    """Cut a text into runs of spaces, single digits, runs of letters and single other characters."""
    return re.findall(r" +|[0-9]|[^\W\d_]+|.", text, flags=re.DOTALL)


def kind_of(character):
    """What the character may be joined with."""
    if character == " ":
        return "space"
    return "letter" if character.isalpha() else None


def accepted_loop(text):
    """Joins a character to the last piece if both are letters or both are spaces."""
    pieces = []
    for character in text:
        same = pieces and (character.isalpha() and pieces[-1].isalpha() or character == pieces[-1][-1] == " ")
        if same:
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces


def accepted_groupby(text):
    """Groups neighbours of the same kind, and takes the other groups apart."""
    from itertools import groupby

    pieces = []
    for kind, run in groupby(text, key=kind_of):
        characters = "".join(run)
        pieces += [characters] if kind else characters
    return tuple(pieces)


def accepted_borders(text):
    """Collects the positions of the borders first, and then cuts there."""
    joined = {("space", "space"), ("letter", "letter")}
    starts = [i for i in range(len(text)) if i == 0 or (kind_of(text[i - 1]), kind_of(text[i])) not in joined]
    return [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=False)]


def cases(generator):
    return [
        {"text": "12345"},
        {"text": "if x:\n        y = 10"},
        {"text": "a  b"},
        {"text": "x1y22"},
        {"text": "3.14 -> 'pi'"},
        {"text": "été, naïve_name += 007\t!"},
        {"text": "  \n\n  ==\n"},
    ]


def property_nothing_is_lost(answer, generator):
    text = "for i in range(128):\n    print(i, 'Straße')  # 4 spaces\n\n"
    assert "".join(answer(text)) == text, "Your pieces, joined, are not the text. White space must not be lost either."
    assert list(answer("")) == [], "An empty text has no pieces; return an empty list."


def hidden_cases(generator):
    texts = ["def f(n):\n    return n * 1024\n", "2024-11-22  21:45", "___a1 b2   c33???", "Größe = 5,50 €", "\t \t  8"]
    return [{"text": text} for text in texts]
