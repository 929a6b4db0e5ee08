// Services: how the servers of a run are started. One kind a file; the table is in service.cc.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/params.h"

namespace mixproof {

// What an agent needs to start one instance.
struct ServiceCommand {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  // added to the agent's own
  // Name -> content, written to the instance's work directory; in argv and environment "{dir}"
  // stands for that directory.
  std::map<std::string, std::string> files;
  std::string url;        // base URL for users: "http://10.77.0.2:8080"
  std::string ready_url;  // answers 200 when the service is ready
  // Of every figure taken from it: engine, wheel digest, shape, synthetic. Figures whose labels
  // differ are never compared.
  std::map<std::string, std::string> labels;
};

struct ServiceRequest {
  std::string name;     // "llm"
  int instance = 0;     // 1 in llm[1]
  std::string address;  // of the node: numeric IPv4
  int port = 0;
  Json params;                        // of the kind, already checked
  std::vector<std::string> backends;  // haproxy: "10.77.0.2:8080" of every instance, in order
  std::vector<std::string> argv;      // command
};

struct ServiceKind {
  std::string name;  // llama_cpp, haproxy, null_server, command
  std::string summary;
  int port;  // default
  // Returns them with every default filled in.
  Result<Json> (*check_params)(const Json& params, const std::string& pointer);
  // Whether this machine can start it: kInvalid with the reason and what to do (exit 4).
  Status (*available)();
  // How to start one instance. May run a program for up to a second to learn what is installed;
  // kInvalid when it cannot work.
  Result<ServiceCommand> (*command)(const ServiceRequest& request);
  Json (*schema)();  // draft-07 of params
};

const std::vector<ServiceKind>& service_kinds();
const ServiceKind* service_kind(const std::string& name);  // null when there is none

}  // namespace mixproof
