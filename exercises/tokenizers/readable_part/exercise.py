def readable_part(ids: list[int]) -> tuple[int, str, int]:
    """Return the number of cut bytes at the start, the text of the whole characters, and the cut bytes at the end."""
    start = 0
    while start < len(ids) and 128 <= ids[start] < 192:
        start += 1
    i = start
    while i < len(ids):
        length = 1 + (ids[i] >= 192) + (ids[i] >= 224) + (ids[i] >= 240)
        if i + length > len(ids):
            break
        i += length
    return start, bytes(ids[start:i]).decode(), len(ids) - i


def accepted_try_to_decode(ids):
    """Drops as few bytes as possible at both ends until the rest can be decoded."""
    data = bytes(ids)
    for start in range(len(data) + 1):
        if start < len(data) and data[start] & 0b1100_0000 == 0b1000_0000:
            continue
        for end in range(len(data), start - 1, -1):
            try:
                return [start, data[start:end].decode("utf-8"), len(data) - end]
            except UnicodeDecodeError:
                pass
    return [len(data), "", 0]


def accepted_incremental_decoder(ids):
    """Uses the decoder of the standard library, which keeps an unfinished character back."""
    import codecs

    further = [byte in range(128, 192) for byte in ids]
    start = further.index(False) if False in further else len(ids)
    decoder = codecs.getincrementaldecoder("utf-8")()
    text = decoder.decode(bytes(ids[start:]))
    return start, text, len(decoder.getstate()[0])


def accepted_ignored(ids):
    """Decodes with errors="ignore", and counts the bytes that are lost at each end."""
    text = bytes(ids).decode(errors="ignore")
    kept, start = len(text.encode()), 0
    while start < len(ids) and ids[start] // 64 == 2:
        start += 1
    return start, text, len(ids) - kept - start


def cases(generator):
    def window(text, start, end):
        return {"ids": list(text.encode())[start:end]}

    return [
        window("é", 1, 2),
        window("a€", 0, 3),
        window("€b", 1, 4),
        window("déjà vu", 2, 6),
        window("a🐷b", 2, 6),
        window("pig 🐷 and 猪", 0, 15),
        window("pig", 0, 3),
        window("🐷", 1, 3),
        window("né", 0, 2),
        window("猪🐷", 1, 6),
        window("À¿", 1, 3),  # 128, the smallest further byte
        window("\x7fÀ", 0, 2),  # 127, the largest byte that is a character
        window("\u07c0\u0800￥", 0, 8),  # first bytes 223, 224 and 239
        window("a\ufffdb", 0, 5),  # a sign � that was in the text
        window("b\ufffd", 0, 4),
        window("¿\ufffdb", 1, 6),  # 191, the largest further byte
    ]


def property_pieces_join(answer, generator):
    data = list("The pig 🐷 says grüß Gott, 你好 and héllo € 5".encode())
    for cut in range(len(data) + 1):
        before, after = answer(data[:cut]), answer(data[cut:])
        assert before[0] == 0 and after[2] == 0, "A window at the beginning of a text has no cut bytes at its start."
        whole = len(before[1].encode()) + before[2] + after[0] + len(after[1].encode())
        assert whole == len(data), (
            "We cut a text into two windows. The bytes that you count in both, read or cut, should be those of the "
            "text, no more and no fewer."
        )


def property_empty(answer, generator):
    assert tuple(answer([])) == (0, "", 0), "An empty window has no cut bytes and an empty text."


def hidden_cases(generator):
    text = "Ein Schwein 🐖 frißt für 3 € Äpfel, ἀλλά 豚は食べない — naïveté 🐷🐷"
    data = list(text.encode())
    damaged = list("🐷\ufffd ok\ufffdé \ufffd".encode())  # with signs � at 4, 10 and 16
    return [
        {"ids": data[a:b]} for a, b in ((13, 40), (0, 22), (14, 15), (30, 71), (45, 91), (93, 97), (20, 31), (80, 93))
    ] + [{"ids": damaged[a:b]} for a, b in ((2, 14), (7, 19), (0, 18))]
