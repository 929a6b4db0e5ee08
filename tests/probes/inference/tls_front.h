// TLS in front of a plain server, with certificates made on the spot.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "tests/fake/loopback.h"

namespace mixproof::inference {

// A certificate and its key, made for the test.
class Certificate {
 public:
  struct Wish {
    std::string subject = "server";
    std::string alternative = "IP:127.0.0.1";  // whom it names; empty for an authority
    int from_days = -1, until_days = 1;
    const Certificate* issuer = nullptr;  // itself when null
  };
  explicit Certificate(const Wish& wish);

  void write_to(const std::string& path) const;  // PEM
  X509* certificate() const { return certificate_.get(); }
  EVP_PKEY* key() const { return key_.get(); }

 private:
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_{nullptr, EVP_PKEY_free};
  std::unique_ptr<X509, decltype(&X509_free)> certificate_{nullptr, X509_free};
};

// Hands on to 127.0.0.1:backend_port what comes over TLS, and back.
class TlsFront {
 public:
  struct Options {
    bool says_goodbye = true;  // close_notify before the end of the connection
    int max_version = TLS1_3_VERSION;
  };
  TlsFront(const Certificate& certificate, int backend_port);
  TlsFront(const Certificate& certificate, int backend_port, Options options);

  std::string url() const { return "https://127.0.0.1:" + std::to_string(listener_.port()); }
  std::string server_name() {  // of the last handshake
    const std::lock_guard lock(mutex_);
    return server_name_;
  }

 private:
  static int greeted(SSL* ssl, int* alert, void* front);
  void serve(int fd, const std::stop_token& stop);

  const int backend_port_;
  const Options options_;
  std::mutex mutex_;
  std::string server_name_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{nullptr, SSL_CTX_free};
  LoopbackListener listener_;
};

}  // namespace mixproof::inference
