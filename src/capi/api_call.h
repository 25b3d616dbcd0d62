// What every function of the C interface is wrapped in: no exception gets out, and an error leaves its message.
#pragma once

#include <exception>
#include <new>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "inferscale/inferscale.h"

namespace inferscale::capi {

// The number for `code`, whose message inferscale_last_error() now has.
inferscale_status SetError(ErrorCode code, std::string_view message) noexcept;

// function: returns Status, or Result<inferscale_status> where there is more than one way to succeed.
template <class Function>
inferscale_status Call(Function&& function) noexcept {
  try {
    auto result = function();
    if (!result) return SetError(result.error().code, result.error().message);
    if constexpr (std::is_same_v<decltype(result), Status>) {
      return INFERSCALE_OK;
    } else {
      return *result;
    }
  } catch (const std::bad_alloc&) {
    return SetError(ErrorCode::kNoSpace, "no host memory");
  } catch (const std::exception& error) {
    return SetError(ErrorCode::kInternal, error.what());
  } catch (...) {
    return SetError(ErrorCode::kInternal, "an unknown exception");
  }
}

}  // namespace inferscale::capi
