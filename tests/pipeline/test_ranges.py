import bisect
import random

import pytest

from mqregistry.pipeline.redis_stream.ranges import OLDEST, Density, EntryId, Position, find_seq, parse_id

SHAPES = {
    "even": lambda i, rng: EntryId(1_700_000_000_000 + 10 * i, 0),
    "one millisecond": lambda i, rng: EntryId(1_700_000_000_000, i),
    "a long pause": lambda i, rng: EntryId(1_700_000_000_000 + i + (0 if i < 9_000 else 10**9), 0),
    "all at the end": lambda i, rng: EntryId(1_700_000_000_000 + (0 if i == 0 else 10**10), i),
    "bursts": lambda i, rng: EntryId(1_700_000_000_000 + (i // 500) * 60_000, i % 500),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("wanted", [1, 2, 499, 5_000, 9_998])
def test_find_seq_comes_close_from_below_with_few_probes(shape, wanted):
    ids = [SHAPES[shape](i, random.Random(1)) for i in range(10_000)]
    probes = []
    low = Position(EntryId(ids[0].ms - 1, 0), 0)

    def at_or_before(entry_id):
        probes.append(entry_id)
        at = bisect.bisect_right(ids, entry_id)
        return Position(ids[at - 1], at) if at else low

    found = find_seq(at_or_before, low, Position(ids[-1], 10_000), wanted, slack=100)
    assert 0 < found.seq <= wanted
    assert wanted - found.seq <= 100
    assert found.id == ids[found.seq - 1]
    assert len(probes) <= 128


def test_find_seq_where_the_next_entry_is_beyond_goes_on_all_the_same():
    ids = {7: EntryId(5, 0), 9: EntryId(6, 0)}

    def at_or_before(entry_id):
        return max((Position(i, seq) for seq, i in ids.items() if i <= entry_id), default=Position(OLDEST, 0))

    assert find_seq(at_or_before, Position(OLDEST, 0), Position(ids[9], 9), 3, slack=1) == Position(ids[7], 7)


@pytest.mark.parametrize("shape", ["even", "a long pause"])
def test_density_cuts_into_about_equal_ranges(shape):
    moments = [SHAPES[shape](i, random.Random(1)).ms for i in range(10_000)]

    def sample(begin, end):
        return moments[bisect.bisect_left(moments, begin) : bisect.bisect_right(moments, end)][:64]

    density = Density(sample, moments[0], moments[-1], size=64, most=10_000)
    assert density.total == pytest.approx(10_000, rel=0.3)
    cuts = [bisect.bisect_right(moments, density.moment(density.total * k / 4)) for k in (1, 2, 3, 4)]
    assert cuts[-1] == 10_000
    for k, cut in enumerate(cuts[:-1], 1):
        assert cut == pytest.approx(2_500 * k, abs=1_500)


def test_parse_id_of_something_else_says_what_is_expected():
    assert parse_id("17-3") == EntryId(17, 3)
    assert parse_id("17") == EntryId(17, 0)
    for text in ("", "-", "a-1", "1-", "$"):
        with pytest.raises(ValueError, match="is no id of a stream entry"):
            parse_id(text)
