// SignalsHeld: Ctrl-C and its like wait as long as it lives. One thread.
#pragma once

#include <csignal>

namespace mixproof {

// Ctrl-C and its like wait until a lab is made or cleared as a whole.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigemptyset(&held_);
    for (const int signal : kSignals) sigaddset(&held_, signal);
    ::sigprocmask(SIG_BLOCK, &held_, &before_);
  }
  ~SignalsHeld() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  int arrived() const {  // 0: none
    sigset_t pending;
    ::sigpending(&pending);
    for (const int signal : kSignals) {
      if (sigismember(&pending, signal) == 1) return signal;
    }
    return 0;
  }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  sigset_t held_, before_;
};

}  // namespace mixproof
