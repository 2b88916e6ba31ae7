"""Shards: what was written is read, in any cut; what is missing, truncated or another corpus is one sentence."""

import json
import pickle

import numpy as np
import pytest

from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.simple import ByteTokenizer
from llm_anatomy.training.data.shards import SHARD_TOKENS, ShardWriter, TokenShards, read_index

LENGTHS = [3, 1, 5, 2, 7, 1, 1, 4]


def documents(n_vocab=300):
    rng = np.random.default_rng(0)
    return [rng.integers(n_vocab, size=n) for n in LENGTHS]


def write(folder, *, shard_tokens=SHARD_TOKENS, stop=None, n_vocab=300, **options):
    """Write the documents, each fourth into the validation split; as after a kill, stop before one of them."""
    writer = ShardWriter(folder, n_vocab=n_vocab, shard_tokens=shard_tokens, **options)
    for number in range(writer.n_read, len(LENGTHS)):
        if number == stop:
            return writer
        ids = documents(n_vocab)[number]
        writer.add("validation" if number % 4 == 3 else "train", ids, ids % 2 if options.get("has_targets") else None)
        writer.read(1)
    writer.finish()
    return writer


TRAIN = [0, 1, 2, 4, 5, 6]


def flat(numbers=TRAIN, n_vocab=300):
    return np.concatenate([documents(n_vocab)[i] for i in numbers])


@pytest.mark.parametrize("shard_tokens", [1, 4, 8, 100])
def test_every_cut_gives_the_tokens_and_their_documents(tmp_path, shard_tokens):
    write(tmp_path, shard_tokens=shard_tokens, has_targets=True)
    shards = TokenShards(tmp_path, "train")
    names = np.repeat(np.arange(len(TRAIN)), [LENGTHS[i] for i in TRAIN])
    assert (shards.n_tokens, shards.n_documents) == (18, 6)
    for start in range(18):
        for stop in range(start + 1, 19):
            assert shards.ids(start, stop).tolist() == flat()[start:stop].tolist()
            assert shards.documents(start, stop).tolist() == names[start:stop].tolist()
            assert shards.targets(start, stop).tolist() == (flat()[start:stop] % 2 == 1).tolist()
    assert TokenShards(tmp_path, "validation").ids(0, 6).tolist() == flat([3, 7]).tolist()
    n_files = len(list(tmp_path.glob("train-?????.npy")))
    assert n_files == {1: 6, 4: 4, 8: 3, 100: 1}[shard_tokens]


def test_more_shards_than_may_be_open(tmp_path, monkeypatch):
    monkeypatch.setattr("llm_anatomy.training.data.shards.N_OPEN", 2)
    write(tmp_path, shard_tokens=1)
    shards = TokenShards(tmp_path, "train")
    assert shards.ids(0, 18).tolist() == flat().tolist() and shards._open.cache_info().currsize == 2


@pytest.mark.parametrize(("n_vocab", "dtype"), [(1 << 16, "uint16"), ((1 << 16) + 1, "uint32")])
def test_ids_take_two_bytes_where_the_vocabulary_allows_it(tmp_path, n_vocab, dtype):
    writer = ShardWriter(tmp_path, n_vocab=n_vocab)
    writer.add("train", [n_vocab - 1, 0])
    writer.finish()
    ids = np.load(tmp_path / "train-00000.npy")
    assert ids.dtype == dtype and ids.tolist() == [n_vocab - 1, 0] == TokenShards(tmp_path, "train").ids(0, 2).tolist()


@pytest.mark.parametrize("stop", range(len(LENGTHS)))
def test_a_writer_that_was_stopped_anywhere_is_continued_to_the_same_files(tmp_path, stop):
    write(tmp_path / "whole", shard_tokens=4, settings={"source": "a"})
    write(tmp_path / "part", shard_tokens=4, settings={"source": "a"}, stop=stop)
    if (tmp_path / "part/index.json").exists():
        with pytest.raises(ValueError, match="is not complete: tokenize was interrupted"):
            TokenShards(tmp_path / "part", "train")
    write(tmp_path / "part", shard_tokens=4, settings={"source": "a"})
    whole, part = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("whole", "part"))
    assert whole == part and len(whole) > 6


