"""The commands that look at what is there: audit, label, leakage, audit-score, power. Parse, call one public function, print."""

import getpass
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from mentor_audit import cli
from mentor_audit.cli import NO_OVERRIDES, AsJson, ConfigPath, Overrides, StorePath, app

MaybeConfig = Annotated[
    Path | None, typer.Option("--config", help="settings whose [task] the suite was made with", show_default=False)
]
Suite = Annotated[str | None, typer.Option("--suite", help="which suite, when the store holds several")]
Model = Annotated[str | None, typer.Option("--model", help="a Hugging Face id or a folder", show_default=False)]
Device = Annotated[str | None, typer.Option(help="where --model runs; default: the CPU")]
Limit = Annotated[int | None, typer.Option(help="at most so many now; default: all")]


@app.command(
    epilog="Example: mentor-audit audit runs/own-data --auditor judge --model Qwen/Qwen2.5-7B-Instruct --config own_data.toml"
)
def audit(
    store: StorePath,
    auditor: Annotated[
        str, typer.Option(help="planted_truth, step_checker, failing_test, judge, or human:NAME", show_default=False)
    ],
    config: MaybeConfig = None,
    suite: Suite = None,
    model: Model = None,
    endpoint: Annotated[
        Path | None, typer.Option(help="for judge: settings whose [mentor] is an endpoint", show_default=False)
    ] = None,
    with_reference: Annotated[bool, typer.Option("--with-reference", help="a judge sees the reference answer")] = False,
    device: Device = None,
    seed: Annotated[int, typer.Option(help="of the order, and of a judge's sampling")] = 0,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Judge diagnoses by an independent auditor, blind to arm and outcome. Run it again to go on."""
    from mentor_audit.audit.run import run_audit
    from mentor_audit.store import Store

    opened = Store.open(store)
    with cli._progress(as_json) as say:
        found = run_audit(
            opened,
            auditor,
            suite=suite,
            task=_task(config),
            judge=_judge(opened, auditor, model, endpoint, device) if auditor == "judge" else None,
            with_reference=with_reference,
            seed=seed,
            limit=limit,
            progress=_steps(say, f"audit by {auditor}"),
        )
    if as_json:
        print(json.dumps(asdict(found)))
        return
    cli._say(f"{found.num_new} diagnoses of suite {found.suite} judged now by {found.auditor}, {found.num_left} left")
    cli._table(
        ["aspect", "right", "wrong", "can't tell"],
        [[a.aspect, str(a.right), str(a.wrong), str(a.cannot_tell)] for a in found.aspects],
    )
    for warning in found.warnings:
        cli._say(f"warning: {warning}")


@app.command(epilog="Example: mentor-audit label runs/own-data --person anna")
def label(
    store: StorePath,
    person: Annotated[str | None, typer.Option(help="whose labels these are; default: your user name")] = None,
    suite: Suite = None,
    aspects: Annotated[str, typer.Option(help="which, with commas between")] = "detection,location,cause,fix",
    seed: Annotated[int, typer.Option(help="of the order")] = 0,
    limit: Limit = None,
) -> None:
    """Label diagnoses yourself, blind: keys y, n, u, s, b, q. Every answer is saved at once; run it again to go on."""
    from mentor_audit.audit.label import label_diagnoses
    from mentor_audit.store import Store

    who = person or getpass.getuser()
    asked = [part.strip() for part in aspects.split(",") if part.strip()]
    found = label_diagnoses(
        Store.open(store), who, reading=sys.stdin, writing=sys.stdout, suite=suite, aspects=asked, limit=limit, seed=seed
    )
    cli._say(f"{found.num_saved} answers of {found.person} saved, {found.num_left} diagnoses left; next:")
    cli._say(f"mentor-audit audit {store} --auditor human:{found.person}")


@app.command(epilog="Example: mentor-audit leakage runs/own-data --config own_data.toml")
def leakage(
    store: StorePath,
    config: MaybeConfig = None,
    suite: Suite = None,
    model: Model = None,
    max_tokens: Annotated[int, typer.Option(help="that --model may write for an answer")] = 256,
    device: Device = None,
    seed: Annotated[int, typer.Option(help="of --model's sampling")] = 0,
    as_json: AsJson = False,
) -> None:
    """Look for the reference answer in every instruction, by program; with --model also whether it can answer from one alone."""
    from mentor_audit.audit.leakage_run import run_leak_audit
    from mentor_audit.store import Store

    opened, task = Store.open(store), _task(config)
    policy = None if model is None else _policy(model, max_tokens, device)
    with cli._progress(as_json) as say:
        found = run_leak_audit(opened, suite=suite, task=task, policy=policy, seed=seed, progress=_steps(say, "leak audit"))
    if as_json:
        print(json.dumps(asdict(found)))
        return
    cli._say(f"{found.num_new} instructions of suite {found.suite} looked at now by {found.auditor}")
    cells = [
        [a.arm, str(a.instructions), str(a.found), str(a.leaks), cli._cell(a.mean_overlap), f"{a.answered} of {a.asked}"]
        for a in found.arms
    ]
    cli._table(["arm", "instructions", "answer found", "leaks", "overlap", "answered from it"], cells)


@app.command("audit-score", epilog="Example: mentor-audit audit-score gsm8k.json --shape processbench --auditor step_checker")
def audit_score(
    path: Annotated[
        str, typer.Argument(metavar="FILE", help="marked solutions, or a Hugging Face data set id", show_default=False)
    ],
    shape: Annotated[str, typer.Option(help="processbench, bigbench_mistake, prm800k or mr_gsm8k", show_default=False)],
    auditor: Annotated[str, typer.Option(help="step_checker, or judge with --model")] = "step_checker",
    model: Model = None,
    max_tokens: Annotated[int, typer.Option(help="that --model may write")] = 1024,
    device: Device = None,
    split: Annotated[str, typer.Option(help="of a Hugging Face data set")] = "test",
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """How good is an auditor at finding the first wrong step, on solutions that people marked? F1 as ProcessBench defines it."""
    from mentor_audit.audit.score import audit_score as scored

    judge = None if model is None else _policy(model, max_tokens, device)
    with cli._progress(as_json) as say:
        found = scored(path, shape, auditor, judge, limit, split=split, progress=_steps(say, "score"))
    if as_json:
        print(json.dumps({**asdict(found), "left_out": dict(found.left_out)}))
        return
    rows = [
        [name, str(part.asked), str(part.right), str(part.could_not_tell), cli._cell(part.accuracy), _ends(part.interval)]
        for name, part in (("with an error", found.erroneous), ("correct", found.correct))
    ]
    cli._table(["solutions", "asked", "right", "can't tell", "accuracy", "95 %"], rows)
    cli._say(f"F1 {cli._cell(found.f1)} {_ends(found.f1_interval)}, {found.auditor} on {found.num_problems} problems")
    for why, number in found.left_out.items():
        cli._say(f"left out: {number}, {why}")


@app.command(epilog="Example: mentor-audit power examples/own_data.toml --set power.effect=0.03")
def power(config: ConfigPath, overrides: Overrides = NO_OVERRIDES, as_json: AsJson = False) -> None:
    """How many problems, failures and seeds a given effect needs, from the suite's store as a pilot."""
    from mentor_audit.config import load_config
    from mentor_audit.report.power import plan_power
    from mentor_audit.report.power_words import describe
    from mentor_audit.store import Store

    settings = load_config(config, overrides)
    goal = settings.power
    found = plan_power(Store.open(settings.store.path), goal.effect, goal.power, goal.alpha, settings.suite.name)
    if as_json:
        print(json.dumps(asdict(found)))
        return
    for line in describe(found).splitlines():
        cli._say(line)


def _task(config: Path | None) -> Any:
    from mentor_audit.config import load_config
    from mentor_audit.suite import make_task

    return None if config is None else make_task(load_config(config))


def _judge(store: Any, auditor: str, model: str | None, endpoint: Path | None, device: str | None) -> Any:
    from mentor_audit.audit.load_judge import load_judge
    from mentor_audit.config import MentorSection, load_config
    from mentor_audit.errors import ConfigError

    if (model is None) == (endpoint is None):
        raise ConfigError("Expected one of --model and --endpoint with --auditor judge, found both or neither. Name the judge.")
    if endpoint is not None:
        return load_judge(load_config(endpoint).mentor, folder=store.root / "work" / "judge")
    return load_judge(MentorSection(kind="hf", model=model, max_tokens=512, temperature=0.0), device=device)


def _policy(model: str, max_tokens: int, device: str | None) -> Any:
    from mentor_audit.policy.hf import HFPolicy
    from mentor_audit.policy.load import load_model

    loaded, tokenizer, info = load_model(model, device=device)
    return HFPolicy(loaded, tokenizer, max_new_tokens=max_tokens, temperature=0.0, name=info.name)


def _steps(say: Any, name: str) -> Any:
    """A progress function of (done, of so many) for the bars of suites."""
    from mentor_audit.suite import RunProgress

    return lambda done, total: say(RunProgress(name, done, total, "ended" if done >= total else "working"))


def _ends(interval: tuple[float, float] | None) -> str:
    return "[not known]" if interval is None else f"[{interval[0]:.3f}, {interval[1]:.3f}]"
