#include "launcher/compare.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "launcher/messages.hpp"
#include "launcher/supervise.hpp"

namespace ddl {
namespace {

bool is_check(std::string_view line) { return line.rfind("check:", 0) == 0 || line.rfind("CHECK", 0) == 0; }

void write_all(std::string_view text) {
  while (!text.empty()) {
    ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

Outcome measure(const JobSpec& job, const std::string& heading) {
  write_all(fmt::format("--- {}\n", heading));
  CheckLine check;
  auto start = std::chrono::steady_clock::now();
  int code = supervise(job, [&](std::string_view piece) {
    check.feed(piece);
    write_all(piece);
  });
  std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  return {code, passed.count(), check.last()};
}

// Both runs read the same standard input when it is a file; a pipe goes to the first run.
class Rewind {
 public:
  Rewind() : start_(lseek(STDIN_FILENO, 0, SEEK_CUR)) {
    struct stat facts {};
    if (fstat(STDIN_FILENO, &facts) != 0 || !S_ISREG(facts.st_mode)) start_ = -1;
  }
  void again() const {
    if (start_ >= 0) lseek(STDIN_FILENO, start_, SEEK_SET);
  }

 private:
  off_t start_;
};

std::string check_text(const Outcome& plain, const Outcome& engine) {
  if (!plain.check && !engine.check)
    return "check line    none printed (a line that starts with 'check:' would be compared)\n";
  if (plain.check == engine.check) return fmt::format("check line    the same: {}\n", *plain.check);
  return fmt::format("check line    DIFFERS\n  mpirun      {}\n  ddlrun      {}\n",
                     plain.check.value_or("(none)"), engine.check.value_or("(none)"));
}

}  // namespace

void CheckLine::feed(std::string_view piece) {
  for (char c : piece) {
    if (c != '\n') {
      open_ += c;
      continue;
    }
    if (!open_.empty() && open_.back() == '\r') open_.pop_back();
    if (is_check(open_)) last_ = open_;
    open_.clear();
  }
}

std::optional<std::string> CheckLine::last() const { return is_check(open_) ? open_ : last_; }

std::string comparison_text(const Outcome& plain, const Outcome& engine) {
  std::string text = "--- comparison\n";
  text += fmt::format("mpirun        {:8.3f} s\n", plain.seconds);
  text += fmt::format("ddlrun        {:8.3f} s\n", engine.seconds);
  double ratio = engine.seconds > 0 ? plain.seconds / engine.seconds : 0;
  text += fmt::format("ratio         {:8.3f} (mpirun / ddlrun; above 1 the engine is faster)\n", ratio);
  if (engine.exit_code != 0) text += fmt::format("ddlrun's run failed with exit code {}\n", engine.exit_code);
  return text + check_text(plain, engine);
}

int run_comparison(const JobSpec& plain, const JobSpec& engine) {
  Rewind input;
  Outcome without = measure(plain, "plain mpirun");
  if (without.exit_code != 0) {
    print_warning(fmt::format(
        "the run under plain mpirun ended with exit code {} (there is nothing to compare with); make "
        "it work first",
        without.exit_code));
    return without.exit_code;
  }
  input.again();
  Outcome with = measure(engine, "ddlrun");
  write_all(comparison_text(without, with));
  return with.exit_code;
}

}  // namespace ddl
