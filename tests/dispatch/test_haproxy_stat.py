"""Reading HAProxy's answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.base.failure import Failure
from osml.dispatch.haproxy.show_stat import StatFormatError, backend_names, parse_info, parse_stat

HEAD = "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,status,weight,\n"
TEXT = (
    HEAD + "farm,web1,0,0,2,2,5,17,0,no check,1,\n"
    "farm,web2,3,4,1,2,,9,0,DRAIN,1,\n"
    "farm,BACKEND,10,12,12,13,999,40,0,UP,1,\n\n"
)


def test_rows_are_found_by_the_names_of_columns() -> None:
    found = parse_stat(TEXT, "farm")
    assert (found.queued, found.arrivals) == (13, 40), "both the backend's queue and the servers' own"
    web1, web2 = found.servers["web1"], found.servers["web2"]
    assert (web1.in_service, web1.limit, web1.total, web1.draining) == (2, 5, 17, False)
    assert (web2.limit, web2.draining) == (None, True)


@pytest.mark.parametrize(
    ("status", "draining", "out"),
    [("UP", False, False), ("UP 1/3", False, False), ("no check", False, False), ("DRAIN", True, False)]
    + [
        (status, False, True)
        for status in ("DOWN", "DOWN 1/2", "MAINT", "MAINT (via a/b)", "MAINT(resolution)", "NOLB")
    ],
)
def test_status_words(status: str, draining: bool, out: bool) -> None:
    row = parse_stat(TEXT.replace("DRAIN", status), "farm").servers["web2"]
    assert (row.draining, row.out) == (draining, out)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Unknown command.\n", "begins with 'Unknown command.*expected '# pxname"),
        (TEXT.replace("scur,", "cur,"), "no column scur"),
        (TEXT.replace("farm,", "other,"), "no line for backend 'farm'"),
        (TEXT.replace("farm,web1,0,0,2,", "farm,web1,0,0,x,"), "scur is 'x'"),
        (HEAD + "farm,web1,0\n", "has 3 fields"),
    ],
)
def test_what_is_no_statistics_is_said(text: str, words: str) -> None:
    with pytest.raises(StatFormatError, match=words):
        parse_stat(text, "farm")


@given(st.text(max_size=300) | st.text(alphabet=",\n #farmBACKEND0123", max_size=300).map(lambda text: HEAD + text))
def test_no_text_ends_in_anything_but_rows_or_a_sentence(text: str) -> None:
    try:
        parse_stat(text, "farm")
    except Failure as failure:
        assert str(failure)


def test_names_of_all_backends_and_info() -> None:
    assert backend_names(TEXT + "api,BACKEND,0\n") == ["farm", "farm", "farm", "api"]
    assert parse_info("Name: HAProxy\nPid: 10290\nUptime: 0d 0h01m01s\n\n")["Pid"] == "10290"
