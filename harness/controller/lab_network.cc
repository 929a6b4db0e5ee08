#include "harness/controller/lab_network.h"

#include "harness/base/text.h"
#include "harness/controller/lab_process.h"

namespace mixproof {
namespace {

// A burst of 256 KiB lets whole 64 KiB segments through, so that the rate is met within 1 %.
std::string shape(const std::string& device, double bits_per_s) {
  return format("qdisc add dev %s root tbf rate %.0fbit burst 256k latency 50ms\n", device.c_str(),
                bits_per_s);
}

std::string port(std::size_t index) { return "port" + std::to_string(index); }

}  // namespace

std::string lab_address(std::size_t index) { return "10.77.0." + std::to_string(2 + index); }

Status make_network(const Lab& lab, double link_bits_per_s, const std::string& tools_cgroup) {
  std::string links = "link set lo up\nlink add bridge0 type bridge\nlink set bridge0 up\n",
              shaping;
  for (std::size_t i = 0; i < lab.nodes.size(); ++i) {
    links += format("link add %s type veth peer name eth0 netns %d\n", port(i).c_str(),
                    lab.nodes[i].init_pid);
    links += format("link set %s master bridge0 up\n", port(i).c_str());
    shaping += shape(port(i), link_bits_per_s);
  }
  TRY(run_tool({{"ip", "-batch", "-"}, links, tools_cgroup, lab.fabric_pid}));
  TRY(run_tool({{"tc", "-batch", "-"}, shaping, tools_cgroup, lab.fabric_pid}));
  for (const LabNode& node : lab.nodes) {
    const std::string address =
        format("addr add %s/24 dev eth0\nlink set eth0 up\n", node.address.c_str());
    const Status addressed =
        run_tool({{"ip", "-batch", "-"}, address, tools_cgroup, node.init_pid});
    if (!addressed.ok()) return Error(addressed.error()).in(node.name);
    const Status shaped = run_tool(
        {{"tc", "-batch", "-"}, shape("eth0", link_bits_per_s), tools_cgroup, node.init_pid});
    if (!shaped.ok()) return Error(shaped.error()).in(node.name);
  }
  return ok();
}

}  // namespace mixproof
