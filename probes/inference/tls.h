// TLS over sockets of ours: bytes of the wire in and out of memory, so that reads keep the kernel's
// stamps. OpenSSL stays in tls.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "harness/base/result.h"

namespace mixproof::inference {

struct TlsOptions {
  bool verify = true;   // the certificate, its chain and its name
  std::string ca_file;  // PEM, instead of the system's store; empty: the system's
};

// What all connections share. Must outlive them.
class TlsContext {
 public:
  // kInvalid when ca_file cannot be used.
  static Result<std::unique_ptr<TlsContext>> create(const TlsOptions& options);
  ~TlsContext();

 private:
  friend class TlsSession;
  struct State;
  explicit TlsContext(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The client's end of one connection. Never renegotiates; offers http/1.1 only. After a false from
// any call the session is of no use and error() says why.
class TlsSession {
 public:
  // `name`: the host, sent as server name unless it is an address, and whom the certificate must
  // name.
  TlsSession(const TlsContext& context, const std::string& name);
  ~TlsSession();

  bool handshake_done() const;
  // Takes bytes from the wire and appends what they say to `plain`. Also moves the handshake on.
  bool receive(std::string_view wire, std::string& plain);
  // Only after the handshake.
  bool send(std::string_view plain);
  // Moves what has to go out to the end of `wire`: call after each of the others, and first of all.
  void take_output(std::string& wire);
  // The peer said that nothing will follow (close_notify): an end of the connection is no cut.
  bool peer_closed() const;
  const std::string& error() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mixproof::inference
