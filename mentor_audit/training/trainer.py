"""`MentorGRPOTrainer`: the episode inside TRL's GRPOTrainer, and its record.

It installs a `rollout_func` of its own, which samples the attempts, rescues failures and hands GRPO the batch with its insertions;
after that TRL's own code does what it always does. Overridden methods call super and copy nothing:

    _generate_and_score_completions   before: remembers the rows; after: corrections, recorded advantages
    _calculate_rewards                the rewards of the batch, which were computed once, in the rollout
    _get_per_token_logps_and_entropies, training_step, log, _save_checkpoint    cost, metrics, durability

With `arm="vanilla"`, the default, it records and changes nothing.
"""

import contextlib
import copy
import functools
import inspect
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback, TrainerControl, TrainerState
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import _use_triton

from mentor_audit.config import (
    ARMS,
    ARMS_RESAMPLING,
    ARMS_WITH_MENTOR,
    ARMS_WITH_TRUTH,
    RANDOMISED,
    BudgetSection,
    MentoringSection,
    MentorSection,
    nearest,
)
from mentor_audit.cost.calibration import Calibration, counted_flops
from mentor_audit.cost.flops import shape_of
from mentor_audit.cost.meter import pass_usage
from mentor_audit.episode import Episode, Plan, Sampled, Unit, make_episode, rescue, rows, verifier_grader, verify_all
from mentor_audit.errors import ConfigError, TrainingError
from mentor_audit.mentor import load_mentor
from mentor_audit.mentor.arms import WRITTEN
from mentor_audit.policy.hf import HFPolicy, frozen_copy
from mentor_audit.policy.load import load_model
from mentor_audit.protocols import (
    Answer,
    ChecksSteps,
    Completion,
    Grade,
    HasDemonstration,
    Mentor,
    Policy,
    Task,
    TaskProblem,
    Usage,
)
from mentor_audit.records import Mode
from mentor_audit.store import Store
from mentor_audit.store.run_row import make_run
from mentor_audit.training.correction import token_weights
from mentor_audit.training.placement import Insertion, place, spare_slots
from mentor_audit.training.policy import TrainerPolicy
from mentor_audit.training.recorder import Recorder
from mentor_audit.training.rows import RowTask, VerdictFunction

logger = logging.getLogger(__name__)

SCALE_REWARDS = {"mean_centred": "none", "std_scaled": "group", "split_baseline": "none"}


def verified_reward(completions: list[Any], **columns: Any) -> list[float | None]:
    """Reward 1 for verified correct, 0 for verified wrong, None without a verdict, by the trainer's own task.

    A marker to pass as `reward_funcs`: the trainer has the verdicts already and does not call it.
    """
    raise TrainingError(
        "verified_reward marks the task's verdict as the reward inside MentorGRPOTrainer; expected no call, found one. Pass it with "
        "`task=`, or give another trainer a reward function of your own."
    )


