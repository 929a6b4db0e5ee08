#include "probes/checkpoint/state.h"

#include <bit>
#include <cstring>
#include <optional>

#include "harness/base/check.h"
#include "harness/base/random.h"
#include "harness/base/text.h"
#include "probes/checkpoint/words.h"

namespace mixproof {

ParameterState::ParameterState(std::uint64_t seed) : digest_(Random(seed, "parameters").next()) {}

void ParameterState::apply(float sum) {
  digest_ = Random(digest_ ^ std::bit_cast<std::uint32_t>(sum)).next();
  ++steps_;
}

std::uint64_t ParameterState::key(std::int64_t rank) const {
  return Random(digest_ + static_cast<std::uint64_t>(rank), "parameters of a rank").next() ^
         static_cast<std::uint64_t>(steps_);
}

// First the digest and the number of steps, then words.
void ParameterState::write(std::int64_t rank, std::span<std::byte> parameters) const {
  CHECK(std::ssize(parameters) >= kLeastBytes);
  std::memcpy(parameters.data(), &digest_, sizeof digest_);
  std::memcpy(parameters.data() + sizeof digest_, &steps_, sizeof steps_);
  fill_words(key(rank), 0, parameters.subspan(kLeastBytes));
}

Result<ParameterState> ParameterState::read(std::int64_t rank,
                                            std::span<const std::byte> parameters) {
  if (std::ssize(parameters) < kLeastBytes)
    return Error{Code::kCorrupt, "parameters are too short"};
  ParameterState state(0, 0);
  std::memcpy(&state.digest_, parameters.data(), sizeof state.digest_);
  std::memcpy(&state.steps_, parameters.data() + sizeof state.digest_, sizeof state.steps_);
  const std::optional<std::size_t> wrong =
      wrong_word(state.key(rank), 0, parameters.subspan(kLeastBytes));
  if (wrong)
    return Error{Code::kCorrupt,
                 format("parameters of rank %lld: byte %zu is wrong", static_cast<long long>(rank),
                        *wrong + static_cast<std::size_t>(kLeastBytes))};
  return state;
}

}  // namespace mixproof
