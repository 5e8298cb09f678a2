"""MLPerf's rounds: what the YAML says is what a log is held against, and a fault in it is one sentence."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import RulesError
from harness.mlperf import describe
from harness.mlperf.formula import Line
from harness.mlperf.load import is_round
from harness.mlperf.model import Count, LogRules, Round, RoundBenchmark
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet

VERSIONS = ["0.7.0", "1.0.0", "1.1.0", "2.0.0", "2.1.0", "3.0.0", "3.1.0", "4.0.0", "4.1.0", "5.0.0", "5.1.0", "6.0.0"]
BASE = """
kind: mlperf
published: "2024-01-01"
codes: {MLP003: error}
max_init_s: {closed: 1800, open: 14400}
keys:
  run_start: {count: once, after: [init_stop]}
  init_stop: {count: once}
  eval_accuracy: {count: 1+}
either: [[block_start, epoch_start]]
divisions: {closed: {}, open: {}}
"""
NEXT = 'kind: mlperf\nextends: "1.0"\npublished: "2025-01-01"\n'
BENCHMARK = """
num_runs: 5
drop: 1
divisions:
  closed:
    keys:
      opt_name: {count: once, each: "value in ['sgd', 'lars']"}
      eval_accuracy: {count: 1+, target: value >= 0.9}
  open: {}
variants:
  key: opt_name
  closed:
    sgd: {keys: {opt_momentum: {count: once, each: value == 0.9}}}
convergence:
  ref_256: {global_batch_size: 256, unit: epochs, points: [3, 4.5], hyperparameters: {lr: 0.1}}
"""


def law(version: str) -> RuleSet:
    name = f"mlperf_training/{version}"
    return load.load_ruleset(catalog.ruleset_folder(name), name)


def round_of(version: str) -> Round:
    found = law(version).round
    assert found is not None
    return found


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a round and the next one, and gives the folder of the next."""

    def make(base: str = BASE, second: str = NEXT, **files: str) -> Path:
        for name, text in {"1.0/ruleset": base, "1.0/toy": BENCHMARK, "2.0/ruleset": second, **files}.items():
            path = tmp_path / f"{name}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return tmp_path / "2.0"

    return make


def loaded(folder: Path) -> Round:
    found = load.load_ruleset(folder, folder.name).round
    assert found is not None
    return found


def test_all_twelve_rounds_are_there() -> None:
    """Each loads, has benchmarks with a target in every division, and no benchmarks of ours."""
    assert [name for name, _ in catalog.ruleset_folders() if name.startswith("mlperf_training/")] == [
        f"mlperf_training/{version}" for version in VERSIONS
    ]
    for version in VERSIONS:
        found = law(version)
        assert found.round is not None
        assert dict(found.benchmarks) == {}
        assert 6 <= len(found.round.benchmarks) <= 9
        for benchmark in found.round.benchmarks.values():
            assert all(benchmark.target(division) is not None for division in benchmark.divisions)
            assert "closed" in benchmark.divisions


def test_a_later_rule_never_judges_an_earlier_round() -> None:
    """What changed from round to round is where it was: the target of BERT, the time to initialise."""
    targets = {version: round_of(version).benchmarks["bert"].target() for version in ("0.7.0", "1.0.0", "5.0.0")}

    assert "0.712" in str(targets["0.7.0"])
    assert "0.72" in str(targets["1.0.0"])
    assert round_of("0.7.0").max_init_s == {"closed": 1200, "open": 1200}
    assert round_of("1.1.0").max_init_s == {"closed": 1800, "open": 1800}
    assert round_of("2.0.0").max_init_s == {"closed": 1800, "open": 14_400}


def test_numbers_of_runs_are_mlperfs() -> None:
    """3D U-Net: 40 runs, of which four are left out at each end."""
    found = {version: round_of(version).benchmarks for version in ("1.0.0", "5.1.0")}

    assert (found["1.0.0"]["unet3d"].num_runs, found["1.0.0"]["unet3d"].drop) == (40, 4)
    assert (found["1.0.0"]["resnet"].num_runs, found["1.0.0"]["resnet"].drop) == (5, 1)
    assert (found["5.1.0"]["llama31_405b"].num_runs, found["5.1.0"]["llama31_405b"].drop) == (3, 1)


