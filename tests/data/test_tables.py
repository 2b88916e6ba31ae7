"""The facts: every table can be read, its rows are whole and say where they come from."""

import csv
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from llm_anatomy.data import table
from llm_anatomy.models.presets import preset, presets

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


def test_tables_are_read_in_utf_8_whatever_the_system_prefers():
    code = "from llm_anatomy.data import table; table('ablation_speed')"
    strict = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", code]
    subprocess.run(strict, check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})


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


@pytest.mark.syllabus("GT-03")
def test_the_name_of_opts_run_gives_its_gpus_tokens_and_parameters():
    opt = {row["token"]: row["value"] for row in table("opt_run_config")}
    hosts = next(token for token in opt if token.startswith("node-"))
    ranges = [map(int, part.split("-")) for part in hosts.removeprefix("node-[").removesuffix("]").split(",")]
    n_nodes = sum(last - first + 1 for first, last in ranges)
    assert n_nodes == 124 and opt["ngpu992"] == 8 * n_nodes == 992
    tokens_per_update = n_nodes * opt["ms8"] * opt["tps2048"]  # eight GPUs share a sequence
    assert tokens_per_update * opt["uf1"] == 2_031_616
    assert round(tokens_per_update * opt["mu143052"] / 1e9, 1) == 290.6
    config = preset("opt-175b")
    assert (config.n_layers, config.d_model) == (opt["nlay96"], opt["emb12288"])
    n_parameters = 12 * config.n_layers * config.d_model**2 + (config.n_vocab + config.n_ctx) * config.d_model
    assert round(n_parameters / 1e9, 1) == 174.6
    assert opt["endlr6e-06"] / opt["lr0.00012"] == pytest.approx(0.05)


@pytest.mark.syllabus("GT-08")
def test_shares_and_epochs_of_llamas_data_give_tokens_of_a_few_bytes_only_in_the_restored_units():
    rows = table("llama_data_mixture")
    assert math.isclose(sum(row["sampling_pct"] for row in rows), 100)
    assert sum(row["disk_gb"] for row in rows) == 4749
    unique = {row["dataset"]: row["sampling_pct"] / 100 * row["n_tokens_T"] * 1000 / row["epochs"] for row in rows}
    assert round(unique["CommonCrawl"], 1) == 852.7 and round(unique["Wikipedia"], 1) == 25.7
    for row in rows:
        assert row["disk_gb"] == row["disk_size"] * {"TB": 1000, "GB": 1}[row["disk_unit"]]
        assert 2.5 < row["disk_gb"] / unique[row["dataset"]] < 4.5  # erratum E-61
    assert [row["dataset"] for row in rows if row["epochs"] < 1] == ["GitHub"]


@pytest.mark.syllabus("GT-05")
def test_the_bytes_of_blooms_languages_give_every_share_that_can_be_read_on_the_slide():
    rows = table("bloom_languages")
    total = sum(row["n_bytes"] for row in rows)
    assert len(rows) - 1 == 46 and round(total / 1e12, 1) == 1.6  # thirteen programming languages share a row

    def percent(**wanted):
        return 100 * sum(row["n_bytes"] for row in rows if all(row[k] == v for k, v in wanted.items())) / total

    read = [row for row in rows if row["pct_slide"] is not None]
    assert len(read) == 5
    for row in read:
        digits = 2 if row["pct_slide"] < 1 else 1
        assert round(percent(language=row["language"]), digits) == row["pct_slide"]
    assert round(percent(genus="Indic") + percent(family="Dravidian"), 1) == 4.4  # the slide's "Indic family"
    assert round(percent(genus="Indic"), 1) == 3.4 and round(percent(family="Niger-Congo"), 2) == 0.03
    legible = sum(row["pct_slide"] for row in read) + 4.4 + 0.03
    assert round(legible, 2) == 40.98


@pytest.mark.syllabus("GT-01")
def test_the_timeline_names_presets_with_their_kind_and_is_sorted():
    rows, known = table("model_timeline"), presets()
    assert [row["month"] for row in rows] == sorted(row["month"] for row in rows)
    assert len({row["model"] for row in rows}) == len({row["preset"] for row in rows}) == len(rows)
    for row in rows:
        values = known[row["preset"]].values
        assert row["kind"] == values.get("kind") and row["weights"] in ("yes", "on request", "no")
        numbers = re.findall(r"arXiv:(\d\d)(\d\d)\.", row["source"])
        months = [f"20{year}-{month}" for year, month in numbers]
        assert all(row["month"] <= month for month in months)  # a release may come before its paper
        assert row["month"] in months or not re.fullmatch(r"arXiv:\S+", row["source"])
    assert {row["kind"] for row in rows} == {"encoder", "decoder", "encoder-decoder", None}


@pytest.mark.syllabus("GT-02", "GT-04")
def test_openness_says_of_each_model_what_was_given_out_and_where_that_is_said():
    rows, known = {row["model"]: row for row in table("openness")}, presets()
    for row in rows.values():
        assert row["preset"] in known and row["source"]
        assert row["weights"] in ("yes", "on request", "no") and row["data"] in ("yes", "in part", "described", "no")
        assert row["training_code"] in ("yes", "no") and row["log"] in ("yes", "no")
        assert (row["licence"] is None) == (row["weights"] == "no")
    everything = ("weights", "data", "training_code", "log")
    assert {name for name, row in rows.items() if {row[kind] for kind in everything} == {"yes"}} == {"OLMo", "GPT-NeoX"}
    assert rows["OPT"]["log"] == "yes" and rows["GPT-3"]["weights"] == rows["PaLM"]["weights"] == "no"
    timeline = {row["preset"]: row["weights"] for row in table("model_timeline")}
    assert all(timeline[row["preset"]] == row["weights"] for row in rows.values())


@pytest.mark.syllabus("GT-07", "GT-06")
def test_llamas_updates_and_gpu_hours_follow_from_its_tokens():
    rows = table("llama_sizes")
    updates = [row["n_tokens_T"] * 1e12 / (row["batch_size_M_tokens"] * 1e6) for row in rows]
    assert updates == [250_000, 250_000, 350_000, 350_000]
    for row in rows:
        d, n_layers, d_ff = row["dimension"], row["n_layers"], row["d_ff_derived"]
        assert d_ff == 256 * math.ceil(8 * d / 3 / 256) == preset(row["preset"]).d_ff
        n = 2 * 32_000 * d + n_layers * (4 * d**2 + 3 * d * d_ff + 2 * d) + d
        assert n == row["params_exact_derived"] and d / row["n_heads"] == 128
        assert math.floor(n / 1e8) / 10 == row["params_B"] and round(n / 1e9, 1) == row["params_B_corrected"]  # E-62


@pytest.mark.syllabus("GT-49")
def test_one_width_of_olmo_is_not_divisible_by_its_heads():
    for row in table("olmo_sizes"):
        assert (row["hidden_size"] % row["attention_heads"] == 0) == (row["size"] != "7B")  # erratum E-45
        assert row["hidden_size_corrected"] // row["attention_heads"] == 128
