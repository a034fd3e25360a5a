"""What a service can reach in a partition, asked for one or for all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from osml.domain import Partition, Region

NAMES = ("web", "db", "cache")
regions = st.builds(
    Region,
    owners=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
    cores=st.integers(0, 64),
    ways=st.integers(0, 20),
)


@given(st.lists(regions, max_size=6))
def test_all_at_once_is_each_by_itself(found: list[Region]) -> None:
    partition = Partition(found)
    reach = partition.reach()
    for name in NAMES:
        assert reach.get(name, (0, 0)) == (partition.cores_of(name), partition.ways_of(name))
    assert set(reach) == {owner for region in found for owner in region.owners}
