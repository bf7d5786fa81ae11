"""The latencies' arithmetic, in C and in Python, against sorted lists."""

from __future__ import annotations

import math
import random

import pytest

from bench.load.histogram import Histogram, bucket_top
from bench.load.tool import LoadGenerator

PERCENTS = (0.1, 1, 25, 50, 75, 90, 99, 99.9, 99.99, 100)


def exact(values, percent):
    return sorted(values)[max(1, math.ceil(percent / 100 * len(values))) - 1]


@pytest.fixture
def generator(programs):
    with LoadGenerator(1, None, None) as generator:
        yield generator


@pytest.mark.parametrize(
    "values",
    [
        [0],
        [7] * 1000,
        list(range(300)),
        [2**k + d for k in range(1, 40) for d in (-1, 0, 1)],
        [int(random.Random(5).lognormvariate(12, 3)) for _ in range(1)]
        + [int(random.Random(seed).lognormvariate(12, 3)) for seed in range(400)],
    ],
    ids=["zero", "equal", "small", "powers", "lognormal"],
)
def test_percentiles_are_exact_to_one_part_in_128(generator, values):
    histogram = generator.histogram(values)
    assert histogram.count == len(values)
    assert histogram.max_ns == max(values)
    for percent in PERCENTS:
        truth = exact(values, percent)
        assert truth <= histogram.percentile_ns(percent) <= truth + truth / 128


def test_every_bucket_begins_where_the_one_before_ends(generator):
    for bucket in [*range(0, 600), 2000, 4000]:
        top = bucket_top(bucket)
        counted = generator.histogram([top, top + 1])
        assert sorted(counted.buckets) == [bucket, bucket + 1]


def test_sum_of_histograms_is_the_histogram_of_all(generator):
    first, second = [1, 500, 10**6], [3, 500, 10**9]
    both = Histogram.sum([generator.histogram(first), generator.histogram(second)])
    assert both == generator.histogram(first + second)


def test_counts_that_do_not_add_up_are_refused():
    with pytest.raises(ValueError, match="hold 2 values, the generator counted 3"):
        Histogram.read({"count": 3, "max": 9, "buckets": [[9, 2]]})
