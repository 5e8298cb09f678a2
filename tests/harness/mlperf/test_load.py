"""MLPerf's rounds as read from YAML, in words, and faults in the files as one sentence each."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.commands import explain
from harness.errors import RulesError
from harness.mlperf import describe
from harness.mlperf.formula import Line
from harness.mlperf.load import is_round
from harness.mlperf.model import Count, Round
from harness.ruleset import catalog, load
from tests.mlperflog import round_of

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


DESCRIBED = [
    ("5.1.0", "retinanet"),
    ("1.0.0", "resnet"),
    ("1.1.0", "rnnt"),
    ("5.0.0", "stable_diffusion"),
    ("0.7.0", "bert"),
]


def in_words(version: str, name: str) -> str:
    return describe.benchmark_in_words(round_of(version), round_of(version).benchmarks[name])


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


def test_every_round_has_targets_and_no_benchmarks_of_tta() -> None:
    """In every division of every benchmark."""
    rounds = [folder for name, folder in catalog.ruleset_folders() if name.startswith("mlperf_training/")]

    assert len(rounds) == 13
    for folder in rounds:
        found = load.load_ruleset(folder, folder.name)
        assert found.round is not None
        assert dict(found.benchmarks) == {}
        assert 6 <= len(found.round.benchmarks) <= 9
        for benchmark in found.round.benchmarks.values():
            assert all(benchmark.target(division) is not None for division in benchmark.divisions)
            assert "closed" in benchmark.divisions


def test_each_round_has_its_own_numbers() -> None:
    """The target of BERT, the time to initialise, and runs: of 3D U-Net's 40, four are left out at each end."""
    rounds = {version: round_of(version) for version in ("0.7.0", "1.0.0", "1.1.0", "2.0.0", "5.1.0")}

    assert "0.712" in str(rounds["0.7.0"].benchmarks["bert"].target())
    assert "0.72" in str(rounds["1.0.0"].benchmarks["bert"].target())
    assert rounds["0.7.0"].max_init_s == {"closed": 1200, "open": 1200}
    assert rounds["1.1.0"].max_init_s == {"closed": 1800, "open": 1800}
    assert rounds["2.0.0"].max_init_s == {"closed": 1800, "open": 14_400}
    runs = [(version, name) for version, name in (("1.0.0", "unet3d"), ("1.0.0", "resnet"), ("5.1.0", "llama31_405b"))]
    assert [
        (rounds[version].benchmarks[name].num_runs, rounds[version].benchmarks[name].drop) for version, name in runs
    ] == [(40, 4), (5, 1), (3, 1)]


def test_facts_of_a_benchmark_are_in_its_file(write: Callable[..., Path]) -> None:
    """A word or a number each, as it says or as most benchmarks are; what it has is in its description."""
    facts = """
        evaluated: either
        first_evaluations: late
        position: samples_count
        train_samples: games
        training_set: 500
        reprint_tolerance: 0.01
        convergence_allowance: 7
        codes: {MLP003: note}
    """
    folder = write(**{"2.0/toy": facts})
    usual, found = loaded(folder.parent / "1.0").benchmarks["toy"], loaded(folder).benchmarks["toy"]
    text = describe.benchmark_in_words(loaded(folder), found)

    assert (usual.evaluated, usual.first_evaluations, usual.position) == ("online", "early", "epoch_num")
    assert (usual.train_samples, usual.training_set, dict(usual.codes)) == ("data", 0, {})
    assert (usual.reprint_tolerance, usual.convergence_allowance) == (0.0, 0.0)
    assert (found.evaluated, found.first_evaluations, found.position) == ("either", "late", "samples_count")
    assert (found.train_samples, found.training_set, dict(found.codes)) == ("games", 500, {"MLP003": "note"})
    assert (found.reprint_tolerance, found.convergence_allowance) == (0.01, 7)
    for words in (
        "on the clock or, from checkpoints, after training",
        "their position in training as samples_count",
        "begins late",
        "self-play games, whose number grows",
        "500 samples",
        "up to 0.01",
        "7 epochs faster",
        "MLP003 is of severity note here",
    ):
        assert words in text


def test_joined_evaluations_are_at_the_field_they_are_joined_by() -> None:
    """Of Stable Diffusion, steps in v3.1 and samples since."""
    rounds = [round_of(version).benchmarks["stable_diffusion"] for version in ("3.1.0", "4.0.0", "4.1.0")]

    assert [found.position for found in rounds] == ["step_num", "samples_count", "samples_count"]
    assert [found.join is not None and found.join.by for found in rounds] == [found.position for found in rounds]


