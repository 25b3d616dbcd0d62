// Options that take a number: their range is checked and shown in help ("--top-k 1..10000 [50]").
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <type_traits>

namespace inferscale {

// value: a number or an optional of one. It must outlive parsing.
template <class Value, class Number>
CLI::Option* AddNumber(CLI::App& command, const std::string& name, Value& value, Number low,
                       std::type_identity_t<Number> high, const std::string& help) {
  const std::string range = std::to_string(low) + ".." + std::to_string(high);
  return command.add_option(name, value, help)->check(CLI::Range(low, high).description(""))->type_name(range);
}

}  // namespace inferscale
