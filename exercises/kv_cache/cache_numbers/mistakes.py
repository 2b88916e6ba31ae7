RIGHT = [2_621_440, 327_680, 40_960, 30_517, 244_140]


def _from(multi, grouped, single, memory=80 * 10**9):
    return [multi, grouped, single, memory // multi, memory // grouped]


def _with(**wrong):
    return [wrong.get(f"n{i}", right) for i, right in enumerate(RIGHT, 1)]


def keys_alone():
    """Your first three numbers are half as large as they should be. A token has a key and a value, and each number
    takes 2 bytes."""
    return _from(*(right // 2 for right in RIGHT[:3]))


def keys_alone_tokens_right():
    """Your first three numbers are half as large as they should be. A token has a key and a value, and each number
    takes 2 bytes. Your numbers of tokens are right."""
    return [right // 2 for right in RIGHT[:3]] + RIGHT[3:]


def queries_too():
    """Your first three numbers are 3/2 of what they should be. Queries are not kept, since no later token needs
    them."""
    return _from(*(3 * right // 2 for right in RIGHT[:3]))


def one_layer():
    """Your first three numbers are those of one layer. Each of the 80 layers has a cache of its own."""
    return _from(*(right // 80 for right in RIGHT[:3]))


def one_head():
    """Your first number is the cache of one head. All 64 heads have keys and values."""
    return _from(40_960, 327_680, 40_960)


def four_bytes():
    """Your first three numbers are twice as large as they should be. How many bytes does a number take here?"""
    return _from(*(2 * right for right in RIGHT[:3]))


def bits():
    """Your first three numbers are eight times as large as they should be: they are bits. The question is about
    bytes."""
    return _from(*(8 * right for right in RIGHT[:3]))


def sixteen_heads():
    """Your second number is that of 16 key-value heads. How many groups of 8 do 64 heads make?"""
    return _from(2_621_440, 655_360, 40_960)


def values_not_shared():
    """Your second and third numbers share the keys only. The values are shared, too."""
    return _from(2_621_440, 1_310_720 + 163_840, 1_310_720 + 20_480)


def single_head_of_the_whole_width():
    """Only your third number is wrong: it is that of multi-head attention. One head of width 128 is left."""
    return _with(n3=2_621_440)


def grouped_and_multi_query_exchanged():
    """You have exchanged grouped-query and multi-query attention."""
    return [2_621_440, 40_960, 327_680, 30_517, 244_140]


def rounded_up():
    """Your bytes are right, but you round the numbers of tokens up. The last of these tokens has no room."""
    return _with(n4=30_518, n5=244_141)


def gibibytes():
    """Your bytes are right, but your numbers of tokens take 80 GB for 80 · 2³⁰ bytes. Here they are 80 · 10⁹."""
    return _with(n4=32_768, n5=262_144)


def tokens_of_the_single_head():
    """Only your last number is wrong: it is that of multi-query attention. The question is about question 2."""
    return _with(n5=1_953_125)


def weights_subtracted():
    """Your bytes are right, but the numbers of tokens are 0: nothing but the cache is stored in these 80 GB."""
    return _with(n4=0, n5=0)
