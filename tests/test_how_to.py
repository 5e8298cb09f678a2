def test_module_of_the_guide_is_one(tmp_path: Path) -> None:
    """Its text defines two parts."""
    text, arguments = example()
    path = tmp_path / arguments[arguments.index("--module") + 1]
    path.write_text(text)

    module, _ = open_module.read(path, "image_classification", workloads.workload("image_classification").parts)

    assert module.parts == ("build_optimizer", "learning_rate")


@pytest.mark.slow
def test_module_of_the_guide_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real run gives a valid result, apart from a system description that is not filled in."""
    text, arguments = example()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TTA_DATA", str(tmp_path / "data"))
    (tmp_path / arguments[arguments.index("--module") + 1]).write_text(text)
    rules = str(easy_rules(tmp_path / "easy"))

    assert main([*arguments, "--ruleset", rules, "--no-mlflow", "--quiet"]) == 0, capsys.readouterr().err

    log = run_log.read(tmp_path / "mine" / "result_0.txt")
    module = log.field("tta_resolved", "module")
    assert module["parts"] == ["build_optimizer", "learning_rate"]
    assert sha256_of(tmp_path / "mine" / "code" / "adamw.py") == module["sha256"]
    capsys.readouterr()
    main(["check", "mine", "--ruleset", rules, "--format", "json"])
    [judged] = json.loads(capsys.readouterr().out)["results"]
    assert {finding["code"] for finding in judged["findings"]} <= {"SYS003", "SYS008"}, judged["findings"]
