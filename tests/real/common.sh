# What the checks share; sourced by them. Everything they install or write lies in target/real.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
REAL=$ROOT/target/real
CHECK=$(basename "$0")
source "$ROOT/tests/real/versions.sh"
cd "$ROOT"

# Ends the check: what it needs is not here, so it says nothing about us.
skipped() {
  echo "skipped: $*"
  exit 77
}

# Ends the check: we, or they, did something wrong.
failed() {
  echo "FAILED: $*"
  exit 1
}

# Programs without which the check cannot run.
need() {
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null || skipped "$program is not installed"
  done
}

# npm_packages <package@version> ...: installs them for this check alone; they are in $MODULES afterwards.
# No script of theirs runs while they are installed.
npm_packages() {
  need node npm
  local place=$REAL/npm-$CHECK
  MODULES=$place/node_modules
  [ "$(cat "$place/installed" 2>/dev/null)" = "$*" ] && return
  rm -rf "$place"
  mkdir -p "$place"
  npm install --prefix "$place" --ignore-scripts --no-audit --no-fund --loglevel=error "$@" ||
    skipped "npm cannot install $*"
  echo "$*" >"$place/installed"
}

# python_packages <package==version> ...: the same for Python; their programs are in $BIN afterwards.
python_packages() {
  need python3
  local place=$REAL/python-$CHECK
  BIN=$place/bin
  [ "$(cat "$place/installed" 2>/dev/null)" = "$*" ] && return
  rm -rf "$place"
  python3 -m venv "$place" || skipped "python3 cannot make a venv"
  "$BIN/pip" install --quiet --disable-pip-version-check "$@" || skipped "pip cannot install $*"
  echo "$*" >"$place/installed"
}

# An empty directory for what the check writes.
WORK=$REAL/work-$CHECK
rm -rf "$WORK"
mkdir -p "$WORK"

# What ogr has recorded of forges, in $RECORDED afterwards: only its source distribution has it. Nothing of it is run.
recorded_by_ogr() {
  local place=$REAL/$OGR
  need python3 tar
  RECORDED=$place/tests/integration
  [ -d "$RECORDED" ] && return
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$REAL" "$OGR" ||
    skipped "pip cannot get $OGR"
  mkdir -p "$place"
  tar -xzf "$REAL/${OGR/==/-}.tar.gz" -C "$place" --strip-components=1
}

# read_recordings <github|gitlab> <directory ...>: lets our adapter read what that forge has answered to others.
read_recordings() {
  need cargo
  python_packages "$PYYAML"
  cargo build --locked --quiet --features faults --example read_forge
  "$BIN/python" -B tests/real/replay_recordings.py "$1" target/debug/examples/read_forge "${@:2}" ||
    failed "recorded answers we cannot read"
}
