// Errors are values. No exception crosses a function of ours: libraries that throw are caught where they are called.
// C++20 has no std::expected; Result<T> is the part of it that we need.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <variant>

namespace osml {

// What the caller can do about an error decides its class.
enum class ErrorKind {
  Input,        // the file, decision or argument is wrong: exit code 2
  Unsupported,  // this machine cannot do it: exit code 3
  Permission,   // it could, with other rights: exit code 3
  Capacity,     // out of CLOSIDs, RMIDs, disk space: exit code 1
  Absent,       // a configured service is not there: exit code 4
  Gone,         // the task, group or CPU vanished meanwhile: retry with a fresh view
  Busy,         // try again later
  Io,           // everything else the kernel or network refused: exit code 1
};

struct Error {
  ErrorKind kind = ErrorKind::Io;
  std::string message;  // one sentence: field, value, what was expected, what to do
  int code = 0;         // errno, 0 where there is none

  // "while doing this: what happened", so that the trail reads from the outside in.
  [[nodiscard]] Error wrap(const std::string& doing) const { return {kind, doing + ": " + message, code}; }
};

// Class of an errno as kernel files give them (EINVAL is Io: what we wrote was checked by us before).
ErrorKind kind_of_errno(int code);
// "<what>: <strerror>", classed by errno.
Error errno_error(int code, const std::string& what);
// 0 done, 1 the work failed, 2 the input was wrong, 3 the machine cannot do it, 4 a configured service is not there.
int exit_code(ErrorKind kind);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

struct Done {};
using Status = Result<Done>;
inline Status done() { return Done{}; }

}  // namespace osml
