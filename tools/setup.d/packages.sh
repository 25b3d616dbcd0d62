# shellcheck shell=bash disable=SC2034,SC2153
# Debian packages. Asking dpkg takes 30 ms, so there is no stamp that could go stale.

# What `make demo` needs.
PACKAGES_BUILD=(
  g++ cmake ninja-build ccache make ca-certificates python3 python3-venv
  libexpected-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libxxhash-dev libhwy-dev libicu-dev
  liburing-dev libsqlite3-dev libboost1.81-dev libssl-dev libedit-dev
  libgtest-dev libgmock-dev
)
# What `make test` needs beside: clang brings libFuzzer.
PACKAGES_TEST=(clang libclang-rt-dev)
# FAISS is what search is measured against.
PACKAGES_BENCH=(libbenchmark-dev libfaiss-dev libopenblas-dev)

missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
    awk '$2 == "installed" { print $1 }') || true  # dpkg-query fails when it does not know one of them
  for package in "$@"; do
    grep -qx -- "$package" <<<"$installed" || printf '%s\n' "$package"
  done
}

apt_install() {
  DEBIAN_FRONTEND=noninteractive "${SUDO[@]}" apt-get -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 \
    install -y --no-install-recommends "$@"
}

# packages_install PACKAGE…
packages_install() {
  local missing
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    note "not a Debian system: install what these packages hold by hand: $*"
    return 0
  fi
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  SUDO=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "installing packages needs root's rights." \
      "as root: apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    SUDO=(sudo)
  fi
  require_space /usr 1500 "installing packages"
  # On a fresh machine the lists are empty; on an old one they name versions that are gone.
  retry "${SUDO[@]}" apt-get -o DPkg::Lock::Timeout=600 update -q ||
    note "apt-get update failed; going on with the lists that are here"
  retry apt_install "${missing[@]}" || die "apt-get could not install: ${missing[*]}" \
    "run 'apt-get update' and look at its errors (network, /etc/apt/sources.list, a proxy)" \
    "run 'dpkg --configure -a' if an earlier installation was cut short" \
    "then run this again"
}