def test_a_round_is_a_small_difference() -> None:
    """Where no benchmark is new, less than two kilobytes."""
    assert sum(path.stat().st_size for path in catalog.ruleset_folder("mlperf_training/4.1.0").glob("*.yaml")) < 2_000
    assert sum(path.stat().st_size for path in catalog.ruleset_folder("mlperf_training/2.1.0").glob("*.yaml")) < 2_000


def test_a_variant_adds_to_the_page_of_its_division(write: Callable[..., Path]) -> None:
    """ResNet's optimisers: LARS and SGD have hyperparameters of their own."""
    benchmark = loaded(write()).benchmarks["toy"]
    page, sgd = benchmark.rules_of("closed"), benchmark.rules_of("closed", "sgd")

    assert page is not None
    assert sgd is not None
    assert set(sgd.keys) - set(page.keys) == {"opt_momentum"}
    assert benchmark.rules_of("closed", ["sgd"]) is page
    assert benchmark.rules_of("elsewhere") is None


def test_what_is_laid_over_changes_what_it_names(write: Callable[..., Path]) -> None:
    """A mapping over a mapping, anything else instead, null takes away; the round before stays as it was."""
    toy = """
        num_runs: 10
        variants: null
        divisions: {closed: {keys: {opt_name: {each: value == 'adam'}, eval_accuracy: null}}}
        convergence: {ref_256: {points: [2]}, ref_512: {global_batch_size: 512, unit: samples, points: [9]}}
    """
    folder = write(second=NEXT + "keys: {run_start: {count: 2+}, run_stop: {count: any}}\n", **{"2.0/toy": toy})
    before, after = loaded(folder.parent / "1.0"), loaded(folder)

    assert before.benchmarks["toy"].num_runs == 5
    assert [item.points for item in before.benchmarks["toy"].convergence] == [(3.0, 4.5)]
    assert after.rules.keys["run_start"].count == Count(2)
    assert after.rules.keys["run_start"].after == ("init_stop",)
    assert "run_stop" in after.rules.keys
    assert after.benchmarks["toy"].num_runs == 10
    assert after.benchmarks["toy"].variant_key is None
    assert after.benchmarks["toy"].target() is None
    assert [(item.global_batch_size, item.points) for item in after.benchmarks["toy"].convergence] == [
        (256, (2.0,)),
        (512, (9.0,)),
    ]


