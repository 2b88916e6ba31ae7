"""The trained Transformers of the page against PyTorch, on random texts, and a reader who continues a story."""

import copy
import random

import pytest
import torch
from widget_examples import EXAMPLES

from llm_anatomy.training.data.stories import stories

pytestmark = pytest.mark.browser

FIGURE = "document.querySelector('.la-widget')"
NAMES = ["logits", "next", "probability", "rest", "prompt_n", "temperature"]
SIGNS = "aeiou nrtls.,?!\"'\n0123é東🙂{}<"


@pytest.fixture(scope="module")
def explorer():
    return EXAMPLES["TransformerExplorer"]()  # made once: its graphs take seconds to trace


def texts(n):
    """Pieces of stories, of up to three times the tokens that the models read, and random characters."""
    rng, corpus = random.Random(5), "\n\n".join(stories(seed=7, n=40))
    for i in range(n):
        start, length = rng.randrange(len(corpus) - 600), rng.choice([1, 8, 40, 150, 600])
        yield "".join(rng.choices(SIGNS, k=rng.randint(1, 200))) if i % 5 == 4 else corpus[start : start + length]


def without_head(model, layer, head):
    """The same model, where the output projection does not read a head."""
    model = copy.deepcopy(model)
    attention = model.stack.blocks[layer].attention
    with torch.no_grad():
        attention.w_output.weight.view(-1, attention.n_heads, attention.d_value)[:, head] = 0
    return model


@pytest.mark.syllabus("UCL-24", "UCL-27", "IITD-43", "IITD-46")
@pytest.mark.parametrize("n_texts", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_the_page_computes_pytorchs_logits_for_random_texts_with_both_models(explorer, show, n_texts):
    page, rng = show(explorer), random.Random(3)
    page.wait_for_selector(".la-ready")
    encoder, heads = explorer.controls["prompt"].encoder, explorer.controls["off"].options[1:]
    for scheme, whole in explorer.models.items():
        for i, text in enumerate(texts(n_texts)):
            if i % 5 == 0:  # a head is off in half of the texts
                off, temperature = "none" if i % 10 else rng.choice(heads), rng.choice([0.1, 0.7, 1.0, 2.0])
            given = {"scheme": scheme, "off": off, "temperature": temperature, "prompt": text}
            ids = encoder.tokenizer.encode(text)
            found = page.evaluate(
                f"""([given, names]) => {{
                    for (const name in given) {FIGURE}.la.set(name, given[name]);
                    const known = {FIGURE}.la.known();
                    return Object.fromEntries(names.map(name => [name, known[name]]));
                }}""",
                [given, NAMES],
            )
            read = ids[-encoder.n_ctx :]
            model = whole if off == "none" else without_head(whole, *(int(part) - 1 for part in off.split(".")))
            with torch.no_grad():
                expected = model(torch.tensor([read]))[0, -1]  # nothing is padded here
            assert found["prompt_n"] == len(read)
            torch.testing.assert_close(torch.tensor(found["logits"]), expected, rtol=1e-4, atol=1e-4)
            best = expected.sort(descending=True, stable=True)
            torch.testing.assert_close(expected[found["next"]], best.values[:8], rtol=0, atol=1e-4)  # in this order
            assert len(set(found["next"])) == 8
            shares = (expected / temperature).softmax(-1)[found["next"]]
            torch.testing.assert_close(torch.tensor(found["probability"]), shares, rtol=2e-3, atol=1e-4)
            assert sum(found["probability"]) + found["rest"] == pytest.approx(1, abs=1e-5)


def now(page):
    return page.evaluate(f"{FIGURE}.la.get('prompt')")


def test_a_reader_writes_a_story_token_by_token_with_mouse_keys_and_finger(explorer, show):
    page = show(explorer, width=390, has_touch=True)
    tokenizer, text = explorer.controls["prompt"].encoder.tokenizer, explorer.prompt
    buttons = page.locator(".la-next button")
    buttons.first.wait_for()

    def take(n, press):
        button, before = buttons.nth(n), now(page)
        token = tokenizer.decode([page.evaluate(f"{FIGURE}.la.known().next[{n}]")])
        shown = token.replace(" ", "␣").replace("\n", "↵")
        assert button.inner_text().startswith(shown) and token
        press(button)
        assert now(page) == before + token == page.get_by_role("textbox").input_value()

    take(0, lambda button: button.click())
    take(2, lambda button: button.tap())
    buttons.first.focus()
    for _ in range(3):
        take(0, lambda button: page.keyboard.press("Enter"))
        assert buttons.first.evaluate("button => button === document.activeElement")
    assert len(now(page)) > len(text) + 5
    found = page.evaluate(f"{FIGURE}.la.known().next")
    explorer.prompt = now(page)
    assert found == explorer.outputs()["next"]
    explorer.prompt = text


def test_a_text_that_is_too_long_is_read_from_the_end_and_the_page_says_so(explorer, show):
    page = show(explorer)
    longest = explorer.controls["prompt"].longest
    story = "\n\n".join(stories(seed=9, n=3))[: longest - 1]
    page.get_by_role("textbox").fill(story)
    page.get_by_text("The model reads the last 96 tokens.").wait_for()
    ids = explorer.controls["prompt"].encoder.tokenizer.encode(story)
    shown = page.evaluate(f"{FIGURE}.la.known().prompt_ids")
    assert len(ids) > 200 and shown == ids[-96:]
    for _ in range(3):  # it becomes longer than the field, and loses its beginning
        page.locator(".la-next button").first.click()
    assert len(now(page)) == longest and now(page)[:-9] in story
    page.get_by_role("textbox").fill("")
    page.get_by_text("Type a few words").wait_for()


def test_the_maps_are_those_of_the_last_tokens_and_rows_sum_to_one(explorer, show):
    page = show(explorer)
    page.wait_for_selector(".la-ready")
    for text, n in (("Once there was", 6), ("\n\n".join(stories(seed=8, n=1)), 96)):
        page.evaluate(f"text => {FIGURE}.la.set('prompt', text)", text)
        known = page.evaluate(f"{FIGURE}.la.known()")
        assert known["prompt_n"] == n
        ids = explorer.controls["prompt"].encoder.tokenizer.encode(text)[-96:]
        assert [i for i in known["shown"] if i >= 0] == ids[-16:]
        with torch.no_grad():
            _, records = explorer.models["learned"](torch.tensor([ids]), return_records=True)
        expected = records[0].attention_weights[0, :, -16:, -16:]
        found = torch.tensor([[[float("nan") if v is None else v for v in row] for row in h] for h in known["maps"]])
        size = min(n, 16)
        torch.testing.assert_close(found[:, -size:, -size:].nan_to_num(), expected, rtol=1e-4, atol=1e-5)
        if n < 16:
            assert found[:, -1].nansum(-1).tolist() == pytest.approx([1.0] * 4, abs=1e-5)


def test_models_that_do_not_fit_together_are_refused(explorer):
    from llm_anatomy.models.presets import tiny
    from llm_anatomy.models.transformer import Transformer

    tokenizer, models = explorer.controls["prompt"].encoder.tokenizer, explorer.models
    other = Transformer(tiny("gpt-2"))
    with pytest.raises(ValueError, match="layers, heads, n_ctx and n_vocab must be the same"):
        type(explorer)(models | {"other": other}, tokenizer, "Once")
    with pytest.raises(ValueError, match="tokenizer.n_vocab=480 must be the models' n_vocab="):
        type(explorer)({"other": other}, tokenizer, "Once")
