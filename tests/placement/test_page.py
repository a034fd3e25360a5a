"""The page of the policies says the thresholds of the placement that are in the code."""

from pathlib import Path

from osml.placement.settings import DEFAULT

PAGE = Path(__file__).parents[2] / "docs/reference/policies.md"


def test_the_page_has_the_thresholds() -> None:
    text = PAGE.read_text("utf-8")
    for line in (
        f"| missed intervals in a row before a service leaves | {DEFAULT.missed} |",
        f"| held intervals in a row before a domain takes one | {DEFAULT.held} |",
        f"| CPUs that stay idle in the new domain | {DEFAULT.spare_cores:g} |",
        f"| pause after a move | {DEFAULT.pause_s:g} s |",
        f"| time in which that service does not come back | {DEFAULT.return_s:g} s |",
        f"| too large: share of its domain's CPUs in use | {DEFAULT.full:.0%} |".replace("%", " %"),
        f"| no longer too large: share in use | {DEFAULT.fits:.0%} for {DEFAULT.fitting} intervals |".replace(
            "%", " %"
        ),
    ):
        assert line in text