def test_a_benchmark_may_be_gone_or_have_another_name(write: Callable[..., Path]) -> None:
    """As ssd became retinanet in round 5.0."""
    second = NEXT + "benchmarks: {toy: null}\n"
    found = loaded(write(second=second, **{"2.0/game": "extends: 1.0/toy\nnum_runs: 7\n"}))

    assert sorted(found.benchmarks) == ["game"]
    assert found.benchmarks["game"].num_runs == 7
    assert found.benchmark("toy") is None
    assert found.benchmark(["game"]) is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"second": NEXT.replace('"1.0"', '"1.9"')}, "extends: unknown round '1.9'"),
        ({"base": BASE + 'extends: "2.0"\n'}, "the rounds extend each other in a circle"),
        ({"second": NEXT + "kind: other\n"}, "'kind' occurs twice"),
        ({"second": NEXT + "keyes: {}\n"}, "unknown key 'keyes'; did you mean 'keys'"),
        ({"second": NEXT + "benchmarks: {tay: null}\n"}, "benchmarks: tay: can only be null, for a benchmark"),
        ({"second": NEXT + "benchmarks: {toy: 5}\n"}, "benchmarks: toy: can only be null"),
        ({"second": NEXT + "codes: {MLP003: fatal}\n"}, "unknown severity 'fatal'"),
        ({"second": NEXT + "codes: [MLP003]\n"}, "codes: must be a mapping"),
        ({"second": NEXT + "published: null\n"}, "'published' occurs twice"),
        ({"base": BASE.replace('"2024-01-01"', "2024-01-01"), "second": 'kind: mlperf\nextends: "1.0"\n'}, "in quotes"),
        (
            {"base": BASE.replace("2024-01-01", "2024-13-01"), "second": 'kind: mlperf\nextends: "1.0"\n'},
            "'2024-13-01'; it",
        ),
        ({"second": NEXT + "max_init_s: {open: 0}\n"}, "a number above zero for each of closed, open"),
        ({"second": NEXT + "keys: {run_stop: 5}\n"}, "keys: run_stop: must be a mapping"),
        ({"second": NEXT + "keys: {run_stop: {count: twice}}\n"}, "count is 'twice'"),
        ({"second": NEXT + "keys: {run_stop: {each: value %% 2}}\n"}, "each: formula 'value %% 2'"),
        ({"second": NEXT + "keys: {run_stop: {each: 5}}\n"}, "each: must be a list of texts"),
        ({"second": NEXT + "keys: {run_stop: {after: [run_strat]}}\n"}, "unknown key 'run_strat'; did you mean"),
        ({"second": NEXT + "keys: {run_stop: {each: value == btach}}\n"}, "unknown key 'btach'"),
        ({"second": NEXT + "keys: {run_stop: {lists: {a: [b], c: [d]}}}\n"}, "has more than one field"),
        ({"second": NEXT + "either: 5\n"}, "either must be a list of lists"),
        ({"second": NEXT + "divisions: {closed: &a {}, open: *a}\n"}, "an alias"),
        ({"second": NEXT + "5: 6\n"}, "5 is not a name"),
        ({"second": NEXT + "keys: [\n"}, "not YAML"),
        ({"second": "kind: mlperf\nextends: [a]\n"}, "unknown round"),
        ({"2.0/toy": "num_runs: 2\n"}, "num_runs more than twice drop"),
        ({"2.0/toy": "num_runs: many\n"}, "must be whole numbers"),
        ({"2.0/toy": "extends: 1.0/tay\n"}, "unknown benchmark 'tay'"),
        ({"2.0/toy": "extends: 2.0/toy\n"}, "extend each other in a circle"),
        ({"2.0/toy": "divisions: {half: {}}\n"}, "unknown key 'half'"),
        ({"2.0/toy": "distance: value > opt_momentum\n"}, "distance: uses opt_momentum; it may use only value and"),
        ({"2.0/toy": "distance: [value > 1]\n"}, "distance: must be a list of texts"),
        ({"2.0/toy": "distance: value >\n"}, "distance: formula 'value >': not a formula"),
        ({"2.0/toy": "join: {key: a}\n"}, "join needs key, by, part and into"),
        ({"2.0/toy": "convergence: {ref_256: {points: []}}\n"}, "points must be a list of numbers above zero"),
        ({"2.0/toy": "convergence: {ref_256: {unit: hours}}\n"}, "unit is 'hours'"),
        ({"2.0/toy": "convergence: {ref_256: {global_batch_size: 0}}\n"}, "global_batch_size is 0;"),
        ({"2.0/toy": "- 5\n"}, "must be a mapping"),
        ({"2.0/toy": "num_runs: 5\nnum_runs: 6\n"}, "'num_runs' occurs twice"),
        ({"2.0/toy": "num_runs: {5: 6}\n"}, "5 is not a name"),
        ({"2.0/toy": "divisions: {closed: &a {}, open: *a}\n"}, "an alias"),
        ({"2.0/toy": "num_runs: [\n"}, "not YAML"),
        ({"2.0/toy": "# " + "x" * (4 << 20)}, "larger than 4 MiB"),
    ],
)
def test_a_fault_in_a_round_is_one_sentence(write: Callable[..., Path], changed: dict[str, str], said: str) -> None:
    """With the file in it."""
    folder = write(**changed)

    with pytest.raises(RulesError) as raised:
        loaded(folder)
    assert said in str(raised.value)
    assert ".yaml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_round_that_is_not_there_is_said(tmp_path: Path) -> None:
    """A folder without its file, and a file that is none."""
    (tmp_path / "ruleset.yaml").write_text("kind: mlperf\nextends: nowhere\n")

    with pytest.raises(RulesError, match="unknown round"):
        loaded(tmp_path)


def test_a_file_that_cannot_be_read_is_said(write: Callable[..., Path]) -> None:
    """A folder of a file's name is no file."""
    folder = write()
    (folder / "game.yaml").mkdir()

    with pytest.raises(RulesError, match="no such file"):
        loaded(folder)


