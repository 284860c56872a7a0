"""MentorGRPOTrainer through a real `train()`: hand-worked advantages, every knob, what is recorded, when it refuses."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tiny import tiny_model, tiny_tokenizer
from training_world import DigitTask, fails_unless_told, make_trainer
from trl import GRPOConfig, GRPOTrainer

from mentor_audit.config import BudgetSection, MentoringSection, MentorSection
from mentor_audit.errors import ConfigError, TrainingError
from mentor_audit.protocols import Verdict
from mentor_audit.store import Store
from mentor_audit.training import MentorGRPOTrainer
from mentor_audit.training.correction import token_weights

SCRIPTED = MentorSection(kind="scripted")


def trained(tmp_path: Path, knobs: dict[str, Any] | None = None, **kwargs: Any) -> tuple[Store, MentorGRPOTrainer]:
    store = Store.create(tmp_path / "store")
    kwargs.setdefault("mentor", SCRIPTED)
    trainer = make_trainer(store, tmp_path / "out", mentoring=MentoringSection(**(knobs or {})), **kwargs)
    trainer.train()
    return store, trainer


def advantages(store: Store) -> dict[str, list[float]]:
    """Role -> advantages of the first group, in order; rows that GRPO did not see are left out."""
    found = store.arrow(
        "SELECT role, advantage FROM attempt WHERE group_id LIKE '%.t0.g0' AND trained ORDER BY role, position"
    ).to_pylist()
    roles = sorted({row["role"] for row in found})
    return {role: [round(row["advantage"], 3) for row in found if row["role"] == role] for role in roles}


EIGHT = {"num_generations": 8, "per_device_train_batch_size": 16}


@pytest.mark.parametrize(
    ("knobs", "success", "failure", "failures"),
    [
        ({"advantage": "mean_centred"}, 0.875, -0.125, 7),
        ({"advantage": "std_scaled"}, 2.474, -0.353, 7),  # 7/8 and 1/8 over a sample std of .35355 + 1e-4
        ({"advantage": "split_baseline"}, 1.0, 0.0, 7),
        ({"placement": "append"}, 0.889, -0.111, 8),
    ],
)
def test_one_success_among_eight_failures_has_the_hand_worked_advantages(
    tmp_path: Path, knobs: dict[str, Any], success: float, failure: float, failures: int
) -> None:
    store, _ = trained(tmp_path, knobs, grpo=EIGHT)
    assert advantages(store) == {"attempt": [failure] * failures, "follow_up": [success]}


def test_instructed_group_is_a_fresh_group(tmp_path: Path) -> None:
    def half(prompt: str, i: int) -> str:
        return fails_unless_told(prompt, i) if i % 2 else "check"

    store, _ = trained(tmp_path, {"placement": "instructed_group", "context": "instructed"}, script=half)
    assert advantages(store) == {"follow_up": [-0.5, 0.5, -0.5, 0.5]}


@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dr_grpo", "dapo", "cispo"])
def test_the_append_placement_leaves_unused_slots_out_of_the_loss(tmp_path: Path, loss_type: str) -> None:
    """No follow-up succeeds, so the spare slots stay empty: the gradient is that of a plain group without any signal."""
    _, trainer = trained(
        tmp_path, {"placement": "append"}, script=lambda prompt, i: "check", grpo={"loss_type": loss_type}, model=None
    )
    assert trainer.state.log_history[0]["grad_norm"] == 0.0


@pytest.mark.parametrize("context", ["original", "instructed"])
def test_the_prompt_of_a_follow_up_in_the_loss_is_the_one_that_the_settings_name(tmp_path: Path, context: str) -> None:
    seen = []

    def spy(trainer: MentorGRPOTrainer) -> None:
        inner = trainer._compute_loss

        def outer(model: Any, inputs: Any) -> Any:
            for ids, mask, completion in zip(inputs["prompt_ids"], inputs["prompt_mask"], inputs["completion_ids"], strict=True):
                seen.append((trainer._tokenizer.decode(ids[mask.bool()]), trainer._tokenizer.decode(completion)))
            return inner(model, inputs)

        trainer._compute_loss = outer

    store = Store.create(tmp_path / "store")
    trainer = make_trainer(store, tmp_path / "out", mentoring=MentoringSection(context=context), mentor=SCRIPTED)
    spy(trainer)
    trainer.train()
    prompts = {prompt for prompt, completion in seen if completion.split()[0].isdigit()}
    assert len(prompts) == 2
    assert all(("hint carry" in prompt) == (context == "instructed") for prompt in prompts)


def test_token_weights_by_hand() -> None:
    original, instructed = torch.log(torch.tensor([[0.5, 0.01]])), torch.log(torch.tensor([[0.25, 0.5]]))
    shaped = token_weights(original, None, MentoringSection())
    assert shaped[0].tolist() == pytest.approx([0.1 * 0.5 / 0.36, 0.1 * 0.01 / 0.0121])
    truncated = token_weights(original, instructed, MentoringSection(correction="truncated", ratio_cap=1.5))
    assert truncated[0].tolist() == pytest.approx([1.5, 0.02])
    recomputed = token_weights(original, instructed, MentoringSection(correction="recomputed"))
    assert recomputed[0].tolist() == pytest.approx([2.0, 0.02])
    assert token_weights(original, None, MentoringSection(correction="none"))[0].tolist() == [1.0, 1.0]


def test_the_shaped_weight_is_the_gradient_of_the_shaped_objective() -> None:
    logits = torch.randn(1, 5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    tokens = torch.tensor([[0, 3, 2, 6, 1]])
    logprobs = torch.log_softmax(logits, -1).gather(2, tokens[..., None])[..., 0]
    (explicit,) = torch.autograd.grad((logprobs.exp() / (logprobs.exp() + 0.1)).sum(), logits, retain_graph=True)
    weights = token_weights(logprobs.detach(), None, MentoringSection())
    (weighted,) = torch.autograd.grad((weights * (logprobs - logprobs.detach()).exp()).sum(), logits)
    assert torch.allclose(explicit, weighted, atol=1e-12)


def test_zero_reward_fraction_is_recorded_before_and_after_insertion(tmp_path: Path) -> None:
    store, _ = trained(tmp_path)
    (step,) = store.table("train_step").filter(store.table("train_step")["mode"] == "train").to_dicts()
    assert (step["num_groups"], step["num_zero_reward_groups"], step["num_inserted"]) == (2, 2, 2)
    assert (step["zero_reward_fraction"], step["zero_reward_fraction_after"]) == (1.0, 0.0)
    assert (step["loss"], step["grad_norm"]) != (None, None)
    assert json.loads(step["metrics"])["reward"] == 0.25, "TRL's own reward is after insertion"


def test_total_flops_are_the_sum_of_the_cost_rows_and_the_formula_is_the_counters(tmp_path: Path) -> None:
    store, trainer = trained(tmp_path, script=None, calibrate=True, grpo={"max_steps": 2})
    total = store.arrow("SELECT sum(flops) AS flops FROM cost").to_pylist()[0]["flops"]
    assert total == trainer.recorder.spent.flops
    (run,) = store.registry.runs()
    phases = json.loads(run.flop_calibration)
    assert {"rollout", "optimizer"} <= phases.keys()
    for phase, found in phases.items():
        assert abs(found["ratio"] - 1) < 0.005, phase


def test_a_budget_in_tokens_ends_the_run_and_says_so(tmp_path: Path) -> None:
    store, trainer = trained(tmp_path, grpo={"max_steps": 50}, budget=BudgetSection(tokens=150))
    sampled = store.arrow(
        "SELECT step, sum(prompt_tokens + output_tokens)::BIGINT AS tokens FROM cost "
        "WHERE phase IN ('rollout', 'mentor', 'follow_up') GROUP BY step ORDER BY step"
    ).to_pylist()
    totals = [sum(row["tokens"] for row in sampled[: i + 1]) for i in range(len(sampled))]
    assert totals[-1] >= 150 > totals[-2], "the mentor's tokens count, and the run stops at the first step past the budget"
    assert trainer.state.global_step == len(sampled) < 50
    assert [launch.ended_how for launch in store.registry.launches()] == ["budget"]


def test_all_truncated_groups_get_no_mentor_and_a_warning_in_the_first_step(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class CutTask(DigitTask):
        def verify(self, problem: Any, completion: str, finish_reason: str) -> Verdict:
            return Verdict(None, "truncated") if finish_reason == "length" else super().verify(problem, completion, finish_reason)

    with caplog.at_level(logging.WARNING):
        store, _ = trained(tmp_path, script=lambda prompt, i: "check again...", task=CutTask(), grpo={"max_steps": 2})
    warnings = [r.message for r in caplog.records if "only truncated attempts" in r.message]
    assert len(warnings) == 1
    assert warnings[0].startswith("step 0: 2 of 2 groups")
    (row,) = store.arrow("SELECT sum(num_truncated)::BIGINT AS cut, bool_or(triggered) AS acted FROM attempt_group").to_pylist()
    assert row == {"cut": 16, "acted": False}
    assert store.table("diagnosis").is_empty()


def test_two_generations_an_update_and_two_updates_a_generation_record_every_group_once(tmp_path: Path) -> None:
    store, _ = trained(
        tmp_path,
        grpo={"max_steps": 4, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_iterations": 2},
    )
    groups = store.arrow("SELECT step, count(*) AS n FROM attempt_group GROUP BY step ORDER BY step").to_pylist()
    assert groups == [{"step": 0, "n": 2}, {"step": 2, "n": 2}], "sampled at updates 0 and 2 only"
    steps = store.arrow("SELECT step FROM train_step ORDER BY step").to_pylist()
    assert [row["step"] for row in steps] == [0, 1, 2, 3]
    assert store.check() == []


def test_fewer_microbatches_a_generation_than_an_update_number_groups_on(tmp_path: Path) -> None:
    store, _ = trained(
        tmp_path,
        grpo={"max_steps": 2, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "steps_per_generation": 2},
    )
    ids = [row["group_id"] for row in store.arrow("SELECT group_id FROM attempt_group ORDER BY step, group_id").to_pylist()]
    assert ids == [f"default-mentor-s1.l1.t{s}.g{g}" for s in (0, 1) for g in range(4)]
    assert store.check() == []


def test_a_mid_cycle_checkpoint_is_refused(tmp_path: Path) -> None:
    settings = {"max_steps": 4, "num_iterations": 2, "save_strategy": "steps", "save_steps": 1}
    trained(tmp_path, grpo=settings)
    again = make_trainer(Store.open(tmp_path / "store"), tmp_path / "out", mentor=SCRIPTED, grpo=settings)
    with pytest.raises(TrainingError, match="Expected a checkpoint between two generations, found one at update 3"):
        again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-3"))


def test_resume_from_a_checkpoint_goes_on_exactly(tmp_path: Path) -> None:
    def rows_of(store: Store) -> list[dict[str, Any]]:
        return store.arrow(
            "SELECT step, role, position, problem_id, completion, completion_ids, advantage, trained FROM attempt "
            "ORDER BY step, group_id[-3:], role, position"
        ).to_pylist()

    settings = {"max_steps": 6, "save_strategy": "steps", "save_steps": 2}
    (tmp_path / "whole").mkdir()
    (tmp_path / "halved").mkdir()
    whole, _ = trained(tmp_path / "whole", script=None, grpo=settings)
    halved, _ = trained(tmp_path / "halved", script=None, grpo={**settings, "max_steps": 6})
    again = make_trainer(halved, tmp_path / "halved" / "out", script=None, mentor=SCRIPTED, grpo=settings)
    again.train(resume_from_checkpoint=str(tmp_path / "halved" / "out" / "checkpoint-4"))
    assert rows_of(whole) == rows_of(halved)
    launches = halved.arrow("SELECT DISTINCT launch, step FROM attempt ORDER BY step").to_pylist()
    assert [(r["launch"], r["step"]) for r in launches] == [(1, 0), (1, 1), (1, 2), (1, 3), (2, 4), (2, 5)]
    cost = halved.arrow(
        "SELECT superseded, count(DISTINCT step) AS n FROM cost GROUP BY superseded ORDER BY superseded"
    ).to_pylist()
    assert cost == [{"superseded": False, "n": 6}, {"superseded": True, "n": 2}], "what ran again still counts"
    assert halved.check() == []


# ------------------------------------------------------------------ record-only mode


def plain_dataset() -> Dataset:
    return Dataset.from_dict({"prompt": [f"Q {i} A" for i in range(4)], "answer": [str(i) for i in range(4)]})


def short_is_good(completions: list[str], answer: list[str], **columns: Any) -> list[float | None]:
    return [float(len(c.split()) < 5) - 0.5 for c in completions]


def config(folder: Path, **more: Any) -> GRPOConfig:
    settings: dict[str, Any] = {
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_steps": 3,
        "max_completion_length": 6,
        "learning_rate": 1e-2,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "logging_steps": 1,
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    return GRPOConfig(str(folder), **(settings | more))


def weights(trainer: GRPOTrainer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


@pytest.mark.parametrize("more", [{}, {"scale_rewards": "batch", "num_iterations": 2}, {"loss_type": "grpo", "beta": 0.0}])
def test_record_only_trains_exactly_as_trl_does(tmp_path: Path, more: dict[str, Any]) -> None:
    def run(kind: Any, name: str, **kwargs: Any) -> GRPOTrainer:
        trainer = kind(
            model=tiny_model(hidden=32, layers=1, heads=2, seed=3),
            reward_funcs=short_is_good,
            args=config(tmp_path / name, **more),
            train_dataset=plain_dataset(),
            processing_class=tiny_tokenizer(),
            **kwargs,
        )
        trainer.train()
        return trainer

    bare, recorded = run(GRPOTrainer, "bare"), run(MentorGRPOTrainer, "recorded", store=tmp_path / "store")
    assert torch.equal(weights(bare), weights(recorded))
    same = ("loss", "reward", "reward_std", "frac_reward_zero_std", "num_tokens", "completions/mean_length")
    for a, b in zip(bare.state.log_history[:3], recorded.state.log_history[:3], strict=True):
        assert {k: a.get(k) for k in same} == {k: b.get(k) for k in same}
    store = Store.open(tmp_path / "store")
    (row,) = store.arrow(
        "SELECT count(*) AS n, count(DISTINCT is_correct) AS verdicts, bool_and(trained) AS t FROM attempt"
    ).to_pylist()
    generations = 2 if more.get("num_iterations") == 2 else 3
    assert row == {"n": 8 * generations, "verdicts": row["verdicts"], "t": True}
    assert store.check() == []


def test_a_reward_function_that_raises_becomes_rows_without_a_verdict(tmp_path: Path) -> None:
    def crashes(completions: list[str], **columns: Any) -> list[float]:
        raise KeyError("no such column")

    trainer = MentorGRPOTrainer(
        model=tiny_model(hidden=32, layers=1, heads=2),
        reward_funcs=crashes,
        args=config(tmp_path / "out", max_steps=1),
        train_dataset=plain_dataset(),
        processing_class=tiny_tokenizer(),
        store=tmp_path / "store",
    )
    trainer.train()
    found = trainer.recorder.store.arrow("SELECT DISTINCT status, status_detail, is_correct, reward FROM attempt").to_pylist()
    assert found == [
        {"status": "verifier_error", "status_detail": "crashes: KeyError: 'no such column'", "is_correct": None, "reward": None}
    ]


def test_a_verdict_function_decides_and_evaluation_is_recorded(tmp_path: Path) -> None:
    def says_no(prompt: Any, completion: str, row: Any, reward: float | None) -> Verdict:
        return Verdict(row["answer"] in completion.split(), "correct" if row["answer"] in completion.split() else "incorrect")

    trainer = MentorGRPOTrainer(
        model=tiny_model(hidden=32, layers=1, heads=2),
        reward_funcs=[short_is_good],
        args=config(tmp_path / "out", max_steps=2, eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=4),
        train_dataset=plain_dataset(),
        eval_dataset=plain_dataset(),
        processing_class=tiny_tokenizer(),
        store=tmp_path / "store",
        verdict=says_no,
    )
    trainer.train()
    store = trainer.recorder.store
    evals = store.arrow(
        "SELECT step, role, count(*) AS n FROM attempt WHERE mode = 'eval' GROUP BY ALL ORDER BY step"
    ).to_pylist()
    assert evals == [{"step": 1, "role": "eval", "n": 16}, {"step": 2, "role": "eval", "n": 16}]
    for row in store.arrow("SELECT is_correct, completion, p.gold FROM attempt JOIN problem p USING (problem_id)").to_pylist():
        assert row["is_correct"] == (row["gold"] in row["completion"].split())
    assert store.check() == []


def test_a_mentor_arm_works_on_any_grpo_data_set(tmp_path: Path) -> None:
    """No task: the mentor is the learner itself, its reply can't be parsed, and that is a row with its cost."""
    trainer = MentorGRPOTrainer(
        model=tiny_model(hidden=32, layers=1, heads=2, positions=512),
        reward_funcs=lambda completions, **columns: [0.0] * len(completions),
        args=config(tmp_path / "out", max_steps=1),
        train_dataset=plain_dataset(),
        processing_class=tiny_tokenizer(),
        store=tmp_path / "store",
        arm="mentor",
        verdict=lambda prompt, completion, row, reward: Verdict(False, "incorrect"),
    )
    trainer.train()
    rows = trainer.recorder.store.arrow("SELECT parse_status, raw_reply FROM diagnosis").to_pylist()
    assert {row["parse_status"] for row in rows} == {"unparsable"}
    costs = trainer.recorder.store.arrow("SELECT phase, disposition, flops FROM cost WHERE phase = 'mentor'").to_pylist()
    assert {(c["disposition"], c["flops"] > 0) for c in costs} == {("discarded", True)}


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"arm": "mentr"}, "did you mean `mentor`?"),
        ({"arm": "oracle", "task": None, "reward_funcs": short_is_good}, "Arm oracle needs a task that knows"),
        ({"arm": "vanilla", "task": None}, "Expected reward_funcs or a task, found neither"),
    ],
)
def test_impossible_combinations_are_refused_before_training(tmp_path: Path, kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MentorGRPOTrainer(model=tiny_model(), args=config(tmp_path), store=tmp_path / "store", **kwargs)
    assert words in str(caught.value)
    assert not (tmp_path / "store").exists()


def test_a_run_that_fails_says_so_in_its_launch(tmp_path: Path) -> None:
    def breaks(prompt: str, i: int) -> str:
        raise RuntimeError("the device fell off")

    store = Store.create(tmp_path / "store")
    trainer = make_trainer(store, tmp_path / "out", script=breaks, mentor=SCRIPTED)
    with pytest.raises(RuntimeError, match="fell off"):
        trainer.train()
    assert [launch.ended_how for launch in store.registry.launches()] == ["error: RuntimeError"]


def test_tensorboard_still_gets_trls_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    trainer = MentorGRPOTrainer(
        model=tiny_model(hidden=32, layers=1, heads=2),
        reward_funcs=short_is_good,
        args=config(tmp_path / "out", max_steps=1, report_to="tensorboard"),
        train_dataset=plain_dataset(),
        processing_class=tiny_tokenizer(),
        store=tmp_path / "store",
    )
    trainer.train()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (events,) = {path.parent for path in tmp_path.rglob("events.out.tfevents*")}
    board = EventAccumulator(str(events))
    board.Reload()
    assert {"train/reward", "train/loss"} <= set(board.Tags()["scalars"])


def test_a_learner_that_was_frozen_at_the_start_stays_as_it_was(tmp_path: Path) -> None:
    """TRL patches the model's forward; a copy that still runs the live weights would make `frozen` mean `self`."""
    store = Store.create(tmp_path / "store")
    trainer = make_trainer(
        store, tmp_path / "out", script=None, mentor=MentorSection(kind="frozen", max_tokens=4), grpo={"max_steps": 2}
    )
    frozen = trainer.mentor._policy.model
    before = torch.cat([p.detach().flatten().clone() for p in frozen.parameters()])
    ids = torch.tensor([[5, 6, 7]])
    logits = frozen(input_ids=ids).logits.detach().clone()
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.add_(0.5)
    assert torch.equal(before, torch.cat([p.detach().flatten() for p in frozen.parameters()]))
    assert torch.equal(logits, frozen(input_ids=ids).logits.detach())


def test_prompts_in_another_order_than_their_rows_are_refused(tmp_path: Path) -> None:
    trainer = make_trainer(Store.create(tmp_path / "store"), tmp_path / "out", arm="vanilla")
    trainer._inputs = [{"prompt": "Q 1 A"}, {"prompt": "Q 2 A"}]
    with pytest.raises(TrainingError, match="wrong completions"):
        trainer._rollout(["Q 2 A", "Q 1 A"], trainer)
