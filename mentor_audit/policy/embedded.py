"""The embedded learner: a Llama of 0.25 M parameters that is taught the chain task's misconceptions, and what a hint means.

`warm_up` trains it on demonstrations and saves an ordinary Hugging Face folder. The rule that the demonstrations follow:

- Every step follows its misconception, except
- a step that a hint names with the kind of its operation: that step is done right;
- a share `eps` of the demonstrations without a fitting hint does every step right, so that sampling alone can succeed too.

Everything else that the learner may be shown (a placebo, "wrong", its failed attempt, words that it does not know) changes nothing.
Choosing what happens after a failure is left to mentors and arms; GRPO to `training`.
"""

import hashlib
import json
import math
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from mentor_audit.cost.flops import shape_of, training
from mentor_audit.errors import ModelError
from mentor_audit.policy.hf import HFPolicy
from mentor_audit.protocols import Policy, TaskProblem
from mentor_audit.tasks.chain import (
    KINDS,
    LABELS,
    MAX_STEPS,
    WORDS,
    WORDS_A_STEP,
    Chain,
    ChainError,
    ChainSettings,
    ChainTask,
    draw_chain,
    placebo_words,
)

PAD, EOS, UNKNOWN = WORDS[:3]
IDS = {word: i for i, word in enumerate(WORDS)}
MAX_COMPLETION_TOKENS = MAX_STEPS * WORDS_A_STEP + 2
"""Room for every step, the end of sequence, and one word too many."""

OTHER_SHARES = {"nothing": 0.3, "misfit": 0.6, "other": 0.1}
"""What the half of the demonstrations without a fitting hint is shown."""
MISFIT_SHARES = (0.45, 0.35, 0.2)
"""The right kind at a wrong step, a wrong kind at the right step, any hint that fits no hard step."""
SHOWN_ATTEMPT_SHARE = 0.06
"""Share of batches in which the learner is shown its failed attempt as well."""
STEPS_A_CHAIN = [2, 3, 4, 4]

Progress = Callable[[int, int], None]
"""Called with (step, steps)."""


