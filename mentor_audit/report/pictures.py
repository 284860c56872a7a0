"""Pictures: numbers of the report as SVG text, drawn by altair and vl-convert without a browser or network.

Only numbers and arm names go in; what comes out is rebuilt from a list of allowed elements and attributes, so that no picture can
carry a script, a style sheet or a link.
"""

import re
from typing import Any
from xml.etree import ElementTree

import altair as alt
import vl_convert

from mentor_audit.report import words
from mentor_audit.report.data import arm_order

COLOURS = {
    "vanilla": "#6b6b6b",
    "resample": "#0072b2",
    "resample_flops": "#56a3d9",
    "retry": "#7f7f00",
    "verdict_only": "#b09000",
    "placebo": "#9a6fb0",
    "fixed_demo": "#6a51a3",
    "problem_hint": "#bd9fd1",
    "shuffled_other": "#c77c2e",
    "shuffled_same": "#e3a45f",
    "answer_only": "#d98880",
    "scrubbed": "#3f8f7a",
    "paraphrase": "#6fb79f",
    "wrong": "#c0392b",
    "oracle": "#111111",
    "mentor": "#00875a",
}
OTHER_COLOURS = ("#444444", "#886644", "#446688", "#884466")
WIDTH = 600
SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "g", "path", "rect", "line", "text", "tspan", "circle", "defs", "clipPath", "title"}
ATTRIBUTES = {
    "width",
    "height",
    "viewBox",
    "x",
    "y",
    "x1",
    "x2",
    "y1",
    "y2",
    "dx",
    "dy",
    "cx",
    "cy",
    "r",
    "rx",
    "d",
    "transform",
    "fill",
    "stroke",
    "opacity",
    "fill-opacity",
    "stroke-opacity",
    "stroke-width",
    "stroke-dasharray",
    "stroke-miterlimit",
    "stroke-linecap",
    "stroke-linejoin",
    "text-anchor",
    "font-family",
    "font-size",
    "font-weight",
    "font-style",
}


def learning_curves(transfer: dict[str, Any], means: dict[str, list[tuple[float, float]]]) -> str | None:
    """Held-out accuracy over training compute: a thin line a seed, a thick one an arm's mean, the matched range shaded."""
    runs = [
        {"arm": c["arm"], "run": c["run_id"], "x": x, "y": y}
        for c in transfer["curves"]
        for x, y in zip(c["compute"], c["accuracy"], strict=True)
        if y is not None
    ]
    if not runs:
        return None
    power, unit = _scale(max(row["x"] for row in runs), transfer["unit"])
    lines = [{"arm": arm, "x": x, "y": y} for arm, points in means.items() for x, y in points]
    for row in [*runs, *lines]:
        row["x"] = row["x"] / power
    title = f"training compute of a run, {unit}"
    x = alt.X("x:Q", title=title)
    y = alt.Y("y:Q", title="held-out accuracy, no instruction", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%"))
    colour = _colour([c["arm"] for c in transfer["curves"]])
    layers = []
    if transfer["budget"] is not None and transfer["range"] is not None:
        span = [{"low": transfer["range"]["low"] / power, "high": transfer["range"]["high"] / power, "label": "matched"}]
        data = alt.Data(values=span)
        layers += [
            alt.Chart(data).mark_rect(color="#e9efe9", opacity=1).encode(x=alt.X("low:Q", title=title), x2="high:Q"),
            alt.Chart(data).mark_rule(color="#333333", strokeDash=[4, 3]).encode(x=alt.X("high:Q", title=title)),
            alt.Chart(data)
            .mark_text(align="right", dx=-5, baseline="top", fontSize=12, color="#333333")
            .encode(x=alt.X("high:Q", title=title), y=alt.value(4), text="label:N"),
        ]
    bands = [
        {"arm": arm, "x": point["compute"] / power, "low": max(0.0, point["low"]), "high": min(1.0, point["high"])}
        for arm, points in transfer["bands"].items()
        for point in points
        if point["low"] is not None and point["high"] is not None
    ]
    layers += [
        alt.Chart(alt.Data(values=bands))
        .mark_area(opacity=0.13)
        .encode(x=x, y=alt.Y("low:Q", title="held-out accuracy, no instruction"), y2="high:Q", color=colour),
        alt.Chart(alt.Data(values=runs)).mark_line(strokeWidth=1, opacity=0.35).encode(x=x, y=y, detail="run:N", color=colour),
        alt.Chart(alt.Data(values=lines)).mark_line(strokeWidth=3).encode(x=x, y=y, color=colour),
    ]
    return _svg(alt.layer(*layers).properties(width=WIDTH, height=320), "curves")


def intervals(rows: list[dict[str, Any]], axis: str, name: str, *, is_rate: bool = False) -> str | None:
    """A point and its interval a row, from `label` and `estimate`, in percent or points; rows without a value are left out."""
    marks = [
        {
            "label": row["label"],
            "value": 100 * row["estimate"]["value"],
            "low": _cut(row["estimate"]["low"], is_rate),
            "high": _cut(row["estimate"]["high"], is_rate),
            "colour": row.get("colour", "#1f4e79"),
        }
        for row in rows
        if row["estimate"] is not None and row["estimate"]["value"] is not None
    ]
    if not marks:
        return None
    order = [mark["label"] for mark in marks]
    y = alt.Y(
        "label:N",
        sort=order,
        title=None,
        axis=alt.Axis(labelLimit=260, labelFontSize=13, labelPadding=10, ticks=False, domain=False),
    )
    colour = alt.Color("colour:N", scale=None)
    base = alt.Chart(alt.Data(values=marks))
    with_interval = alt.Chart(alt.Data(values=[mark for mark in marks if mark["low"] is not None]))
    layers = [
        with_interval.mark_rule(strokeWidth=2.5).encode(x=alt.X("low:Q", title=axis), x2="high:Q", y=y, color=colour),
        base.mark_circle(size=90, opacity=1).encode(x=alt.X("value:Q", title=axis), y=y, color=colour),
    ]
    if not is_rate:
        zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color="#555555").encode(x=alt.X("zero:Q", title=axis))
        layers.insert(0, zero)
    return _svg(alt.layer(*layers).properties(width=WIDTH - 160, height=32 * len(marks) + 16), name)