def test_a_variant_adds_to_the_page_of_its_division(write: Callable[..., Path]) -> None:
    """ResNet's optimisers: LARS and SGD have hyperparameters of their own; any other value has the common page."""
    benchmark = loaded(write()).benchmarks["toy"]
    page, sgd = benchmark.rules_of("closed"), benchmark.rules_of("closed", "sgd")

    assert page is not None
    assert sgd is not None
    assert set(sgd.keys) - set(page.keys) == {"opt_momentum"}
    assert all(benchmark.rules_of("closed", variant) is page for variant in ("adam", 5, ["sgd"]))
    assert benchmark.rules_of("open", "sgd") is benchmark.divisions["open"]
    assert benchmark.rules_of("elsewhere", "sgd") is None


def test_a_round_changes_what_it_names_in_the_one_before(write: Callable[..., Path]) -> None:
    """A mapping is merged, anything else replaces, null removes; the round before is unchanged, waivers are its own."""
    toy = """
        num_runs: 10
        variants: null
        divisions: {closed: {keys: {opt_name: {each: value == 'adam'}, eval_accuracy: null}}}
        convergence: {ref_256: {points: [2]}, ref_512: {global_batch_size: 512, unit: samples, points: [9]}}
    """
    base = BASE + "waivers: [{code: MLP003, path: acme, who: J. Doe, why: a case, until: 2026-12-31}]\n"
    second = NEXT + "keys: {run_start: {count: 2+}, run_stop: {count: any}}\ncodes: {MLP003: null, MLP004: note}\n"
    folder = write(base, second, **{"2.0/toy": toy})
    before, after = loaded(folder.parent / "1.0"), loaded(folder)
    rules = {place.name: load.load_ruleset(place, place.name) for place in (folder.parent / "1.0", folder)}

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
    assert {name: dict(item.codes) for name, item in rules.items()} == {
        "1.0": {"MLP003": "error"},
        "2.0": {"MLP004": "note"},
    }
    assert [len(item.waivers) for item in rules.values()] == [1, 0]


def test_a_benchmark_may_be_removed_or_have_another_name(write: Callable[..., Path]) -> None:
    """As ssd became retinanet in round 5.0; what is not a name is not a benchmark."""
    second = NEXT + "benchmarks: {toy: null}\n"
    found = loaded(write(second=second, **{"2.0/game": "extends: 1.0/toy\nnum_runs: 7\n"}))

    assert sorted(found.benchmarks) == ["game"]
    assert found.benchmarks["game"].num_runs == 7
    assert found.benchmark("game") is found.benchmarks["game"]
    assert [found.benchmark(name) for name in ("toy", None, 5, ["game"])] == [None] * 4


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
        ({"second": NEXT.replace('"2025-01-01"', "soon")}, "'soon'; it must be 'YYYY-MM-DD', in quotes, or not yet"),
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
        ({"second": "kind: mlperf\nextends: nowhere\n"}, "unknown round"),
        (
            {"second": NEXT + "waivers: [{code: MLP999, path: a, who: b, why: c, until: d}]\n"},
            "check in force 'MLP999'",
        ),
        ({"2.0/toy": "num_runs: 2\n"}, "num_runs more than twice drop"),
        ({"2.0/toy": "num_runs: many\n"}, "must be whole numbers"),
        ({"2.0/toy": "extends: 1.0/tay\n"}, "unknown benchmark 'tay'"),
        ({"2.0/toy": "extends: 2.0/toy\n"}, "extend each other in a circle"),
        ({"2.0/toy": "divisions: {half: {}}\n"}, "unknown key 'half'"),
        ({"2.0/toy": "distance: value > opt_momentum\n"}, "distance: uses opt_momentum; it may use only value and"),
        ({"2.0/toy": "distance: [value > 1]\n"}, "distance: must be a list of texts"),
        ({"2.0/toy": "distance: value >\n"}, "distance: formula 'value >': not a formula"),
        ({"2.0/toy": "join: {key: a}\n"}, "join needs key, by, part and into"),
        (
            {"2.0/toy": "join: {key: a, by: step_num, part: b, into: c}\nposition: epoch_num\n"},
            "toy.yaml: position is 'epoch_num'; evaluations are joined by step_num",
        ),
        (
            {"2.0/toy": "join: {key: a, by: time, part: b, into: c}\n"},
            "position is 'time'; it must be one of epoch_num",
        ),
        ({"2.0/toy": "convergence: {ref_256: {points: []}}\n"}, "points must be a list of numbers above zero"),
        ({"2.0/toy": "convergence: {ref_256: {unit: hours}}\n"}, "unit is 'hours'"),
        ({"2.0/toy": "convergence: {ref_256: {global_batch_size: 0}}\n"}, "global_batch_size is 0;"),
        ({"2.0/toy": "evaluated: later\n"}, "evaluated is 'later'; it must be one of online, afterwards, either"),
        ({"2.0/toy": "train_samples: [data]\n"}, "train_samples is"),
        ({"2.0/toy": "reprint_tolerance: -1\n"}, "reprint_tolerance is '-1'; it must be a number of at least 0"),
        ({"2.0/toy": "training_set: many\n"}, "training_set is 'many'; it must be a number of at least 0"),
        ({"2.0/toy": "codes: {MLP003: fatal}\n"}, "toy.yaml: codes: MLP003: unknown severity 'fatal'"),
        ({"2.0/toy": "codes: {MLP004: note}\n"}, "toy.yaml: codes: MLP004 is not in force in the round"),
        ({"2.0/toy": "- 5\n"}, "must be a mapping"),
        ({"2.0/toy": "num_runs: 5\nnum_runs: 6\n"}, "'num_runs' occurs twice"),
        ({"2.0/toy": "# " + "x" * (4 << 20)}, "larger than 4 MiB"),
    ],
)
def test_a_fault_in_a_round_is_one_sentence(write: Callable[..., Path], changed: dict[str, str], said: str) -> None:
    """It names the file."""
    folder = write(**changed)

    with pytest.raises(RulesError) as raised:
        loaded(folder)
    assert said in str(raised.value)
    assert ".yaml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_disk_error_is_one_sentence(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read is not taken for a round; as a part of one, it is an error, as is a folder."""
    folder = write()
    (folder / "game.yaml").mkdir()
    with pytest.raises(RulesError, match="no such file"):
        loaded(folder)
    (folder / "game.yaml").rmdir()
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


