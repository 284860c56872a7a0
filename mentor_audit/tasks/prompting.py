"""Prompts of text tasks: what a learner is shown after a failure, with everything that a model wrote fenced off."""

import hashlib
import random
from typing import Any

from mentor_audit.protocols import Prompt

VERDICT_ONLY = "Your previous answer to this problem was wrong."
PLACEBO_SENTENCES = (
    "Take your time and work carefully.",
    "Read the problem again before you answer.",
    "Go through it one step after the other.",
    "Keep your work tidy and easy to follow.",
    "Make sure that you answer what is asked.",
    "Look over your work once more at the end.",
)


def fence_marker(text: str) -> str:
    """A line that does not occur in the text: its hash is in it, so a model can't close the fence from within."""
    return f"~~~~ {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"


def instructed_prompt(prompt: Prompt, instruction: str, shown_attempt: str | None) -> Prompt:
    """The problem's prompt with the failed attempt (when it is shown) and the instruction behind it, each in a fence.

    Of chat messages the last one gets the addition; nothing is formatted, so braces and LaTeX pass unharmed.
    """
    parts = []
    if shown_attempt is not None:
        parts.append(_fenced("This is your previous attempt. It was wrong.", shown_attempt))
    if instruction:
        parts.append(_fenced("Advice for your next attempt:", instruction))
    addition = "".join(f"\n\n{part}" for part in parts)
    if isinstance(prompt, str):
        return prompt + addition
    *before, last = prompt
    return [*before, {**last, "content": f"{last['content']}{addition}"}]


def placebo(length_of: str, rng: random.Random) -> str:
    """Generic sentences, cut to as many words as `length_of` has; 20 words for an empty one."""
    wanted = len(length_of.split()) or 20
    words: list[str] = []
    while len(words) < wanted:
        for sentence in rng.sample(PLACEBO_SENTENCES, len(PLACEBO_SENTENCES)):
            words += sentence.split()
    return " ".join(words[:wanted]).rstrip(".,") + "."


def answer_only(gold: str) -> str:
    """What an instruction says that is nothing but the reference answer."""
    return f"The answer is {gold}."


def chat(system: str | None, text: str) -> list[dict[str, Any]]:
    return [*([{"role": "system", "content": system}] if system else []), {"role": "user", "content": text}]


def make_prompt(text: str, template: str, system_prompt: str | None, as_chat: bool) -> Prompt:
    """Replaced, not formatted: braces in the text stay what they are."""
    full = template.replace("{problem}", text)
    if as_chat:
        return chat(system_prompt, full)
    return f"{system_prompt}\n\n{full}" if system_prompt else full


def _fenced(title: str, text: str) -> str:
    marker = fence_marker(text)
    return f"{title}\n{marker}\n{text}\n{marker}"
