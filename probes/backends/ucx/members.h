// Members: the ranks of a group as one of them sees the others: who is connected, who answers, who
// left and why.
//
// Every rank is connected to every other one, although data only goes round the ring, so that the
// end of a process is seen by all and the right rank is named. A rank that is about to give up
// calls the roll: ranks that wait answer, and those that do not are the ones it names. A rank that
// leaves says why, so that the others name the cause and not the messenger.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "probes/backends/communicator.h"
#include "probes/backends/ucx/session.h"

namespace mixproof {

class Members {
 public:
  static Result<std::unique_ptr<Members>> create(const CommunicatorOptions& options);
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;
  ~Members();

  const std::string& address() const { return address_; }
  Result<Outcome> connect(std::span<const std::string> addresses, const Patience& patience);

  // kDone while data may be sent; else what ended the group for this rank.
  Result<Outcome> usable() const;

  // Sleeps and progresses until `done` or the end of the patience. Anything but kDone ends the
  // group for this rank, and every later call returns the same. `doing` is for messages: "sum".
  Result<Outcome> wait(const std::function<bool()>& done, const Patience& patience,
                       const std::string& doing);

  // `sequence` is the same on both sides. See Pending for how long the buffers must live.
  Pending send(int to, std::uint32_t sequence, std::span<const float> data);
  Pending receive(int from, std::uint32_t sequence, std::span<float> data);

  // Ends the group for this rank because of `accused` (-1: nobody); returns the error.
  Error fail(Error error, int accused);

  Result<std::string> transport() const;
  Status close(const Patience& patience);

 private:
  enum class Leave : std::int32_t { kFinished, kStopped, kTimeout, kPeerLost, kOther };
  enum class Kind : std::uint8_t { kHello, kRollCall, kHere, kBye };
  struct Note {
    Leave why = Leave::kFinished;
    std::int32_t accused = -1;
  };
  struct Peer {
    bool greeted = false, here = false;
    std::optional<Note> bye;
    std::unique_ptr<Endpoint> endpoint;  // null for this rank itself
  };
  struct RollCall {
    std::chrono::steady_clock::time_point due, limit;  // limit moves when the call comes late
    std::chrono::milliseconds grace;
    bool called = false;
  };

  Members(const CommunicatorOptions& options, Session session);
  Status check_address(int rank, const std::string& address) const;
  void tell(int to, Kind kind, const Note& note);
  void tell_all(Kind kind, const Note& note);
  Status hear();  // reads all notes that have arrived
  std::optional<Result<Outcome>> trouble(const std::string& doing);
  Result<Outcome> after_leave(int rank, const Note& note);
  Error give_up(const std::string& doing, double waited_s);
  void leave(const Note& note);
  Outcome stop();

  CommunicatorOptions options_;
  std::string address_;
  std::deque<Note> notes_;  // told ones; before the session, which may still read them
  Session session_;
  std::deque<Peer> peers_;
  std::vector<Pending> telling_;
  std::optional<Result<Outcome>> ended_;
};

}  // namespace mixproof
