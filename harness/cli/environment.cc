#include "harness/cli/environment.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/base/build.h"
#include "harness/base/cpus.h"

namespace mixproof {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "unknown";
}

}  // namespace

Json tool_json() {
  int count = 0;
  const BackendFact* facts = backend_facts(&count);
  Json backends = Json::array();
  for (int i = 0; i < count; ++i)
    backends.push_back(
        {{"name", facts[i].name}, {"found", facts[i].found}, {"detail", facts[i].detail}});
  return {{"name", "mixproof"},
          {"version", build_version()},
          {"build", build_digest()},
          {"compiler", "g++ " __VERSION__},
          {"backends", backends}};
}

Json environment_json(const std::vector<NodeAddress>& nodes, const std::string& where) {
  utsname name{};
  ::uname(&name);
  const std::int64_t memory =
      static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  Json list = Json::array();
  for (const NodeAddress& node : nodes)
    list.push_back({{"name", node.name}, {"role", node.role}, {"address", node.address}});
  return {{"where", where},
          {"controller",
           {{"host", name.nodename},
            {"kernel", std::string(name.sysname) + " " + name.release},
            {"architecture", name.machine},
            {"cpu_model", cpu_model()},
            {"cpus", allowed_cpus().size()},
            {"memory_bytes", memory}}},
          {"nodes", list}};
}

}  // namespace mixproof
