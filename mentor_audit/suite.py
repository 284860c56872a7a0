"""A suite: arms x seeds on one task. Trains each run, evaluates it on held-out problems, and can be interrupted at any point.

`run_suite` runs them side by side in worker processes, one thread each; `train_run` is one of them. Under a distributed launcher
`run_suite` trains one run after the other, each on all ranks.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
from pydantic import BaseModel, ValidationError

from mentor_audit.config import ARMS_WITH_TRUTH, SuiteConfig, explain
from mentor_audit.errors import ConfigError, TrainingError
from mentor_audit.protocols import Task
from mentor_audit.store import Store
from mentor_audit.tasks import load_task, settings_model, task_class
from mentor_audit.tasks.canaries import HasCanaries, check_canaries
from mentor_audit.tasks.reading import is_file

if TYPE_CHECKING:
    from mentor_audit.training import MentorGRPOTrainer

EVAL_SEED = 20_000
"""Held-out sampling uses this plus the run's seed at every step and in every arm: common random numbers."""
WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True)
class RunProgress:
    """One line of news about a run. `accuracy` is that of a held-out evaluation at `step`, None for other news."""

    run_id: str
    step: int
    steps: int
    state: str
    accuracy: float | None = None


Report = Callable[[RunProgress], None]


def run_suite(config: SuiteConfig, progress: Report | None = None) -> Store:
    """Train what is not trained yet; returns the store.

    A run that ended is left alone; one that was interrupted goes on from its last checkpoint, or starts again as a new launch.
    Raises ConfigError when the store holds a run of the same name made with other settings, and TrainingError that names every run
    that failed, after the others have ended.
    """
    validate(config)
    say = progress or (lambda news: None)
    store = Store.create(config.store.path, registry_url=config.store.registry_url, exist_ok=True)
    todo = [(arm, seed) for seed in config.suite.seeds for arm in config.run_arms]
    check_settings(config, store)
    todo = [run for run in todo if not has_ended(store, run_id(config, *run))]
    learner_folder(config, say)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        for arm, seed in todo:
            train_run(config, arm, seed, resume=True, progress=say)
        return store
    workers = config.suite.workers or os.cpu_count() or 1
    if workers == 1 or len(todo) == 1:
        failures = [f for run in todo if (f := _in_process(config, run, say))]
    else:
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            failures = [f for f in pool.map(lambda run: _in_worker(config, run, say), todo) if f]
    if failures:
        raise TrainingError(
            f"Expected {len(todo)} runs to end, {len(failures)} failed:\n"
            + "\n".join(failures)
            + "\nThe other runs are complete. "
            "Correct the cause and run the same command again: it goes on where it stopped."
        )
    return store


def train_run(config: SuiteConfig, arm: str, seed: int, *, resume: bool = False, progress: Report | None = None) -> str:
    """Train one run and evaluate it on held-out problems; returns its run id.

    `resume` goes on from the run's last checkpoint; without one it starts again. Raises ConfigError, TaskError, ModelError and
    TrainingError as its parts do.
    """
    from transformers import PrinterCallback
    from transformers.utils.logging import disable_progress_bar

    from mentor_audit.policy.load import load_model
    from mentor_audit.training import MentorGRPOTrainer, task_dataset

    disable_progress_bar()
    say = progress or (lambda news: None)
    name = run_id(config, arm, seed)
    store = Store.create(config.store.path, registry_url=config.store.registry_url, exist_ok=True)
    check_settings(config, store)
    task = make_task(config)
    if isinstance(task, HasCanaries):
        check_canaries(task)
    folder = learner_folder(config, say)
    section = config.learner
    model, tokenizer, info = load_model(
        str(folder) if folder else section.model,
        dtype=section.dtype,
        revision=section.revision,
        device=section.device,
        attn_implementation=section.attn_implementation,
    )
    work = Path(config.store.path) / "work" / name
    trainer = MentorGRPOTrainer(
        model=model,
        processing_class=tokenizer,
        args=grpo_config(config, seed, work),
        train_dataset=task_dataset(task, "train"),
        store=store,
        learner_name=folder.name if folder else section.model,
        run_id=name,
        suite=config.suite.name,
        arm=arm,
        chances=config.arm_chances,
        task=task,
        mentoring=config.mentoring,
        mentor=config.mentor,
        budget=config.budget,
        calibrate=config.train.calibrate,
        run_config={
            **config.model_dump(mode="json"),
            "config_hash": config.hash(),
            "learner_loaded": asdict(info),
            "warm_up": _warm_up_facts(folder),
            "notes": [*config.suite.notes, *task_notes(task)],
        },
        before_step=_evaluator(config, name, seed, say),
    )
    trainer.remove_callback(PrinterCallback)
    checkpoint = last_checkpoint(work) if resume else None
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    trainer.save_model(str(work / "final"))
    say(RunProgress(name, trainer.state.global_step, config.train.steps, "ended"))
    return name