def test_a_benchmark_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Targets, runs, limits, keys, reference points, variants, tensors, combined lines; `tta explain` lists them."""
    text = "".join(in_words(version, name) for version, name in DESCRIBED)

    for words in (
        "A result is 5 runs. The fastest and the slowest are left out",
        "closed: at least one eval_accuracy must meet `value >= 0.340 and value < 1.0`",
        "| opt_name | once | `value == 'adam'` |  |",
        "| init_start | once or more |  | before init_stop, run_start |",
        "| ref_256 | 256 | 20 | 4 | 4 | 4 | epochs |",
        "### Additionally, if opt_name is lars",
        "together they name 7 tensors, each once",
        "- The eval_accuracy lines of one samples_count count as one aggregated_eval_accuracy; each names its metric",
        "No reference runs are known",
    ):
        assert words in text
    explain.run(None, False, "mlperf_training/5.1.0")
    assert "| retinanet | 5 | 1 | closed, open | `value >= 0.340 and value < 1.0` |" in capsys.readouterr().out


def test_what_a_benchmark_lacks_is_not_described(write: Callable[..., Path]) -> None:
    """A target of the open division, and the unit of a distance where there are no references."""
    found = loaded(write(**{"2.0/toy": "distance: value == 1\nconvergence: null\n"}))
    text = describe.benchmark_in_words(found, found.benchmarks["toy"])
    assert "train_samples" not in text

    assert "- closed: at least one eval_accuracy must meet `value >= 0.9`." in text
    assert "- open: at least one eval_accuracy" not in text
    assert "- closed: the distance between evaluations must meet `value == 1`;" in text
    assert [Count(1, 1).words, Count(0, 1).words, Count(1).words, Count(2).words, Count().words] == [
        "once",
        "once or not at all",
        "once or more",
        "at least 2 times",
        "any",
    ]


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
        ("0.7.0", "bert", 1, None, None),
        ("0.7.0", "resnet", 1, None, None),
        ("5.1.0", "llama31_405b", 1, None, None),
        ("6.0.0", "deepseekv3_671b", 1, None, None),
    ],
)
def test_evaluations_are_as_far_apart_as_in_published_results(
    version: str, name: str, batch: int, met: tuple[float, ...] | None, missed: tuple[float, ...] | None
) -> None:
    """Distances of published results, and others; where none is specified, not even that of the round before holds."""
    benchmark = round_of(version).benchmarks[name]
    if met is None or missed is None:
        assert benchmark.distance is None
        assert "the distance between evaluations" not in in_words(version, name)
        return

    assert benchmark.distance is not None
    for value in (*met, *missed):
        line = Line(float(value), earlier={"global_batch_size": float(batch)})
        assert benchmark.distance.holds(line) == (value in met), value
    assert benchmark.distance.text in in_words(version, name)
