"""The learner as its own mentor: asked once a step, at its live weights, and charged for every token."""

import copy
from pathlib import Path
from typing import Any

import torch
from training_world import make_trainer

from mentor_audit.config import MentorSection
from mentor_audit.store import Store
from mentor_audit.training import MentorGRPOTrainer

MENTOR = MentorSection(kind="self", max_tokens=9, temperature=0.0, fallback="raw_reply")


def right_once_advised(prompt: str, i: int) -> str:
    wanted = prompt.split()[1]
    return wanted if len(prompt.split()) > 3 else f"check {(int(wanted) + 1) % 10}"


def train(
    folder: Path, updates: int = 2
) -> tuple[MentorGRPOTrainer, list[tuple[int, list[Any], dict[str, Any]]], dict[int, Any]]:
    """Attempts and follow-ups are scripted, the mentor's replies are the model's. Returns the mentor's calls (step, prompts, keywords)
    and the model as it was before each update."""
    calls: list[tuple[int, list[Any], dict[str, Any]]] = []
    models: dict[int, Any] = {}

    def keep(trainer: MentorGRPOTrainer, step: int, is_last: bool) -> None:
        models[step] = copy.deepcopy(trainer.accelerator.unwrap_model(trainer.model).state_dict())

    trainer = make_trainer(
        Store.create(folder / "store"),
        folder / "out",
        script=right_once_advised,
        mentor=MENTOR,
        grpo={"max_steps": updates, "learning_rate": 0.3},
        before_step=keep,
    )
    scripted, sample = trainer.generate_rows, trainer.learner.sample

    def generate_rows(prompt_ids: list[list[int]], num_samples: int) -> Any:
        is_mentor = trainer.generation_config.max_new_tokens == MENTOR.max_tokens
        return (
            MentorGRPOTrainer.generate_rows(trainer, prompt_ids, num_samples) if is_mentor else scripted(prompt_ids, num_samples)
        )

    def watched(prompts: Any, num_samples: int, **kwargs: Any) -> Any:
        if kwargs.get("max_tokens") == MENTOR.max_tokens:
            calls.append((trainer.state.global_step, list(prompts), kwargs))
        return sample(prompts, num_samples, **kwargs)

    trainer.generate_rows = generate_rows
    trainer.learner.sample = watched
    trainer.train()
    return trainer, calls, models


def greedy(trainer: MentorGRPOTrainer, weights: dict[str, torch.Tensor], prompt: Any) -> list[int]:
    """Token by token from a copy with these weights, end-of-sequence included."""
    model = copy.deepcopy(trainer.accelerator.unwrap_model(trainer.model)).eval()
    model.load_state_dict(weights)
    (ids,) = trainer.learner.tokenize([prompt])
    written: list[int] = []
    with torch.no_grad():
        while len(written) < MENTOR.max_tokens and (not written or written[-1] not in trainer.eos_token_ids):
            written.append(
                int(model.model(torch.tensor([ids + written])).last_hidden_state[0, -1].matmul(model.lm_head.weight.T).argmax())
            )
    return written


def test_the_live_mentor_is_asked_once_a_step_at_the_weights_of_that_step_and_pays_for_every_token(tmp_path: Path) -> None:
    trainer, calls, models = train(tmp_path)
    store = trainer.recorder.store
    assert store.check() == []
    assert [(step, len(prompts)) for step, prompts, _ in calls] == [(0, 2), (1, 2)], "all failures of a step in one call"
    assert any(not torch.equal(models[0][name], models[1][name]) for name in models[0]), "the first update moved the weights"

    changed = 0
    for step, prompts, _ in calls:
        written = [greedy(trainer, models[step], prompt) for prompt in prompts]
        texts = [trainer._tokenizer.decode(ids, skip_special_tokens=True) for ids in written]
        rows = store.arrow(
            f"SELECT raw_reply, mentor, mentor_model FROM diagnosis WHERE step = {step} ORDER BY diagnosis_id"
        ).to_pylist()
        assert [r["raw_reply"] for r in rows] == texts
        assert {(r["mentor"], r["mentor_model"]) for r in rows} == {("self", trainer.learner.name)}
        changed += sum(greedy(trainer, models[0], prompt) != ids for prompt, ids in zip(prompts, written, strict=True))

        costs = store.arrow(f"SELECT * FROM cost WHERE phase = 'mentor' AND step = {step} ORDER BY owner_id").to_pylist()
        assert [c["output_tokens"] for c in costs] == [len(ids) for ids in written]
        assert [c["prompt_tokens"] for c in costs] == [len(ids) for ids in trainer.learner.tokenize(prompts)]
        assert len({c["call_id"] for c in costs}) == 1, "one batch"
        assert {c["payer"] for c in costs} == {"mentor"}
        assert all(c["flops"] > 0 for c in costs)
    assert changed > 0, "the starting weights would have written something else at step 1"

    (row,) = store.arrow(
        "SELECT sum(prompt_tokens + output_tokens)::BIGINT AS tokens FROM cost WHERE phase IN ('rollout', 'mentor', 'follow_up')"
    ).to_pylist()
    assert trainer.recorder.spent.tokens == row["tokens"], "the budget counts the mentor"
