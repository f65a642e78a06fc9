"""`make browser`: Playwright MCP on Debian's Chromium, with no way out but to the public web.

    .venv/bin/python deploy/browser/start.py --port 3000      # then tools.browser.url=http://127.0.0.1:3000/mcp

The server's own package comes from the npm registry at the first start, by the hashes in package-lock.json. It runs in
an empty folder, without this process's environment, and its Chromium behind `mas.tools.browser.proxy`.
"""

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mas.runtime.security.child_environment import NETWORK, build_child_environment
from mas.tools.browser.proxy import get_port, start_proxy

HERE = Path(__file__).resolve().parent
SERVER = HERE / "node_modules" / "@playwright" / "mcp" / "cli.js"
INSTALLED = HERE / "node_modules" / ".package-lock.json"  # npm writes it last
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
MIN_NODE = 20
NAVIGATION_MS = 30_000  # less than `session.ACTION_SECONDS`: a slow page is the server's to report
ACTION_MS = 10_000
SETTINGS = "settings.json"
_FLAGS = (
    "--disable-quic",  # goes around a proxy, as does the next
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-background-networking",  # Chromium looks for its maker's servers at every start
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


class MissingError(Exception):
    """What this needs is not to be had: a sentence that says how to get it."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Start the browser server.")
    parser.add_argument("--port", type=int, default=3000, help="default: 3000")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; default: 127.0.0.1")
    parser.add_argument("--allowed-hosts", default="", help="more names to be asked under, host:port, comma-separated")
    parser.add_argument("--allow-private-hosts", default="", help="host or host:port, comma-separated; for tests alone")
    options = parser.parse_args()
    try:
        node, chromium = _node(), _chromium()
        _check_free(options.host, options.port)
        _install()
        with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as folder:
            return asyncio.run(_serve(options, (node, chromium), Path(folder)))
    except MissingError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 0


def _node() -> str:
    """The system's, or else the one in the Python package `playwright`, which those who develop this have."""
    found = [node for node in (shutil.which("node"), bundled_node()) if node]
    if not found:
        raise MissingError("node is missing; on Debian and Ubuntu: apt-get install nodejs npm")
    versions = {node: _ask_version(node) for node in found}
    for node, version in versions.items():
        if int(version.removeprefix("v").partition(".")[0]) >= MIN_NODE:
            return node
    raise MissingError(
        f"node {versions[found[0]]} is too old: Playwright needs {MIN_NODE} or newer, as Debian has it from version 13 "
        f"on; {sys.executable} -m pip install playwright brings one, too"
    )


def _ask_version(node: str) -> str:
    return subprocess.check_output([node, "--version"], env=build_child_environment(), text=True).strip()


def bundled_node() -> str | None:
    spec = importlib.util.find_spec("playwright")
    node = Path(spec.origin).parent / "driver" / "node" if spec is not None and spec.origin else None
    return str(node) if node is not None and node.exists() else None


def _chromium() -> str:
    for name in CHROMIUM:
        if found := shutil.which(name):
            return found
    raise MissingError("Chromium is missing; on Debian and Ubuntu: apt-get install chromium")


def _check_free(host: str, port: int) -> None:
    try:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
    except OSError as error:
        raise MissingError(
            f"cannot listen at {host}:{port} ({error.strerror}); stop what does, or choose another port: "
            "make browser PORT=3001"
        ) from error


def _install() -> None:
    """Once for each version that is pinned; two that start at the same time do not disturb each other."""
    import filelock

    with filelock.FileLock(HERE / ".installing"):
        lock = HERE / "package-lock.json"
        if INSTALLED.exists() and SERVER.exists() and INSTALLED.stat().st_mtime >= lock.stat().st_mtime:
            return
        sys.stderr.write("Installing the browser server into deploy/browser/node_modules …\n")
        npm = shutil.which("npm")
        if npm is None:
            raise MissingError("npm is missing; on Debian and Ubuntu: apt-get install npm")
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        environment = build_child_environment(*NETWORK, "npm_config_*", "NPM_CONFIG_*")
        done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            reason = next((line for line in done.stderr.splitlines() if "npm error" in line), "npm ci failed")
            raise MissingError(
                f"the browser server cannot be installed ({reason.strip()}); is the npm registry reachable?"
            )


async def _serve(options: argparse.Namespace, programs: tuple[str, str], folder: Path) -> int:
    stopping = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stopping.set)
    proxy = await start_proxy(_listed(options.allow_private_hosts))
    server = await asyncio.create_subprocess_exec(
        *_command(options, programs, folder, get_port(proxy)),
        cwd=folder,
        env=build_child_environment("XDG_RUNTIME_DIR", "FONTCONFIG_PATH"),
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    ended, stopped = asyncio.create_task(server.wait()), asyncio.create_task(stopping.wait())
    ready = asyncio.create_task(_say_when_ready(options.host, options.port))
    await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    proxy.close()
    return await _stopped(server, stopped.done())


async def _say_when_ready(host: str, port: int) -> None:
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1" if host == "0.0.0.0" else host, port)
            writer.close()
            sys.stdout.write(f"http://{host}:{port}/mcp\n")
            sys.stdout.flush()
            return
        await asyncio.sleep(0.1)


async def _stopped(server: asyncio.subprocess.Process, asked_for: bool) -> int:
    """The exit code: 0 if it was told to stop."""
    try:
        if server.returncode is None:
            server.terminate()
            await asyncio.wait_for(server.wait(), 5)
    except TimeoutError:
        pass
    finally:
        _kill_group(server.pid)  # with its Chromium
    return 0 if asked_for else server.returncode or 1


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _command(options: argparse.Namespace, programs: tuple[str, str], folder: Path, proxy_port: int) -> list[str]:
    """The server's own command."""
    node, chromium = programs
    (folder / SETTINGS).write_text(json.dumps({"browser": {"launchOptions": {"args": list(_FLAGS)}}}))
    names = {f"{name}:{options.port}" for name in ("localhost", "127.0.0.1", options.host)}
    return [
        *(node, str(SERVER), "--config", str(folder / SETTINGS), "--headless", "--isolated"),
        *("--executable-path", chromium, "--host", options.host, "--port", str(options.port)),
        *("--allowed-hosts", ",".join(sorted(names | set(_listed(options.allowed_hosts))))),
        *("--proxy-server", f"socks5://127.0.0.1:{proxy_port}", "--proxy-bypass", "<-loopback>"),
        *("--timeout-navigation", str(NAVIGATION_MS), "--timeout-action", str(ACTION_MS)),
        *("--codegen", "none", "--no-webmcp", "--block-service-workers", "--output-dir", str(folder / "output")),
        *(["--no-sandbox"] if os.geteuid() == 0 else []),  # Chromium's own does not work for root
    ]


def _listed(text: str) -> Sequence[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


if __name__ == "__main__":
    sys.exit(main())