class WarmUpSettings(BaseModel):
    """What the embedded learner is made from. The same settings give the same weights, byte for byte, on one kind of machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    seed: int = Field(default=0, description="of the first weights, the demonstrations and the probe")
    eps: dict[Literal["carry", "borrow", "mulcarry"], float] = Field(
        default={"carry": 0.008, "borrow": 0.003},
        description="kind -> share of the demonstrations without a fitting hint that do every step of this kind right",
    )
    steps: int = Field(default=2400, ge=1, description="optimizer updates")
    batch_size: int = Field(default=24, ge=1)
    learning_rate: float = Field(default=3e-3, gt=0)
    tries: int = Field(default=2, ge=1, description="seeds that may be tried (seed, seed + 1000, ...) until the gate is met")
    gate: bool = Field(default=True, description="refuse a learner that the probe finds unfit")
    min_fitting: float = Field(default=0.85, ge=0, le=1, description="gate: follow-up success with a fitting hint at least")
    max_misfit: float = Field(
        default=0.1, ge=0, le=1, description="gate: with a hint at the wrong step or of the wrong kind at most"
    )
    min_easy: float = Field(default=0.95, ge=0, le=1, description="gate: success on problems without a hard step at least")
    probe_problems: int = Field(default=100, ge=1, description="problems with one hard step that the probe poses")

    def hash(self) -> str:
        """Of everything that the weights depend on, the language included."""
        content = json.dumps([self.model_dump(mode="json"), WORDS], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def warm_up(folder: str | os.PathLike[str], settings: WarmUpSettings, progress: Progress | None = None) -> Path:
    """Train the learner, probe it, and save it in `folder`; returns the folder. An existing one of the same settings is reused.

    The folder holds what `AutoModelForCausalLM` and `AutoTokenizer` load, and `warm_up.json`: settings, loss, probe, tokens, FLOPs and
    seconds. It appears whole or not at all. Takes one thread; leaves torch's global random state alone. Raises ModelError when the
    probe finds every try unfit, and when `folder` holds something else.
    """
    folder = Path(folder)
    if _is_there(folder, settings):
        return folder
    found = []
    with _one_thread():
        for attempt in range(settings.tries):
            seed = settings.seed + 1000 * attempt
            model, facts = _train(settings, seed, progress or (lambda step, steps: None))
            probed = probe(_policy(model), seed=seed, num_problems=settings.probe_problems)
            unfit = _unfit(probed, settings)
            if not unfit:
                facts |= {"tries": attempt + 1, "probe": asdict(probed)}
                return _save(
                    folder, model, {"settings_hash": settings.hash(), "settings": settings.model_dump(), **facts}, settings
                )
            found.append(f"seed {seed}: {unfit}")
    raise ModelError(
        f"Expected the embedded learner's warm-up to pass its gate, found {'; '.join(found)}. Raise learner.warm_up.steps (now "
        f"{settings.steps}), or take another learner.warm_up.seed."
    )


@dataclass(frozen=True)
class Probe:
    """What a learner does on problems with one hard step, and what it makes of each kind of instruction after failing.

    easy_success         share correct on problems without a hard step
    attempt_success      share correct of all attempts with one hard step
    zero_reward_fraction groups of which no attempt was correct
    planted_fraction     of the failures that were followed up, those whose first error is the misconception of the hard step
    rescue               share of follow-ups that were correct, by what the learner was shown; None without a zero-reward group
    """

    num_groups: int
    num_generations: int
    follow_ups: int
    easy_success: float
    attempt_success: float
    zero_reward_fraction: float
    planted_fraction: float | None
    rescue: dict[str, float | None]


def probe(policy: Policy, *, seed: int, num_problems: int = 100, num_generations: int = 8, follow_ups: int = 4) -> Probe:
    """Sample groups without instruction, then follow-ups to one failure of each zero-reward group under every kind of instruction."""
    task = ChainTask(ChainSettings(num_train=num_problems, num_heldout=num_problems, seed=seed, train_mix={0: 1.0}))
    rng = random.Random(f"probe:{seed}")
    easy = _success(policy, task, [(p, p.prompt) for p in task.problems("train")], 1, rng)
    groups = []
    problems = task.problems("heldout")
    for problem, samples in zip(
        problems, policy.sample([p.prompt for p in problems], num_generations, seed=rng.getrandbits(32)), strict=True
    ):
        groups.append([(c.text, task.verify(problem, c.text, c.finish_reason).is_correct) for c in samples])
    failures = []
    for problem, group in zip(problems, groups, strict=True):
        error = task.first_error(problem, group[0][0])
        if error is not None and not any(correct for _, correct in group):
            failures.append((problem, group[0][0], error))
    rescue: dict[str, float | None] = {}
    for shown in ("fitting", "other_problem", "wrong_step", "wrong_kind", "placebo", "wrong", "tried", "nothing"):
        prompts = [(f[0], _shown(shown, f, failures, task, rng)) for f in failures]
        rescue[shown] = _success(policy, task, prompts, follow_ups, rng)
    planted = [e.location in json.loads(p.row.facts or "{}")["hard_steps"] and e.error_type == e.kind for p, _, e in failures]
    flat = [correct is True for group in groups for _, correct in group]
    return Probe(
        num_groups=len(groups),
        num_generations=num_generations,
        follow_ups=follow_ups,
        easy_success=easy or 0.0,
        attempt_success=sum(flat) / len(flat),
        zero_reward_fraction=sum(not any(correct for _, correct in group) for group in groups) / len(groups),
        planted_fraction=sum(planted) / len(planted) if planted else None,
        rescue=rescue,
    )


def embedded_tokenizer() -> PreTrainedTokenizerFast:
    """One token a word of the chain task's language, split at whitespace, padded on the left; any other word is `<unk>`."""
    tokenizer = Tokenizer(models.WordLevel(IDS, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )


def embedded_model(seed: int) -> LlamaForCausalLM:
    """With random weights. The wide initializer (0.1) is what lets so small a model learn to copy operands in a minute."""
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=96,
        intermediate_size=288,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        initializer_range=0.1,
        pad_token_id=IDS[PAD],
        bos_token_id=None,
        eos_token_id=IDS[EOS],
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def demonstrations(rng: random.Random, number: int, eps: Mapping[str, float]) -> list[tuple[list[str], list[str]]]:
    """(prompt, response) in words: one batch, all of the same number of steps, so that it needs little padding.

    Neighbours pose the same chain, so that what they are shown is all that tells them apart.
    """
    steps, shows_attempt = rng.choice(STEPS_A_CHAIN), rng.random() < SHOWN_ATTEMPT_SHARE
    made: list[tuple[list[str], list[str]]] = []
    while len(made) < number:
        chain = draw_chain(rng, steps)
        (other,) = rng.choices(list(OTHER_SHARES), list(OTHER_SHARES.values()))
        made += [_demonstration(chain, form, rng, eps, shows_attempt) for form in ("fitting", other)]
    return made[:number]


def _demonstration(
    chain: Chain, form: str, rng: random.Random, eps: Mapping[str, float], shows_attempt: bool
) -> tuple[list[str], list[str]]:
    everything = set(range(len(chain.steps)))
    shown, right = "", set[int]()
    if form == "fitting":
        right = _hinted_steps(chain, rng)
        shown = " ".join(_hint(chain, step) for step in sorted(right))
    elif form == "misfit":
        step, kind = _misfit(chain, rng)
        shown = f"hint {LABELS[step]} {kind}"
        right = {step} if kind == KINDS[chain.steps[step].operation] else set()
    elif form == "other":
        shown = _empty_words(rng)
    if form != "fitting":
        lucky = {kind for kind in KINDS.values() if rng.random() < eps.get(kind, 0.0)}
        right |= {i for i, step in enumerate(chain.steps) if KINDS[step.operation] in lucky}
    prompt = chain.prompt.split()[:-1]
    if shows_attempt:
        prompt += ["tried", *chain.write(everything).split()]
    return [*prompt, *shown.split(), "A"], [*chain.write(everything - right).split(), EOS]


def _hinted_steps(chain: Chain, rng: random.Random) -> set[int]:
    """One hard step, or one time in three a second one, hard on the way that the first leads."""
    everything, right = set(range(len(chain.steps))), set[int]()
    for _ in range(rng.choice([1, 1, 2])):
        hard = [step for step in chain.hard_steps(everything - right) if step not in right]
        if hard:
            right.add(rng.choice(hard))
    return right


def _misfit(chain: Chain, rng: random.Random) -> tuple[int, str]:
    """A hint that leaves the failure as it is: the right kind at a wrong step, a wrong kind at the right step, or any other."""
    steps = range(len(chain.steps))
    hard = {step: KINDS[chain.steps[step].operation] for step in chain.hard_steps(steps)}
    others = [(step, kind) for step in steps for kind in KINDS.values() if hard.get(step) != kind]
    wrong_step = [(step, kind) for step, kind in others if kind in hard.values()]
    wrong_kind = [(step, kind) for step, kind in others if step in hard]
    return rng.choice(rng.choices([wrong_step, wrong_kind, others], MISFIT_SHARES)[0] or others)


def _empty_words(rng: random.Random) -> str:
    """A placebo, the bare verdict, or words at random, half of them unknown ones."""
    draw = rng.random()
    if draw < 0.5:
        return placebo_words(rng.choice([2, 3, 3, 3, 4, 6]))
    if draw < 0.75:
        return "wrong"
    return " ".join(rng.choice([UNKNOWN, rng.choice(WORDS[3:])]) for _ in range(rng.randrange(1, 6)))


def _hint(chain: Chain, step: int) -> str:
    return f"hint {LABELS[step]} {KINDS[chain.steps[step].operation]}"


def _train(settings: WarmUpSettings, seed: int, progress: Progress) -> tuple[LlamaForCausalLM, dict[str, Any]]:
    """AdamW on the demonstrations' responses; the learning rate rises over 50 updates and falls to 5 % along a cosine."""
    started, rng, model = time.perf_counter(), random.Random(f"warm-up:{seed}"), embedded_model(seed)
    shape, tokens, flops, losses = shape_of(model), 0, 0, list[float]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    model.train()
    for step in range(settings.steps):
        fall = 0.05 + 0.95 * (1 + math.cos(math.pi * step / settings.steps)) / 2
        optimizer.param_groups[0]["lr"] = settings.learning_rate * fall * min(1.0, (step + 1) / 50)
        batch = demonstrations(rng, settings.batch_size, {str(kind): share for kind, share in settings.eps.items()})
        loss, length, scored = _loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tokens += sum(len(prompt) + len(response) for prompt, response in batch)
        flops += len(batch) * training(shape, length, scored, recomputes_head=False)
        losses = [*losses[-99:], float(loss.detach())]
        if step % 50 == 49:
            progress(step + 1, settings.steps)
    facts = {
        "seed": seed,
        "steps": settings.steps,
        "loss": sum(losses) / len(losses),
        "tokens": tokens,
        "flops": float(flops),
        "seconds": time.perf_counter() - started,
        "parameters": shape.total_params,
    }
    return model.eval(), facts


def _loss(model: LlamaForCausalLM, batch: Sequence[tuple[list[str], list[str]]]) -> tuple[torch.Tensor, int, int]:
    """Mean cross-entropy of the response tokens; padded length and scored positions a sequence."""
    before, after = max(len(prompt) for prompt, _ in batch), max(len(response) for _, response in batch)
    rows = [[PAD] * (before - len(prompt)) + prompt + response + [PAD] * (after - len(response)) for prompt, response in batch]
    ids_B_T = torch.tensor([[IDS[word] for word in row] for row in rows])
    mask_B_T = torch.tensor([[0] * (before - len(p)) + [1] * (len(p) + len(r)) + [0] * (after - len(r)) for p, r in batch])
    positions_B_T = (mask_B_T.cumsum(1) - 1).clamp(min=0)
    hidden = model.model(
        input_ids=ids_B_T, attention_mask=mask_B_T, position_ids=positions_B_T, use_cache=False
    ).last_hidden_state
    targets = torch.where(mask_B_T[:, before:] == 1, ids_B_T[:, before:], -100)
    logits = model.lm_head(hidden[:, before - 1 : -1])
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()), before + after, after


