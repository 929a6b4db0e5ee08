// LineReader and LineWriter: lines over non-blocking pipes, bounded both ways.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "harness/base/reactor.h"

namespace mixproof {

inline constexpr std::size_t kLineBytesMax =
    4 << 20;  // a longer line is cut there and delivered as it is
inline constexpr std::size_t kQueueBytesMax = 64 << 20;

class LineReader {
 public:
  // Takes over the descriptor. `on_end` once, after the last line (an unfinished one counts).
  LineReader(Reactor& reactor, UniqueFd fd, std::function<void(std::string_view)> on_line,
             std::function<void()> on_end);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  Status start();
  void finish();  // reads what is there, then ends, whether or not the other side is closed

 private:
  void read_some(bool last);
  void end();

  Reactor& reactor_;
  UniqueFd fd_;
  std::function<void(std::string_view)> on_line_;
  std::function<void()> on_end_;
  std::string buffer_;
  bool* destroyed_ = nullptr;  // set by the destructor while a callback runs
};

class LineWriter {
 public:
  LineWriter(Reactor& reactor, UniqueFd fd);
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  Status send(std::string_view line);
  void close_after_sending();
  // Blocks for at most `ms` to get rid of what is queued; for a process that is about to leave.
  void flush(int ms);

 private:
  Status write_some();
  void fail();

  Reactor& reactor_;
  UniqueFd fd_;
  std::string queue_;
  bool watching_ = false, closing_ = false;
};

}  // namespace mixproof
