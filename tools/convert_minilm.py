#!/usr/bin/env python3
"""Converts a sentence embedder of BERT's architecture (all-MiniLM-L6-v2) to GGUF.

    convert_minilm.py MODEL_FOLDER OUT.gguf [--type f16|f32]

MODEL_FOLDER is as the model is published: config.json, model.safetensors, vocab.txt, tokenizer_config.json,
modules.json, 1_Pooling/config.json. The output's bytes depend on the input and the versions of the packages only, and
OUT appears whole or not at all.

Vocabulary: GGUF's BERT convention marks pieces that start a word with U+2581 and leaves the others bare, instead of
leaving the first bare and marking the others with ##. The mapping can be undone (special tokens are those of type
CONTROL), so one list serves llama.cpp and our own tokenizer.
"""
import argparse
import json
import os
import pathlib
import re
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file

WORD_START = "\u2581"
SPECIAL = ("cls_token", "sep_token", "unk_token", "pad_token", "mask_token")
EMBEDDINGS = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
}
LAYER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
# Not in sentence vectors: a buffer of 0, 1, 2, …, and the heads of other tasks.
UNUSED = re.compile(r"embeddings\.position_ids$|pooler\.|cls\.")
# Small tables that are added to other tensors, which llama.cpp does in f32.
ALWAYS_F32 = {"position_embd.weight", "token_types.weight"}


class BadModel(Exception):
    pass


def require(condition, message):
    if not condition:
        raise BadModel(message)


def read_json(folder, name):
    with open(folder / name, encoding="utf-8") as file:
        return json.load(file)


def check_config(folder, config, tokenizer):
    """Refuses whatever would silently give other vectors than the original."""
    require(config.get("model_type") == "bert", f"config.json: model_type is {config.get('model_type')!r}, not 'bert'")
    require(config.get("position_embedding_type", "absolute") == "absolute", "positions are not absolute")
    require(config["hidden_act"] == "gelu", f"config.json: hidden_act is {config['hidden_act']!r}, not 'gelu'")
    pooling = read_json(folder, "1_Pooling/config.json")
    modes = sorted(key for key, value in pooling.items() if key.startswith("pooling_mode_") and value)
    require(modes == ["pooling_mode_mean_tokens"], f"1_Pooling/config.json: {modes}, not mean pooling alone")
    kinds = [module["type"].rsplit(".", 1)[-1] for module in read_json(folder, "modules.json")]
    require(kinds == ["Transformer", "Pooling", "Normalize"], f"modules.json: {kinds} are not the three known steps")
    require(tokenizer.get("do_lower_case") is True, "the tokenizer keeps upper case")
    require(tokenizer.get("strip_accents") in (None, True), "the tokenizer keeps accents")
    require(tokenizer.get("tokenize_chinese_chars", True) is True, "the tokenizer does not split ideographs")


def read_vocabulary(folder, config, tokenizer):
    """(tokens in GGUF's convention, their types, {"cls_token": id, …})"""
    pieces = (folder / "vocab.txt").read_bytes().decode("utf-8").split("\n")
    if pieces[-1] == "":
        pieces.pop()
    require(len(pieces) == config["vocab_size"], f"vocab.txt has {len(pieces)} lines, not {config['vocab_size']}")
    ids = {piece: i for i, piece in enumerate(pieces)}
    require(len(ids) == len(pieces) and "" not in ids, "vocab.txt has a line twice, or an empty one")
    special = {name: ids[tokenizer[name]] for name in SPECIAL}
    tokens, types = [], []
    for i, piece in enumerate(pieces):
        if i in special.values():
            tokens.append(piece)
            types.append(gguf.TokenType.CONTROL)
            continue
        continues = piece.startswith("##") and len(piece) > 2
        tokens.append(piece[2:] if continues else WORD_START + piece)
        types.append(gguf.TokenType.NORMAL)
        require(not (continues and tokens[-1].startswith(WORD_START)), f"piece {i} cannot be told from a word's start")
    require(len(set(tokens)) == len(tokens), "two pieces have the same name in GGUF's convention")
    return tokens, types, special


