#include "app/chat_command.h"

#include <fmt/format.h>
#include <histedit.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <thread>

#include "app/console.h"
#include "app/memory_session.h"
#include "app/number_flag.h"
#include "app/terminal_text.h"
#include "base/blanks.h"
#include "base/limits.h"
#include "memory/conversation.h"
#include "memory/encode_worker.h"

namespace inferscale {

namespace {

struct ChatFlags {
  MemoryFlags memory;
  EngineFlags engine;
  int top_k = limits::kTopKDefault;
  int tail = limits::kTailFactsDefault;
  uint32_t max_tokens = 256;
  bool text = false, remember = false;
};

constexpr const char* kHelp =
    "/remember TEXT   store a fact\n"
    "/forget ID…      delete facts, for good, and start over: answers may repeat them\n"
    "/why             facts, tokens and first-token time of the last answer\n"
    "/new             start over; what is remembered stays\n"
    "/help, /quit     also /exit; Ctrl-C stops an answer or drops the line, Ctrl-D quits\n";

// Lines from a terminal with editing and history (kept in memory only: they are a person's words), or from a pipe.
class LineReader {
 public:
  LineReader() : terminal_(::isatty(STDIN_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0) {
    if (!terminal_) return;
    // libedit drops what is no character of the locale: of UTF-8, where the environment names none, all but ASCII.
    std::setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    edit_ = ::el_init("inferscale", stdin, stderr, stderr);
    history_ = ::history_init();
    HistEvent event;
    ::history(history_, &event, H_SETSIZE, 1000);
    ::el_set(edit_, EL_PROMPT, &Prompt);
    ::el_set(edit_, EL_EDITOR, "emacs");
    ::el_set(edit_, EL_HIST, ::history, history_);
    // While a line is edited Ctrl-C is a key: to the end, cut the line (Ctrl-Y brings it back), enter nothing.
    ::el_set(edit_, EL_SETTY, "-d", "-isig", nullptr);
    ::el_set(edit_, EL_BIND, "-s", "^C", "^E^U^J", nullptr);
  }
  ~LineReader() {
    if (edit_ != nullptr) ::el_end(edit_);
    if (history_ != nullptr) ::history_end(history_);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  bool terminal() const { return terminal_; }

  // Without its line end; nullopt at the end of the input.
  std::optional<std::string> Next() {
    if (terminal_) {
      int count = 0;
      const char* line = ::el_gets(edit_, &count);
      if (line == nullptr || count <= 0) return std::nullopt;
      HistEvent event;
      if (count > 1) ::history(history_, &event, H_ENTER, line);
      return Chomp(std::string(line, static_cast<size_t>(count)));
    }
    char* line = nullptr;
    size_t room = 0;
    const ssize_t count = ::getline(&line, &room, stdin);
    std::optional<std::string> read;
    if (count > 0) read = Chomp(std::string(line, static_cast<size_t>(count)));
    if (line != nullptr) explicit_bzero(line, room);  // it may name a fact that is forgotten later
    ::free(line);
    return read;
  }

 private:
  static char* Prompt(EditLine*) {
    static char prompt[] = "> ";
    return prompt;
  }
  static std::string Chomp(std::string line) {
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    return line;
  }

  bool terminal_;
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
};

// SIGINT ends the answer under way; between answers it is ignored, and before there is one it ends the program (nothing
// in the folder needs closing). Made before any other thread: the signal is blocked in all, and taken by one that
// waits.
class Interrupts {
 public:
  Interrupts() {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    thread_ = std::thread([this] { Work(); });
  }
  ~Interrupts() {
    To(nullptr);
    stop_ = true;
    ::pthread_kill(thread_.native_handle(), SIGINT);
    thread_.join();
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  void To(Conversation* conversation) {  // null: they are ignored
    const std::lock_guard lock(mutex_);
    conversation_ = conversation;
    starting_ = false;
  }

 private:
  void Work() {
    for (int signal = 0; ::sigwait(&set_, &signal) == 0 && !stop_;) {
      const std::lock_guard lock(mutex_);
      if (starting_) ::_exit(ExitStatus(ErrorCode::kCancelled));
      if (conversation_ != nullptr) conversation_->Cancel();
    }
  }

  sigset_t set_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  Conversation* conversation_ = nullptr;  // guarded
  bool starting_ = true;                  // guarded
  std::thread thread_;
};

class Chat {
 public:
  Chat(const ChatFlags& flags, MemorySession& session)
      : flags_(flags),
        session_(session),
        conversation_(session.context(), session.memory(), flags.memory.name_space, Options(flags)) {
    if (session.engine().info().can_inject) worker_.emplace(session.memory(), session.encoder(), EncodeWorkerOptions{});
  }

  Conversation& conversation() { return conversation_; }

  // False: the person wants to leave.
  Result<bool> Handle(const std::string& line) {
    const std::string text(Trimmed(line));
    if (text.empty()) return true;
    if (text[0] != '/') return Answered(line);
    const std::string word = text.substr(0, text.find_first_of(kBlanks));
    const std::string rest(Trimmed(std::string_view(text).substr(word.size())));
    if (word == "/quit" || word == "/exit") return false;
    if (word == "/help") {
      PrintOut(kHelp);
    } else if (word == "/why") {
      Why();
    } else if (word == "/new") {
      conversation_.Restart();
      last_.reset();
    } else if (word == "/remember") {
      TRY(Remember(rest, true));
    } else if (word == "/forget") {
      TRY(Forget(rest));
    } else {
      return Fail(ErrorCode::kInvalidArgument, ForTerminal(word) + " is not a command: /help lists them");
    }
    return true;
  }

 private:
  static AnswerOptions Options(const ChatFlags& flags) {
    AnswerOptions options;
    options.mode = flags.text ? AnswerMode::kText : AnswerMode::kKv;
    options.top_k = static_cast<size_t>(flags.top_k);
    options.tail = static_cast<size_t>(flags.tail);
    options.max_tokens = flags.max_tokens;
    return options;
  }

  Result<bool> Answered(const std::string& message) {
    if (worker_) worker_->AnswerBegins();
    auto turn = conversation_.Ask(message, [](std::string_view text) { PrintOut(LinesForTerminal(text)); });
    if (worker_) worker_->AnswerEnds();
    PrintOut("\n");
    TRY(turn);
    if (turn->answer.finish == FinishReason::kCancelled) PrintNote("stopped");
    last_ = std::move(*turn);
    if (flags_.remember) TRY(Remember(message, false));
    if (worker_) worker_->Wake();
    return true;
  }

  Status Remember(const std::string& text, bool tell) {
    FactInput fact;
    fact.text = text;
    TRY_ASSIGN(const AddResult added, session_.memory().Remember(flags_.memory.name_space, {&fact, 1}));
    const AddedFact& one = added.facts.front();
    if (tell) PrintOut(fmt::format("{} {}\n", one.outcome == AddOutcome::kAdded ? "remembered" : "known as", one.id));
    return {};
  }

  // The conversation starts over: its answers may hold what is forgotten.
  Status Forget(const std::string& words) {
    std::vector<std::string> ids;
    std::istringstream split(words);
    for (std::string id; split >> id;) ids.push_back(std::move(id));
    if (ids.empty()) return Fail(ErrorCode::kInvalidArgument, "/forget takes ids: /why shows those of the last answer");
    TRY_ASSIGN(const DeleteResult gone, session_.memory().Forget(flags_.memory.name_space, ids));
    if (gone.deleted == 0) {
      PrintOut("no such fact: /why shows the ids of the last answer, `inferscale list` all\n");
      return {};
    }
    conversation_.Restart();
    last_.reset();  // freed memory is overwritten: base/clear_freed.h
    PrintOut(fmt::format("forgot {}; the conversation starts over\n", Counted(gone.deleted, "fact")));
    return {};
  }

  void Why() {
    if (!last_) return PrintOut("nothing was answered yet\n");
    const Answer& a = last_->answer;
    PrintOut(
        fmt::format("first token {:.0f} ms; prompt {} tokens: {} kept from the turn before, {} injected, {} "
                    "computed; {} facts in front, {} with this message{}\n",
                    a.ttft_ms, a.prompt_tokens, a.reused_tokens, a.injected_tokens, a.computed_tokens, last_->sticky,
                    last_->added.size(), last_->new_plan ? ", placed anew" : ""));
    for (size_t rank = 0; rank < a.ranked.size(); ++rank)
      PrintOut(fmt::format("{:>3}  {:.3f}  {}  {}\n", rank + 1, a.ranked[rank].score, ForTerminal(a.ranked[rank].id),
                           ForTerminal(a.ranked[rank].text)));
  }

  const ChatFlags& flags_;
  MemorySession& session_;
  Conversation conversation_;
  std::optional<TurnAnswer> last_;
  std::optional<EncodeWorker> worker_;
};

int Talk(Chat& chat, bool quiet) {
  LineReader lines;
  if (lines.terminal() && !quiet) fmt::print(stderr, "Ask something; /help lists the commands.\n");
  while (const std::optional<std::string> line = lines.Next()) {
    const Result<bool> go_on = chat.Handle(*line);
    if (!go_on) PrintError(go_on.error());
    if (!go_on && !lines.terminal()) return ExitStatus(go_on.error().code);
    if (go_on && !*go_on) return 0;
  }
  if (lines.terminal()) fmt::print(stderr, "\n");  // behind the Ctrl-D
  return 0;
}

Result<int> RunChat(const ChatFlags& flags) {
  Interrupts interrupts;
  MemorySessionOptions options;
  options.memory = flags.memory;
  options.engine = flags.engine;
  options.command = "chat";
  options.text_only = flags.text;
  options.use = MemoryUse::kAdd;  // /remember fills an empty one
  TRY_ASSIGN(const std::unique_ptr<MemorySession> session, MemorySession::Open(std::move(options)));
  Chat chat(flags, *session);
  interrupts.To(&chat.conversation());
  const int status = Talk(chat, flags.memory.quiet);
  interrupts.To(nullptr);
  return status;
}

constexpr const char* kChatFooter =
    R"(Each message is answered from the facts of the namespace. Their places stay fixed for the conversation, so that
only what is new is computed; facts that become relevant later stand in front of the message that they matter for.
While you read and write, what is due is encoded.

)";

}  // namespace

void AddChatCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<ChatFlags>();
  CLI::App* chat = app.add_subcommand("chat", "Talk with a memory in the terminal");
  AddMemoryPlace(*chat, flags->memory);
  chat->add_flag("--quiet", flags->memory.quiet, "No notes; warnings remain");
  chat->add_flag("--remember", flags->remember, "Store each of your messages as a fact");
  chat->add_flag("--text", flags->text, "Inject nothing: compute every token");
  AddNumber(*chat, "--top-k", flags->top_k, 1, limits::kTopKMax, "Facts recalled for a message")->capture_default_str();
  AddNumber(*chat, "--tail", flags->tail, 0, limits::kTopKMax,
            "Of these, how many of the best are computed instead of injected")
      ->capture_default_str();
  AddNumber(*chat, "--max-tokens", flags->max_tokens, 1, limits::kContextTokensMax, "Longest answer")
      ->capture_default_str();
  AddEngineFlags(*chat, flags->engine, true);
  chat->footer(std::string(kChatFooter) + kHelp);
  OnCommand(*chat, status, [flags] { return RunChat(*flags); });
}

}  // namespace inferscale
