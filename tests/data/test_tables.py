"""The facts: every table can be read, its rows are whole and say where they come from."""

import csv
import math
from pathlib import Path

import pytest

from llm_anatomy.data import table

FOLDER = Path(__file__).resolve().parents[2] / "src/llm_anatomy/data"
NAMES = sorted(path.stem for path in FOLDER.glob("*.csv"))


@pytest.mark.syllabus("UCL-32")
@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_whole_and_has_a_source(name):
    rows = table(name)
    assert rows and all(None not in row for row in rows)  # no row is longer than the head
    with (FOLDER / f"{name}.csv").open(newline="", encoding="utf-8") as lines:
        assert {len(row) for row in csv.reader(lines)} == {len(rows[0])}
    assert f"{name}.csv" in (FOLDER / "SOURCES.md").read_text(encoding="utf-8")


def test_numbers_are_numbers_and_words_are_words():
    row = table("soft_dictionary")[3]
    assert row["first"] == 0.2913126 and isinstance(row["second"], float) and isinstance(table(NAMES[0])[0], dict)
    assert table("soft_dictionary")[0]["first"] == 1 and row["item"] == "UCL-18"


@pytest.mark.syllabus("UCL-18")
def test_the_slides_weights_follow_from_its_formula():
    weights, output = table("soft_dictionary")[2:]
    first = math.exp(0.8) / (math.exp(0.8) + math.exp(0.2))
    assert math.isclose(weights["first"], first, abs_tol=1e-7)
    assert math.isclose(output["first"], first - (1 - first), abs_tol=1e-7)


@pytest.mark.syllabus("GT-17")
def test_the_operator_classes_share_out_all_of_the_flops_and_of_the_time():
    rows = table("rmsnorm_runtime")
    assert math.isclose(sum(row["pct_flop"] for row in rows), 100)
    assert math.isclose(sum(row["pct_runtime"] for row in rows), 100)
    normalization = rows[1]  # hardly any work, a quarter of the time
    assert normalization["pct_flop"] < 0.2 and normalization["pct_runtime"] > 25


@pytest.mark.syllabus("GT-18")
def test_rms_norm_makes_as_many_more_steps_a_second_as_the_lecture_says():
    rows = {row["variant"]: row for row in table("narang_normalization")}
    layer_norm, rms_norm = rows["Vanilla Transformer"], rows["RMS Norm"]
    assert round(100 * (rms_norm["steps_per_s"] / layer_norm["steps_per_s"] - 1), 2) == 5.14
    assert all(rms_norm[size] == layer_norm[size] for size in ("params_M", "ops_T"))
    assert min(rows, key=lambda variant: rows[variant]["final_loss"]) == "RMS Norm"
    assert all(rms_norm[score] > layer_norm[score] for score in ("sglue", "xsum", "webq", "wmt_ende"))


@pytest.mark.syllabus("IITD-07", "IITD-04", "GT-30")
def test_the_slides_numbers_about_positions_follow_from_their_rules():
    for row in table("binary_counter"):
        assert row["n"] == sum(row[f"bit_{k}"] << k for k in range(4))
    for row in table("relative_position_matrix"):
        assert [row[f"key_{j}"] for j in range(5)] == [j - row["query"] for j in range(5)]
    assert all(row["embedding"] == f"e_{row['position']}" for row in table("naive_position_example"))


@pytest.mark.syllabus("CMU-27", "IITD-31", "IITD-32")
def test_the_reported_gains_and_means_are_those_of_the_tables():
    bleu = {(row["model"], row["position"]): row for row in table("relative_position_bleu")}
    gains = [
        round(bleu[f"Transformer ({size})", "relative"][task] - bleu[f"Transformer ({size})", "absolute"][task], 1)
        for size in ("base", "big")
        for task in ("en_de_bleu", "en_fr_bleu")
    ]
    assert gains == [0.3, 0.5, 1.3, 0.3]
    glue = [row for row in table("roformer_results") if row["item"] == "IITD-32"]
    scores = {model: [row["score"] for row in glue if row["model"] == model] for model in ("BERT", "RoFormer")}
    assert {model: round(sum(s) / 7, 2) for model, s in scores.items()} == {"BERT": 85.41, "RoFormer": 85.94}


def test_an_unknown_table_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="name='syllabus' must be one of the tables .*disagreements, embedding_sizes"):
        table("syllabus")


@pytest.mark.syllabus("IITD-37")
def test_the_slides_statistics_of_the_batch_norm_example_follow_from_its_samples():
    for row in table("batchnorm_example"):
        values = [row[f"sample_{k}"] for k in (1, 2, 3)]
        mean = sum(values) / 3
        deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / 3)
        assert math.isclose(row["mean_exact"], mean, abs_tol=1e-6)
        assert math.isclose(row["std_exact_population"], deviation, abs_tol=1e-6)
        assert abs(row["mean_slide"] - mean) < 0.005
        assert (abs(row["std_slide"] - deviation) < 0.005) == (row["feature"] != "x_3")  # erratum E-06


@pytest.mark.syllabus("CMU-07", "GT-26")
def test_the_table_of_gated_layers_has_the_lectures_numbers_and_labels():
    rows = {row["variant"]: row for row in table("glu_variants")}
    labels = [row["label_cmu"] for row in rows.values()]
    assert {label for label in labels if labels.count(label) > 1} == {"FFN_ReLU", "FFN_GEGLU"}  # erratum E-29
    assert all(row["label_gt"] == f"FFN_{name}" for name, row in rows.items())
    for column in ("log_ppl_65536_steps", "log_ppl_524288_steps"):
        gated, plain = ([row[column] for row in rows.values() if row["gated"] == kind] for kind in ("yes", "no"))
        assert len(gated) == 5 and max(gated) < min(plain) and min(gated) == rows["GEGLU"][column]
    ratio = math.exp(rows["GEGLU"]["log_ppl_524288_steps"] - rows["ReLU"]["log_ppl_524288_steps"])
    assert round(100 * (1 - ratio), 1) == 4.3 and round(100 * (1 / ratio - 1), 1) == 4.5
