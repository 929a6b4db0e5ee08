#include "suites/services/service.h"

#include "suites/services/kinds.h"

namespace mixproof {

std::string endpoint(const ServiceRequest& request) {
  return request.address + ":" + std::to_string(request.port);
}

const std::vector<ServiceKind>& service_kinds() {
  static const std::vector<ServiceKind> kKinds = {command_service, haproxy_service,
                                                  llama_cpp_service, null_server_service};
  return kKinds;
}

const ServiceKind* service_kind(const std::string& name) {
  for (const ServiceKind& kind : service_kinds())
    if (kind.name == name) return &kind;
  return nullptr;
}

}  // namespace mixproof
