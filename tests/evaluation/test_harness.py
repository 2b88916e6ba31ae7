"""The adapter for lm-evaluation-harness, without it; tests/released/test_harness.py compares the numbers."""

import builtins

import pytest

from llm_anatomy.evaluation import harness


def test_without_the_harness_it_says_how_to_get_it(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("lm_eval"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    harness._harness_class.cache_clear()
    with pytest.raises(ValueError, match=r"needs lm-evaluation-harness \(pip install 'llm_anatomy\[evaluation\]'\)"):
        harness.register()


def test_the_settings_of_a_request():
    assert harness._settings({"until": "\n"}) == (("\n",), 256)
    assert harness._settings({"until": ["\n", ""], "max_gen_toks": 5, "do_sample": False}) == (("\n",), 5)
    assert harness._settings({"do_sample": True, "temperature": 0.0}) == ((), 256)
    with pytest.raises(ValueError, match="asks for random answers; llm_anatomy answers greedily"):
        harness._settings({"do_sample": True, "temperature": 0.7})
