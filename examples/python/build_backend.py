"""build_backend.py: what pip asks for when it installs the package (PEP 517).

A wheel is a zip file with a list of its files. So no other package is needed to build one.
"""

import base64
import hashlib
import io
import pathlib
import tarfile
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = f"{PROJECT['name']}-{PROJECT['version']}"
INFO = f"{NAME}.dist-info"

WHEEL = b"""Wheel-Version: 1.0
Generator: tidemq build_backend
Root-Is-Purelib: true
Tag: py3-none-any
"""


def _metadata() -> bytes:
    return f"""Metadata-Version: 2.1
Name: {PROJECT["name"]}
Version: {PROJECT["version"]}
Summary: {PROJECT["description"]}
License: {PROJECT["license"]["text"]}
Requires-Python: {PROJECT["requires-python"]}
Description-Content-Type: text/markdown

{(ROOT / PROJECT["readme"]).read_text()}""".encode()


def _package() -> dict[str, bytes]:
    paths = sorted(path for path in (ROOT / "tidemq").iterdir() if path.is_file())
    return {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in paths}


def _record(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def build_wheel(wheel_directory: str, config_settings: object = None,
                metadata_directory: str | None = None) -> str:
    files = _package() | {f"{INFO}/METADATA": _metadata(), f"{INFO}/WHEEL": WHEEL}
    record = "".join(_record(*item) for item in files.items()) + f"{INFO}/RECORD,,\n"
    file = f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, file), "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in (files | {f"{INFO}/RECORD": record.encode()}).items():
            wheel.writestr(name, data)
    return file


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    own = ("pyproject.toml", "README.md", "build_backend.py")
    files = _package() | {name: (ROOT / name).read_bytes() for name in own}
    with tarfile.open(pathlib.Path(sdist_directory, f"{NAME}.tar.gz"), "w:gz") as sdist:
        for name, data in (files | {"PKG-INFO": _metadata()}).items():
            member = tarfile.TarInfo(f"{NAME}/{name}")
            member.size = len(data)
            sdist.addfile(member, io.BytesIO(data))
    return f"{NAME}.tar.gz"
