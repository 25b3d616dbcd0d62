#!/usr/bin/env python3
"""Makes tests/data/embed's golden files with the original tokenizer and model, run by transformers and PyTorch.

    golden_minilm.py MODEL_FOLDER tests/data/embed

Needs: pip install torch transformers numpy xxhash. Made with torch 2.15.0, transformers 4.57.1, tokenizers 0.22.2.

minilm.golden, little-endian: magic "ISGOLD01", u32 sentences, u32 dimension; then per sentence of sentences.json: u32
tokens uncut ([CLS] and [SEP] included), u32 tokens kept (at most 256), u16 ids of those, f16 vector of length 1.

code_points.golden: for each block of 4,096 code points an u64, XXH3-64 of the ids (u16) of "a" + c + "b", without
[CLS] and [SEP], each preceded by their number (u16), for every c of the block that is not a surrogate.
"""
import argparse
import json
import pathlib

import numpy as np
import torch
import transformers
import xxhash

MAX_TOKENS = 256
BLOCK = 4096


def embed(model, ids):
    """Mean over all tokens, as the model's own pooling does, one text at a time: no padding."""
    with torch.inference_mode():
        hidden = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    return torch.nn.functional.normalize(hidden.mean(0), dim=0).numpy()


def write_sentences(folder, tokenizer, model):
    texts = [item["text"] for item in json.loads((folder / "sentences.json").read_text(encoding="utf-8"))]
    out = bytearray(b"ISGOLD01" + np.array([len(texts), model.config.hidden_size], "<u4").tobytes())
    for text in texts:
        uncut = tokenizer(text)["input_ids"]
        ids = tokenizer(text, truncation=True, max_length=MAX_TOKENS)["input_ids"]
        out += np.array([len(uncut), len(ids)], "<u4").tobytes() + np.array(ids, "<u2").tobytes()
        out += embed(model, ids).astype("<f2").tobytes()
    (folder / "minilm.golden").write_bytes(out)
    return len(texts)


def write_code_points(folder, tokenizer):
    hashes = []
    for begin in range(0, 0x110000, BLOCK):
        texts = [f"a{chr(c)}b" for c in range(begin, begin + BLOCK) if not 0xD800 <= c < 0xE000]
        digest = xxhash.xxh3_64()
        for ids in tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []:
            digest.update(np.array([len(ids), *ids], "<u2").tobytes())
        hashes.append(digest.intdigest())
    (folder / "code_points.golden").write_bytes(np.array(hashes, "<u8").tobytes())


def main():
    parser = argparse.ArgumentParser(description="Makes the embedder's golden files with the original model.")
    parser.add_argument("model", type=pathlib.Path, help="folder of the original model")
    parser.add_argument("folder", type=pathlib.Path, help="tests/data/embed")
    arguments = parser.parse_args()
    tokenizer = transformers.BertTokenizerFast.from_pretrained(arguments.model)
    tokenizer.backend_tokenizer.no_truncation()  # the published file cuts at 128 and pads, which the model's users undo
    tokenizer.backend_tokenizer.no_padding()
    model = transformers.BertModel.from_pretrained(arguments.model, dtype=torch.float32).eval()
    count = write_sentences(arguments.folder, tokenizer, model)
    write_code_points(arguments.folder, tokenizer)
    print(f"{count} sentences")


if __name__ == "__main__":
    main()