class MentorGRPOTrainer(GRPOTrainer):
    """GRPOTrainer that records every attempt and, in arms other than vanilla, answers failures.

    Takes GRPOTrainer's arguments and, by keyword:

    store        a Store, or the path of one (made when it isn't there)
    learner_name what rows call the learner; None: the name or path that it was loaded from
    run_id       names the run; None: from suite, arm and seed. The same id again opens a new launch of the same run
    arm          one of `config.ARMS`, or `randomised`
    chances      for randomised: the arm of every failed group is drawn with these chances
    mentoring    the knobs; None: the defaults. With an arm other than vanilla they set `args.scale_rewards`
    mentor       settings, or a Mentor; None: the learner's own live weights
    task         where verdicts and instructed prompts come from; None: made from the data set's rows, the verdict from the
                 reward functions (`reward > 0`) or from `verdict`
    verdict      (prompt, completion text, row, reward) -> Verdict, for training without a task
    budget       the run stops at the first update whose end reaches it
    run_config   what the run row records as its configuration, besides GRPOConfig
    calibrate    count the FLOPs of the first update with torch's counter and store the ratio to the formula
    before_step  called with (trainer, step, is_last) before the first update, after every one and at the end

    Raises ConfigError for an arm, placement or task that don't go together, TrainingError for a checkpoint that GRPO can't
    go on from exactly.
    """

    args: Any
    model: Any
    num_generations: int
    num_generations_eval: int
    max_completion_length: int

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = verified_reward,
        args: GRPOConfig | None = None,
        *,
        store: Store | str | Path,
        learner_name: str | None = None,
        run_id: str | None = None,
        suite: str = "default",
        arm: str = "vanilla",
        chances: Mapping[str, float] | None = None,
        mentoring: MentoringSection | None = None,
        mentor: MentorSection | Mentor | None = None,
        task: Task | None = None,
        verdict: VerdictFunction | None = None,
        budget: BudgetSection | None = None,
        run_config: Mapping[str, Any] | None = None,
        calibrate: bool = True,
        before_step: Callable[["MentorGRPOTrainer", int, bool], None] | None = None,
        **kwargs: Any,
    ) -> None:
        args = args or GRPOConfig(f"{Path(model).name if isinstance(model, str) else type(model).__name__}-GRPO")
        functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
        self.arm, self.knobs = arm, mentoring or MentoringSection()
        self.chances = dict(chances or {})
        self._verdict_is_reward = functions == [verified_reward]
        self._check_arm(task)
        self._spare = max(spare_slots(a, self.knobs) for a in self._arms)
        self._cached_rewards: torch.Tensor | None = None
        self._calibrating: Calibration | None = None
        self._episodes: list[Episode] = []
        self._group_index: dict[tuple[int, Mode], int] = {}
        self._micro_batches: list[Usage] = []
        self._generation_seconds = 0.0
        self._warned = False
        super().__init__(
            model=model,
            reward_funcs=[self._guarded(f) for f in functions],
            args=args if arm == "vanilla" else self._make_room(args),
            rollout_func=self._rollout,
            **kwargs,
        )
        self._check_supported()
        self.task: Task = task or RowTask(verdict)
        self._problems = {p.row.problem_id: p for split in ("train", "heldout") for p in task.problems(split)} if task else {}
        self._budget = budget or BudgetSection()
        self._calibrate = calibrate
        self._before_step = before_step
        unwrapped = self.accelerator.unwrap_model(self.model)
        name = learner_name or str(getattr(unwrapped.config, "_name_or_path", "") or type(unwrapped).__name__)
        self.learner = TrainerPolicy(self, shape_of(unwrapped), name)
        run_id = run_id or f"{suite}-{arm}-s{self.args.seed}"
        opened = self._open_store(store)
        self.mentor = self._make_mentor(mentor, opened.root / "work" / run_id / "endpoint")
        section = mentor if isinstance(mentor, MentorSection) else MentorSection()
        follow_ups = self.num_generations if self.knobs.placement == "instructed_group" else self.knobs.follow_ups
        plan_knobs = self.knobs.model_copy(update={"follow_ups": follow_ups})
        self.plan = Plan(arm, plan_knobs, self.args.seed, section.fallback, section.sees, self.chances)
        run = make_run(
            run_id,
            suite=suite,
            arm=arm,
            seed=self.args.seed,
            config={**(run_config or {}), "grpo": self.args.to_dict(), "mentoring": self.knobs.model_dump()},
            learner=name,
            learner_params=self.learner.shape.total_params,
            mentor=f"{self.mentor.name}:{self.mentor.model}"
            if self.mentor and not set(self._arms) <= {"vanilla", *ARMS_RESAMPLING}
            else "-",
            task=self.task.name,
            device=str(self.accelerator.device),
        )
        rank, world_size = self.accelerator.process_index, self.accelerator.num_processes
        self.recorder = Recorder(opened, run, rank, world_size, self.gather_list)
        self._diary = _Diary(self)
        self.add_callback(self._diary)

    def at_step(self, step: int, is_last: bool = False) -> None:
        """After `step` updates: what the caller wants done there, such as a held-out evaluation."""
        if self._before_step is not None:
            self._before_step(self, step, is_last)

    def is_over_budget(self) -> bool:
        spent, budget = self.recorder.spent, self._budget
        over_tokens = budget.tokens is not None and spent.tokens >= budget.tokens
        return over_tokens or (budget.flops is not None and spent.flops is not None and spent.flops >= budget.flops)

    def _open_store(self, store: Store | str | Path) -> Store:
        """Rank 0 makes the store when it isn't there; the others wait for it."""
        if isinstance(store, Store):
            return store
        with self.accelerator.main_process_first():
            return Store.create(store, exist_ok=True)

    # ------------------------------------------------------------------ the rollout

    def _rollout(self, prompts: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        """What TRL calls instead of sampling: the batch of this rank, insertions in place."""
        mode: Mode = "train" if self.model.training else "eval"
        if list(prompts) != [row["prompt"] for row in self._inputs]:
            raise TrainingError(
                "Expected TRL to ask for completions of the prompts it had announced, in their order, found others: verdicts would go to "
                "the wrong completions. Nothing of this step is stored; please report this with your GRPOConfig and versions."
            )
        if not self.recorder.is_open:
            self.recorder.begin(self.state.global_step)
        unit = self.recorder.unit(self.state.global_step, mode)
        slots = _Slots(
            size=self.num_generations if mode == "train" else self.num_generations_eval,
            spare=self._spare if mode == "train" else 0,
            first=self.accelerator.process_index * len(prompts),
            count=len(prompts),
        )
        batch = self._sample_batch(prompts, slots)
        graded = self._grade_batch(batch)
        self._first_index = self._group_index.get((unit.step, unit.mode), 0)
        self._group_index[unit.step, unit.mode] = self._first_index + slots.count * self.accelerator.num_processes // slots.size
        self._episodes = self._own_episodes(unit, batch, graded, slots)
        self.recorder.put_problems([e.problem.row for e in self._episodes])
        insertions: dict[int, Insertion] = {}
        if mode == "train":
            rescue(self._episodes, self.learner, self.task, self.mentor, self._grade, self.plan, unit, self.gather_list)
            mine = [
                ((e.index - self._first_index) * slots.size + insertion.slot, insertion)
                for e in self._episodes
                for insertion in place(e, e.arm or "vanilla", self.knobs)
            ]
            insertions = dict(self.gather_list(mine))
        return self._batch_for_grpo(unit, batch, graded, insertions, slots)

    def _sample_batch(self, prompts: list[Any], slots: "_Slots") -> list[Completion | None]:
        """Completions of this rank's slots; None for spare ones."""
        prompt_ids = self.learner.tokenize(prompts)
        self.filling_prompt = prompt_ids[0]
        taken = [i for i in range(slots.count) if slots.place(i) < slots.size - slots.spare]
        cached = [slots.place(i) > 0 for i in taken]
        completions = self.learner.generate([prompt_ids[i] for i in taken], cached, slots.size - slots.spare)
        batch: list[Completion | None] = [None] * slots.count
        for i, completion in zip(taken, completions, strict=True):
            batch[i] = completion
        return batch

    def _own_episodes(
        self, unit: Unit, batch: Sequence[Completion | None], graded: Sequence[Grade | None], slots: "_Slots"
    ) -> list[Episode]:
        """The groups whose first slot is on this rank, put together from all ranks' slots."""
        everyone = self.gather_list(list(zip(self._inputs, batch, graded, strict=True)))
        episodes = []
        for number in range(len(everyone) // slots.size):
            first = number * slots.size
            if not slots.first <= first < slots.first + slots.count:
                continue
            members = everyone[first : first + slots.size - slots.spare]
            problem = self._problem(members[0][0])
            episode = make_episode(
                unit, self._first_index + number, problem, [c for _, c, _ in members], [g for _, _, g in members]
            )
            for attempt in episode.attempts:
                attempt.trained = unit.mode == "train"
            self._rows_by_problem[problem.row.problem_id] = members[0][0]
            episodes.append(episode)
        return episodes

    def _batch_for_grpo(
        self,
        unit: Unit,
        batch: Sequence[Completion | None],
        graded: Sequence[Grade | None],
        insertions: Mapping[int, Insertion],
        slots: "_Slots",
    ) -> dict[str, Any]:
        """Fill this rank's slots: with an insertion, with nothing (a spare slot that nobody took), or with the attempt."""
        self._row_ids: list[str | None] = []
        self._follow_up_rows: dict[int, Sampled] = {}
        prompts = {slots.group(i): c.prompt_ids for i, c in enumerate(batch) if c is not None}
        rewards, inserted = [], []
        columns: dict[str, list[Any]] = {"prompt_ids": [], "completion_ids": [], "logprobs": []}
        for i, completion in enumerate(batch):
            insertion, own_prompt = insertions.get(slots.first + i), prompts.get(slots.group(i), self.filling_prompt)
            inserted.append(insertion is not None)
            if insertion is not None:
                response = insertion.response
                instructed = response.instruction_id is not None
                on_own_prompt = not instructed or self.knobs.context == "original"
                if instructed:
                    self._follow_up_rows[i] = response
                sampled = None if instructed and on_own_prompt else response.completion.logprobs
                row = own_prompt if on_own_prompt else response.completion.prompt_ids, response.completion.token_ids, sampled
                self._row_ids.append(response.attempt_id)
                rewards.append(self._reward_values(response.grade))
            elif completion is None:
                row = own_prompt, [self.eos_token_ids[0]], None
                self._row_ids.append(None)
                rewards.append(self._reward_values(None))
            else:
                row = completion.prompt_ids, completion.token_ids, completion.logprobs
                self._row_ids.append(f"{unit.group_id(self._first_index + slots.group(i))}.a{slots.place(i)}")
                rewards.append(self._reward_values(graded[i]))
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
        device = self.accelerator.device
        self._cached_rewards = self.accelerator.gather(torch.tensor(rewards, device=device))
        self._inserted = self.accelerator.gather(torch.tensor(inserted, device=device))
        if any(c is not None and c.logprobs is not None for c in batch):
            columns["logprobs"] = [
                [None] * len(ids) if found is None else found
                for ids, found in zip(columns["completion_ids"], columns["logprobs"], strict=True)
            ]
        return {**columns, "logprobs": columns["logprobs"] if self.use_vllm else None}

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        started = time.perf_counter()
        self._inputs = inputs
        self._rows_by_problem: dict[str, dict[str, Any]] = {}
        output = super()._generate_and_score_completions(inputs)
        mode: Mode = "train" if self.model.training else "eval"
        if mode == "train" and self.arm != "vanilla":
            if self.knobs.advantage == "split_baseline":
                output["advantages"] = self._split_baseline(output["advantages"])
            self._mask_spare(output)
        advantages_B = output["advantages"]
        if mode == "train" and self.arm != "vanilla" and self.knobs.context == "original":
            self._correct(output)
        self._cached_rewards = None
        self._record(mode, advantages_B)
        self._generation_seconds += time.perf_counter() - started
        return output

    def _record(self, mode: Mode, advantages_B: torch.Tensor) -> None:
        """Tell the episodes, wherever they live, what GRPO made of their attempts; then turn them into rows."""
        facts = []
        for i, attempt_id in enumerate(self._row_ids):
            if attempt_id is not None:
                response = self._follow_up_rows.get(i)
                logprobs = (response.mean_logprob_original, response.mean_logprob_instructed) if response else (None, None)
                facts.append((attempt_id, (float(advantages_B[i]), *logprobs)))
        known = dict(self.gather_list(facts))
        for episode in self._episodes:
            for sampled in (*episode.attempts, *episode.responses):
                if sampled.attempt_id in known:
                    found = known[sampled.attempt_id]
                    sampled.advantage, sampled.mean_logprob_original, sampled.mean_logprob_instructed = found
        unit = self.recorder.unit(self.state.global_step, mode)
        waiting = self.recorder.pending(unit.step, mode).rows
        for table, made in rows(self._episodes, unit, self.task, self.plan, self.mentor).items():
            waiting[table] += made
        self._warn_when_all_truncated()
        self._episodes = []

    def _warn_when_all_truncated(self) -> None:
        """Once a run: groups of which every attempt was cut off are a length limit, not reasoning errors, and get no mentor."""
        cut = sum(all(a.verdict.status == "truncated" for a in e.attempts) for e in self._episodes)
        if cut and not self._warned:
            self._warned = True
            logger.warning(
                "step %d: %d of %d groups have only truncated attempts. They are not sent to the mentor as reasoning errors. "
                "Raise max_completion_length (now %d) if this goes on.",
                self.state.global_step,
                cut,
                len(self._episodes),
                self.max_completion_length,
            )

    # ------------------------------------------------------------------ grading

    def _grade_batch(self, batch: Sequence[Completion | None]) -> list[Grade | None]:
        """Of this rank's slots, None for spare ones."""
        taken = [(i, c) for i, c in enumerate(batch) if c is not None]
        inputs = [self._inputs[i] for i, _ in taken]
        grades = iter(self._grade_rows([self._problem(row) for row in inputs], [c for _, c in taken], inputs))
        return [None if c is None else next(grades) for c in batch]

    def _grade(self, problems: Sequence[TaskProblem], completions: Sequence[Completion]) -> list[Grade]:
        """Of follow-ups and extra samples; every rank calls it equally often."""
        return self._grade_rows(problems, completions, [self._rows_by_problem[p.row.problem_id] for p in problems])

    def _grade_rows(
        self, problems: Sequence[TaskProblem], completions: Sequence[Completion], inputs: list[dict[str, Any]]
    ) -> list[Grade]:
        if self._verdict_is_reward:
            return list(verifier_grader(self.task)(problems, completions))
        values, error = self._call_reward_functions(completions, inputs)
        weights = self.reward_weights.tolist()
        known = [[v * w for v, w in zip(given, weights, strict=True) if v is not None] for given in values]
        rewards = [sum(found) if found else None for found in known]
        if isinstance(self.task, RowTask):
            judged = zip(problems, completions, inputs, rewards, strict=True)
            verdicts = [self.task.verdict(problem, completion, row, reward, error) for problem, completion, row, reward in judged]
        else:
            answers = [Answer(p, c.text, c.finish_reason) for p, c in zip(problems, completions, strict=True)]
            verdicts = verify_all(self.task, answers)
        return [Grade(v, reward, tuple(given)) for v, reward, given in zip(verdicts, rewards, values, strict=True)]

    def _call_reward_functions(
        self, completions: Sequence[Completion], inputs: list[dict[str, Any]]
    ) -> tuple[list[list[float | None]], str | None]:
        """TRL's own reward call on this rank's rows, and what went wrong in it. Ranks are filled up to equal length for its gather."""
        most = max(self.gather_list([len(completions)]))
        if most == 0:
            return [], None
        filling = most - len(completions)
        rows_ = [*inputs, *[self._inputs[0]] * filling]
        texts: list[Any] = [c.text for c in completions] + [""] * filling
        ids = [c.token_ids for c in completions] + [[self.eos_token_ids[0]]] * filling
        prompts = [row["prompt"] for row in rows_]
        if not isinstance(prompts[0], str):
            texts = [[{"role": "assistant", "content": text}] for text in texts]
        self._reward_errors: list[str] = []
        found = super()._calculate_rewards(rows_, prompts, texts, ids)
        low = self.accelerator.process_index * most
        values = found[low : low + len(completions)].tolist()
        return [[None if v != v else v for v in row] for row in values], "; ".join(self._reward_errors) or None

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> torch.Tensor:
        """The rewards that the rollout computed, in TRL's order; the reward functions run once."""
        if self._cached_rewards is None:
            raise TrainingError(
                "Expected the rewards of this batch from the rollout, found none: TRL asked for rewards outside a rollout. Please "
                "report this with your GRPOConfig."
            )
        return self._cached_rewards

    def _guarded(self, function: Any) -> Any:
        """A reward function whose exception becomes None for its rows, with the reason on each of them."""
        if not inspect.isfunction(function) or inspect.iscoroutinefunction(function) or function is verified_reward:
            return function

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                logger.exception("reward function %s raised; its rows stay unscored", function.__name__)
                self._reward_errors.append(f"{function.__name__}: {type(error).__name__}: {error}")
                return [None] * len(kwargs["completions"])

        return guarded

    def _reward_values(self, grade: Grade | None) -> list[float]:
        """What each reward function gave, NaN for nothing: TRL leaves such rows out of the baseline."""
        number = len(self.reward_funcs)
        if grade is None:
            return [float("nan")] * number
        values = grade.rewards or (grade.reward,) * number
        return [float("nan") if value is None else value for value in values]

    # ------------------------------------------------------------------ advantages and corrections

    def _split_baseline(self, advantages_B: torch.Tensor) -> torch.Tensor:
        """Reward less the mean of the group's own attempts: an inserted success of a failed group gets +1, its failures 0."""
        assert self._cached_rewards is not None
        rewards = self._cached_rewards
        total = (rewards * self.reward_weights.to(rewards).unsqueeze(0)).nansum(1)
        total[torch.isnan(rewards).all(1)] = torch.nan
        own = torch.where(self._inserted, torch.nan, total).view(-1, self.num_generations)
        baseline = torch.nan_to_num(own.nanmean(1), nan=0.0).repeat_interleave(self.num_generations)
        first = self.accelerator.process_index * len(advantages_B)
        return torch.nan_to_num(total - baseline, nan=0.0)[first : first + len(advantages_B)].to(advantages_B)

    def _mask_spare(self, output: dict[str, Any]) -> None:
        """Spare slots that nothing took leave the loss and its token count."""
        if not self._spare:
            return
        spare = torch.tensor([attempt_id is None for attempt_id in self._row_ids], device=self.accelerator.device)
        lost = output["completion_mask"][spare].sum()
        output["completion_mask"][spare] = 0
        output["num_items_in_batch"] = output["num_items_in_batch"] - self.accelerator.gather(lost.reshape(1)).sum()

    def _correct(self, output: dict[str, Any]) -> None:
        """Weight follow-ups' advantages token by token. Every rank takes part, with a row of its own if it has no follow-up."""
        if self.knobs.correction == "none" or not sum(self.gather_list([len(self._follow_up_rows)])):
            return
        index = sorted(self._follow_up_rows) or [0]
        completion_ids, completion_mask = output["completion_ids"][index], output["completion_mask"][index]
        with torch.no_grad():
            original = self._logprobs(output["prompt_ids"][index], output["prompt_mask"][index], completion_ids, completion_mask)
            instructed = None
            if self.knobs.correction in ("truncated", "recomputed"):
                instructed = self._logprobs(*self._instructed_prompts(index), completion_ids, completion_mask)
            weights = token_weights(original, instructed, self.knobs)
        advantages = output["advantages"].unsqueeze(1).expand(-1, output["completion_ids"].size(1)).clone()
        for row, i in enumerate(index):
            response = self._follow_up_rows.get(i)
            if response is None:
                continue
            advantages[i] = advantages[i] * weights[row]
            mask = completion_mask[row].bool()
            response.mean_logprob_original = float(original[row][mask].mean())
            if instructed is not None:
                response.mean_logprob_instructed = float(instructed[row][mask].mean())
        output["advantages"] = advantages

    def _logprobs(self, prompt_ids: Any, prompt_mask: Any, completion_ids: Any, completion_mask: Any) -> torch.Tensor:
        ids, mask = torch.cat([prompt_ids, completion_ids], 1), torch.cat([prompt_mask, completion_mask], 1)
        return self._get_per_token_logps_and_entropies(self.model, ids, mask, completion_ids.size(1))[0]

    def _instructed_prompts(self, index: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """(ids, mask), left-padded, of the prompts that the follow-ups were sampled on."""
        prompts = [
            self._follow_up_rows[i].completion.prompt_ids if i in self._follow_up_rows else self.filling_prompt for i in index
        ]
        longest, device = max(map(len, prompts)), self.accelerator.device
        ids = torch.tensor([[self._tokenizer.pad_token_id] * (longest - len(p)) + p for p in prompts], device=device)
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=device)
        return ids, mask

    # ------------------------------------------------------------------ cost

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int, *args: Any, **kwargs: Any
    ) -> Any:
        """With a gradient it is the update's forward pass, and the backward pass is counted with it; without, a log-prob pass."""
        trains = torch.is_grad_enabled() and self.model.training
        started = time.perf_counter()
        with contextlib.nullcontext(_ignore) if trains else self.counted("logprob") as count:
            found = super()._get_per_token_logps_and_entropies(model, input_ids, attention_mask, logits_to_keep, *args, **kwargs)
        usage = pass_usage(
            self.learner.shape,
            f"r{self.accelerator.process_index}.s{self.state.global_step}.m{self._step}",
            attention_mask.sum(1).tolist(),
            attention_mask[:, -logits_to_keep:].sum(1).tolist(),
            attention_mask.size(1),
            logits_to_keep,
            self.learner.name,
            backward=trains,
            gradient_checkpointing=bool(trains and self.args.gradient_checkpointing),
            scored="completion" if _use_triton(input_ids.device) else "every",
            wall_seconds=0.0 if trains else time.perf_counter() - started,
        )
        if trains:
            self._micro_batches.append(usage)
        else:
            count(usage.flops or 0.0)
            mode: Mode = "train" if self.model.training else "eval"
            self.recorder.pending(self.state.global_step, mode).phases["logprob"].append(usage)
        return found

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        self._micro_batches = []
        self._generation_seconds = 0.0
        started = time.perf_counter()
        with self._calibration() as calibration:
            loss = super().training_step(model, inputs, num_items_in_batch)
        seconds = time.perf_counter() - started - self._generation_seconds
        waiting = self.recorder.pending(self.state.global_step, "train").phases["optimizer"]
        waiting += [replace(u, wall_seconds=seconds / len(self._micro_batches)) for u in self._micro_batches]
        if calibration is not None:
            calibration.add("optimizer", calibration.whole - calibration.inner, sum(u.flops or 0.0 for u in self._micro_batches))
            self.recorder.calibrated(calibration.to_json())
        return loss

    @contextlib.contextmanager
    def _calibration(self) -> Iterator[Calibration | None]:
        """The first update of a run, counted by torch; None in every other one."""
        if not self._calibrate or not self.recorder.wants_calibration:
            yield None
            return
        self._calibrate = False
        self._calibrating = Calibration()
        with counted_flops() as counter:
            yield self._calibrating
        self._calibrating.whole = counter.total
        self._calibrating = None

    @contextlib.contextmanager
    def counted(self, phase: str) -> Iterator[Callable[[float], None]]:
        """Counts a phase inside a calibration; gives a function that takes what the formula says. Does nothing at other times."""
        calibration = self._calibrating
        if calibration is None:
            yield _ignore
            return
        with counted_flops() as counter:
            yield lambda computed: calibration.add(phase, 0.0, computed)
        calibration.add(phase, counter.total, 0.0)

    def record_filling(self, usages: list[Usage]) -> None:
        """What sequences cost that only kept ranks equal."""
        if usages:
            mode: Mode = "train" if self.model.training else "eval"
            self.recorder.pending(self.state.global_step, mode).discarded["rollout"] += usages

    # ------------------------------------------------------------------ the life of a run

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As GRPOTrainer.train. However it ends, the launch's row says how."""
        try:
            return super().train(*args, **kwargs)
        except KeyboardInterrupt:
            self.recorder.close("interrupted")
            raise
        except BaseException as error:
            self.recorder.close(f"error: {type(error).__name__}")
            raise

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        super().log(logs, start_time)
        self._diary.logged(logs)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """A checkpoint waits for the steps before it to be durable."""
        self._diary.commit_all()
        self.recorder.flush()
        super()._save_checkpoint(model, trial)

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self._sampler: Any = super()._get_train_sampler(dataset)
        return self._sampler

    def skip_epochs(self, epochs: int) -> None:
        """Draw the orders of epochs that an earlier launch finished: TRL's sampler would begin with the first one again."""
        generator = getattr(self._sampler, "generator", None)
        for _ in range(epochs if generator is not None else 0):
            torch.randperm(self._sampler.num_samples, generator=generator)

    # ------------------------------------------------------------------ what TrainerPolicy needs of TRL

    def gather_list(self, items: list[Any]) -> list[Any]:
        """The lists of all ranks joined in rank order, on every rank."""
        return list(items) if self.accelerator.num_processes == 1 else gather_object(list(items))

    def tokenize_rows(self, prompts: list[Any]) -> list[list[int]]:
        prompt_ids, images, multimodal = self._tokenize_prompts(prompts)
        if images or multimodal.keys() - {"token_type_ids"}:
            raise TrainingError("Expected text prompts, found images in them. MentorGRPOTrainer records text only.")
        return prompt_ids

    def generate_rows(self, prompt_ids: list[list[int]], num_samples: int) -> tuple[list[list[int]], list[Any] | None]:
        """(completion ids, sampling log-probs or None) of prompts that are already repeated."""
        completion_ids, logprobs = self._generate_single_turn(prompt_ids, None, {}, num_samples)
        return completion_ids, logprobs

    @property
    def ranks_must_match(self) -> bool:
        sharded = self.use_vllm or self.is_fsdp_enabled or self.is_deepspeed_enabled
        return bool(sharded and self.accelerator.num_processes > 1)

    # ------------------------------------------------------------------ set-up

    def _problem(self, row: Mapping[str, Any]) -> TaskProblem:
        if isinstance(self.task, RowTask):
            return self.task.from_row(row)
        try:
            return self._problems[row["problem_id"]]
        except KeyError:
            raise TrainingError(
                f"Expected a column `problem_id` that names a problem of task `{self.task.name}`, found {row.get('problem_id')!r}. "
                "Build the data set with mentor_audit.training.task_dataset(task)."
            ) from None

    def _make_mentor(self, mentor: MentorSection | Mentor | None, folder: Path) -> Mentor | None:
        """`folder`: where an endpoint's replies are kept, so that a resumed run doesn't pay for them again."""
        if not set(self._arms) & {*ARMS_WITH_MENTOR, *ARMS_RESAMPLING, *WRITTEN}:
            return None
        if mentor is None or isinstance(mentor, MentorSection):
            section = mentor or MentorSection(max_tokens=self.args.max_completion_length, temperature=self.args.temperature)
            return load_mentor(section, self.task, self.learner, self._other_policy, folder)
        return mentor

    def _other_policy(self, section: MentorSection) -> Policy:
        """Another model for the mentor, or a copy of the learner as it starts."""
        if section.model is None:
            start = frozen_copy(self.accelerator.unwrap_model(self.model))
            return HFPolicy(start, self._tokenizer, max_new_tokens=section.max_tokens, temperature=section.temperature)
        model, tokenizer, _ = load_model(section.model, revision=section.revision, device=str(self.accelerator.device))
        return HFPolicy(model, tokenizer, max_new_tokens=section.max_tokens, temperature=section.temperature)

    @property
    def _arms(self) -> tuple[str, ...]:
        """Every arm that a group of this run may have."""
        return tuple(self.chances) if self.arm == RANDOMISED else (self.arm,)

    def _check_arm(self, task: Task | None) -> None:
        if (self.arm == RANDOMISED) != bool(self.chances):
            raise ConfigError(
                f"Expected chances of the arms with arm {RANDOMISED} and only then, found arm {self.arm!r} and chances {self.chances}. Pass both or "
                "neither."
            )
        for arm in self._arms:
            if arm not in ARMS:
                raise ConfigError(f"Expected one of the arms {', '.join(ARMS)}; found {arm!r}{nearest(arm, ARMS)}")
            if arm in ARMS_WITH_TRUTH and not isinstance(task, ChecksSteps):
                raise ConfigError(
                    f"Arm {arm} needs a task that knows, by program, where an attempt first goes wrong; found "
                    f"{task.name if task else 'none'}. Use another arm, or a task with first_error, instruction_for, altered and fits."
                )
            if arm == "fixed_demo" and not (self.knobs.demonstration or isinstance(task, HasDemonstration)):
                raise ConfigError("Arm fixed_demo needs a demonstration, found none. Set mentoring.demonstration.")
        if self._verdict_is_reward and task is None:
            raise ConfigError("Expected reward_funcs or a task, found neither. Pass the reward functions of your GRPO script.")

    def _make_room(self, args: GRPOConfig) -> GRPOConfig:
        """A copy of the arguments in which a group has the spare slots of placement `append`; batches grow in proportion."""
        args = copy.deepcopy(args)
        args.scale_rewards = SCALE_REWARDS[self.knobs.advantage]
        if self._spare:
            before = args.num_generations or 1
            args.num_generations = before + self._spare
            for name in ("per_device_train_batch_size", "generation_batch_size"):
                value = getattr(args, name)
                if value * args.num_generations % before:
                    raise ConfigError(
                        f'placement = "append" gives a group {args.num_generations} slots; expected {name} to be a multiple of '
                        f"num_generations ({before}), found {value}. Change {name}."
                    )
                setattr(args, name, value * args.num_generations // before)
        return args

    def _check_supported(self) -> None:
        found = [
            name
            for name, used in {
                "tools": bool(self.tools),
                "environments": self.environment_factories is not None,
                "a vision model": self._is_vlm,
            }.items()
            if used
        ]
        if found:
            raise ConfigError(f"Expected single-turn text training, found {', '.join(found)}. Use GRPOTrainer for that.")
        if self.ranks_must_match and self._spare:
            per_rank = self.args.per_device_train_batch_size * self.args.steps_per_generation
            if per_rank % self.num_generations:
                raise ConfigError(
                    f'placement = "append" with vLLM or sharding needs whole groups on a rank; found {per_rank} rows a rank in '
                    f"groups of {self.num_generations}. Change per_device_train_batch_size."
                )


@dataclass(frozen=True)
class _Slots:
    """This rank's part of the batch: `count` slots from global slot `first` on, `size` a group, the last `spare` of them spare."""

    size: int
    spare: int
    first: int
    count: int

    def place(self, i: int) -> int:
        """Place in its group of local slot i."""
        return (self.first + i) % self.size

    def group(self, i: int) -> int:
        """Group of local slot i, counted over all ranks."""
        return (self.first + i) // self.size


class _Diary(TrainerCallback):
    """When a unit is whole, and when a run ends.

    An update's metrics reach `log` after `on_step_end`, so its unit waits for them; it does not wait past a checkpoint, an
    evaluation, the next update or the end.
    """

    def __init__(self, trainer: MentorGRPOTrainer) -> None:
        self._trainer = trainer
        self._started = time.perf_counter()
        self._waiting: dict[tuple[int, Mode], float] = {}
        self._ended_how = "finished"

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        trainer = self._trainer
        cycle = args.steps_per_generation * trainer.num_iterations
        if state.global_step * args.gradient_accumulation_steps % cycle:
            raise TrainingError(
                f"Expected a checkpoint between two generations, found one at update {state.global_step}: a generation feeds "
                f"{cycle} passes of {args.gradient_accumulation_steps} an update, so training could not go on exactly. Resume from "
                f"an update u with u * {args.gradient_accumulation_steps} % {cycle} == 0, and choose save_steps so."
            )
        self._ended_how = "finished"
        trainer.skip_epochs(int((state.epoch or 0.0) + 1e-9) if state.global_step else 0)
        if trainer.recorder.is_open and trainer.recorder.start_step != state.global_step:
            trainer.recorder.close("finished")
        if not trainer.recorder.is_open:
            trainer.recorder.begin(state.global_step)
        if state.global_step == 0:
            trainer.at_step(0)

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.commit_all()
        self._started = time.perf_counter()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._waiting[state.global_step - 1, "train"] = time.perf_counter() - self._started
        if not control.should_log:
            self.commit_all()
        self._trainer.at_step(state.global_step)

    def logged(self, logs: Mapping[str, Any]) -> None:
        """TRL's metrics of the latest update, or of an evaluation."""
        step = self._trainer.state.global_step
        if any(name.startswith("eval_") for name in logs):
            self._commit(step, "eval", logs, float(logs.get("eval_runtime", 0.0)))
        elif (step - 1, "train") in self._waiting:
            self._commit(step - 1, "train", logs, self._waiting.pop((step - 1, "train")))

    def commit_all(self) -> None:
        for (step, mode), seconds in sorted(self._waiting.items()):
            self._commit(step, mode, {}, seconds)
        self._waiting.clear()

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.commit_all()
        self._trainer.at_step(state.global_step, is_last=True)
        self._trainer.recorder.flush()
        self._trainer.recorder.close(self._ended_how)

    def _commit(self, step: int, mode: Mode, metrics: Mapping[str, Any], seconds: float) -> None:
        recorder = self._trainer.recorder
        if recorder.is_committed(step, mode):
            logger.warning("a second evaluation at update %d of launch %s is not recorded", step, recorder.launch)
            recorder.drop(step, mode)
            return
        recorder.commit(step, mode, metrics, seconds)
        if mode == "train" and self._trainer.is_over_budget():
            self._ended_how = "budget"
            self._trainer.control.should_training_stop = True


def _ignore(computed: float) -> None:
    """What a phase reports to when nothing is being calibrated."""
