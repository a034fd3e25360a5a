import re
from pathlib import Path

import pytest
from osml_serving.api.dashboard import STATIC

OWN = [path for path in STATIC.rglob("*") if path.is_file() and "vendor" not in path.parts]


@pytest.mark.parametrize("path", ["/", "/fleet", "/docs"])
def test_the_page_runs_nothing_but_its_own_files(server, path):
    answer = server.client.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script>" not in answer.text
    assert not re.search(r"\son\w+=|\sstyle=", answer.text)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', answer.text)
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_files_carry_the_same_policy_and_are_revalidated(server):
    answer = server.client.get("/static/js/main.js")
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    again = server.client.get("/static/js/main.js", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_no_file_reaches_for_another_host_or_builds_html_from_text(path: Path):
    text = path.read_text()
    hosts = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text)) - {"http://www.w3.org"}
    assert not hosts
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)


def test_every_file_that_the_page_and_its_modules_name_exists():
    for page in ("index.html", "fleet.html", "docs.html"):
        for name in re.findall(r'(?:src|href)="static/([^"]+)"', (STATIC / page).read_text()):
            assert (STATIC / name).is_file(), name
    for module in (STATIC / "js").glob("*.js"):
        for name in re.findall(r'from "(\.[^"]+)"', module.read_text()):
            assert (module.parent / name).is_file(), f"{module.name} imports {name}"


def test_no_page_of_the_framework_is_left(server):
    assert server.client.get("/redoc").status_code == 404
    assert server.client.get("/docs/oauth2-redirect").status_code == 404


def test_the_licences_of_others_are_beside_their_files():
    assert "MIT" in (STATIC / "vendor" / "uplot" / "LICENSE").read_text()
    assert "Apache License" in (STATIC / "vendor" / "swagger-ui" / "LICENSE").read_text()