def test_a_kill_between_the_shards_and_their_index_leaves_what_can_be_continued(tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("llm_anatomy.training.data.shards.write_atomically", killed)
        write(tmp_path, shard_tokens=4)
    assert (tmp_path / "train-00000.npy").exists()
    (tmp_path / ".train-00001.npy.123").touch()
    with pytest.raises(ValueError, match="has no index.json"):
        TokenShards(tmp_path, "train")
    write(tmp_path, shard_tokens=4)
    assert TokenShards(tmp_path, "train").ids(0, 18).tolist() == flat().tolist() and not list(tmp_path.glob(".*"))


def test_another_corpus_is_not_continued_and_a_complete_one_not_overwritten(tmp_path):
    write(tmp_path, shard_tokens=4, settings={"source": "a"}, stop=4)
    with pytest.raises(ValueError, match=r'another corpus \(settings was {"source": "a"}, and is {"source": "b'):
        write(tmp_path, settings={"source": "b"})
    with pytest.raises(ValueError, match="n_vocab was 300, and is 400"):
        write(tmp_path, settings={"source": "a"}, n_vocab=400)
    write(tmp_path, settings={"source": "a"})
    with pytest.raises(ValueError, match="holds a complete corpus already; choose another folder"):
        write(tmp_path, settings={"source": "a"})


def test_the_tokenizers_file_is_named_and_a_changed_one_is_another_corpus(tmp_path):
    write(tmp_path, shard_tokens=4, tokenizer=ByteTokenizer(), stop=4)
    with pytest.raises(ValueError, match="part of another corpus .tokenizer was"):
        write(tmp_path, tokenizer=ByteTokenizer(["<|end|>"]))
    write(tmp_path, tokenizer=ByteTokenizer())
    path = TokenShards(tmp_path, "train").tokenizer
    assert path == tmp_path / "llm_anatomy_tokenizer.json" and Tokenizer.load(path).n_vocab == 256
    assert not list(tmp_path.glob(".*"))


def test_the_hash_names_the_tokens_of_the_split(tmp_path):
    for name, options in {"a": {}, "again": {}, "other": {"n_vocab": 299}}.items():
        write(tmp_path / name, **options)
    first, again, other = (TokenShards(tmp_path / name, "train").sha256 for name in ("a", "again", "other"))
    assert first == again != other and first != TokenShards(tmp_path / "a", "validation").sha256


def test_another_process_maps_the_files_itself(tmp_path):
    ids = np.zeros(1_000_000, int)
    writer = ShardWriter(tmp_path, n_vocab=2)
    writer.add("train", ids)
    writer.finish()
    content = pickle.dumps(TokenShards(tmp_path, "train"))
    assert len(content) < 1_000 and pickle.loads(content).n_tokens == 1_000_000


def truncated(path):
    path.write_bytes(path.read_bytes()[:-1])


def emptied(path):
    path.write_bytes(b"")


def longer(path):
    np.save(path, np.append(np.load(path), 0))


def wider(path):
    np.save(path, np.load(path).astype(np.int32))


@pytest.mark.parametrize("name", ["train-00001.npy", "train-00001.ends.npy", "train-00001.targets.npy"])
@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path: path.unlink(), "is missing, but index.json names it"),
        (truncated, "is truncated or damaged"),
        (emptied, "is truncated or damaged"),
        (longer, "but index.json says"),
        (wider, "of int32, but index.json says"),
    ],
    ids=["missing", "truncated", "emptied", "longer", "wider"],
)
def test_a_damaged_shard_is_one_sentence_before_anything_is_read(tmp_path, name, damage, sentence):
    write(tmp_path, shard_tokens=4, has_targets=True)
    damage(tmp_path / name)
    with pytest.raises(ValueError, match=sentence) as error:
        TokenShards(tmp_path, "train")
    assert name in str(error.value) and "\n" not in str(error.value)
    assert TokenShards(tmp_path, "validation").n_tokens == 6


def test_what_is_no_corpus_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no index.json, so it holds no token shards"):
        TokenShards(tmp_path / "none", "train")
    write(tmp_path)
    with pytest.raises(ValueError, match="has no split 'test'; it has train, validation"):
        TokenShards(tmp_path, "test")
    index = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "index.json").write_text(json.dumps({**index, "llm_anatomy token shards": 2}))
    with pytest.raises(ValueError, match="index.json, key 'llm_anatomy token shards': it must be version 1"):
        read_index(tmp_path)


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (2, 2), (0, 19)])
def test_tokens_outside_of_the_split_are_refused(tmp_path, start, stop):
    write(tmp_path)
    with pytest.raises(ValueError, match=f"tokens {start} to {stop} must lie in the split, which has 18"):
        TokenShards(tmp_path, "train").ids(start, stop)


@pytest.mark.parametrize(
    ("ids", "targets", "has_targets", "sentence"),
    [
        ([], None, False, "a document has 0 tokens; it must have one"),
        ([1, 2], [True], True, "a document has 2 tokens; it must have one, and as many targets as tokens"),
        ([1, 2], [True, True], False, "targets must be given with has_targets=True, and only then"),
        ([1, 2], None, True, "targets must be given with has_targets=True, and only then"),
    ],
)
def test_bad_documents_are_refused(tmp_path, ids, targets, has_targets, sentence):
    writer = ShardWriter(tmp_path, n_vocab=5, has_targets=has_targets)
    with pytest.raises(ValueError, match=sentence):
        writer.add("train", ids, targets)
