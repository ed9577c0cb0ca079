"""The command line, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from reshard.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


PLAN = ("plan", "--mesh", "dp=2,cp=2,tp=2", "--shape", "4096,4096", "--dtype", "bfloat16", "--from", "P,R,P", "--to", "R,R,R")


def test_plan_beside_the_baseline(capsys) -> None:
    status, out, err = run(capsys, *PLAN)
    assert (status, err) == (0, "")
    for part in ("reduce_scatter", "all_gather", "per-axis", "collectives", "received", "peak", "1.60x"):
        assert part in out
    assert "\x1b[" not in out, "colours only on a terminal"


def test_plan_compare_prints_the_baselines_steps(capsys) -> None:
    _, out, _ = run(capsys, *PLAN, "--compare")
    assert "the per-axis baseline" in out
    assert out.count("all_reduce") == 2


def test_plan_as_json(capsys) -> None:
    _, out, _ = run(capsys, *PLAN, "--json", "--objective", "bytes")
    data = json.loads(out)
    assert data["plan"]["totals"]["received"] == 320 * 2**20
    assert data["baseline"]["totals"]["received"] == 512 * 2**20
    assert data["ratio"]["received"] == 1.6


def test_explicit_groups(capsys) -> None:
    arguments = ("plan", "--mesh", "dp=2,cp=2,tp=2", "--shape", "64,64", "--from", "P,P,P", "--to", "R,R,R", "--json")
    _, out, _ = run(capsys, *arguments, "--groups", "explicit:dp+cp")
    groups = [set(step["group"]) for step in json.loads(out)["plan"]["steps"] if step["kind"] != "slice"]
    assert {"dp", "cp"} in groups
    assert all(group in ({"dp"}, {"cp"}, {"tp"}, {"dp", "cp"}) for group in groups)


def test_mistakes_are_told(capsys) -> None:
    status, out, err = run(capsys, "plan", "--mesh", "a=2", "--shape", "4", "--from", "S1", "--to", "R")
    assert (status, out) == (2, "")
    assert err.startswith("reshard: a layout shards dims that the tensor has; got ")
    with pytest.raises(SystemExit):
        main(["plan", "--mesh", "a=2", "--shape", "4,y", "--from", "R", "--to", "R"])
    assert "'4,y' is not whole numbers" in capsys.readouterr().err


def test_census(capsys) -> None:
    status, out, err = run(capsys, "census", "--mesh", "a=2,b=2", "--ndim", "2")
    assert (status, err) == (0, "")
    assert "72 pairs" in out
    _, out, _ = run(capsys, "census", "--mesh", "a=2,b=2", "--ndim", "2", "--partial", "--json")
    data = json.loads(out)
    assert data["reshard"]["collectives_max"] <= 2
    assert data["per-axis"]["received_over_bound_geomean"] > data["reshard"]["received_over_bound_geomean"]


def test_demo(capsys) -> None:
    status, out, _ = run(capsys, "demo")
    assert status == 0
    assert out.count("correct") == 7
    assert "WRONG" not in out
    _, out, _ = run(capsys, "demo", "--json")
    assert all(line["correct"] for line in json.loads(out))


def test_demo_says_when_something_is_wrong(capsys, monkeypatch) -> None:
    from reshard import demo

    monkeypatch.setattr(demo, "simulate", lambda plan, shards: [s * 0 for s in shards])
    status, out, _ = run(capsys, "demo")
    assert status == 1
    assert "WRONG" in out


@pytest.mark.parametrize("command", [[], ["plan"], ["census"], ["demo"]])
def test_help_has_examples(command) -> None:
    done = subprocess.run([sys.executable, "-m", "reshard", *command, "--help"], capture_output=True, text=True, check=True)
    assert "usage: reshard" in done.stdout
    assert command == ["demo"] or "examples:" in done.stdout
