// Nft: a connection to the kernel's packet filter through libnftables, text in and text out. The
// library is opened when it is first needed, so that a node without it does everything else.
//
// Its JSON input is not used: libnftables 1.0.6 takes a fractional timeout there and makes a
// permanent element, and ignores "owner", both with success.
#pragma once

#include <memory>
#include <string>

#include "harness/base/result.h"

struct nft_ctx;

namespace mixproof {

class Nft {
 public:
  // A netlink socket of its own, in the network namespace of the caller; tables that it owns live
  // as long as this object. kUnavailable with the reason where libnftables is not installed or the
  // kernel has no packet filter.
  static Result<std::unique_ptr<Nft>> open();
  ~Nft();
  Nft(const Nft&) = delete;
  Nft& operator=(const Nft&) = delete;

  // One transaction, all of it or nothing, and what it prints. kUnavailable: something that it
  // names is not there. kConflict: it may not (the table is another socket's; or we lack the
  // right). kRefused: what it creates is there already. kInvalid: the kernel does not understand
  // it. kSystem: anything else.
  Result<std::string> run(const std::string& text);

 private:
  explicit Nft(nft_ctx* context) : context_(context) {}
  nft_ctx* context_;
};

}  // namespace mixproof