def validate(config: SuiteConfig) -> list[str]:
    """What can be judged before anything is trained. Returns notes on what could not be checked here.

    Raises ConfigError or TaskError for settings that can't be.
    """
    notes = []
    found = task_settings(config)
    kind = task_class(config.task.name)
    knows_steps = all(hasattr(kind, method) for method in ("first_error", "instruction_for", "altered", "fits"))
    asking: list[str] = [arm for arm in config.suite.arms if arm in ARMS_WITH_TRUTH]
    if config.mentor.kind == "scripted":
        asking.append('mentor.kind = "scripted"')
    if asking and not knows_steps:
        raise ConfigError(
            f"{', '.join(asking)} need a task that knows, by program, where an attempt first goes wrong; found task "
            f'`{config.task.name}`, which does not. Leave them out, or use task.name = "chain".'
        )
    if (config.task.name == "chain") != (config.learner.model == "embedded"):
        raise ConfigError(
            'task.name = "chain" and learner.model = "embedded" were made for each other: expected both or neither, found '
            f"task.name = {config.task.name!r} and learner.model = {config.learner.model!r}."
        )
    if config.mentor.kind == "endpoint":
        from mentor_audit.mentor.endpoint_settings import endpoint_settings

        endpoint_settings(config.mentor)
        if "resample_flops" in config.suite.arms:
            raise ConfigError(
                'Expected arms matched in tokens with mentor.kind = "endpoint", found `resample_flops`: nobody knows the FLOPs of an endpoint. '
                "Use `resample`."
            )
    if config.learner.model == "embedded":
        _warm_up_settings(config)
    elif config.learner.warm_up:
        raise ConfigError('learner.warm_up belongs to learner.model = "embedded"; found it with another model. Remove it.')
    for role, model in (("learner", config.learner.model), ("mentor", config.mentor.model)):
        if model and model != "embedded" and not Path(model).exists():
            if model.startswith((".", "/", "~")):
                raise ConfigError(f"Expected the {role}'s model in the folder {model}, found no such folder. Check the path.")
            notes.append(f"{role} model `{model}` is looked up when training starts")
    grpo_config(config, config.suite.seeds[0], Path(config.store.path) / "work" / "validate", dry=True)
    path = getattr(found, "path", None)
    if path is None or is_file(path):
        notes += task_notes(make_task(config))
    else:
        notes.append(f"data set `{path}` is looked up when training starts")
    return notes


def task_notes(task: Task) -> list[str]:
    """What a task left out when it read its data, each kind with its count."""
    unscorable: dict[str, str] = getattr(task, "unscorable", {})
    notes = []
    if unscorable:
        first, why = next(iter(unscorable.items()))
        notes.append(f"{len(unscorable)} problems are left out because no answer could be scored; the first, {first}: {why}")
    if number := getattr(task, "num_overlapping", 0):
        notes.append(f"{number} training problems are left out because they repeat a held-out one")
    if number := getattr(task, "num_unsupported", 0):
        notes.append(f"{number} problems are left out because they can't be posed")
    return notes


def make_task(config: SuiteConfig) -> Task:
    return load_task(config.task.name, config.task.settings)


def task_settings(config: SuiteConfig) -> BaseModel:
    """The task's own settings, validated by the task."""
    model = settings_model(config.task.name)
    try:
        return model.model_validate(config.task.settings)
    except ValidationError as error:
        raise ConfigError(explain(error, model, "[task]")) from error


def run_id(config: SuiteConfig, arm: str, seed: int) -> str:
    return f"{config.suite.name}-{arm}-s{seed}"


def has_ended(store: Store, name: str) -> bool:
    """Did the latest launch of a run end by itself?"""
    launches = [launch for launch in store.registry.launches() if launch.run_id == name]
    last = max(launches, key=lambda launch: launch.launch, default=None)
    return last is not None and last.ended_how in ("finished", "budget")


