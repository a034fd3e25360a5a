"""What the parts of a release depend on, as CycloneDX 1.6: the Python packages, and the agent's package."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from scripts.release.step import NotReleasedError, clean_environment, run

DEBIAN_PACKAGES = {
    "CURL": "libcurl4-openssl-dev",
    "ZLIB": "zlib1g-dev",
    "nlohmann_json": "nlohmann-json3-dev",
    "spdlog": "libspdlog-dev",
    "yaml-cpp": "libyaml-cpp-dev",
    "CLI11": "libcli11-dev",
    "Protobuf": "libprotobuf-dev",
    "GTest": "libgtest-dev",
}
"""Which package of Debian has what `find_package` of CMake asks for."""
TESTS_ONLY = {"GTest"}


def write_python(tool: Path, environment: Path, project: Path, file: Path, epoch_s: int) -> None:
    """Write what is installed in a Python environment, with versions, licences and who needs what."""
    command = [tool, "environment", "--pyproject", project, "--output-reproducible", "--output-file", file]
    run([*command, environment / "bin/python"], env=clean_environment() | {"SOURCE_DATE_EPOCH": str(epoch_s)})


def asked_of_cmake(text: str) -> list[str]:
    """What a CMakeLists.txt asks for with `find_package`, without what only tests need."""
    return [name for name in re.findall(r"find_package\((\S+)", text) if name not in TESTS_ONLY]


def agent_parts(cmake: str, depends: list[str], version_of: Callable[[str], str]) -> list[Component]:
    """The parts of the agent's package: libraries that it was compiled with, and packages that it needs to run.

    `cmake` is its CMakeLists.txt, `depends` the entries of its field Depends, and `version_of` the installed version of
    a package of Debian. Raises NotReleasedError for a library of which nobody said which package has it.
    """
    unknown = [name for name in asked_of_cmake(cmake) if name not in DEBIAN_PACKAGES]
    if unknown:
        raise NotReleasedError(f"CMakeLists.txt asks for {unknown}: name its Debian package in scripts/release/sbom.py")
    compiled = {DEBIAN_PACKAGES[name] for name in asked_of_cmake(cmake)}
    needed = {one.split()[0].split(":")[0] for one in depends if one}
    return [_component(name, version_of(name)) for name in sorted(compiled | needed)]


def _component(name: str, version: str) -> Component:
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        scope=ComponentScope.REQUIRED,
        purl=PackageURL("deb", "debian", name, version, {"distro": "debian-12"}),
        bom_ref=f"{name}@{version}",
    )


def write_agent(version: str, parts: list[Component], file: Path) -> None:
    """Write the parts of the agent's package."""
    agent = Component(
        name="osml-agent",
        version=version,
        type=ComponentType.APPLICATION,
        licenses=[DisjunctiveLicense(id="Apache-2.0")],
        bom_ref=f"osml-agent@{version}",
    )
    bom = Bom(components=parts)
    bom.metadata.component = agent
    bom.register_dependency(agent, parts)
    outputter = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6)
    file.write_text(outputter.output_as_string(indent=1) + "\n", "utf-8")
