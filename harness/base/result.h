// Result<T>: a value or an Error. The only way failure travels in this project.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace mixproof {

// Why an operation failed. The code decides the exit status of a command (harness/cli/exit_code.h)
// and the status of a check that needed the failed thing (reports/verdict.h).
enum class Code {
  kInvalid,  // asked for something impossible: bad suite, bad option, this build cannot (exit 4)
  kRefused,  // not now: port taken, lab in use, lock held (exit 6)
  kUnavailable,  // this build or this machine lacks the capability, with the reason
  kTimeout,      // a deadline passed
  kPeerLost,     // another process or node went away when no fault explained it
  kDevice,       // GPU, NIC or disk reported an error
  kCorrupt,      // data came back different from what was written
  kSystem,       // a system call failed
  kConflict,     // what we would undo is no longer ours
  kInternal,     // our own bug, reported rather than aborted at a process boundary
};

std::string_view code_name(Code code);  // "invalid", "refused", ...
std::optional<Code> code_from_name(std::string_view name);

struct [[nodiscard]] Error {
  Code code;
  std::string message;

  // Prefixes where it happened; callers add context, only the origin logs.
  Error in(std::string_view where) && { return {code, std::string(where) + ": " + message}; }
};

// kSystem with the text of errno: "open /x: No such file or directory".
Error system_error(std::string_view what);
Error system_error(std::string_view what, int error_number);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return *check(std::get_if<0>(&state_)); }
  T&& value() && { return std::move(*check(std::get_if<0>(&state_))); }
  const T& value() const& { return *check(std::get_if<0>(&state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

  const Error& error() const& { return *check(std::get_if<1>(&state_)); }
  Error&& error() && { return std::move(*check(std::get_if<1>(&state_))); }

 private:
  template <typename P>
  static P check(P p) {
    if (p == nullptr) {
      std::fputs("Result: wrong side read\n", stderr);
      std::abort();
    }
    return p;
  }
  std::variant<T, Error> state_;
};

struct Unit {};
using Status = Result<Unit>;
inline Status ok() { return Unit{}; }

}  // namespace mixproof

// auto fd = TRY(open_file(path));   -- returns the Error from the enclosing function, or yields the
// value. One per statement: nesting shadows.
#define TRY(expr)                                            \
  __extension__({                                            \
    auto try_result_ = (expr);                               \
    if (!try_result_) return std::move(try_result_).error(); \
    std::move(try_result_).value();                          \
  })
