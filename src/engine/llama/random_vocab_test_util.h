// Small vocabularies and chat templates for models made by tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

struct gguf_context;

namespace inferscale {

enum class RandomVocab : uint8_t {
  kByteBpe,        // as GPT-2: 256 bytes, merges that build some English words, <|endoftext|>, <|im_start|>, <|im_end|>
  kSentencePiece,  // as Llama 2: <unk>, <s>, </s>, 256 byte tokens, pieces with scores, the same two control tokens
};

enum class RandomTemplate : uint8_t {
  kChatMl,
  kNoSystemRole,  // ChatML that raises an error for a system message, as Gemma 2's does
  kNone,          // no template in the file
};

struct RandomVocabSpec {
  RandomVocab kind = RandomVocab::kByteBpe;
  RandomTemplate chat_template = RandomTemplate::kChatMl;
  bool add_bos = false;          // the tokenizer adds BOS, and the template spells it
  bool add_space_prefix = true;  // kSentencePiece: "the" is read as " the"
};

// What the weights need to know.
struct RandomVocabSize {
  uint32_t tokens = 0;
  // Ids below it are control tokens (kSentencePiece: and <unk>); those from it on are text.
  uint32_t first_text_token = 0;
};

// Writes the tokenizer's keys, and the template's.
RandomVocabSize AddRandomVocab(const RandomVocabSpec& spec, gguf_context* file);

}  // namespace inferscale
