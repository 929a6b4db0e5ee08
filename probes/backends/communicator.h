// Communicator: the ranks of one group, joined so that they can sum buffers. No vendor header is
// needed to use it.
//
// Thread rule: one thread uses a communicator, from its creation to its end. Nothing waits without
// a deadline, and nothing spins: a rank that waits sleeps in the kernel.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "harness/base/result.h"

namespace mixproof {

// How long a call may wait. After a stop was asked for, it goes on for half a second at most, so
// that ranks which are asked at about the same time can still finish what they are in together.
struct Patience {
  std::chrono::steady_clock::time_point deadline;  // CLOCK_MONOTONIC
  std::stop_token stop;
};

// kStopped: this rank, or another one, was asked to stop and left; the buffers hold nothing of use,
// and so does the communicator. That is no error here: whoever stopped the group knows why.
enum class Outcome { kDone, kStopped };

struct CommunicatorOptions {
  int rank = 0, size = 1;
  std::string transport = "tcp";         // as the backend names it; several are separated by commas
  std::string net_devices;               // as the backend names them; empty: all
  std::size_t bucket_bytes = 1U << 20U;  // a sum goes round the ring in pieces of this size
};

// Any failure ends the communicator: later calls return the same error. Errors name the rank at
// fault:
//   kTimeout     it did not answer within the deadline (stopped, cut off, or too slow)
//   kPeerLost    its process or its connection went away
//   kCorrupt     it sent something of another size than the ring expects
//   kInvalid     it runs another backend version or transport
class Communicator {
 public:
  virtual ~Communicator() = default;  // leaves without waiting; close() is the orderly way

  // Where the others reach this rank: any bytes, to be exchanged by rank before connect().
  virtual const std::string& address() const = 0;

  // Meets every other rank. kUnavailable when a connection uses another transport than the one
  // asked for.
  virtual Result<Outcome> connect(std::span<const std::string> addresses,
                                  const Patience& patience) = 0;

  // Replaces `data` by the sum over all ranks, which give equally long buffers. Ring of
  // reduce-scatter and all-gather: a rank sends 2 (N - 1) / N of the bytes, and all ranks end with
  // the same bits.
  virtual Result<Outcome> all_reduce_sum(std::span<float> data, const Patience& patience) = 0;

  // Returns when every rank has come here.
  virtual Result<Outcome> barrier(const Patience& patience) = 0;

  // What the connections really use, as the library tells it now: "tcp". "none" when there is only
  // one rank.
  virtual Result<std::string> transport() const = 0;

  // Takes leave of every other rank, so that none mistakes the end of this one for a loss.
  virtual Status close(const Patience& patience) = 0;
};

}  // namespace mixproof
