# shellcheck shell=bash disable=SC2034,SC2153
# nvcc for the CUDA part: this machine's own, if it is of CUDA 13, or NVIDIA's packages on PyPI (200 MB) in the cache.

CUDA_REQUIREMENTS=$ROOT/tools/setup.d/cuda_requirements.txt
CUDA_FOLDER=$CACHE/cuda/13.0

# cuda_nvcc: the path of the nvcc that builds use; nothing where there is none.
cuda_nvcc() {
  local nvcc
  for nvcc in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    if [[ -x $nvcc ]] && [[ $("$nvcc" --version) == *"release 13."* ]]; then
      printf '%s\n' "$nvcc"
      return
    fi
  done
  if [[ -x $CUDA_FOLDER/bin/nvcc ]]; then printf '%s\n' "$CUDA_FOLDER/bin/nvcc"; fi
}

# cuda_install: false where it could not be had.
cuda_install() {
  local tmp=$CACHE/cuda/tmp
  [[ -z $(cuda_nvcc) ]] || return 0
  if [[ $(uname -m) != x86_64 ]]; then return 1; fi
  say "nvcc 13.0 into $CUDA_FOLDER (100 MB to download)"
  require_space "$CACHE" 500 "nvcc"
  rm -rf "$tmp" "$CUDA_FOLDER"
  mkdir -p "$tmp"
  retry pip_in_venv install --quiet --no-deps --only-binary :all: --require-hashes --no-compile --target "$tmp" \
    -r "$CUDA_REQUIREMENTS" || return 1
  # The packages have no name for the linker and no lib64, where nvcc and CMake look.
  ln -s libcudart.so.13 "$tmp/nvidia/cu13/lib/libcudart.so"
  ln -s lib "$tmp/nvidia/cu13/lib64"
  mv "$tmp/nvidia/cu13" "$CUDA_FOLDER"
  rm -rf "$tmp"
  [[ -x $CUDA_FOLDER/bin/nvcc ]]  # a step that failed did not end this: callers ask for its status
}

# cuda_architectures: what CUDA_ARCHITECTURES says, or this machine's GPUs, or those of H100 and H200.
cuda_architectures() {
  local found=${CUDA_ARCHITECTURES:-}
  if [[ -z $found ]]; then
    found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
      tr -d . | sort -u | paste -sd ';') || true
  fi
  printf '%s\n' "${found:-90}"
}

# cuda_require_toolkit: the engine's kernels need more than a compiler: cuBLAS and CUB, which PyPI's packages lack here.
cuda_require_toolkit() {
  local nvcc include
  nvcc=$(cuda_nvcc)
  include=$(dirname "$(dirname "$(readlink -f "${nvcc:-/none/bin/nvcc}")")")/include
  if [[ -n $nvcc && -f $include/cublas_v2.h ]]; then return 0; fi
  die "the engine on a GPU needs NVIDIA's CUDA toolkit 13 with cuBLAS, and it is not on this machine." \
    "install NVIDIA's package cuda-toolkit-13-0, so that nvcc is in PATH or in /usr/local/cuda" \
    "without it: make build, which answers on the CPU"
}