def check_settings(config: SuiteConfig, store: Store) -> None:
    """Refuse to mix settings under one run id."""
    names = {run_id(config, arm, seed) for arm in config.run_arms for seed in config.suite.seeds}
    for run in store.registry.runs():
        if run.run_id in names and run.config_hash != config.hash():
            raise ConfigError(
                f"Expected run {run.run_id} in {config.store.path} to be of these settings ({config.hash()[:12]}), found it made with "
                f"others ({run.config_hash[:12]}). Use another suite.name or another store.path, or restore the settings."
            )


def last_checkpoint(work: Path) -> Path | None:
    """The newest checkpoint that is complete."""
    found = [p for p in work.glob("checkpoint-*") if (p / "trainer_state.json").exists()]
    return max(found, key=lambda p: int(p.name.rsplit("-", 1)[1]), default=None)


def learner_folder(config: SuiteConfig, progress: Report | None = None) -> Path | None:
    """Where the embedded learner lies, warmed up once for all runs of these settings; None for any other learner."""
    if config.learner.model != "embedded":
        return None
    from transformers.utils.logging import disable_progress_bar

    from mentor_audit.policy.embedded import warm_up

    disable_progress_bar()
    settings = _warm_up_settings(config)
    folder = Path(config.store.path) / "models" / f"embedded-{settings.hash()}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    while (
        int(os.environ.get("RANK", "0")) > 0 and not folder.exists()
    ):  # other ranks save no whole model; the launcher ends them with rank 0
        time.sleep(0.1)
    with filelock.FileLock(f"{folder}.lock"):
        say = progress or (lambda news: None)
        return warm_up(folder, settings, lambda step, steps: say(RunProgress("warm-up", step, steps, "warming up the learner")))


def grpo_config(config: SuiteConfig, seed: int, work: Path, *, dry: bool = False) -> Any:
    """The GRPOConfig of a run. `[train.grpo]` goes over everything that the other sections say.

    Raises ConfigError for a setting that GRPOConfig does not know, or for sizes that don't fit together.
    """
    import torch
    from trl import GRPOConfig

    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    train, rows = config.train, config.train.problems_per_step * config.train.num_generations
    micro = train.micro_batch or rows // world_size
    if rows % (micro * world_size):
        raise ConfigError(
            f"Expected problems_per_step * num_generations ({rows}) to be a multiple of micro_batch * processes "
            f"({micro} * {world_size}), found a remainder of {rows % (micro * world_size)}. Change train.micro_batch."
        )
    on_gpu = torch.cuda.is_available() and config.learner.device != "cpu"
    settings: dict[str, Any] = {
        "output_dir": str(work),
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": rows // (micro * world_size),
        "num_generations": train.num_generations,
        "max_steps": train.steps,
        "learning_rate": train.learning_rate,
        "lr_scheduler_type": "constant",
        "max_completion_length": config.learner.max_completion_tokens,
        "temperature": config.learner.temperature,
        "top_p": config.learner.top_p,
        "scale_rewards": {"std_scaled": "group"}.get(config.mentoring.advantage, "none"),
        "seed": seed,
        "use_cpu": not on_gpu,
        "bf16": on_gpu and config.learner.dtype == "bfloat16",
        "gradient_checkpointing": False,
        "report_to": "none",
        "logging_steps": 1,
        "disable_tqdm": True,
        "save_strategy": "steps" if train.checkpoint_every else "no",
        "save_steps": train.checkpoint_every or train.steps,
        "save_total_limit": 2,
        **train.grpo,
    }
    known = set(GRPOConfig.__dataclass_fields__)
    for name in train.grpo:
        if name not in known:
            from mentor_audit.config import nearest

            raise ConfigError(f"trl.GRPOConfig has no setting `{name}` in [train.grpo]{nearest(name, sorted(known))}")
    try:
        made: Any = GRPOConfig(**{**settings, **({"use_cpu": True, "bf16": False, "use_vllm": False} if dry else {})})
    except (ValueError, TypeError) as error:
        raise ConfigError(f"trl.GRPOConfig refuses these settings: {error}. Change [train] or [train.grpo].") from error
    if train.checkpoint_every:
        cycle = made.steps_per_generation * made.num_iterations
        if made.save_steps * made.gradient_accumulation_steps % cycle:
            raise ConfigError(
                f"Expected checkpoints between two generations: checkpoint_every * accumulation ({made.save_steps} * "
                f"{made.gradient_accumulation_steps}) to be a multiple of {cycle}. Change train.checkpoint_every."
            )
    return made


