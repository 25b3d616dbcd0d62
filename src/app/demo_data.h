// examples/demo, built into the command so that the demo runs from anywhere.
#pragma once

#include <string_view>

namespace inferscale {
std::string_view DemoFactsJsonl();
std::string_view DemoQuestionsJson();
}  // namespace inferscale
