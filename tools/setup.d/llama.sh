# shellcheck shell=bash disable=SC2034,SC2153
# llama.cpp: pinned source, built once per machine into the cache, as static libraries.

LLAMA_PACKAGE=llama-cpp-python==0.3.36  # its source release carries llama.cpp v0.5.0 in vendor/
LLAMA_VERSION=v0.5.0
LLAMA_SHA256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
LLAMA_FLAGS_native=(-DGGML_NATIVE=ON)
# What x86-64-v3 promises, and no more: GGML's own switches, then the level for everything else.
LLAMA_FLAGS_portable=(-DGGML_NATIVE=OFF -DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON
  -DGGML_BMI2=ON -DCMAKE_C_FLAGS=-march=x86-64-v3 -DCMAKE_CXX_FLAGS=-march=x86-64-v3)
# One GPU: no NCCL. No virtual memory management: it would link the driver, and the command would not start without one.
LLAMA_FLAGS_cuda=(-DGGML_NATIVE=ON -DGGML_CUDA=ON -DGGML_CUDA_NCCL=OFF -DGGML_CUDA_NO_VMM=ON)

# What -march=native means to this compiler on this CPU. A library built on a CPU with AVX-512 dies on one without, so
# this is part of the prefix's name: two machines that share a home folder get a prefix each.
cpu_flags() { g++ -march=native -Q --help=target 2>/dev/null | grep -E '\[enabled\]|-march=' || true; }

# llama_flags native|portable|cuda: CMake's options, a line each. The cuda_* functions are of cuda.sh.
llama_flags() {
  local -n flags=LLAMA_FLAGS_$1
  printf '%s\n' "${flags[@]}"
  if [[ $1 == cuda ]]; then
    printf '%s\n' "-DCMAKE_CUDA_COMPILER=$(cuda_nvcc)" "-DCMAKE_CUDA_ARCHITECTURES=$(cuda_architectures)"
  fi
}

# llama_prefix native|portable|cuda: the installed prefix. Its name holds everything that decides its content.
llama_prefix() {
  local key
  key=$({
    printf '%s\n' "$LLAMA_SHA256"
    llama_flags "$1"
    g++ -dumpfullversion 2>/dev/null || true
    cat "$ROOT/tools/llama/CMakeLists.txt"
    if [[ $1 != portable ]]; then cpu_flags; fi
    if [[ $1 == cuda ]]; then "$(cuda_nvcc)" --version; fi
  } | hash_of)
  printf '%s/llama/%s-%s-%s\n' "$CACHE" "$LLAMA_VERSION" "$1" "$key"
}

llama_source() {
  local archive=$CACHE/downloads/llama_cpp_python-0.3.36.tar.gz tmp=$CACHE/downloads/llama.tmp
  if [[ ! -f $archive ]]; then
    say "downloading llama.cpp $LLAMA_VERSION (77 MB)"
    # pip asks even a file that it only fetches for its metadata. The back end for that is in the venv already, so
    # that pip need not fetch and build one (--no-build-isolation).
    pip_fetch "$tmp" "$LLAMA_SHA256" "$LLAMA_PACKAGE" --no-build-isolation --no-binary llama-cpp-python
    mv "$tmp/$(basename "$archive")" "$archive"
    rm -rf "$tmp"
  fi
  if ! printf '%s  %s\n' "$LLAMA_SHA256" "$archive" | sha256sum --check --status; then
    rm -f "$archive"
    die "the downloaded llama.cpp source is damaged, and was deleted." "run this again"
  fi
  tar -xzf "$archive" -C "$1" --strip-components=3 --wildcards '*/vendor/llama.cpp/*' \
    --exclude='*/llama.cpp/models' --exclude='*/llama.cpp/docs' --exclude='*/llama.cpp/tools' ||
    die "the llama.cpp source could not be unpacked."
}

# llama_install native|portable|cuda
llama_install() {
  local prefix work log time='3 to 7 minutes on 2 cores' mb=700
  if [[ $1 == cuda ]]; then time='an hour of one core' mb=3000; fi
  prefix=$(llama_prefix "$1")
  [[ -f $prefix/share/inferscale/cpu-features.txt ]] && return 0
  require_space "$CACHE" "$mb" "building llama.cpp"
  work=$CACHE/llama/build  # nobody else's: we hold the cache's lock
  log=$CACHE/llama/build-$1.log
  rm -rf "$work"
  mkdir -p "$work/source"
  llama_source "$work/source"
  say "building llama.cpp $LLAMA_VERSION ($1; once per machine, $time; log: $log)"
  local options
  mapfile -t options < <(llama_flags "$1")
  llama_build "$work" "$work/prefix" "${options[@]}" 2>&1 | tee "$log" | llama_progress ||
    die "llama.cpp did not build." "the end of its log follows; all of it is in $log" "$(tail -n 15 "$log")"
  rm -rf "$prefix"
  mv "$work/prefix" "$prefix"
  rm -rf "$work"
  note "installed: $prefix"
}

llama_build() {
  local work=$1 prefix=$2
  shift 2
  cmake -S "$ROOT/tools/llama" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLAMA_SOURCE="$work/source" \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib "$@" &&
    cmake --build "$work/build" -j "$JOBS" && cmake --install "$work/build"
}

# Ninja's "[12/240] Building …", one line for each tenth of the work. (Not awk: Debian's reads in blocks, too late.)
llama_progress() {
  local line last=0 tenth
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    tenth=$((10 * BASH_REMATCH[1] / BASH_REMATCH[2]))
    if ((tenth > last)); then
      last=$tenth
      note "$((10 * tenth)) % (${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} files)"
    fi
  done
}
