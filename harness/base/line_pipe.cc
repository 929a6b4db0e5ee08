#include "harness/base/line_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

#include <cerrno>

namespace mixproof {
namespace {

void set_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

LineReader::LineReader(Reactor& reactor, UniqueFd fd, std::function<void(std::string_view)> on_line,
                       std::function<void()> on_end)
    : reactor_(reactor),
      fd_(std::move(fd)),
      on_line_(std::move(on_line)),
      on_end_(std::move(on_end)) {
  set_nonblocking(fd_.get());
}

LineReader::~LineReader() {
  if (fd_) reactor_.forget(fd_.get());
  if (destroyed_ != nullptr) *destroyed_ = true;
}

Status LineReader::start() {
  return reactor_.watch(fd_.get(), EPOLLIN, [this](std::uint32_t) { read_some(false); });
}

void LineReader::finish() {
  if (fd_) read_some(true);
}

void LineReader::read_some(bool last) {
  bool destroyed = false;
  destroyed_ = &destroyed;
  bool ended = false;
  char chunk[65536];
  // Without `last`, one read a turn, so that a chatty child does not starve the others.
  do {
    const ssize_t got = ::read(fd_.get(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      ended = last || errno != EAGAIN;
      break;
    }
    if (got == 0) {
      ended = true;
      break;
    }
    buffer_.append(chunk, static_cast<std::size_t>(got));
    std::size_t begin = 0;
    while (true) {
      const std::size_t newline = buffer_.find('\n', begin);
      const bool too_long = std::min(newline, buffer_.size()) - begin > kLineBytesMax;
      if (newline == std::string::npos && !too_long) break;
      const std::string line = buffer_.substr(begin, too_long ? kLineBytesMax : newline - begin);
      begin += line.size() + (too_long ? 0 : 1);
      on_line_(line);
      if (destroyed) return;
    }
    buffer_.erase(0, begin);
  } while (last);
  if (ended && !buffer_.empty()) {
    const std::string rest = std::move(buffer_);
    buffer_.clear();
    on_line_(rest);
    if (destroyed) return;
  }
  if (ended) end();
  if (!destroyed) destroyed_ = nullptr;
}

void LineReader::end() {
  if (!fd_) return;
  reactor_.forget(fd_.get());
  fd_.reset();
  const auto tell = std::move(on_end_);
  on_end_ = nullptr;
  if (tell) tell();
}

LineWriter::LineWriter(Reactor& reactor, UniqueFd fd) : reactor_(reactor), fd_(std::move(fd)) {
  set_nonblocking(fd_.get());
}

LineWriter::~LineWriter() {
  if (watching_) reactor_.forget(fd_.get());
}

Status LineWriter::send(std::string_view line) {
  if (!fd_ || closing_) return Error{Code::kPeerLost, "the other side is gone"};
  if (queue_.size() + line.size() > kQueueBytesMax)
    return Error{Code::kPeerLost, "the other side does not read"};
  queue_.append(line);
  queue_.push_back('\n');
  return write_some();
}

Status LineWriter::write_some() {
  while (!queue_.empty()) {
    const ssize_t written = ::write(fd_.get(), queue_.data(), queue_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      if (watching_) return ok();
      watching_ = true;
      return reactor_.watch(fd_.get(), EPOLLOUT,
                            [this](std::uint32_t) { static_cast<void>(write_some()); });
    }
    if (written < 0) {
      fail();
      return Error{Code::kPeerLost, "the other side is gone"};
    }
    queue_.erase(0, static_cast<std::size_t>(written));
  }
  if (watching_) reactor_.forget(fd_.get());
  watching_ = false;
  if (closing_) fd_.reset();
  return ok();
}

void LineWriter::fail() {
  if (watching_) reactor_.forget(fd_.get());
  watching_ = false;
  fd_.reset();
  queue_.clear();
}

void LineWriter::close_after_sending() {
  closing_ = true;
  if (fd_ && queue_.empty()) fail();
}

void LineWriter::flush(int ms) {
  const Time end = read_clock(CLOCK_MONOTONIC) + std::chrono::milliseconds(ms);
  while (fd_ && !queue_.empty()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - read_clock(CLOCK_MONOTONIC));
    if (left.count() <= 0) return;
    pollfd wait{fd_.get(), POLLOUT, 0};
    ::poll(&wait, 1, static_cast<int>(left.count()));
    if (!write_some().ok()) return;
  }
}

}  // namespace mixproof
