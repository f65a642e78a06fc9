"""What `deploy/` installs cannot change under its name: images have full versions, packages have hashes."""

import re

import yaml

from eval.cli.paths import PROJECT_ROOT

DEPLOY = PROJECT_ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")
LOCK = (DEPLOY / "requirements.lock").read_text("utf-8")
# A patch release or a release of a day, and for official images the digest, which Docker publishes in repo-info.
IMAGE = re.compile(r"(?:postgres|python):\d+\.\d+(?:\.\d+)?-[a-z-]+@sha256:[0-9a-f]{64}|minio/\w+:RELEASE\.[\dTZ-]+")
PINNED = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)


def test_every_image_has_its_full_version() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"].values()
    images = [service["image"] for service in services if "image" in service]
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(images) == 4
    assert [image for image in images if not IMAGE.fullmatch(image)] == []


def test_every_package_of_the_image_is_installed_by_its_hash() -> None:
    [installed] = re.findall(r"pip install (.*?)\s*(?:\\|&&|$)", DOCKERFILE, re.MULTILINE)
    assert "--require-hashes" in installed.split() and installed.endswith("-r /tmp/requirements.lock")
    assert "--index-url" not in LOCK and "://" not in LOCK
    blocks = re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.MULTILINE)[1:]
    assert len(blocks) > 50
    assert [block.split("==")[0] for block in blocks if "--hash=sha256:" not in block] == []


def test_its_packages_are_those_of_the_project() -> None:
    ours, its = (dict(PINNED.findall(text)) for text in ((PROJECT_ROOT / "requirements.lock").read_text("utf-8"), LOCK))
    assert {name: version for name, version in its.items() if ours.get(name, version) != version} == {}
    wanted = re.findall(r"^[a-z][\w-]*", (DEPLOY / "requirements.in").read_text("utf-8"), re.MULTILINE)
    assert {"mlflow", "psycopg2-binary", "boto3"} == set(wanted) <= set(its)


def test_the_browsers_server_is_installed_by_its_hash() -> None:
    lock = (DEPLOY / "browser" / "package-lock.json").read_text("utf-8")
    assert lock.count('"integrity": "sha512-') == lock.count('"node_modules/') == 3
    assert '"ci"' in (DEPLOY / "browser" / "start.py").read_text("utf-8"), "npm ci installs what the lock file says"
