#include "probes/backends/ucx/ring.h"

#include <algorithm>
#include <vector>

#include "harness/base/text.h"
#include "probes/backends/ucx/members.h"

namespace mixproof {
namespace {

constexpr int kMaxRanks = 1 << 16;

// The i-th of `count` nearly equal pieces of a buffer; some are empty when it is shorter than that.
std::span<float> piece(std::span<float> data, int index, int count) {
  const auto i = static_cast<std::size_t>(index);
  const auto n = static_cast<std::size_t>(count);
  const std::size_t begin = data.size() * i / n;
  return data.subspan(begin, data.size() * (i + 1) / n - begin);
}

class UcxRing final : public Communicator {
 public:
  UcxRing(const CommunicatorOptions& options, std::unique_ptr<Members> members)
      : options_(options),
        bucket_(std::max<std::size_t>(options.bucket_bytes / sizeof(float), 1)),
        scratch_(bucket_ / static_cast<std::size_t>(options.size) + 1),
        members_(std::move(members)) {}

  const std::string& address() const override { return members_->address(); }
  Result<Outcome> connect(std::span<const std::string> addresses,
                          const Patience& patience) override {
    return members_->connect(addresses, patience);
  }
  Result<Outcome> all_reduce_sum(std::span<float> data, const Patience& patience) override;
  Result<Outcome> barrier(const Patience& patience) override {
    float nothing = 0;
    return all_reduce_sum({&nothing, 1}, patience);
  }
  Result<std::string> transport() const override { return members_->transport(); }
  Status close(const Patience& patience) override { return members_->close(patience); }

 private:
  Result<Outcome> reduce_bucket(std::span<float> data, const Patience& patience);
  // Sends to the right and receives from the left, into scratch.
  Result<Outcome> exchange(std::span<const float> out, std::size_t in, const Patience& patience);

  CommunicatorOptions options_;
  std::size_t bucket_;          // elements
  std::vector<float> scratch_;  // all receives; outlives the worker in members_
  std::unique_ptr<Members> members_;
  std::uint32_t sequence_ = 0;  // of exchanges; the same on all ranks
};

Result<Outcome> UcxRing::all_reduce_sum(std::span<float> data, const Patience& patience) {
  const Outcome usable = TRY(members_->usable());
  if (usable != Outcome::kDone) return usable;
  if (options_.size == 1) return Outcome::kDone;
  for (std::size_t begin = 0; begin < data.size(); begin += bucket_) {
    const std::size_t length = std::min(bucket_, data.size() - begin);
    const Outcome outcome = TRY(reduce_bucket(data.subspan(begin, length), patience));
    if (outcome != Outcome::kDone) return outcome;
  }
  return Outcome::kDone;
}

// Piece p starts its way at rank p and gathers the sum on its way round; the last rank to add holds
// the result, and a second way round hands it out.
Result<Outcome> UcxRing::reduce_bucket(std::span<float> data, const Patience& patience) {
  const int size = options_.size;
  for (int turn = 0; turn < 2 * (size - 1); ++turn) {
    const bool adding = turn < size - 1;
    const int out = (options_.rank - turn + 2 * size) % size;
    const std::span<float> in = piece(data, (out + size - 1) % size, size);
    const Outcome outcome = TRY(exchange(piece(data, out, size), in.size(), patience));
    if (outcome != Outcome::kDone) return outcome;
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = adding ? in[i] + scratch_[i] : scratch_[i];
  }
  return Outcome::kDone;
}

Result<Outcome> UcxRing::exchange(std::span<const float> out, std::size_t in,
                                  const Patience& patience) {
  const int right = (options_.rank + 1) % options_.size;
  const int left = (options_.rank + options_.size - 1) % options_.size;
  const std::span<float> into(scratch_.data(), in);
  ++sequence_;
  Pending receive, send;
  if (!into.empty()) receive = members_->receive(left, sequence_, into);
  if (!out.empty()) send = members_->send(right, sequence_, out);
  // What fails because a rank left or died is not done: the members find out whose fault it is.
  const auto done = [&] {
    const bool received =
        receive.status() == UCS_OK || receive.status() == UCS_ERR_MESSAGE_TRUNCATED;
    return received && send.status() == UCS_OK;
  };
  const Outcome outcome = TRY(members_->wait(done, patience, "sum over the ranks"));
  if (outcome != Outcome::kDone) return outcome;
  if (receive.status() != UCS_OK ||
      receive.received_bytes() != (into.empty() ? 0 : into.size_bytes()))
    return members_->fail(ucx_error(Code::kCorrupt,
                                    format("receive %zu bytes from rank %d, got %zu",
                                           into.size_bytes(), left, receive.received_bytes()),
                                    receive.status()),
                          left);
  return Outcome::kDone;
}

}  // namespace

Result<std::unique_ptr<Communicator>> create_ucx_ring(const CommunicatorOptions& options) {
  if (options.size < 1 || options.size > kMaxRanks || options.rank < 0 ||
      options.rank >= options.size)
    return Error{Code::kInvalid, format("rank %d of %d ranks", options.rank, options.size)};
  std::unique_ptr<Members> members = TRY(Members::create(options));
  return std::unique_ptr<Communicator>(new UcxRing(options, std::move(members)));
}

}  // namespace mixproof