def read_tensors(folder, config, dtype):
    """Sorted list of (name in GGUF, array)."""
    tensors = {}
    for name, array in load_file(folder / "model.safetensors").items():
        name = name.removeprefix("bert.")
        if UNUSED.match(name):
            continue
        base, suffix = name.rsplit(".", 1)
        suffix = {"gamma": "weight", "beta": "bias"}.get(suffix, suffix)
        layer = re.fullmatch(r"encoder\.layer\.(\d+)\.(.+)", base)
        target = LAYER.get(layer[2]) if layer else EMBEDDINGS.get(base)
        require(target is not None, f"model.safetensors: unknown tensor {name}")
        target = f"blk.{layer[1]}.{target}.{suffix}" if layer else f"{target}.{suffix}"
        array = np.ascontiguousarray(array, dtype=np.float32)
        require(np.isfinite(array).all(), f"model.safetensors: {name} has values that are not finite")
        if array.ndim == 2 and target not in ALWAYS_F32:
            array = array.astype(dtype)
            require(np.isfinite(array).all(), f"model.safetensors: {name} does not fit {np.dtype(dtype).name}")
        tensors[target] = array
    expected = len(EMBEDDINGS) + 1 + 2 * len(LAYER) * config["num_hidden_layers"]  # + 1: the norm's bias
    require(len(tensors) == expected, f"model.safetensors: {len(tensors)} tensors, not {expected}")
    shape = (config["vocab_size"], config["hidden_size"])
    require(tensors["token_embd.weight"].shape == shape, f"model.safetensors: word embeddings are not {shape}")
    return sorted(tensors.items())


def write_gguf(path, name, file_type, config, vocabulary, tensors):
    tokens, types, special = vocabulary
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_name(name)
    writer.add_file_type(file_type)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_bos_token_id(special["cls_token"])
    writer.add_sep_token_id(special["sep_token"])
    writer.add_unk_token_id(special["unk_token"])
    writer.add_pad_token_id(special["pad_token"])
    writer.add_mask_token_id(special["mask_token"])
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_bool("tokenizer.ggml.add_sep_token", True)
    writer.add_bool("tokenizer.ggml.normalizer.lowercase", True)
    writer.add_bool("tokenizer.ggml.normalizer.strip_accents", True)
    for tensor_name, array in tensors:
        writer.add_tensor(tensor_name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def convert(folder, out, type_name, name):
    config, tokenizer = read_json(folder, "config.json"), read_json(folder, "tokenizer_config.json")
    check_config(folder, config, tokenizer)
    vocabulary = read_vocabulary(folder, config, tokenizer)
    dtype, file_type = {
        "f16": (np.float16, gguf.LlamaFileType.MOSTLY_F16),
        "f32": (np.float32, gguf.LlamaFileType.ALL_F32),
    }[type_name]
    tensors = read_tensors(folder, config, dtype)
    temporary = out.with_name(f"{out.name}.tmp.{os.getpid()}")
    try:
        write_gguf(temporary, name, file_type, config, vocabulary, tensors)
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)
    return len(tensors)


def main():
    parser = argparse.ArgumentParser(description="Converts all-MiniLM-L6-v2, as published, to GGUF.")
    parser.add_argument("folder", type=pathlib.Path, help="the model's folder, with model.safetensors and vocab.txt")
    parser.add_argument("out", type=pathlib.Path, help="the file to write")
    parser.add_argument("--type", choices=("f16", "f32"), default="f16", help="of the weight matrices (default: f16)")
    parser.add_argument("--name", default="all-MiniLM-L6-v2", help="general.name of the output")
    arguments = parser.parse_args()
    try:
        count = convert(arguments.folder, arguments.out, arguments.type, arguments.name)
    except (BadModel, OSError, KeyError, UnicodeDecodeError, json.JSONDecodeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        sys.exit(f"convert_minilm: {arguments.folder}: {what}")
    print(f"{arguments.out}: {count} tensors, {arguments.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
