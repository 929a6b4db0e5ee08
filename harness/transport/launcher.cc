#include "harness/transport/launcher.h"

namespace mixproof {
namespace {

std::string substituted(std::string word, const std::string& key, const std::string& value) {
  for (std::size_t at = word.find(key); at != std::string::npos;
       at = word.find(key, at + value.size()))
    word.replace(at, key.size(), value);
  return word;
}

}  // namespace

std::vector<std::string> agent_command(const NodeAddress& node) {
  std::vector<std::string> argv;
  for (const std::string& word : node.prefix)
    argv.push_back(substituted(substituted(word, "{name}", node.name), "{address}", node.address));
  argv.push_back(node.agent);
  argv.push_back("agent");
  return argv;
}

}  // namespace mixproof
