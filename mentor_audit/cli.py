"""The command line: parse, call one public function, print.

Exit codes: 0 fine, 1 a finding, 2 bad input. Errors go to standard error.
"""

import json
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from mentor_audit import __version__
from mentor_audit.errors import MentorAuditError, QueryError

if TYPE_CHECKING:
    import polars as pl

    from mentor_audit.suite import RunProgress

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Train with a mentor on GRPO, keep every failed attempt and what followed, and find out what helped.",
)
out, err = Console(), Console(stderr=True)

ConfigPath = Annotated[Path, typer.Argument(help="settings in TOML", show_default=False)]
StorePath = Annotated[Path, typer.Argument(help="folder of a trajectory store", show_default=False)]
Overrides = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="replace a setting, for example train.steps=20")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON for programs")]
NO_OVERRIDES: list[str] = []


def main() -> None:
    """Run the command line; errors of ours become exit code 2."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    try:
        app()
    except MentorAuditError as error:
        err.print(Text(f"error: {error}", style="red"), soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        err.print("interrupted; what was committed is kept, the same command goes on from there")
        sys.exit(130)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="print the version and stop")] = False) -> None:
    if show:
        out.print(f"mentor_audit {__version__}")
        raise typer.Exit


@app.command(epilog="Example: mentor-audit demo --out demo")
def demo(
    out_dir: Annotated[Path, typer.Option("--out", help="folder for the store and the report")] = Path("demo"),
    overrides: Overrides = NO_OVERRIDES,
    workers: Annotated[int | None, typer.Option(help="runs side by side; default: one a core")] = None,
) -> None:
    """Replay failures of the embedded learner with every arm, train the main arms for real, write the report. No GPU, hub or account."""
    from mentor_audit.config import load_config

    settings = resources.files("mentor_audit").joinpath("demo.toml")
    with resources.as_file(settings) as path:
        more = [f'store.path="{out_dir / "store"}"', *([f"suite.workers={workers}"] if workers else [])]
        config = load_config(path, [*more, *overrides])
    _run_demo_and_report(config, out_dir / "report")


@app.command(epilog="Example: mentor-audit validate examples/llama32_3b_math.toml")
def validate(config: ConfigPath, overrides: Overrides = NO_OVERRIDES, as_json: AsJson = False) -> None:
    """Check settings before anything is trained or replayed."""
    from mentor_audit import replay as replaying
    from mentor_audit import suite
    from mentor_audit.config import load_config

    settings = load_config(config, overrides)
    notes = suite.validate(settings)
    replaying.validate(settings)
    runs = [suite.run_id(settings, arm, seed) for arm in settings.run_arms for seed in settings.suite.seeds]
    if as_json:
        print(json.dumps({"valid": True, "config_hash": settings.hash(), "runs": runs, "notes": notes}))
        return
    _say(f"{config} is valid: {len(runs)} runs, settings {settings.hash()[:12]}")
    for note in notes:
        _say(f"note: {note}")


@app.command(epilog="Example: mentor-audit train suite.toml --arm mentor --seed 1 --resume")
def train(
    config: ConfigPath,
    arm: Annotated[str | None, typer.Option(help="default: the first arm of the settings")] = None,
    seed: Annotated[int | None, typer.Option(help="default: the first seed of the settings")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on from the run's last checkpoint")] = False,
    overrides: Overrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Train one run and evaluate it on held-out problems."""
    from mentor_audit import suite
    from mentor_audit.config import ARMS, RANDOMISED, load_config, nearest
    from mentor_audit.errors import ConfigError

    settings = load_config(config, overrides)
    arm, seed = arm or settings.run_arms[0], settings.suite.seeds[0] if seed is None else seed
    known = (*ARMS, RANDOMISED)
    if arm not in known:
        raise ConfigError(f"Expected --arm to be one of {', '.join(known)}; found {arm!r}{nearest(arm, known)}")
    if (arm == RANDOMISED) != (settings.mentoring.assignment == RANDOMISED):
        raise ConfigError(
            f'Expected --arm {RANDOMISED} with mentoring.assignment = "{RANDOMISED}" and only then, found --arm {arm} with '
            f'"{settings.mentoring.assignment}". Change one of them.'
        )
    if arm != RANDOMISED:
        settings = load_config(config, [*overrides, f'suite.arms=["{arm}"]', f"suite.seeds=[{seed}]"])
    suite.validate(settings)
    with _progress(as_json) as say:
        name = suite.train_run(settings, arm, seed, resume=resume, progress=say)
    if not as_json:
        _say(f"run {name} is in {settings.store.path}")