def evaluate(trainer: "MentorGRPOTrainer", task: Task, config: SuiteConfig, seed: int, step: int) -> float | None:
    """Sample held-out problems at the live weights, without instructions, and commit them as the unit (step, eval).

    Returns the share verified correct of those with a verdict; None without any. Ranks take every n-th problem.
    """
    from mentor_audit.episode import attempt, rows, verifier_grader

    recorder, rank, ranks = trainer.recorder, trainer.accelerator.process_index, trainer.accelerator.num_processes
    started = time.perf_counter()
    problems = task.problems("heldout")[: config.eval.problems]
    unit = recorder.unit(step, "eval")
    mine = list(range(rank, len(problems), ranks))
    chunk = max(1, trainer.args.per_device_train_batch_size // config.eval.samples)
    was_training = trainer.model.training
    trainer.model.eval()
    recorder.put_problems([problems[i].row for i in mine])
    waiting = recorder.pending(step, "eval").rows
    verdicts = []
    for start in range(0, -(-len(problems) // ranks), chunk):
        part = mine[start : start + chunk]
        episodes = attempt(
            [problems[i] for i in part],
            trainer.learner,
            verifier_grader(task),
            unit,
            config.eval.samples,
            indices=part,
            seed=EVAL_SEED + seed * 1000 + start,
            temperature=config.eval.temperature,
        )
        verdicts += [a.verdict.is_correct for e in episodes for a in e.attempts if a.verdict.is_correct is not None]
        for table, made in rows(episodes, unit, task, trainer.plan, None).items():
            waiting[table] += made
    trainer.model.train(was_training)
    verdicts = trainer.gather_list(verdicts)
    accuracy = sum(verdicts) / len(verdicts) if verdicts else None
    recorder.commit(step, "eval", {} if accuracy is None else {"eval_accuracy": accuracy}, time.perf_counter() - started)
    return accuracy


def _evaluator(config: SuiteConfig, name: str, seed: int, say: Report) -> Callable[["MentorGRPOTrainer", int, bool], None]:
    def at_step(trainer: "MentorGRPOTrainer", step: int, is_last: bool) -> None:
        due = step == 0 or is_last or (config.eval.every is not None and step % config.eval.every == 0)
        accuracy = None
        if due and not trainer.recorder.is_committed(step, "eval"):
            accuracy = evaluate(trainer, trainer.task, config, seed, step)
        if trainer.accelerator.is_main_process:
            say(RunProgress(name, step, config.train.steps, "training", accuracy))

    return at_step


def _in_process(config: SuiteConfig, run: tuple[str, int], say: Report) -> str | None:
    """Train here; what went wrong, or None."""
    try:
        train_run(config, *run, resume=True, progress=say)
    except Exception as error:
        return f"{run_id(config, *run)}: {type(error).__name__}: {error}"
    return None


def _in_worker(config: SuiteConfig, run: tuple[str, int], say: Report) -> str | None:
    """Train in a process of its own, with one thread; what went wrong, or None. Its output is kept in STORE/logs."""
    name, root = run_id(config, *run), Path(config.store.path)
    (root / "logs").mkdir(exist_ok=True)
    settings = root / "logs" / f"{name}.settings.json"
    settings.write_text(config.model_dump_json(), encoding="utf-8")
    command = [sys.executable, "-m", "mentor_audit", "train", str(settings), "--arm", run[0], "--seed", str(run[1])]
    log = root / "logs" / f"{name}.log"
    with open(log, "w", encoding="utf-8") as errors, _child([*command, "--resume", "--json"], errors) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith('{"run_id"'):
                say(RunProgress(**json.loads(line)))
            else:
                errors.write(line)
                errors.flush()
    if child.returncode == 0:
        return None
    tail = log.read_text(encoding="utf-8").strip().splitlines()[-1:] or ["no output"]
    return f"{name}: exit {child.returncode}: {tail[0]} (whole log: {log})"


@contextmanager
def _child(command: list[str], errors: Any) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, **WORKER_ENVIRONMENT}, bufsize=1
    )
    try:
        yield child
        child.wait()
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
        assert child.stdout is not None
        child.stdout.close()


def _warm_up_settings(config: SuiteConfig) -> Any:
    from mentor_audit.policy.embedded import WarmUpSettings

    try:
        return WarmUpSettings.model_validate(config.learner.warm_up)
    except ValidationError as error:
        raise ConfigError(explain(error, WarmUpSettings, "[learner.warm_up]")) from error


def _warm_up_facts(folder: Path | None) -> dict[str, Any] | None:
    if folder is None:
        return None
    facts: dict[str, Any] = json.loads((folder / "warm_up.json").read_text(encoding="utf-8"))
    return facts
