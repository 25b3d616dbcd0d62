# shellcheck shell=bash disable=SC2034,SC2153
# A virtual environment in the cache, for the tools that convert models and read a source release. Never used by the
# product itself.

VENV=$CACHE/venv
REQUIREMENTS=$ROOT/tools/setup.d/requirements.txt

pip_in_venv() { "$VENV/bin/python" -m pip --disable-pip-version-check "$@"; }

download_failed() {
  die "$1 could not be downloaded." \
    "look at pip's message above: no network, a proxy, or a package index that does not have it" \
    "where pip looks: $VENV/bin/python -m pip config list" \
    "then run this again: what is finished is kept"
}

venv_key() { { cat "$REQUIREMENTS"; "$PYTHON" --version; } | hash_of; }

venv_install() {
  local key
  key=$(venv_key)
  if stamp_is venv "$key" && [[ -x $VENV/bin/python ]]; then return 0; fi
  say "Python tools into $VENV"
  require_space "$CACHE" 300 "the Python tools"
  rm -rf "$VENV"
  "$PYTHON" -m venv "$VENV" || die "python could not make a virtual environment." \
    "as root: apt-get install -y python3-venv"
  retry pip_in_venv install --quiet --no-deps --only-binary :all: -r "$REQUIREMENTS" || download_failed "a Python tool"
  stamp_set venv "$key"
}

# pip_fetch DIR SHA256 REQUIREMENT [pip option…]: one file of a package, whose hash pip checks.
pip_fetch() {
  local dir=$1 sha256=$2 requirement=$3
  shift 3
  mkdir -p "$dir"
  printf '%s --hash=sha256:%s\n' "$requirement" "$sha256" >"$dir/requirement.txt"
  retry pip_in_venv download --no-deps --require-hashes -r "$dir/requirement.txt" -d "$dir" "$@" ||
    download_failed "$requirement"
}
