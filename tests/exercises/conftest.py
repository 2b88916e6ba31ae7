"""On a busy machine an answer may take longer than a student would wait."""

import pytest

from llm_anatomy.notebook import checks


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(checks, "TIME_LIMIT", 60.0)
