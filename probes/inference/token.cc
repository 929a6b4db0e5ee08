#include "probes/inference/token.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace mixproof::inference {
namespace {

constexpr std::size_t kMaxToken = 16 * 1024;

Result<std::string> checked(std::string token, const std::string& from) {
  while (!token.empty() && (token.back() == '\r' || token.back() == ' ' || token.back() == '\t'))
    token.pop_back();
  if (token.empty()) return Error{Code::kInvalid, from + " holds no token"};
  const bool good =
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!good || token.size() > kMaxToken)
    return Error{Code::kInvalid, from +
                                     " holds what cannot be a token: it must be one word of "
                                     "printable ASCII"};
  return token;
}

}  // namespace

Result<std::string> read_token(const std::string& file, const std::string& variable) {
  if (file.empty() && variable.empty()) return std::string();
  if (!file.empty() && !variable.empty())
    return Error{Code::kInvalid, "token_file and token_env exclude each other"};
  if (!variable.empty()) {
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr)
      return Error{Code::kInvalid, "token_env: the environment variable " + variable +
                                       " is not set where the load runs"};
    return checked(value, "token_env: the environment variable " + variable);
  }
  std::ifstream stream(file);
  std::string line;
  if (!stream || !std::getline(stream, line))
    return Error{Code::kInvalid,
                 "token_file: cannot read a line of " + file + " where the load runs"};
  return checked(line, "token_file: " + file);
}

}  // namespace mixproof::inference
