// One rank of a UCX group as a process of its own, for tests that stop and kill ranks.
//   ucx_rank MODULE_DIR RANK SIZE DEADLINE_MS
// Writes "address HEX", reads one line with the addresses of all ranks, and then sums until it is
// killed: "round N" after each sum, "error CODE MESSAGE" when one fails.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <vector>

#include "harness/base/text.h"
#include "probes/backends/module.h"

namespace mixproof {
namespace {

using Clock = std::chrono::steady_clock;

std::string to_hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += format("%02x", static_cast<unsigned char>(byte));
  return text;
}

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return bytes;
}

Status run_rank(char** argv) {
  const std::chrono::milliseconds deadline(std::atoi(argv[4]));
  const BackendTable* backend = TRY(open_backend("ucx", argv[1]));
  auto communicator = TRY(backend->create_communicator(
      {.rank = std::atoi(argv[2]), .size = std::atoi(argv[3]), .net_devices = "lo"}));
  std::cout << "address " << to_hex(communicator->address()) << std::endl;
  std::string line;
  std::getline(std::cin, line);
  std::vector<std::string> addresses;
  for (const std::string& text : split(line, ' ')) addresses.push_back(from_hex(text));
  TRY(communicator->connect(addresses, {Clock::now() + std::chrono::seconds(10), {}}));
  std::vector<float> data(300'000);
  for (int round = 0;; ++round) {
    data.assign(data.size(), 1.0F);
    TRY(communicator->all_reduce_sum(data, {Clock::now() + deadline, {}}));
    if (data.front() != static_cast<float>(addresses.size()))
      return Error{Code::kCorrupt, "wrong sum"};
    std::cout << "round " << round << std::endl;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace
}  // namespace mixproof

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const mixproof::Status status = mixproof::run_rank(argv);
  std::cout << "error " << code_name(status.error().code) << " " << status.error().message
            << std::endl;
  return 1;
}