def _shown(
    shown: str,
    failure: tuple[TaskProblem, str, ChainError],
    failures: Sequence[tuple[TaskProblem, str, ChainError]],
    task: ChainTask,
    rng: random.Random,
) -> str:
    """The prompt of a follow-up under one kind of instruction."""
    problem, attempt, error = failure
    instruction, shown_attempt = "", None
    if shown == "fitting":
        instruction = task.instruction_for(error)
    elif shown == "other_problem":
        others = [f for f in failures if f is not failure] or [failure]
        instruction = task.instruction_for(rng.choice(others)[2])
    elif shown == "wrong_step":
        label = rng.choice([label for label in LABELS[: task.settings.steps] if label != error.location])
        instruction = task.instruction_for(ChainError(label, error.kind, "", error.kind))
    elif shown == "wrong_kind":
        kind = rng.choice([kind for kind in KINDS.values() if kind != error.kind])
        instruction = task.instruction_for(ChainError(error.location, kind, "", kind))
    elif shown == "placebo":
        instruction = task.placebo(problem, task.instruction_for(error), rng)
    elif shown == "wrong":
        instruction = task.verdict_only(problem)
    elif shown == "tried":
        shown_attempt = attempt
    return task.instructed_prompt(problem, instruction, shown_attempt)


def _success(
    policy: Policy, task: ChainTask, posed: Sequence[tuple[TaskProblem, Any]], num_samples: int, rng: random.Random
) -> float | None:
    """Share correct of the samples of all prompts; None without any."""
    sampled = policy.sample([prompt for _, prompt in posed], num_samples, seed=rng.getrandbits(32))
    verdicts = [task.verify(p, c.text, c.finish_reason).is_correct for (p, _), cs in zip(posed, sampled, strict=True) for c in cs]
    return sum(v is True for v in verdicts) / len(verdicts) if verdicts else None