@app.command(epilog="Example: mentor-audit suite examples/own_data.toml --set suite.seeds=[1,2]")
def suite(config: ConfigPath, overrides: Overrides = NO_OVERRIDES, as_json: AsJson = False) -> None:
    """Train all arms and seeds, with held-out evaluations. Run it again to go on after an interruption."""
    from mentor_audit.config import load_config
    from mentor_audit.suite import run_suite

    settings = load_config(config, overrides)
    with _progress(as_json) as say:
        store = run_suite(settings, say)
    if not as_json:
        _say(f"the suite is in {store.root}; next: mentor-audit report {store.root} -o report")


@app.command(epilog="Example: mentor-audit replay examples/own_data.toml --set replay.failures=100")
def replay(config: ConfigPath, overrides: Overrides = NO_OVERRIDES, as_json: AsJson = False) -> None:
    """Give the same failures of a frozen policy every arm's answer. Run it again to go on, or with an arm more to add it."""
    from mentor_audit.config import load_config
    from mentor_audit.replay import replay_id, run_replay

    settings = load_config(config, overrides)
    with _progress(as_json) as say:
        store = run_replay(settings, say)
    if not as_json:
        _say(f"replay {replay_id(settings)} is in {store.root}; next: mentor-audit report {store.root} -o report")


