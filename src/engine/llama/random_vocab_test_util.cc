#include "engine/llama/random_vocab_test_util.h"

#include <fmt/format.h>
#include <gguf.h>
#include <llama.h>

#include <set>
#include <string_view>
#include <vector>

namespace inferscale {

namespace {

// Words that get a token each, with a space before them; so do their beginnings, which merging passes through.
constexpr std::string_view kWords[] = {
    "the",       "and",   "you",           "that",    "was",          "for",      "are",     "with",   "his",
    "they",      "this",  "have",          "from",    "one",          "had",      "not",     "what",   "all",
    "were",      "when",  "your",          "can",     "said",         "there",    "use",     "each",   "which",
    "she",       "how",   "their",         "will",    "other",        "about",    "out",     "many",   "then",
    "them",      "these", "some",          "her",     "would",        "make",     "like",    "him",    "into",
    "time",      "has",   "look",          "two",     "more",         "write",    "see",     "number", "could",
    "people",    "than",  "first",         "been",    "call",         "who",      "now",     "find",   "long",
    "down",      "day",   "did",           "get",     "come",         "made",     "may",     "are",    "is",
    "a",         "of",    "memories",      "helpful", "assistant",    "question", "answer",  "system", "user",
    "remembers", "past",  "conversations", "below",   "instructions", "data",     "January", "May",    "2023"};

struct Vocabulary {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;
  std::set<std::string> known;

  // False if there is such a token already.
  bool Add(const std::string& text, llama_token_type type, float score = 0) {
    if (!known.insert(text).second) return false;
    texts.push_back(text);
    types.push_back(type);
    scores.push_back(score);
    return true;
  }
  uint32_t size() const { return static_cast<uint32_t>(texts.size()); }
};

std::string Utf8(uint32_t code_point) {  // below U+0800
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | (code_point >> 6)), static_cast<char>(0x80 | (code_point & 0x3F))};
}

// The printable character that stands for a byte in a byte-level BPE vocabulary: itself where it is a visible one of
// Latin-1, else the next free one from U+0100 on, in the order of the bytes.
std::string ByteCharacter(int byte) {
  const auto visible = [](int b) { return (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD); };
  if (visible(byte)) return Utf8(static_cast<uint32_t>(byte));
  uint32_t code_point = 0x100;
  for (int b = 0; b < byte; ++b) code_point += visible(b) ? 0 : 1;
  return Utf8(code_point);
}

Vocabulary ByteBpe() {
  Vocabulary v;
  for (const char* control : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) v.Add(control, LLAMA_TOKEN_TYPE_CONTROL);
  for (int byte = 0; byte < 256; ++byte) v.Add(ByteCharacter(byte), LLAMA_TOKEN_TYPE_NORMAL);
  for (const std::string_view word : kWords) {
    std::string beginning = ByteCharacter(' ');
    for (const char letter : word) {
      const std::string next(1, letter);
      if (v.Add(beginning + next, LLAMA_TOKEN_TYPE_NORMAL)) v.merges.push_back(beginning + " " + next);
      beginning += next;
    }
  }
  return v;
}

Vocabulary SentencePiece() {
  Vocabulary v;
  v.Add("<unk>", LLAMA_TOKEN_TYPE_UNKNOWN);
  for (const char* control : {"<s>", "</s>", "<|im_start|>", "<|im_end|>"}) v.Add(control, LLAMA_TOKEN_TYPE_CONTROL);
  for (int byte = 0; byte < 256; ++byte) v.Add(fmt::format("<0x{:02X}>", byte), LLAMA_TOKEN_TYPE_BYTE);
  const std::string space = "\xE2\x96\x81";
  float score = 0;  // falls from piece to piece: merges happen in the order of this list
  const auto add = [&](const std::string& text) {
    if (v.Add(text, LLAMA_TOKEN_TYPE_NORMAL, score)) score -= 1;
  };
  for (const std::string_view word : kWords)
    for (size_t n = 1; n <= word.size(); ++n) add(space + std::string(word.substr(0, n)));
  add(space);
  for (char letter = 0x21; letter < 0x7F; ++letter) add(std::string(1, letter));
  return v;
}

std::string TemplateSource(const RandomVocabSpec& spec) {
  std::string source = spec.add_bos ? "{{ bos_token }}" : "";
  if (spec.chat_template == RandomTemplate::kNoSystemRole)
    source += "{% if messages[0]['role'] == 'system' %}{{ raise_exception('there is no system role') }}{% endif %}";
  return source +
         "{% for turn in messages %}"
         "{{ '<|im_start|>' + turn['role'] + '\\n' + turn['content'] + '<|im_end|>' + '\\n' }}"
         "{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
}

void SetStrings(gguf_context* file, const char* key, const std::vector<std::string>& values) {
  std::vector<const char*> pointers;
  for (const std::string& value : values) pointers.push_back(value.c_str());
  gguf_set_arr_str(file, key, pointers.data(), pointers.size());
}

}  // namespace

RandomVocabSize AddRandomVocab(const RandomVocabSpec& spec, gguf_context* file) {
  const bool bpe = spec.kind == RandomVocab::kByteBpe;
  const Vocabulary v = bpe ? ByteBpe() : SentencePiece();
  gguf_set_val_str(file, "tokenizer.ggml.model", bpe ? "gpt2" : "llama");
  gguf_set_val_str(file, "tokenizer.ggml.pre", bpe ? "gpt-2" : "default");
  SetStrings(file, "tokenizer.ggml.tokens", v.texts);
  gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, v.types.data(), v.types.size());
  if (bpe) {
    SetStrings(file, "tokenizer.ggml.merges", v.merges);
  } else {
    gguf_set_arr_data(file, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, v.scores.data(), v.scores.size());
    gguf_set_val_u32(file, "tokenizer.ggml.unknown_token_id", 0);
    gguf_set_val_bool(file, "tokenizer.ggml.add_space_prefix", spec.add_space_prefix);
  }
  gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", bpe ? 0 : 1);
  gguf_set_val_u32(file, "tokenizer.ggml.eos_token_id", bpe ? 2 : 4);  // <|im_end|>
  gguf_set_val_bool(file, "tokenizer.ggml.add_bos_token", spec.add_bos);
  if (spec.chat_template != RandomTemplate::kNone)
    gguf_set_val_str(file, "tokenizer.chat_template", TemplateSource(spec).c_str());
  return {.tokens = v.size(), .first_text_token = bpe ? 3u : 5u};
}

}  // namespace inferscale
