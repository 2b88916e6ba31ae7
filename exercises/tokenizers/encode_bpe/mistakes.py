def _merge(tokens, left, right):
    merged, i = [], 0
    while i < len(tokens):
        if tokens[i : i + 2] == [left, right]:
            merged.append(left + right)
            i += 2
        else:
            merged.append(tokens[i])
            i += 1
    return merged


def longest_match(text, merges):
    """You take the longest token that fits, from left to right. Repeat the merges in their order instead."""
    known = {left + right for left, right in merges}
    tokens, i = [], 0
    while i < len(text):
        ends = (j for j in range(len(text), i, -1) if text[i:j] in known or j == i + 1)
        j = next(ends)
        tokens.append(text[i:j])
        i = j
    return tokens


def merges_reversed(text, merges):
    """You take the merges in the opposite order. The first that was learned comes first."""
    tokens = list(text)
    for left, right in reversed(merges):
        tokens = _merge(tokens, left, right)
    return tokens


def leftmost_pair_first(text, merges):
    """You merge the leftmost pair that has any merge. The order of the merges decides, not the position in the text."""
    pairs, tokens = {tuple(pair) for pair in merges}, list(text)
    i = 0
    while i < len(tokens) - 1:
        if (tokens[i], tokens[i + 1]) in pairs:
            tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]
            i = 0
        else:
            i += 1
    return tokens


def first_occurrence_only(text, merges):
    """You use each merge only once. Use it everywhere in the text."""
    tokens = list(text)
    for left, right in merges:
        for i in range(len(tokens) - 1):
            if tokens[i : i + 2] == [left, right]:
                tokens[i : i + 2] = [left + right]
                break
    return tokens


def only_the_first_merge(text, merges):
    """You use only the first merge. Go on with the others."""
    return _merge(list(text), *merges[0]) if merges else list(text)


def characters_only(text, merges):
    """You return the characters. The merges are not used at all, or their result is lost."""
    return list(text)


def strings_replaced(text, merges):
    """You look for the joined string in the text, wherever its borders are. A pair is two tokens side by side: ab and c
    are not the pair (a, bc)."""
    border, known = "\0", text
    tokens = list(text)
    for left, right in merges:
        joined = left + right
        i = 0
        while i < len(tokens):
            j, word = i, ""
            while j < len(tokens) and len(word) < len(joined):
                word += tokens[j]
                j += 1
            if word == joined and border not in known:
                tokens[i:j] = [joined]
            i += 1
    return tokens


def last_merge_left_out(text, merges):
    """You leave out the last merge. Does your loop end too early?"""
    tokens = list(text)
    for left, right in merges[:-1]:
        tokens = _merge(tokens, left, right)
    return tokens


def one_pass_over_the_text(text, merges):
    """You go through the text once and join pairs of characters. Joined tokens can be merged again."""
    pairs, tokens, i = {tuple(pair) for pair in merges}, [], 0
    while i < len(text):
        pair = (text[i], text[i + 1 : i + 2]) in pairs
        tokens.append(text[i : i + 1 + pair])
        i += 1 + pair
    return tokens


def from_the_right(text, merges):
    """Where pairs overlap you replace the one on the right. Go through the tokens from left to right."""
    tokens = list(text)
    for left, right in merges:
        merged, i = [], len(tokens) - 1
        while i >= 0:
            pair = i > 0 and tokens[i - 1 : i + 1] == [left, right]
            merged.append(left + right if pair else tokens[i])
            i -= 1 + pair
        tokens = merged[::-1]
    return tokens


def last_token_lost(text, merges):
    """You lose the last token when it is not part of a pair."""
    tokens = list(text)
    for left, right in merges:
        merged, i = [], 0
        while i < len(tokens) - 1:
            pair = tokens[i : i + 2] == [left, right]
            merged.append(left + right if pair else tokens[i])
            i += 1 + pair
        tokens = merged
    return tokens


def joined(text, merges):
    """You return one string. Return a list of tokens."""
    return text


def different_tokens(text, merges):
    """You return each different token once. Return every token of the text, in order."""
    tokens = list(text)
    for left, right in merges:
        tokens = _merge(tokens, left, right)
    return list(dict.fromkeys(tokens))


def how_many(text, merges):
    """You return the number of tokens. Return the tokens."""
    tokens = list(text)
    for left, right in merges:
        tokens = _merge(tokens, left, right)
    return len(tokens)


def written_with_spaces(text, merges):
    """You put spaces between the tokens and replace text. This also finds the end of a longer token, and loses the
    spaces of the text itself. Compare whole tokens."""
    written = " ".join(text)
    for left, right in merges:
        written = written.replace(f"{left} {right}", left + right)
    return written.split()
