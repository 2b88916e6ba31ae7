def _length(byte):
    return 1 + (byte >= 192) + (byte >= 224) + (byte >= 240)


def _start(ids):
    start = 0
    while start < len(ids) and 128 <= ids[start] < 192:
        start += 1
    return start


def _end(ids, start):
    i = start
    while i < len(ids) and i + _length(ids[i]) <= len(ids):
        i += _length(ids[i])
    return i


def start_left_out(ids):
    """You treat the bytes at the start as if a character began there. Bytes from 128 to 191 go on with a character; at
    the start they belong to one that was cut."""
    kept = bytes(ids).decode(errors="ignore")
    return 0, kept, len(ids) - len(kept.encode())


def end_left_out(ids):
    """You do not look at the end of the window. Its last character may be cut too."""
    start = _start(ids)
    return start, bytes(ids[start:]).decode(errors="ignore"), 0


def replaced(ids):
    """Your text contains a sign � for what could not be decoded. The cut bytes do not belong in the text."""
    start = _start(ids)
    return start, bytes(ids[start:]).decode(errors="replace"), len(ids) - _end(ids, start)


def replaced_at_both_ends(ids):
    """You decode the whole window and get signs � at its ends. Leave the cut bytes out of the text."""
    start = _start(ids)
    return start, bytes(ids).decode(errors="replace"), len(ids) - _end(ids, start)


def bytes_not_text(ids):
    """You return the bytes of the whole characters. Decode them: the second result is a string."""
    start = _start(ids)
    return start, ids[start : _end(ids, start)], len(ids) - _end(ids, start)


def one_byte_a_character(ids):
    """You turn each byte into a character of its own. A character of UTF-8 has one to four bytes: decode them
    together."""
    start = _start(ids)
    end = _end(ids, start)
    return start, "".join(map(chr, ids[start:end])), len(ids) - end


def ascii_only(ids):
    """Your text holds only the characters of one byte. Longer characters that lie in the window as a whole belong to it
    too."""
    start = _start(ids)
    end = _end(ids, start)
    return start, bytes(byte for byte in ids[start:end] if byte < 128).decode(), len(ids) - end


def characters_not_bytes(ids):
    """You count a cut character as one. Count its bytes that are in the window."""
    start = _start(ids)
    end = _end(ids, start)
    return int(start > 0), bytes(ids[start:end]).decode(), int(end < len(ids))


def last_character_always_cut(ids):
    """You always take the last character for a cut one. Compare the bytes that it should have with those that are
    there."""
    start = _start(ids)
    i, last = start, start
    while i < len(ids):
        last, i = i, i + _length(ids[i])
    return start, bytes(ids[start:last]).decode(errors="ignore"), len(ids) - last


def further_bytes_at_the_end(ids):
    """At the end you count the further bytes, from 128 to 191, also when their character is complete. Look at what its
    first byte says, and count that byte too if the character is cut."""
    start = _start(ids)
    n = 0
    while n < len(ids) - start and 128 <= ids[-1 - n] < 192:
        n += 1
    return start, bytes(ids[start : len(ids) - n]).decode(errors="ignore"), n


def further_bytes_count_for_the_end(ids):
    """A window that holds nothing but further bytes is cut at its start, not at its end."""
    start = _start(ids)
    if ids and start == len(ids):
        return 0, "", len(ids)
    return start, bytes(ids[start : _end(ids, start)]).decode(), len(ids) - _end(ids, start)


def missing_not_present(ids):
    """At the end you return how many bytes are missing. Return how many bytes of the cut character are in the
    window."""
    start = _start(ids)
    end = _end(ids, start)
    missing = _length(ids[end]) - (len(ids) - end) if end < len(ids) else 0
    return start, bytes(ids[start:end]).decode(), missing


def four_bytes_taken_for_three(ids):
    """You take the characters of four bytes for characters of three. Their first byte is from 240 to 247."""
    start = _start(ids)
    i = start
    while i < len(ids) and i + min(_length(ids[i]), 3) <= len(ids):
        i += min(_length(ids[i]), 3)
    return start, bytes(ids[start:i]).decode(errors="ignore"), len(ids) - i


def signs_counted(ids):
    """You count the signs � that stand for what could not be decoded. One sign can stand for several bytes: count
    bytes."""
    text = bytes(ids).decode(errors="replace")
    start = len(text) - len(text.lstrip("\ufffd"))
    return start, text.strip("\ufffd"), len(text) - len(text.rstrip("\ufffd")) if start < len(text) else 0


def signs_taken_out(ids):
    """You take the signs � out of the text, also those that were in it. They are characters of three bytes."""
    start = _start(ids)
    end = _end(ids, start)
    return start, bytes(ids[start:end]).decode().replace("\ufffd", ""), len(ids) - end


def signs_taken_off_the_end(ids):
    """You take a sign � off the end of the text, even if it was in the text. It is a character of three bytes."""
    start = _start(ids)
    text = bytes(ids[start : _end(ids, start)]).decode().rstrip("\ufffd")
    return start, text, len(ids) - start - len(text.encode())
