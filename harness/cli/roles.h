// The internal subcommands, spoken to over stdin and stdout.
#pragma once

namespace mixproof {

int agent_main();
int guard_main();

}  // namespace mixproof
