"""Draws latency against load as an SVG: both axes logarithmic, one colour per server."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 480, 70, 190, 40, 50
COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd", "#7f7f7f", "#8c564b")

Points = Sequence[tuple[float, float, float]]
"""Requests per second, median and 99th percentile in milliseconds."""


def svg(lines: Mapping[str, Points], title: str) -> str:
    """The plot as SVG: dashed lines are medians, solid ones 99th percentiles."""
    points = [point for line in lines.values() for point in line if point[0] > 0]
    if not points:
        return ""
    x_low, x_high = _decades([x for x, _, _ in points])
    y_low, y_high = _decades([y for _, *ys in points for y in ys if y > 0])

    def place(x: float, y: float) -> tuple[float, float]:
        right = (math.log10(x) - x_low) / (x_high - x_low)
        up = (math.log10(max(y, 10**y_low)) - y_low) / (y_high - y_low)
        return LEFT + right * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
        f'<text x="{(WIDTH - RIGHT + LEFT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">lookups a second</text>',
        f'<text x="16" y="{HEIGHT / 2}" transform="rotate(-90 16 {HEIGHT / 2})" text-anchor="middle">'
        "latency, ms</text>",
    ]
    for power in range(x_low, x_high + 1):
        parts += _grid(*place(10**power, 10**y_low), *place(10**power, 10**y_high), f"{10**power:,}", vertical=True)
    for power in range(y_low, y_high + 1):
        parts += _grid(*place(10**x_low, 10**power), *place(10**x_high, 10**power), f"{10**power:g}", vertical=False)
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        for column, dashes in ((1, ' stroke-dasharray="4 4"'), (2, "")):
            path = " ".join("{:.1f},{:.1f}".format(*place(point[0], point[column])) for point in line)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        y = TOP + 20 * number + 12
        parts.append(f'<rect x="{WIDTH - RIGHT + 15}" y="{y - 9}" width="12" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 33}" y="{y}">{escape(name)}</text>')
    y = TOP + 20 * len(lines) + 20
    parts.append(f'<text x="{WIDTH - RIGHT + 15}" y="{y}" fill="#555">through: p99; dashed: median</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _grid(x1: float, y1: float, x2: float, y2: float, label: str, *, vertical: bool) -> list[str]:
    at = (
        f'x="{x1:.1f}" y="{y1 + 16:.1f}" text-anchor="middle"'
        if vertical
        else f'x="{x1 - 6:.1f}" y="{y1 + 4:.1f}" text-anchor="end"'
    )
    return [
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>',
        f'<text {at} fill="#555">{label}</text>',
    ]