def _unfit(probed: Probe, settings: WarmUpSettings) -> str:
    """Which of the gate's conditions fail, in words; empty when none does."""
    if not settings.gate:
        return ""
    found = []
    fitting = probed.rescue["fitting"]
    if fitting is None or fitting < settings.min_fitting:
        found.append(f"a fitting hint rescues {_share(fitting)} (at least {settings.min_fitting:.2f})")
    for kind in ("wrong_step", "wrong_kind"):
        misfit = probed.rescue[kind]
        if misfit is not None and misfit > settings.max_misfit:
            found.append(f"{kind} rescues {_share(misfit)} (at most {settings.max_misfit:.2f})")
    if probed.easy_success < settings.min_easy:
        found.append(f"without a hard step {probed.easy_success:.2f} succeed (at least {settings.min_easy:.2f})")
    return ", ".join(found)


def _share(value: float | None) -> str:
    return "nothing (no group failed)" if value is None else f"{value:.2f}"


def _policy(model: LlamaForCausalLM) -> HFPolicy:
    return HFPolicy(model, embedded_tokenizer(), max_new_tokens=MAX_COMPLETION_TOKENS, batch_size=400, name="embedded")


def _is_there(folder: Path, settings: WarmUpSettings) -> bool:
    if not folder.exists():
        return False
    facts = folder / "warm_up.json"
    found = json.loads(facts.read_text(encoding="utf-8")).get("settings_hash") if facts.is_file() else None
    if found == settings.hash():
        return True
    raise ModelError(
        f"Expected {folder} to be new, or a learner warmed up with these settings ({settings.hash()}), found "
        f"{f'one of other settings ({found})' if found else 'a folder without warm_up.json'}. Remove it or name another folder."
    )


def _save(folder: Path, model: LlamaForCausalLM, facts: dict[str, Any], settings: WarmUpSettings) -> Path:
    """Everything into a temporary neighbour, then one rename. Another process that was faster with the same settings wins."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        model.save_pretrained(work)
        embedded_tokenizer().save_pretrained(work)
        (work / "warm_up.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        work.chmod(0o755)
        try:
            work.rename(folder)
        except OSError:
            if not _is_there(folder, settings):
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


@contextmanager
def _one_thread() -> Iterator[None]:
    """The order of float additions, and with it the weights, depends on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
