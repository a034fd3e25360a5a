"""A fresh sweep is never that of another node."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("osml_training")

from osml_training.collect.fresh_sweep import digest_of, kept_in, node_digest


def test_a_node_with_other_constants_has_a_folder_of_its_own(tmp_path: Path) -> None:
    catalog = tmp_path / "catalog" / "services.yaml"
    catalog.parent.mkdir()
    catalog.write_text("moses: 1\n")
    before = digest_of(tmp_path)
    assert digest_of(tmp_path) == before
    catalog.write_text("moses: 2\n")
    changed = digest_of(tmp_path)
    catalog.rename(catalog.with_name("other.yaml"))
    assert len({before, changed, digest_of(tmp_path)}) == 3


def test_compiled_files_are_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("x = 1\n")
    before = digest_of(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "queue.cpython-311.pyc").write_bytes(b"1")
    assert digest_of(tmp_path) == before


def test_the_folder_has_the_node_in_its_name() -> None:
    assert kept_in("surfaces").name == f"surfaces-{node_digest()}"
