#include "kernels/topk.h"

#include <string>

#include "base/limits.h"

namespace inferscale::kernels {
namespace {

tl::unexpected<Error> Bad(std::string what) { return Fail(ErrorCode::kInvalidArgument, std::move(what)); }

Status CheckVectors(const char* what, const void* data, uint64_t stride, const TopkArgs& args) {
  if (data == nullptr) return Bad(std::string(what) + ": no memory");
  if (reinterpret_cast<uintptr_t>(data) % 16 != 0 || stride % 16 != 0) {
    return Bad(std::string(what) + " are not aligned to 16 bytes");
  }
  if (stride < uint64_t{args.dim} * BytesPerElement(args.type)) return Bad(std::string(what) + " overlap");
  return {};
}

}  // namespace

Status CheckTopk(const TopkArgs& args) {
  if (args.type != VectorType::kF16 && args.type != VectorType::kInt8) return Bad("unknown element type");
  if (args.dim == 0) return Bad("vectors without elements");
  if (args.dim > limits::kEmbedDimMax || args.rows > limits::kTopkRows || args.k > limits::kTopkOnDevice ||
      args.query_count > limits::kTopkQueries) {
    return Fail(ErrorCode::kTooLarge, "more elements, rows, queries or results than one search may have");
  }
  if (args.k == 0 || args.query_count == 0) return {};
  TRY(CheckVectors("queries", args.queries, args.query_stride, args));
  if (args.rows > 0) TRY(CheckVectors("vectors", args.vectors, args.vector_stride, args));
  if (args.type == VectorType::kF16 && (args.vector_scales != nullptr || args.query_scales != nullptr)) {
    return Bad("f16 vectors have no scales");
  }
  if (args.out_scores == nullptr || args.out_rows == nullptr) return Bad("no memory for the results");
  if ((args.slots == nullptr) != (args.out_slots == nullptr)) return Bad("slots are asked for without a table of them");
  return {};
}

}  // namespace inferscale::kernels
