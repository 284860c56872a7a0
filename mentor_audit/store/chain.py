"""One attempt's chain for people: sections of plain text, and the same side by side in a terminal.

What a model wrote is hostile to a terminal: control codes and bidirectional overrides are made visible, and nothing is markup.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c]")


@dataclass(frozen=True)
class Section:
    title: str
    text: str


def plain(text: str) -> str:
    """Control codes (C0 but tab and newline, C1) and direction marks as visible escapes."""
    return CONTROL.sub(lambda found: f"\\x{ord(found.group(0)):02x}", text)


def chain_sections(frame: "pl.DataFrame") -> list[Section]:
    """Of the rows of one attempt in the view `chain`: problem, attempt, diagnosis, instruction, each response, cost."""
    first = frame.row(0, named=True)
    sections = [
        Section("problem", f"{first['problem']}\nanswer: {_value(first['gold'])}"),
        Section(f"failed attempt {first['attempt_id']}", f"{first['completion']}\n{_verdict(first, '')}"),
        Section("what was decided", f"{first['trigger_reason']}\narm {first['arm']}, seed {first['seed']}, step {first['step']}"),
        Section(f"diagnosis {_value(first['diagnosis_id'])}", _diagnosis(first)),
        Section(f"instruction {_value(first['instruction_id'])}", _instruction(first)),
    ]
    for row in frame.iter_rows(named=True):
        if row["response_id"] is not None:
            title = f"{row['response_role'].replace('_', ' ')} {row['response_id']}"
            sections.append(Section(title, f"{row['response_completion']}\n{_verdict(row, 'response_')}"))
    sections.append(Section("cost", _cost(first)))
    return [Section(plain(s.title), plain(s.text)) for s in sections]


def render_chain(frame: "pl.DataFrame") -> "RenderableType":
    """For a rich console: panels of text, never markup, as many side by side as fit."""
    from rich.columns import Columns
    from rich.panel import Panel
    from rich.text import Text

    return Columns([Panel(Text(s.text), title=Text(s.title), width=58) for s in chain_sections(frame)])


def _diagnosis(row: dict[str, Any]) -> str:
    if row["diagnosis_id"] is None:
        return "none: the arm calls no mentor, or did not act"
    lines = [
        f"by {row['mentor']} ({_value(row['mentor_model'])}), reply {row['diagnosis_parse_status']}",
        f"location: {_value(row['diagnosis_location'])}",
        f"error type: {_value(row['diagnosis_error_type'])}",
        f"claim: {_value(row['diagnosis_claim'])}",
        f"audits: {_value(row['audits'])}",
    ]
    if row["diagnosis_parse_status"] != "ok":
        lines += [f"error: {_value(row['diagnosis_error'])}", f"raw reply: {_value(row['diagnosis_raw_reply'])}"]
    return "\n".join(lines)


def _instruction(row: dict[str, Any]) -> str:
    if row["instruction_id"] is None:
        return "none was shown"
    return "\n".join(
        [
            row["instruction_text"] or "(empty: only its failed attempt is shown)",
            f"source: {row['instruction_source']}, from diagnosis {_value(row['instruction_diagnosis_id'])}",
            f"names the true first error: {_value(row['instruction_is_fitting'])}",
        ]
    )


def _verdict(row: dict[str, Any], prefix: str) -> str:
    answer, status = row[f"{prefix}extracted_answer"], row[f"{prefix}status"]
    advantage = row[f"{prefix}advantage"]
    given = "not known" if advantage is None else f"{advantage:+.3f}"
    trained = f"trained on, advantage {given}" if row[f"{prefix}trained"] else "not trained on"
    why = f": {row[f'{prefix}status_detail']}" if row[f"{prefix}status_detail"] else ""
    return f"answer: {_value(answer)}\n{status}{why}\n{trained}"


def _cost(row: dict[str, Any]) -> str:
    parts = (("the group's attempts", "rollout"), ("the mentor's call", "mentor"), ("the responses", "response"))
    return "\n".join(
        f"{name}: {_value(row[f'{part}_tokens'])} tokens, {_value(row[f'{part}_flops'])} FLOPs" for name, part in parts
    )


def _value(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
