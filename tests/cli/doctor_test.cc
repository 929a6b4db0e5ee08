#include "harness/cli/doctor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mixproof {
namespace {

int doctor(const std::vector<std::string>& args, std::string* out, std::string* err) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = doctor_main(args);
  *out = testing::internal::GetCapturedStdout();
  *err = testing::internal::GetCapturedStderr();
  return code;
}

TEST(Doctor, WithoutADrillListsThem) {
  std::string out, err;
  EXPECT_EQ(doctor({}, &out, &err), 0);
  EXPECT_NE(out.find("load    "), std::string::npos);
}

TEST(Doctor, RefusesDrillsAndChecksThatDoNotExist) {
  std::string out, err;
  EXPECT_EQ(doctor({"weather"}, &out, &err), 4);
  EXPECT_NE(err.find("no drill \"weather\""), std::string::npos) << err;
  EXPECT_EQ(doctor({"load", "twice"}, &out, &err), 4);
  EXPECT_EQ(doctor({"load", "--only", "az"}, &out, &err), 4);
  EXPECT_NE(err.find("the checks are a to k"), std::string::npos) << err;
  EXPECT_EQ(doctor({"load", "--quik"}, &out, &err), 4);
}

}  // namespace
}  // namespace mixproof
