"""CPU seconds of `ktx --help`, completion and `ktx config validate`, against an interpreter that does nothing.

Prints seconds (median of 7) and the ratio; exit 1 when `--help` or completion takes more than 0.25 s.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.worlds.kills import installed_ktx

LIMIT = 0.25
UNLIMITED = ("ktx config validate",)


def cpu_seconds(command: list[str], folder: str, **environ: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env={**os.environ, **environ}, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def median(command: list[str], folder: str, **environ: str) -> float:
    cpu_seconds(command, folder, **environ)
    return statistics.median(cpu_seconds(command, folder, **environ) for _ in range(7))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ktx.yaml").write_text("connections: {warehouse: {driver: sqlite, path: x}}\n")
        ktx = installed_ktx()
        bare = median([sys.executable, "-c", "pass"], folder)
        rows = {
            "python -c pass": bare,
            "ktx --help": median([ktx, "--help"], folder),
            "ktx completion bash": median([ktx, "completion", "bash"], folder),
            "completing `ktx st`": median(
                [ktx], folder, _KTX_COMPLETE="complete_bash", COMP_WORDS="ktx st", COMP_CWORD="1"
            ),
            "the same in zsh": median([ktx], folder, _KTX_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="ktx st"),
            "completing an id": median(
                [ktx], folder, _KTX_COMPLETE="complete_bash", COMP_WORDS="ktx ingest w", COMP_CWORD="2"
            ),
            "ktx config validate": median([ktx, "config", "validate"], folder),
        }
    for name, seconds in rows.items():
        print(f"{name:24} {seconds:.3f} s CPU   {seconds / bare:5.1f} x a bare interpreter")
    slow = [name for name, seconds in rows.items() if name not in UNLIMITED and seconds > LIMIT]
    if slow:
        sys.exit(f"more than {LIMIT} s: {', '.join(slow)}")


if __name__ == "__main__":
    main()
