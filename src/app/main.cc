// The `inferscale` command.
#include <CLI/CLI.hpp>

#include "app/ask_command.h"
#include "app/chat_command.h"
#include "app/console.h"
#include "app/demo_command.h"
#include "app/doctor_command.h"
#include "app/encode_command.h"
#include "app/export_command.h"
#include "app/forget_command.h"
#include "app/import_command.h"
#include "app/list_command.h"
#include "app/recall_command.h"
#include "app/remember_command.h"
#include "app/update_command.h"
#include "app/upkeep_command.h"

namespace {

constexpr const char* kHelpHint = "Run with --help for more information.\n";

// An option without a value is a variable that a script did not set: it must not mean "not given".
void RefuseEmptyValues(CLI::App& app) {
  const CLI::Validator not_empty(
      [](std::string& value) { return value.empty() ? "it is empty: give a value, or leave the option out" : ""; }, "");
  for (CLI::App* command : app.get_subcommands({})) {
    RefuseEmptyValues(*command);
    for (CLI::Option* option : command->get_options([](const CLI::Option* o) { return o->get_type_size() > 0; }))
      option->check(not_empty);
  }
}

}  // namespace

int main(int argc, char** argv) {
  inferscale::PrepareStreams();
  CLI::App app(
      "InferScale: memory for LLM applications. Facts are computed once, kept as attention KV, and injected into "
      "the engine's cache when a question needs them.",
      "inferscale");
  // Before the commands are added: they inherit it.
  app.failure_message([](const CLI::App* parsed, const CLI::Error& e) {
    // What is missing is often what was misspelt: that is said first.
    const std::vector<std::string> unknown = parsed->remaining(true);
    std::string what = unknown.empty() ? "" : "there is no command or option " + unknown.front();
    if (!unknown.empty() && !unknown.front().starts_with('-') && !parsed->get_subcommands().empty())
      what += ": put a text of several words in quotes";
    if (!what.empty()) what += '\n';
    return "inferscale: error: " + what + (unknown.empty() ? CLI::FailureMessage::simple(parsed, e) : kHelpHint);
  });
  app.require_subcommand(1);
  app.set_version_flag("--version", INFERSCALE_VERSION);
  app.footer(
      "Start with `inferscale demo`. Each command has its own --help.\n"
      "Exit status: 0 done, 2 wrong input, 3 disk or rights, 4 stored data, 5 model or engine, 70 a bug of ours, 78 a "
      "CPU it was not built for, 130 interrupted (Ctrl-C).");
  int status = 0;
  inferscale::AddAskCommand(app, &status);
  inferscale::AddRememberCommand(app, &status);
  inferscale::AddRecallCommand(app, &status);
  inferscale::AddUpdateCommand(app, &status);
  inferscale::AddForgetCommand(app, &status);
  inferscale::AddListCommands(app, &status);
  inferscale::AddImportCommand(app, &status);
  inferscale::AddEncodeCommand(app, &status);
  inferscale::AddExportCommand(app, &status);
  inferscale::AddUpkeepCommands(app, &status);
  inferscale::AddChatCommand(app, &status);
  inferscale::AddDemoCommand(app, &status);
  inferscale::AddDoctorCommand(app, &status);
  RefuseEmptyValues(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return inferscale::FinishOutput(code == 0 ? 0 : 2);
  }
  return inferscale::FinishOutput(status);
}