UP, DOWN, WHOLE = "#0072b2", "#e69f00", "#3a3a3a"
"""Bars of a waterfall: apart in hue and in lightness, for the colour-blind and for print."""


def waterfall(steps: list[dict[str, Any]], axis: str, name: str) -> str | None:
    """Bars that add up from the first step's lower arm to the last one's upper arm, and their sum; whiskers are simultaneous intervals.

    None without steps, or where one of them is not known.
    """
    if not steps or any(step["estimate"]["value"] is None for step in steps):
        return None
    bars: list[dict[str, Any]] = []
    height = 0.0
    for step in steps:
        points = 100 * step["estimate"]["value"]
        ends = step["simultaneous"]
        bars.append(
            {
                "label": f"{step['name']}: {step['plus']} − {step['minus']}",
                "low": height,
                "high": height + points,
                "left": None if ends is None else height + 100 * ends[0],
                "right": None if ends is None else height + 100 * ends[1],
                "text": words.points(step["estimate"]["value"]),
                "colour": UP if points >= 0 else DOWN,
            }
        )
        height += points
    total = {"label": f"all: {steps[-1]['plus']} − {steps[0]['minus']}", "low": 0.0, "high": height, "left": None, "right": None}
    bars.append({**total, "text": words.points(height / 100), "colour": WHOLE})
    for bar in bars:
        bar["place"] = max(value for value in (bar["low"], bar["high"], bar["right"], 0.0) if value is not None)
    order = [bar["label"] for bar in bars]
    y = alt.Y(
        "label:N",
        sort=order,
        title=None,
        axis=alt.Axis(labelLimit=300, labelFontSize=13, labelPadding=10, ticks=False, domain=False),
    )
    x = alt.X("low:Q", title=axis)
    base = alt.Chart(alt.Data(values=bars))
    whiskers = alt.Chart(alt.Data(values=[bar for bar in bars if bar["left"] is not None]))
    layers = [
        alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color="#555555").encode(x=alt.X("zero:Q", title=axis)),
        base.mark_bar(size=16).encode(x=x, x2="high:Q", y=y, color=alt.Color("colour:N", scale=None)),
        whiskers.mark_rule(strokeWidth=1.5, color="#111111").encode(x=alt.X("left:Q", title=axis), x2="right:Q", y=y),
        base.mark_text(align="left", dx=6, fontSize=12, color="#222222").encode(
            x=alt.X("place:Q", title=axis), y=y, text="text:N"
        ),
    ]
    return _svg(alt.layer(*layers).properties(width=WIDTH - 180, height=32 * len(bars) + 16), name)


