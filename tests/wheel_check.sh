#!/usr/bin/env bash
# What is built is what a stranger installs: sdist -> wheel -> an empty environment -> `viete tour`.
# Usage: tests/wheel_check.sh PYTHON   (a Python that has `build` and `hatchling`)
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "wheel check: $1" >&2
  [ ! -e "$work/log" ] || cat "$work/log" >&2
  exit 1
}

cd "$root"
"$python" -m build --no-isolation --outdir "$work/dist" . >"$work/log" 2>&1 || fail "the build failed:"

# Every card and table of the source tree is in the wheel, and so is py.typed.
"$python" - "$work"/dist/*.whl <<'PYTHON' || fail "the wheel is incomplete."
import pathlib, sys, zipfile

held = set(zipfile.ZipFile(sys.argv[1]).namelist())
wanted = [p.as_posix() for e in ("py", "md", "json", "safetensors", "typed", "css", "js") for p in pathlib.Path("viete").rglob(f"*.{e}")]
missing = sorted(set(wanted) - held)
if missing:
    sys.exit("not in the wheel: " + ", ".join(missing))
PYTHON

"$python" -m venv --without-pip "$work/venv"
"$python" -m pip --python "$work/venv/bin/python" install -qq --disable-pip-version-check \
  --no-compile --constraint constraints.txt "$work"/dist/*.whl >"$work/log" 2>&1 || fail "the wheel does not install:"

mkdir "$work/empty"
cd "$work/empty"
unset PYTHONPATH
"$work/venv/bin/viete" tour >"$work/log" 2>&1 || fail "viete tour failed where only the wheel is installed:"
[ -s "$work/log" ] || fail "viete tour said nothing."
echo "wheel check: $(basename "$work"/dist/*.whl) installs on its own and gives the tour"
