"""Runs the tests of a GoogleTest executable, many to a process, and writes a JUnit file like ctest's.

    tests/batches.py EXECUTABLE RESULTS.xml [JOBS]

For builds whose processes begin and end slowly (sanitizers). Whatever happens to a process, every test has a result:
- A test that crashes, or says nothing more for 60 s, has failed; those that were to run after it run in a new process.
- A process that fails though each of its tests passed (a leak, found at its end) is repeated test by test, to name the
  one; where none fails by itself, all of them together count as one failure.
"""
import collections
import os
import re
import select
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET

BATCH, SILENT_S, TAIL = 25, 60, 20_000
MARK = re.compile(rb"\[ +(RUN|OK|FAILED|SKIPPED) +\] ([^\s,]+)")
Result = collections.namedtuple("Result", "status seconds output")  # status: run, fail, notrun


def list_tests(executable):
    listed = subprocess.run([executable, "--gtest_list_tests"], check=True, capture_output=True, text=True).stdout
    tests, suite = [], ""
    for line in listed.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("  "):
            tests.append(suite + name)
        elif name.endswith("."):
            suite = name
    return tests


class Process:
    """One run of some tests. `results` of those that ended; `current`: the one it died in; `rest`: what it printed at its end."""

    def __init__(self, executable, tests):
        self.results, self.current, self.rest, self.trouble = {}, None, b"", ""
        self.tests, self.began, self.output = set(tests), 0, b""
        process = subprocess.Popen([executable, "--gtest_color=no", "--gtest_filter=" + ":".join(tests)],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   cwd=os.path.dirname(executable))
        self.read(process)
        code = process.wait()
        if not self.trouble and code != 0:
            self.trouble = f"killed by signal {-code}" if code < 0 else f"exit status {code}"

    def read(self, process):
        pipe, pending, heard = process.stdout.fileno(), b"", time.monotonic()
        while True:
            over = process.poll() is not None  # asked first: what it wrote before is then in the pipe
            if select.select([pipe], [], [], 0 if over else 0.5)[0]:
                data = os.read(pipe, 65536)
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self.line(line + b"\n")
                heard = time.monotonic()
                if data:
                    continue
                if not over:
                    process.wait(SILENT_S)
            if over:  # a child of its own may still hold the pipe
                break
            if time.monotonic() - heard > SILENT_S:
                process.kill()
                self.trouble = f"killed: nothing heard of it for {SILENT_S} s"
                process.wait()
        self.line(pending)

    def line(self, line):
        mark = MARK.search(line)
        word, name = (mark[1].decode(), mark[2].decode()) if mark else ("", "")
        if self.current is None and word == "RUN" and name in self.tests:
            self.current, self.began, self.output = name, time.monotonic(), b""
        elif self.current is not None:
            self.output += line
            if word in ("OK", "FAILED", "SKIPPED") and name == self.current:
                status = {"OK": "run", "FAILED": "fail", "SKIPPED": "notrun"}[word]
                self.results[name] = Result(status, time.monotonic() - self.began, self.output)
                self.current = None
        else:
            self.rest += line


class Runner:
    def __init__(self, executable, tests):
        count = -(-len(tests) // BATCH)
        self.executable, self.processes = executable, 0
        self.waiting = collections.deque(tests[i::count] for i in range(count))
        self.singly = {}  # test: its batch, which failed as a whole
        self.busy, self.results, self.changed = 0, {}, threading.Condition()

    def work(self):
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.waiting or self.busy == 0)
                if not self.waiting:
                    return
                batch = self.waiting.popleft()
                self.busy += 1
                self.processes += 1
            process = Process(self.executable, batch)
            with self.changed:
                self.take(batch, process)
                self.busy -= 1
                self.changed.notify_all()

    def take(self, batch, process):
        died_in, rest = process.current, process.rest[-TAIL:]
        left = [test for test in batch if test not in process.results and test != died_in]
        done = dict(process.results)
        if died_in is not None:
            done[died_in] = Result("fail", time.monotonic() - process.began,
                                   process.output[-TAIL:] + f"\n{process.trouble or 'it ended here'}\n".encode())
        if left and not done:  # it never came so far as to run one
            done = {test: Result("fail", 0, rest + f"\ndid not run: {process.trouble}\n".encode()) for test in left}
            left = []
        failed = any(result.status == "fail" for result in done.values())
        if process.trouble and not failed and len(batch) == 1:
            done[batch[0]] = Result("fail", done[batch[0]].seconds,
                                    rest + f"\nit passed, its process did not: {process.trouble}\n".encode())
        elif process.trouble and not failed:
            for test in done:
                self.singly[test] = (done, rest, process.trouble)
            self.waiting.extend([test] for test in done)
            done = {}
        if left:
            self.waiting.append(left)
        self.results.update(done)

    def end(self):
        """Batches that failed as a whole, none of whose tests failed by itself."""
        for batch, rest, trouble in {id(entry[0]): entry for entry in self.singly.values()}.values():
            if all(self.results[test].status != "fail" for test in batch):
                names = sorted(batch)
                self.results[f"{names[0]} and {len(names) - 1} others in one process"] = Result(
                    "fail", 0, rest + f"\n{trouble}\n{' '.join(names)}\n".encode())


def write(path, results):
    suite = ET.Element("testsuite", name=os.path.basename(path), tests=str(len(results)))
    for name, result in sorted(results.items()):
        case = ET.SubElement(suite, "testcase", name=name, classname=name, time=f"{result.seconds:.3f}", status=result.status)
        if result.status == "fail":
            ET.SubElement(case, "failure", message="")
        text = result.output.decode(errors="replace") if result.status != "run" else ""
        ET.SubElement(case, "system-out").text = re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd]", "?", text)
    ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def main():
    executable, path = os.path.abspath(sys.argv[1]), sys.argv[2]
    jobs = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    began = time.monotonic()
    tests = list_tests(executable)
    runner = Runner(executable, tests)
    workers = [threading.Thread(target=runner.work) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    runner.end()
    write(path, runner.results)
    failed = [name for name, result in runner.results.items() if result.status == "fail"]
    for name in sorted(failed):
        print(runner.results[name].output.decode(errors="replace") + f"FAILED: {name}\n")
    lost = [test for test in tests if test not in runner.results]
    if lost:
        print("LOST: " + " ".join(lost))
    print(f"{len(failed)} tests failed out of {len(tests)}, in {runner.processes} processes, "
          f"{time.monotonic() - began:.0f} s")
    sys.exit(1 if failed or lost or not tests else 0)


main()