def contrast_rows(contrasts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows for `intervals`, from contrasts with a name."""
    return [{"label": f"{c['name']}: {c['plus']} − {c['minus']}", "estimate": c["estimate"]} for c in contrasts]


def zero_reward(arms: list[dict[str, Any]]) -> str | None:
    """Share of groups without a correct attempt over steps, a panel an arm: solid before insertion, dashed after."""
    rows = [
        {"arm": arm["arm"], "step": point["step"], "fraction": point[when], "when": f"{when} insertion"}
        for arm in arms
        for point in arm["series"]
        for when in ("before", "after")
        if point[when] is not None
    ]
    if not rows:
        return None
    names = [arm["arm"] for arm in arms]
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("step:Q", title="training step", axis=alt.Axis(tickCount=4)),
            y=alt.Y("fraction:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%", tickCount=3)),
            color=_colour(names, legend=False),
            strokeDash=alt.StrokeDash(
                "when:N",
                scale=alt.Scale(domain=["before insertion", "after insertion"], range=[[1, 0], [4, 3]]),
                legend=alt.Legend(title=None, symbolStrokeColor="#333333", orient="top", symbolStrokeWidth=2, columnPadding=40),
            ),
        )
        .properties(width=130, height=90)
    )
    panels = lines.facet(
        facet=alt.Facet("arm:N", title=None, sort=names, header=alt.Header(labelFontSize=13, labelFontWeight="bold")),
        columns=4,
    )
    return _svg(panels, "zero")


def colour_of(arm: str) -> str:
    return COLOURS.get(arm, OTHER_COLOURS[sum(arm.encode()) % len(OTHER_COLOURS)])


def _colour(arms: list[str], *, legend: bool = True) -> alt.Color:
    names = sorted(set(arms), key=arm_order)
    scale = alt.Scale(domain=names, range=[colour_of(arm) for arm in names])
    return alt.Color(
        "arm:N",
        scale=scale,
        legend=None if not legend else alt.Legend(title=None, symbolStrokeWidth=3, symbolOpacity=1, symbolType="stroke"),
    )


def _scale(largest: float, unit: str) -> tuple[float, str]:
    """A power of 1000 and the unit in words, so that axis labels stay short."""
    names = ["", "thousand ", "million ", "billion ", "10¹² ", "10¹⁵ ", "10¹⁸ ", "10²¹ ", "10²⁴ "]
    step = 0
    while step < len(names) - 1 and largest >= 1000 ** (step + 1):
        step += 1
    return 1000.0**step, names[step] + unit.replace("flops", "FLOPs")


def _cut(value: float | None, is_rate: bool) -> float | None:
    if value is None:
        return None
    return 100 * min(max(value, 0.0), 1.0) if is_rate else 100 * value


def _svg(chart: alt.LayerChart | alt.FacetChart, name: str) -> str:
    styled = (
        chart.configure(
            font="Helvetica, Arial, sans-serif",
            background="white",
            aria=False,
            padding={"left": 24, "right": 36, "top": 8, "bottom": 8},
        )
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", gridColor="#e4e4e4", domainColor="#888888")
        .configure_legend(labelFontSize=13, orient="right")
    )
    return clean(vl_convert.vegalite_to_svg(styled.to_json()), name)


def clean(svg: str, name: str) -> str:
    """Only allowed elements and attributes; ids get `name` before them, since several pictures share a page."""
    root = ElementTree.fromstring(svg)
    width = root.get("width") or "0"
    kept = _kept(root, name)
    kept.set("style", f"max-width:{width}px")
    del kept.attrib["width"], kept.attrib["height"]
    kept.set("xmlns", "http://www.w3.org/2000/svg")
    return ElementTree.tostring(kept, encoding="unicode")


def _kept(element: ElementTree.Element, name: str) -> ElementTree.Element:
    made = ElementTree.Element(element.tag.removeprefix(SVG))
    made.text, made.tail = element.text, element.tail
    for key, value in element.attrib.items():
        if key == "id":
            made.set(key, f"{name}-{value}")
        elif key == "clip-path":
            inside = re.fullmatch(r"url\(#([\w-]+)\)", value)
            if inside:
                made.set(key, f"url(#{name}-{inside.group(1)})")
        elif key in ATTRIBUTES and "url(" not in value:
            made.set(key, value)
    made.extend(_kept(child, name) for child in element if child.tag.removeprefix(SVG) in ELEMENTS)
    return made
