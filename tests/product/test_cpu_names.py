"""Real names of CPUs, as /proc/cpuinfo has them, beside the names of models."""

from __future__ import annotations

import pytest

from osml.domain.cpu_names import folder_name, short_name
from osml.predictors import find_model, load_manifest, models_folder


@pytest.mark.parametrize(
    ("of_the_kernel", "of_the_model"),
    [
        ("Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz", "e5-2697v4"),
        ("Intel(R) Xeon(R) CPU E5-2630 v4 @ 2.20GHz", "e5-2630v4"),
        ("Intel(R) Xeon(R) Gold 6278C CPU @ 2.60GHz", "gold-6278c"),
        ("Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz", "platinum-8370c"),
        ("Intel(R) Core(TM) i7-4770K CPU @ 3.50GHz", "i7-4770k"),
        ("AMD EPYC 7543 32-Core Processor", "epyc-7543"),
    ],
)
def test_the_name_of_the_kernel_and_that_of_a_model_are_the_same_machine(of_the_kernel: str, of_the_model: str) -> None:
    assert short_name(of_the_kernel) == short_name(of_the_model)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz", "e5-2697v3"),
        ("Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz", "e5-2699v4"),
        ("Intel(R) Xeon(R) Gold 6278C CPU @ 2.60GHz", "gold-6278"),
        ("AMD EPYC 7543 32-Core Processor", "epyc-7543p"),
        ("e5-2630v4@8x10", "e5-2630v4"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "Intel(R) Xeon(R) CPU @ 2.80GHz"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "Intel(R) Xeon(R) Processor"),
        ("Intel(R) Xeon(R) Processor", "AMD Processor"),
        ("Intel(R) Xeon(R) Processor", "any"),
    ],
)
def test_other_machines_have_other_names(one: str, other: str) -> None:
    assert short_name(one) != short_name(other)


@pytest.mark.parametrize(
    "name",
    [
        "Intel(R) Xeon(R) CPU @ 2.20GHz",
        "Intel(R) Xeon(R) Processor",
        "AMD Processor",
        "Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz",
        "AMD EPYC 7543 32-Core Processor",
        "Neoverse-N1",
    ],
)
def test_every_name_tells_something_and_its_folder_is_of_the_same_machine(name: str) -> None:
    assert short_name(name)
    assert short_name(folder_name(name)) == short_name(name)


def test_a_real_cpu_gets_its_own_model() -> None:
    folder = models_folder()
    found = find_model(folder, "a2", "Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz")
    assert found == find_model(folder, "a2", "e5-2697v4")
    assert found != find_model(folder, "a2", "Intel(R) Xeon(R) CPU E5-2680 v2 @ 2.80GHz")  # that of any machine


def test_no_two_models_of_a_kind_are_for_the_same_machine() -> None:
    entries = [(entry.kind, short_name(entry.platform)) for entry in load_manifest(models_folder()).models]
    assert len(set(entries)) == len(entries)
