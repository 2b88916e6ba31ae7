"""From a budget to a config: the widget against the function that chooses, its words, and what is refused."""

import pytest
import traitlets

from llm_anatomy.data import table
from llm_anatomy.models.choosing import choose_architecture, inference_bytes, reasons
from llm_anatomy.models.costs import costs
from llm_anatomy.notebook import BudgetToConfig

FIELDS = ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "d_head")


@pytest.fixture(scope="module")
def made():
    return BudgetToConfig()


def shown(widget, **values):
    start = dict(budget="7 B", n_ctx=32768, memory=24.0, batch=1, reason="d_model")
    for name, value in (start | values).items():
        setattr(widget, name, value)
    return widget.outputs()


@pytest.mark.syllabus("CMU-01")
@pytest.mark.parametrize("memory", [1.0, 24.0, 80.0])
@pytest.mark.parametrize(("n_ctx", "batch"), [(512, 1), (8192, 4), (131072, 1)])
def test_the_config_is_that_of_the_function(made, memory, n_ctx, batch):
    for budget in (10**7, 10**8, 10**9, 7 * 10**9, 3 * 10**10):
        words = f"{budget // 10**9} B" if budget >= 10**9 else f"{budget // 10**6} M"
        found = shown(made, budget=words, n_ctx=n_ctx, memory=memory, batch=batch)
        given = dict(n_parameters=budget, n_ctx=n_ctx, batch=batch)
        try:
            config = choose_architecture(**given, memory=1e9 * memory)
        except ValueError:
            assert not found["fits"]
            continue
        assert found["fits"] and {name: found[name] for name in FIELDS} == {name: config.get(name) for name in FIELDS}
        assert found["tied"] == config.tie_embeddings
        assert 1e9 * (found["weights"] + found["cache"]) == pytest.approx(inference_bytes(config, n_ctx, batch))
        counted = costs(config, 1).total.n_parameters
        assert found["count"] * 1000 ** found["count_unit"] == pytest.approx(counted)


@pytest.mark.syllabus("CMU-21")
def test_operations_and_reasons_are_those_of_the_package(made):
    found = shown(made, n_ctx=8192)
    config = choose_architecture(n_parameters=7 * 10**9, n_ctx=8192, memory=24e9)
    operations = costs(config, 8192).flops_per_token
    assert found["operations"] * 1000 ** found["operations_unit"] == pytest.approx(operations, rel=1e-4)
    for field, reason in reasons(config).items():
        shown(made, n_ctx=8192, reason=field)
        chapter, _, words = reason.partition(": ")
        assert repr(made).endswith(f"Why {field}: {words} ({chapter})")


def test_every_number_of_key_value_heads_is_drawn_with_its_memory(made):
    found = shown(made, budget="1 B", n_ctx=2048, batch=8)
    rows = [row for row in table("architecture_choices") if row["budget"] == 10**9]
    for row, total, heads in zip(rows, found["totals"], found["options"], strict=False):
        assert heads == row["n_kv_heads"]
        assert total == pytest.approx(2e-9 * (row["n_parameters"] + 8 * 2048 * row["n_cached"]), rel=1e-5)
    assert all(total != total for total in found["totals"][len(rows) :])


def test_words_are_complete(made):
    shown(made, n_ctx=131072, memory=0.1, batch=2, reason="biases")
    assert repr(made) == (
        "About 7 B parameters, 2 texts of 131072 tokens, 0.10 GB of memory: 33 layers of width 4096, 32 heads, 1 of "
        "them with keys and values of their own, d_ff 13824. Weights take 14.02 GB and the cache 4.43 GB, which does "
        "not fit. Why biases: There are no biases. They cost memory traffic rather than operations, and leaving them "
        "out is a small saving. (Chapter 9)"
    )
    shown(made, batch=1)
    assert "1 text of 32768 tokens" in repr(made) and "16 of them with" in repr(made) and "which fits" in repr(made)


def test_other_values_are_refused():
    with pytest.raises(ValueError, match="budget=5; it must be one of 10000000, 30000000"):
        BudgetToConfig(5)
    with pytest.raises(traitlets.TraitError, match="n_ctx=1000; it must be one of 512, 1024"):
        BudgetToConfig(n_ctx=1000)
