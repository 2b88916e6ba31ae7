"""Corpora: generated, downloaded, or your own as shards of tokens; and the windows and batches of a training run."""
