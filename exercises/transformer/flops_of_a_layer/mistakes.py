def _flops(n, d, f):
    return [8 * n * d * d, 4 * n * n * d, 4 * n * d * f, 2 * d + f]


def multiplications_alone(n_ctx, d_model, d_ff, n_heads):
    """Your first three numbers are too small by a factor of 2. Each pair of numbers takes a multiplication and an
    addition."""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return p // 2, a // 2, f // 2, n


def no_output_matrix(n_ctx, d_model, d_ff, n_heads):
    """Your projections are three. The output matrix is the fourth, and it counts in the last number, too."""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return p // 4 * 3, a, f, (3 * d_model + 2 * d_ff) // 2


def no_output_matrix_in_the_first_number(n_ctx, d_model, d_ff, n_heads):
    """Your first number lacks the output matrix: there are four projections."""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return p // 4 * 3, a, f, n


def scores_alone(n_ctx, d_model, d_ff, n_heads):
    """Your second number is half of what it should be. The scores take as long as the product of the weights with the
    values, hidden scores count like all others, and each pair of numbers takes two operations."""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return p, a // 2, f, 2 * n


def scores_alone_in_the_second_number(n_ctx, d_model, d_ff, n_heads):
    """Your fourth number is right, but the second is half of what it should be. Scores count as well as weighted sums,
    hidden scores count like all others, and each pair of numbers takes two operations."""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return p, a // 2, f, n


def times_the_heads(n_ctx, d_model, d_ff, n_heads):
    """Your second number is too large by a factor of n_heads. Each head is only d_model / n_heads wide."""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return p, a * n_heads, f, n


def one_head(n_ctx, d_model, d_ff, n_heads):
    """Your second number is that of a single head. Add up all heads."""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return p, a // n_heads, f, n


def hidden_scores_left_out(n_ctx, d_model, d_ff, n_heads):
    """Your second number counts about half of the scores. A plain implementation computes the hidden ones, too."""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return p, 2 * n_ctx * (n_ctx + 1) * d_model, f, n


def hidden_scores_left_out_of_both(n_ctx, d_model, d_ff, n_heads):
    """Your second number counts about half of the scores, and your fourth follows from it. A plain implementation
    computes the hidden ones, too."""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return p, 2 * n_ctx * (n_ctx + 1) * d_model, f, 2 * n - 1


def hidden_scores_left_out_twice_the_length(n_ctx, d_model, d_ff, n_heads):
    """Your second number counts about half of the scores, and your fourth is twice as large as it should be. A plain
    implementation computes the hidden scores, too."""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return p, 2 * n_ctx * (n_ctx + 1) * d_model, f, 2 * n


def three_feed_forward_matrices(n_ctx, d_model, d_ff, n_heads):
    """Your third number is that of three matrices, which a layer with a gate has, and your fourth follows from it. The
    plain feed-forward layer has two."""
    p, a, f, _ = _flops(n_ctx, d_model, d_ff)
    return p, a, f // 2 * 3, (4 * d_model + 3 * d_ff) // 2


def three_feed_forward_matrices_in_the_third_number(n_ctx, d_model, d_ff, n_heads):
    """Your third number is that of three matrices, which a layer with a gate has. The plain feed-forward layer has
    two."""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return p, a, f // 2 * 3, n


def one_feed_forward_matrix(n_ctx, d_model, d_ff, n_heads):
    """Your third number is half of what it should be, and your fourth follows from it. The layer has two matrices, and
    each pair of numbers takes two operations."""
    p, a, f, _ = _flops(n_ctx, d_model, d_ff)
    return p, a, f // 2, (4 * d_model + d_ff) // 2


def one_feed_forward_matrix_in_the_third_number(n_ctx, d_model, d_ff, n_heads):
    """Your third number is half of what it should be. The layer has two matrices, and each pair of numbers takes two
    operations."""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return p, a, f // 2, n


def parameters(n_ctx, d_model, d_ff, n_heads):
    """Your first and third numbers do not grow with the number of tokens. Every token is multiplied by the matrices."""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return p // n_ctx, a, f // n_ctx, n


def feed_forward_left_out_of_the_length(n_ctx, d_model, d_ff, n_heads):
    """Your fourth number is where the second equals the first alone. The third belongs to the sum."""
    return *_flops(n_ctx, d_model, d_ff)[:3], 2 * d_model


def projections_left_out_of_the_length(n_ctx, d_model, d_ff, n_heads):
    """Your fourth number is where the second equals the third alone. The first belongs to the sum."""
    return *_flops(n_ctx, d_model, d_ff)[:3], d_ff


def factor_lost_in_the_length(n_ctx, d_model, d_ff, n_heads):
    """Your first three numbers are right, but the fourth is not where they balance. Did a factor get lost when you
    divided both sides?"""
    return *_flops(n_ctx, d_model, d_ff)[:3], d_model + d_ff


def twice_the_length(n_ctx, d_model, d_ff, n_heads):
    """Your first three numbers are right, but the fourth is too large by a factor of 2. Did a factor get lost when you
    divided both sides?"""
    return *_flops(n_ctx, d_model, d_ff)[:3], 4 * d_model + 2 * d_ff


def forward_and_backward(n_ctx, d_model, d_ff, n_heads):
    """Your first three numbers are too large by a factor of 3. Do you count the backward pass as well?"""
    p, a, f, n = _flops(n_ctx, d_model, d_ff)
    return 3 * p, 3 * a, 3 * f, n
