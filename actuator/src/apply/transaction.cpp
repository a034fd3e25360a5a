#include "apply/transaction.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <set>
#include <thread>

#include "apply/restore.h"
#include "base/number.h"

namespace osml {

namespace {

using Clock = std::chrono::steady_clock;

// The kernel shows a value as soon as it took it; a tree that user space serves needs some milliseconds.
constexpr auto settle_patience = std::chrono::milliseconds(300);
constexpr auto settle_pause = std::chrono::milliseconds(2);

Status verify(Knob& knob, const std::string& value) {
  const auto deadline = Clock::now() + settle_patience;
  while (true) {
    const auto now = knob.read();
    if (!now) return now.error();
    if (knob.accepts(*now, value)) return done();
    if (Clock::now() >= deadline) {
      return Error{ErrorKind::Io, "the agent wrote '" + value + "', but the kernel reports '" + *now + "'", 0};
    }
    std::this_thread::sleep_for(settle_pause);
  }
}

Status perform(const Prepared& prepared, const Step& step) {
  if (prepared.change.found) {
    const Status back = put_back(*prepared.knob, *prepared.change.found);
    return prepared.knob->refused() ? done() : back;  // what was found stays in the journal, for later
  }
  if (Status written = prepared.knob->write(step.value); !written) return written;
  return verify(*prepared.knob, step.value);
}

// Latest first; a knob that two steps touched is put back once. Goes on after an error: the rest may still succeed.
std::string undo(const std::vector<Prepared>& changes, const std::vector<Step>& steps, std::size_t touched) {
  std::string left;
  std::set<std::size_t> undone;
  for (std::size_t index = touched; index-- > 0;) {
    const Prepared& prepared = changes[steps[index].change];
    if (!undone.insert(steps[index].change).second) continue;
    if (const Status back = put_back(*prepared.knob, prepared.snapshot); !back) {
      left += (left.empty() ? "" : "; ") + prepared.change.service + ": " +
              std::string(name_of(prepared.change.aspect)) + ": " + back.error().message;
    }
  }
  // Threads whose group came back only behind their own turn.
  for (const std::size_t index : undone) {
    const Prepared& prepared = changes[index];
    if (prepared.change.aspect == Aspect::Tasks) (void)put_back(*prepared.knob, prepared.snapshot);
  }
  return left;
}

}  // namespace

CrashPoint CrashPoint::from_environment() {
  CrashPoint point;
  const char* text = std::getenv("OSML_CRASH_AFTER_STEP");
  if (text == nullptr) return point;
  if (const auto steps = parse_unsigned(text)) point.remaining_ = static_cast<unsigned long>(*steps);
  return point;
}

void CrashPoint::step() {
  if (!remaining_) return;
  if (*remaining_ <= 1) ::kill(::getpid(), SIGKILL);
  --*remaining_;
}

Execution execute(const std::vector<Prepared>& changes, const std::vector<Step>& steps, CrashPoint& crash) {
  for (std::size_t index = 0; index < steps.size(); ++index) {
    const Prepared& prepared = changes[steps[index].change];
    const Status performed = perform(prepared, steps[index]);
    if (performed) {
      crash.step();
      continue;
    }
    std::string failed = describe(prepared.change, steps[index]) + " failed: " + performed.error().message;
    // The failing step itself may have been taken in part, so it is undone as well.
    const std::string left = undo(changes, steps, index + 1);
    if (left.empty()) return {Ending::RolledBack, failed};
    failed.append("; the change could not be undone: ").append(left);
    return {Ending::Failed, failed};
  }
  return {};
}

}  // namespace osml
