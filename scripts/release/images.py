"""The two container images: built by their Containerfiles, run, and written as OCI archives."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.release.clean_root import Buildah
from scripts.release.server import check_server, free_port
from scripts.release.step import NotReleasedError, run

AGENT, SERVER = "localhost/osml-agent", "localhost/osml-server"


def build_agent(buildah: Buildah, source: Path, out: Path, version: str) -> str:
    """Build the agent's image, look at the machine with it, and write its archive."""
    image = f"{AGENT}:{version}"
    buildah.build(source, "deploy/Containerfile.agent", image)
    entry = _entry(buildah, image)
    with buildah.root(image) as root:
        probed = json.loads(root.said(*entry, "probe", "--json"))
    buildah.save(image, out / f"osml-agent-{version}.oci.tar")
    return f"`{entry[0]} probe` answers with {len(probed)} keys"


def build_server(buildah: Buildah, source: Path, out: Path, version: str, work: Path, observation: str) -> str:
    """Build the server's image, make a token with it, wait until it is ready as its user, and write its archive."""
    image = f"{SERVER}:{version}"
    buildah.build(source, "deploy/Containerfile.server", image)
    entry, user = _entry(buildah, image), str(buildah.config(image)["User"])
    secrets = work / "secrets"
    secrets.mkdir()
    with buildah.root(image) as root:
        osml = entry[0]
        options = ["--user", "0", "--volume", f"{secrets}:{secrets}"]
        create = [osml, "tokens", "create", "--file", f"{secrets}/osml-tokens", "--node", "node-17"]
        keep = ["sh", "-c", f'"$@" > {secrets}/token', "sh", *create]
        run(buildah.command(root.name, keep, options), env=buildah.environment())
        token = (secrets / "token").read_text("utf-8").strip()
        run(["chown", "-R", user, secrets])
        options = ["--user", user, "--volume", f"{secrets}:/run/secrets:ro"]
        command = buildah.command(root.name, entry, options)
        port = free_port()
        found = check_server(
            command, observation, work / "image-server.log", token=token, env=buildah.environment(), port=port
        )
    buildah.save(image, out / f"osml-server-{version}.oci.tar")
    return f"as user {user}, {found}"


def _entry(buildah: Buildah, image: str) -> list[str]:
    entry = buildah.config(image).get("Entrypoint")
    if not isinstance(entry, list):
        raise NotReleasedError(f"{image} has no entry point: its Containerfile shall name one")
    return [str(part) for part in entry]
