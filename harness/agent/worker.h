// Worker: runs one probe or load in a process of its own. An ordinary program with threads; it
// measures.
//
//   in:  {"worker": {probe, params, seed, name, node, address, rank, ranks, phases: [{name,
//   begin_ns, end_ns}]}}
//        {"do": "go", "phases": [absolute]}   {"do": "stop"}   {"gather": name, "blobs": [base64]}
//        {"gather": name, "absent": "who"}
//   out: {"ready": {}, "info"}  {"failed": {code, message, step}}  {"row": {...}}  {"gather": name,
//   "blob": base64}
//        {"done": {"check": {"ok": true} or error}}
// End of input is a stop.
#pragma once

namespace mixproof {

// Speaks over stdin and stdout until the probe is done. Exit status: 0 when it said done, 1 when it
// said failed.
int worker_main();

}  // namespace mixproof
