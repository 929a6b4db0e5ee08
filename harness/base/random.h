// Random numbers from a seed and the name of a stream: the same pair gives the same numbers on
// every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace mixproof {

// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
// Not for secrets.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  // The stream's name is hashed into the seed (FNV-1a), so that adding a stream never shifts
  // another.
  Random(std::uint64_t seed, std::string_view stream) : state_(seed ^ hash(stream)) { next(); }

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // [0, 1)
  std::uint64_t below(std::uint64_t bound) {
    return next() % bound;
  }                                       // bound > 0; bias < bound / 2^64
  double exponential(double rate_per_s);  // mean 1 / rate

  static constexpr std::uint64_t hash(std::string_view text) {
    std::uint64_t value = 0xcbf29ce484222325ULL;
    for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return value;
  }

 private:
  std::uint64_t state_;
};

}  // namespace mixproof
