def probe_products_of_moved_positions(answer, positions, d_model):
    """With an even width, the product of two codes depends on their distance alone, wherever the text begins."""
    codes = answer(positions + 11, d_model + d_model % 2)
    return codes @ codes.mT