def test_a_disk_error_is_one_sentence(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read is not taken for a round; as a part of one, it is an error."""
    folder = write()
    real = Path.read_bytes

    def broken(path: Path) -> bytes:
        if path.parent == folder:
            raise OSError(errno.EIO, "Input/output error")
        return real(path)

    (folder / "toy.yaml").write_text("num_runs: 5\n")
    monkeypatch.setattr(Path, "read_bytes", broken)

    assert not is_round(folder / "ruleset.yaml")
    with pytest.raises(RulesError, match="cannot be read: Input/output error"):
        load.load_round(folder, "2.0")


def test_a_division_without_a_target_has_none_in_words(write: Callable[..., Path]) -> None:
    """The open division of the toy."""
    found = loaded(write())
    text = describe.benchmark_in_words(found, found.benchmarks["toy"])

    assert "- closed: at least one eval_accuracy must meet `value >= 0.9`." in text
    assert "- open: one eval_accuracy" not in text


@pytest.mark.parametrize(
    ("version", "name", "batch", "met", "missed"),
    [
        ("1.0.0", "bert", 3072, (174_696, 175_523), (150_000, 178_073, 192_500)),
        ("4.0.0", "bert", 768, (149_775, 150_512), (165_000, 135_000)),
        ("1.0.0", "resnet", 2048, (4,), (1, 2, 4.4)),
        ("1.0.0", "ssd", 1140, (5,), (6.4, 10, 1)),
        ("2.0.0", "ssd", 256, (1,), (5,)),
        ("5.1.0", "retinanet", 320, (1,), (2,)),
        ("4.0.0", "gpt3", 3072, (50_331_648,), (55_364_813,)),
        ("5.1.0", "dlrm_dcnv2", 160_000, (0.05, 0.04996), (0.055, 0.1)),
        ("5.0.0", "rgat", 16_384, (0.05,), (0.045,)),
        ("5.1.0", "llama2_70b_lora", 16, (384,), (416, 192)),
        ("5.1.0", "llama31_8b", 32, (12_288,), (8_192, 21_888)),
        ("5.1.0", "flux1", 2304, (262_656,), (262_144,)),
        ("5.0.0", "llama31_405b", 1152, (46_080,), (18_432,)),
    ],
)
def test_evaluations_stand_as_far_apart_as_in_published_results(
    version: str, name: str, batch: int, met: tuple[float, ...], missed: tuple[float, ...]
) -> None:
    """Distances of results at hand, and others; the message of `tta explain` has the demand."""
    benchmark = round_of(version).benchmarks[name]
    assert benchmark.distance is not None

    for value in (*met, *missed):
        line = Line(float(value), earlier={"global_batch_size": float(batch)})
        assert benchmark.distance.holds(line) == (value in met), value
    assert benchmark.distance.text in describe.benchmark_in_words(round_of(version), benchmark)


@pytest.mark.parametrize(
    ("version", "name"),
    [("0.7.0", "bert"), ("0.7.0", "resnet"), ("5.1.0", "llama31_405b"), ("6.0.0", "deepseekv3_671b")],
)
def test_a_distance_that_nobody_has_written_down_is_none(version: str, name: str) -> None:
    """Nor is that of the benchmark which lies below handed on."""
    benchmark = round_of(version).benchmarks[name]

    assert benchmark.distance is None
    assert "the distance from one evaluation" not in describe.benchmark_in_words(round_of(version), benchmark)


def test_a_distance_without_references_has_no_unit(write: Callable[..., Path]) -> None:
    found = loaded(write(**{"2.0/toy": "distance: value == 1\nconvergence: null\n"}))
    text = describe.benchmark_in_words(found, found.benchmarks["toy"])

    assert "- closed: the distance between evaluations must meet `value == 1`;" in text


def test_counts_in_words() -> None:
    assert [Count(1, 1).words, Count(0, 1).words, Count(1).words, Count(2).words, Count().words] == [
        "once",
        "once or not at all",
        "once or more",
        "at least 2 times",
        "any",
    ]


def test_a_variant_has_its_own_page_and_what_is_none_has_the_common_one() -> None:
    """By the value of the variant's key, which a log may leave out or set to anything."""
    common, own = LogRules(), LogRules(either=(("a", "b"),))
    toy = RoundBenchmark("toy", 5, 1, {"closed": common}, "opt_name", {"closed": {"sgd": own}})

    assert toy.rules_of("closed", "sgd") is own
    for variant in ("adam", None, 5, ["sgd"]):
        assert toy.rules_of("closed", variant) is common
    assert toy.rules_of("open", "sgd") is None


def test_a_round_knows_its_benchmarks_by_name() -> None:
    """And nothing by what is no name."""
    found = round_of("5.1.0")

    assert found.benchmark("retinanet") is found.benchmarks["retinanet"]
    assert [found.benchmark(name) for name in ("doom", None, 5, ["retinanet"])] == [None] * 4