@app.command(
    epilog='Example: mentor-audit sql demo/store "SELECT arm, count(*) FROM attempt JOIN run USING (run_id) GROUP BY arm"'
)
def sql(
    store: StorePath,
    query: Annotated[str | None, typer.Argument(help="SQL over the store's views", show_default=False)] = None,
    name: Annotated[str | None, typer.Option(help="a named query")] = None,
    list_queries: Annotated[bool, typer.Option("--list", help="list the named queries")] = False,
    show_sql: Annotated[bool, typer.Option("--show", help="print the named query's text instead of running it")] = False,
    seconds: Annotated[float, typer.Option(help="time limit of a query of yours")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Ask the store. A query of yours runs in a child process without access to files or network."""
    from mentor_audit.store import Limits, Store

    opened = Store.open(store)
    if list_queries:
        listed = opened.queries()
        if as_json:
            print(json.dumps([{"name": q.name, "question": q.question, "grain": q.grain, "units": q.units} for q in listed]))
            return
        _table(["name", "question"], [[q.name, q.question] for q in listed])
        return
    if (query is None) == (name is None):
        raise QueryError(
            "Expected one of QUERY and --name, found both or neither. `mentor-audit sql STORE --list` lists the names."
        )
    if name is not None and show_sql:
        found = {q.name: q for q in opened.queries()}
        print(found[name].sql if name in found else opened.query(name))
        return
    frame = opened.query(name) if name is not None else opened.sql(query or "", Limits(seconds=seconds))
    _print_frame(frame, as_json)


@app.command(epilog="Example: mentor-audit show demo/store demo-mentor-s1.l1.t0.g0.a3")
def show(
    store: StorePath,
    attempt_id: Annotated[str, typer.Argument(help="an attempt or a follow-up", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """One failed attempt and what followed: diagnosis, instruction, follow-up, verdicts and cost."""
    from mentor_audit.store import Store
    from mentor_audit.store.chain import render_chain

    frame = Store.open(store).chain(attempt_id)
    if as_json:
        _print_frame(frame, as_json)
        return
    out.print(render_chain(frame))


@app.command(epilog="Example: mentor-audit report demo/store -o demo/report")
def report(
    store: StorePath,
    out_dir: Annotated[Path, typer.Option("--out", "-o", help="folder for report.html, report.md and report.json")],
    budget: Annotated[str, typer.Option(help="flops, tokens or seconds: what arms are compared at")] = "flops",
    suite_name: Annotated[str | None, typer.Option("--suite", help="which suite, when the store holds several")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the compute-matched ablation report."""
    from mentor_audit.errors import ReportError
    from mentor_audit.report import Budget, build_report
    from mentor_audit.store import Store

    if budget not in get_args(Budget):
        raise ReportError(f"Expected --budget to be flops, tokens or seconds, found {budget!r}. Choose one of them.")
    made = build_report(Store.open(store), out_dir, budget=budget, suite=suite_name)
    if as_json:
        print((Path(out_dir) / "report.json").read_text(encoding="utf-8"))
        return
    _say(made.verdict)
    _say(f"report: {Path(out_dir).resolve() / 'report.html'}")


@app.command(epilog="Example: mentor-audit check demo/store")
def check(store: StorePath, as_json: AsJson = False) -> None:
    """Prove links, uniqueness, counts and checksums. Exit code 1 when something is wrong."""
    from mentor_audit.store import Store

    findings = Store.open(store).check()
    wrong = [f for f in findings if f.severity != "info"]
    if as_json:
        print(json.dumps([vars(f) for f in findings], default=str))
    else:
        for finding in findings:
            _say(f"{finding.severity}: {finding}")
        _say("every link, key, count and checksum holds" if not wrong else f"{len(wrong)} findings")
    raise typer.Exit(1 if wrong else 0)


@app.command(epilog="Example: mentor-audit compact demo/store")
def compact(store: StorePath, as_json: AsJson = False) -> None:
    """Merge small Parquet files, and remove those that no version of the last 7 days needs."""
    from mentor_audit.store import Store

    opened = Store.open(store)
    done: dict[str, Any] = opened.compact()
    removed = opened.vacuum()
    if as_json:
        print(json.dumps({"compacted": done, "removed": removed}, default=str))
        return
    _say(f"compacted: {done}; removed {removed} old files")


@app.command("sandbox-check", epilog="Example: mentor-audit sandbox-check --mode landlock")
def sandbox_check(
    mode: Annotated[str, typer.Option(help="auto, bwrap or landlock")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Try attacks on this machine's sandbox: network, files, processes, memory, output. Exit code 1 when one gets through."""
    from mentor_audit.tasks.sandbox import available
    from mentor_audit.tasks.sandbox.check import run_attacks

    found = available()
    results = run_attacks(_sandbox_mode(mode))
    escaped = [result for result in results if not result.contained]
    if as_json:
        print(json.dumps({"available": [asdict(a) for a in found], "attacks": [asdict(r) for r in results]}))
    else:
        for one in found:
            _say(f"{one.mode}: {'works' if one.works else 'does not work'}: {one.why}")
        _table(
            ["attack", "tried", "contained", "evidence"],
            [[r.name, r.tried, "yes" if r.contained else "NO", r.evidence] for r in results],
        )
        _say(f"{len(results) - len(escaped)} of {len(results)} attacks were contained")
    raise typer.Exit(1 if escaped else 0)


@app.command(epilog="Example: mentor-audit schema attempt; mentor-audit schema --write schemas")
def schema(
    table: Annotated[str | None, typer.Argument(help="print this table's JSON Schema", show_default=False)] = None,
    write: Annotated[Path | None, typer.Option("--write", help="write every schema under this folder")] = None,
) -> None:
    """Print or write the schemas: JSON Schema, SQL and Arrow, made from the records."""
    from mentor_audit import schema as schemas

    if write is not None:
        paths = schemas.write_schemas(write)
        _say(f"wrote {len(paths)} files under {paths[0].parent}")
    elif table is not None:
        print(json.dumps(schemas.json_schema(table), indent=2, sort_keys=True))
    else:
        print("\n".join(schemas.ddl(name) for name in schemas.TABLES))


def _run_demo_and_report(config: Any, report_dir: Path) -> None:
    from mentor_audit.demo import run_demo
    from mentor_audit.report import build_report

    with _progress(False) as say:
        store = run_demo(config, say)
    made = build_report(store, report_dir, budget=config.report.budget, suite=config.suite.name)
    _say("")
    _say(made.verdict)
    _say("")
    _say(f"report:  {(report_dir / 'report.html').resolve()}")
    _say(f"store:   {Path(config.store.path).resolve()}")
    _say(f"ask it:  mentor-audit sql {config.store.path} --list")


@contextmanager
def _progress(as_json: bool) -> Iterator[Any]:
    """A function that takes RunProgress: a bar a run, or one JSON line each for programs."""
    if as_json:

        def write(news: "RunProgress") -> None:
            print(json.dumps(vars(news)), flush=True)

        yield write
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[news]}"),
    )
    with Progress(*columns, console=err) as bars:
        tasks: dict[str, TaskID] = {}

        def draw(news: "RunProgress") -> None:
            if news.run_id not in tasks:
                tasks[news.run_id] = bars.add_task(news.run_id, total=news.steps, news=news.state)
            found = news.state if news.accuracy is None else f"held-out {news.accuracy:.2f}"
            bars.update(tasks[news.run_id], completed=news.step, total=news.steps, news=found)
            if news.state == "ended":
                bars.stop_task(tasks[news.run_id])

        yield draw


def _print_frame(frame: "pl.DataFrame", as_json: bool) -> None:
    if as_json:
        print(frame.write_json())
        return
    _table(frame.columns, [[_cell(value) for value in row] for row in frame.iter_rows()])


def _sandbox_mode(name: str) -> Any:
    from mentor_audit.config import nearest
    from mentor_audit.errors import ConfigError

    known = ["auto", "bwrap", "landlock"]
    if name not in known:
        raise ConfigError(f"Expected --mode to be one of {', '.join(known)}, found {name!r}{nearest(name, known)}")
    return name


SHORT_CELL = 12


def _table(columns: list[str], rows: list[list[str]]) -> None:
    """Text only, control codes stripped: cells may hold what a model wrote. A table wider than the terminal is printed row by row."""
    from mentor_audit.store.chain import plain

    table, needed = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False), 0
    for i, column in enumerate(columns):
        longest = max((len(plain(row[i])) for row in rows), default=0)
        header = _folded(plain(column), max(longest, 6))
        short = longest <= SHORT_CELL
        table.add_column(Text(header), overflow="fold", no_wrap=short)
        needed += 2 + max(len(part) for part in [*header.splitlines(), "x" * min(longest, SHORT_CELL)])
    for row in rows:
        table.add_row(*[Text(plain(cell)) for cell in row])
    if needed <= out.width:
        out.print(table)
        return
    for number, row in enumerate(rows, 1):
        out.print(Rule(f"row {number}", align="left", style="dim"))
        grid = Table.grid(padding=(0, 2))
        for name, cell in zip(columns, row, strict=True):
            grid.add_row(Text(plain(name), style="dim"), Text(plain(cell)))
        out.print(grid)


def _folded(name: str, width: int) -> str:
    """A column's name on lines of at most `width` characters, broken behind underscores where that is possible."""
    lines = [""]
    for part in re.findall(r"[^_]*_?", name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def _say(line: str) -> None:
    """One line as text, never as markup."""
    from mentor_audit.store.chain import plain

    out.print(Text(plain(line)), soft_wrap=True)


from mentor_audit import cli_audit as cli_audit  # noqa: E402  its commands join `app`
