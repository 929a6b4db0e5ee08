#include "harness/agent/nft.h"

#include <dlfcn.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "harness/base/unique_fd.h"

// Needs the fixed-width types before it.
#include <nftables/libnftables.h>

namespace mixproof {
namespace {

constexpr std::size_t kTextMax = 1 << 20, kMessageMax = 400;

struct Library {
  decltype(&nft_ctx_new) create = nullptr;
  decltype(&nft_ctx_free) destroy = nullptr;
  decltype(&nft_ctx_buffer_output) buffer_output = nullptr;
  decltype(&nft_ctx_buffer_error) buffer_error = nullptr;
  decltype(&nft_ctx_get_output_buffer) output = nullptr;
  decltype(&nft_ctx_get_error_buffer) error = nullptr;
  decltype(&nft_run_cmd_from_buffer) run = nullptr;
  std::string trouble;  // why it cannot be used; else empty
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Library open_library() {
  Library out;
  void* library = ::dlopen("libnftables.so.1", RTLD_NOW | RTLD_LOCAL);
  const bool whole = library != nullptr && find(library, "nft_ctx_new", out.create) &&
                     find(library, "nft_ctx_free", out.destroy) &&
                     find(library, "nft_ctx_buffer_output", out.buffer_output) &&
                     find(library, "nft_ctx_buffer_error", out.buffer_error) &&
                     find(library, "nft_ctx_get_output_buffer", out.output) &&
                     find(library, "nft_ctx_get_error_buffer", out.error) &&
                     find(library, "nft_run_cmd_from_buffer", out.run);
  if (!whole) {
    const char* why = ::dlerror();
    out.trouble = std::string("libnftables cannot be opened (Debian package libnftables1): ") +
                  (why == nullptr ? "a function is missing" : why);
  }
  return out;
}

const Library& library() {
  static const Library kLibrary = open_library();
  return kLibrary;
}

// The library tells only in words; they are the C library's for the kernel's answer.
Code code_of(const std::string& message) {
  const auto says = [&message](int number) {
    return message.find(std::strerror(number)) != std::string::npos;
  };
  if (says(ENOENT)) return Code::kUnavailable;
  if (says(EPERM)) return Code::kConflict;
  if (says(EEXIST)) return Code::kRefused;
  for (const int number : {EINVAL, EOPNOTSUPP, EPROTONOSUPPORT})
    if (says(number)) return Code::kInvalid;
  return Code::kSystem;
}

// The library ends the whole process when it gets no socket; so that is tried first.
Status try_socket() {
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  if (socket.get() >= 0) return ok();
  return Error{Code::kUnavailable,
               std::string("the kernel has no packet filter to talk to: ") + std::strerror(errno)};
}

}  // namespace

Result<std::unique_ptr<Nft>> Nft::open() {
  if (!library().trouble.empty()) return Error{Code::kUnavailable, library().trouble};
  TRY(try_socket());
  std::unique_ptr<Nft> nft(new Nft(library().create(NFT_CTX_DEFAULT)));
  if (nft->context_ == nullptr)
    return Error{Code::kUnavailable, "libnftables cannot talk to the kernel's packet filter"};
  if (library().buffer_output(nft->context_) != 0 || library().buffer_error(nft->context_) != 0)
    return Error{Code::kSystem, "libnftables cannot keep its output"};
  return nft;
}

Nft::~Nft() {
  if (context_ != nullptr) library().destroy(context_);
}

Result<std::string> Nft::run(const std::string& text) {
  if (text.size() > kTextMax) return Error{Code::kInvalid, "nft: too many rules"};
  const int failed = library().run(context_, text.c_str());
  const char* said = library().error(context_);
  std::string message = said == nullptr ? "" : said;
  // Both buffers are emptied by reading them.
  const char* printed = library().output(context_);
  std::string out = printed == nullptr ? "" : printed;
  if (failed == 0 && out.size() <= kTextMax) return out;
  if (failed == 0) message = "its answer is too long";
  if (message.empty()) message = "it failed and gave no reason";
  const Code code = code_of(message);
  message = message.substr(0, std::min(message.find('\n'), kMessageMax));
  return Error{code, "nft: " + message};
}

}  // namespace mixproof
