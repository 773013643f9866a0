"""The servers: how each is started on a free port of 127.0.0.1, and its version.

Each ends when its standard input does, so that none outlives the recorder, however that ends.
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "portcullis"


class Missing(Exception):
    """What a server needs and this machine does not have."""


def need(program):
    # Debian's nginx lies where only root's PATH leads.
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")
    if not found:
        raise Missing(f"{program} is not installed")
    return found


class Server:
    """A server that runs."""

    def __init__(self, command, *, says=True):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE if says else None, text=True
        )
        if says:
            said = self.process.stdout.readline().split()
            if len(said) != 2:
                raise SystemExit(f"{command[0]} does not say its version and port")
            self.version, self.port = said[0], int(said[1])

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def go(folder, _):
    program = folder / "server-of-go"
    build = [need("go"), "build", "-o", program, HERE / "go" / "main.go"]
    subprocess.run(build, check=True, env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": ""})
    return Server([program])


def hyper(_, options):
    if not options.hyper.exists():
        raise Missing(f"{options.hyper} is not built: cargo build -p policy-tests")
    return Server([options.hyper])


def nginx(folder, _):
    program = need("nginx")
    said = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home = folder / "nginx"
    home.mkdir()
    text = (HERE / "nginx.conf").read_text()
    (home / "conf").write_text(text.replace("FOLDER", str(home)).replace("PORT", str(port)))
    script = '"$0" -p "$1" -e "$1/error.log" -c "$1/conf" & read -r _; kill $!; wait'
    server = Server(["sh", "-c", script, program, home], says=False)
    server.version, server.port = re.search(r"nginx/([0-9.]+)", said)[1], port
    return server


def node(_, __):
    return Server([need("node"), HERE / "node.js"])


def python(_, __):
    return Server([sys.executable, HERE / "python.py"])


def tomcat(folder, options):
    pom = HERE / "tomcat" / "pom.xml"
    version = re.search(r"tomcat-embed-core</artifactId>\s*<version>([^<]+)", pom.read_text())[1]
    jars = CACHE / f"tomcat-{version}"
    java = need("java")
    if not jars.exists():
        if options.check:
            raise Missing(f"{jars} is not there: tests/servers/record fetches it")
        subprocess.run(
            [need("mvn"), "-q", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={jars}"], check=True
        )
    quiet = "-Djava.util.logging.config.file=/dev/null"
    return Server([java, quiet, "-cp", f"{jars}/*", HERE / "tomcat" / "Server.java", folder / "tomcat"])


SERVERS = {made.__name__: made for made in (go, hyper, nginx, node, python, tomcat)}


def start(name, folder, options):
    """Starts a server and waits until it listens; raises Missing."""
    server = SERVERS[name](folder, options)
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", server.port), 5).close()
            return server
        except OSError:
            if time.monotonic() > until or server.process.poll() is not None:
                server.end()
                raise SystemExit(f"{name} does not listen") from None
            time.sleep(0.05)
