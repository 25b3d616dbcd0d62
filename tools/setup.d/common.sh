# shellcheck shell=bash disable=SC2034
# Shared by tools/setup, tools/build and tools/check: messages, the cache folder, retries, free space, stamps.
# Sourced, never run. The caller has set -euo pipefail.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CACHE=${INFERSCALE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/inferscale}
MODELS=$CACHE/models
JOBS=${JOBS:-$(nproc)}
# ccache keeps what it compiled, llama.cpp's files too, here and not in the home folder.
export CCACHE_DIR=${CCACHE_DIR:-$CACHE/ccache} CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-2G}
# Debian's python, not one that a version manager put before it in PATH: only that one is sure to have venv.
PYTHON=/usr/bin/python3
[[ -x $PYTHON ]] || PYTHON=python3

say() { printf '==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }

# die MESSAGE [WHAT_TO_DO…]
die() {
  printf '\ninferscale set-up: %s\n' "$1" >&2
  shift
  for hint in "$@"; do printf '  -> %s\n' "$hint" >&2; done
  # Whatever failed, a full disk is the likeliest reason when the disk is full.
  if (($(free_mb "$CACHE") < 100)); then printf '  -> the disk that holds %s is full\n' "$CACHE" >&2; fi
  exit 1
}

# free_mb DIR: megabytes free where DIR is, or will be.
free_mb() {
  local dir=$1
  while [[ ! -d $dir ]]; do dir=$(dirname "$dir"); done
  df -Pm "$dir" | awk 'NR == 2 { print $4 }'
}

# require_space DIR MB WHAT: before the work, since a full disk in the middle of it fails in unclear ways.
require_space() {
  local free
  free=$(free_mb "$1")
  if ((free < $2)); then
    die "$3: about $2 MB are needed in $1, and only $free MB are free there." \
      "free some space, or put the cache elsewhere: INFERSCALE_CACHE=/path/with/space make …" \
      "all of it can be deleted and is then made again: $CACHE"
  fi
}

# retry COMMAND…: three tries, since a registry that is busy once is usually not busy half a minute later.
retry() {
  local wait
  for wait in 5 20 0; do
    if "$@"; then return 0; fi
    if ((wait > 0)); then
      note "failed; trying again in $wait s"
      sleep "$wait"
    fi
  done
  return 1
}

# A step is done when its stamp holds the key of its inputs, and its outputs exist.
stamp_is() { [[ -f $CACHE/stamps/$1 && $(<"$CACHE/stamps/$1") == "$2" ]]; }
stamp_set() {
  mkdir -p "$CACHE/stamps"
  printf '%s\n' "$2" >"$CACHE/stamps/$1.$$"
  mv "$CACHE/stamps/$1.$$" "$CACHE/stamps/$1"
}

hash_of() { sha256sum | cut -c1-16; }

# One set-up at a time for each cache: a second one waits, then finds the work done.
cache_lock() {
  mkdir -p "$CACHE" 2>/dev/null || die "cannot create the cache folder $CACHE." \
    "choose one that you may write to: INFERSCALE_CACHE=/path make …"
  : >>"$CACHE/lock" || die "cannot write to the cache folder $CACHE."
  exec 9>>"$CACHE/lock"
  if ! flock -n 9; then
    say "another set-up is at work in $CACHE; waiting for it"
    flock 9
  fi
}
cache_unlock() { exec 9>&-; }
