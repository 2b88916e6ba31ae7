import torch


def cases(generator):
    pieces = ["na", "n", "a", "b", "ban", "ana", "s", "nas"]

    def drawn(letters, count):
        picked = torch.randint(len(letters), (count, 7), generator=generator).tolist()
        return {"words": ["".join(letters[i] for i in row) for row in picked], "vocabulary": pieces}

    return [{"words": ["bananas", "x"], "vocabulary": pieces}, drawn("abns", 4), drawn("anb?", 6)]
