"""How often does a 95 % interval from crossed seeds and problems hold the truth, by the degrees of freedom that it is made with?

Normal data from a two-way layout: `seeds` and `problems` columns are variances of their means over that of the interaction's, so that
every balance of the two is there. The first column is the package's; the others are Satterthwaite's with two usual numerators.
`python benchmarks/crossed.py [draws]` prints a line a layout and the range of each column.
"""

import sys
from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy import stats

from mentor_audit.report.variance import crossed_variance

WAYS = ("mentor_audit", "Satterthwaite, variance^2", "Satterthwaite, (seeds + problems)^2")
SEEDS, PROBLEMS = (3, 4, 5, 8), (20, 200)
BY_SEEDS, BY_PROBLEMS = (0.0, 0.3, 1.0, 3.0, 10.0, 50.0), (0.0, 1.0, 3.0)


def covered(layout: tuple[int, int, float, float], draws: int, rng: np.random.Generator) -> np.ndarray:
    """(3,) share of the draws whose interval holds the truth, one for each of WAYS."""
    seeds, problems, seed, problem = layout
    freedoms = np.array([seeds - 1, problems - 1, (seeds - 1) * (problems - 1)])
    squares_N_3 = np.array([seed + 1, problem + 1, 1.0]) * rng.chisquare(freedoms, (draws, 3)) / freedoms
    error_N = rng.normal(0.0, np.sqrt(seed + problem + 1), draws)
    variance_N, ours_N = np.array([crossed_variance(*squares, seeds, problems) for squares in squares_N_3]).T
    parts_N = squares_N_3[:, 0] ** 2 / (seeds - 1) + squares_N_3[:, 1] ** 2 / (problems - 1)
    ways = (ours_N, np.maximum(variance_N**2 / parts_N, 1.0), (squares_N_3[:, 0] + squares_N_3[:, 1]) ** 2 / parts_N)
    return np.array([(np.abs(error_N) <= stats.t.ppf(0.975, freedom) * np.sqrt(variance_N)).mean() for freedom in ways])


def lines(draws: int) -> Iterator[str]:
    rng, found = np.random.default_rng(0), []
    yield "| seeds | problems | variance of seeds | of problems | " + " | ".join(WAYS) + " |"
    yield "|---" * (4 + len(WAYS)) + "|"
    for layout in product(SEEDS, PROBLEMS, BY_SEEDS, BY_PROBLEMS):
        found.append(covered(layout, draws, rng))
        yield (
            "| " + " | ".join(f"{value:g}" for value in layout) + " | " + " | ".join(f"{100 * c:.1f} %" for c in found[-1]) + " |"
        )
    ends = [f"{100 * column.min():.1f}-{100 * column.max():.1f} %" for column in np.array(found).T]
    yield "| all | | | | " + " | ".join(ends) + " |"


if __name__ == "__main__":
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else 5000):
        print(line)
