"""Passwords in addresses: none is left, and what has none stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.base.masking import is_masked, masked

ADDRESSES = {
    "postgresql://osml:s3cret@db.example/osml": "postgresql://osml:***@db.example/osml",
    "postgresql+psycopg://osml:s3cret@db:5432/osml": "postgresql+psycopg://osml:***@db:5432/osml",
    "postgresql://osml:s3@cret/x@db/osml": "postgresql://osml:***@db/osml",
    "postgresql://u:pa'ss@h/d": "postgresql://u:***@h/d",
    'postgresql://h/d?password=pa"ss&user=x': "postgresql://h/d?password=***&user=x",
    "postgresql://:s3cret@db/osml": "postgresql://:***@db/osml",
    "postgresql://osml@/db?host=/tmp&password=s3cret&user=x": "postgresql://osml@/db?host=/tmp&password=***&user=x",
    "postgresql://db/osml?sslpassword=s3cret": "postgresql://db/osml?sslpassword=***",
    "https://s3cret@mlflow.example": "https://***@mlflow.example",
    "https://host/path?access_token=s3cret#part": "https://host/path?access_token=***#part",
    "osml train c --store postgresql://u:s3cret@h/d --track http://me:s3cret@h:5000 --seed 3":
        "osml train c --store postgresql://u:***@h/d --track http://me:***@h:5000 --seed 3",
    "MLflow at 'http://me:s3cret@h': gone": "MLflow at 'http://me:***@h': gone",
}  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_password_is_left_and_the_rest_is(address):
    assert masked(address) == ADDRESSES[address]
    assert masked(masked(address)) == masked(address)
    assert is_masked(masked(address))


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:////var/lib/osml/x.db",
        "http://127.0.0.1:8080/v1",
        "postgresql://osml@db/osml",
        "a: b, c@d",
        "",
        "http://[::1]:80",
    ],
)
def test_what_holds_no_password_stays_as_it_is(address):
    assert masked(address) == address
    assert not is_masked(address)


@given(st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="#&;\x85"), min_size=8))
def test_whatever_the_password_is_it_does_not_come_through(password):
    shown = masked(f"started with postgresql://osml:{password}@db.example/osml and so on")
    assert shown == "started with postgresql://osml:***@db.example/osml and so on"
