def cases(generator):
    pairs = [(2, 8), (-9, 14), (25, 32), (-2, 20), (-30, 64)]
    return [{"offset": offset, "d_model": d_model} for offset, d_model in pairs]
