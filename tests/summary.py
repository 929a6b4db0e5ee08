"""Reads JUnit files: prints every skipped test with its reason, every failed one, and one line that counts them."""
import sys
import xml.etree.ElementTree as ET

passed = failed = 0
skipped = []
for path in sys.argv[1:]:
    suite = path.rsplit("/", 1)[-1].removesuffix(".xml")
    for case in ET.parse(path).getroot().iter("testcase"):
        name = f"{suite}: {case.get('name')}"
        if case.get("status") == "notrun" or case.find("skipped") is not None:
            output = case.findtext("system-out") or ""
            lines = [line.strip() for line in output.splitlines() if line.strip()]
            # GoogleTest prints the reason in the line after "... Skipped".
            reason = next((lines[i + 1] for i, line in enumerate(lines[:-1]) if line.endswith("Skipped")), "no reason given")
            skipped.append((name, reason))
        elif case.get("status") == "fail" or case.find("failure") is not None:
            failed += 1
            print(f"FAILED   {name}")
        else:
            passed += 1
for name, reason in skipped:
    print(f"skipped  {name}: {reason}")
print(f"{passed} passed, {failed} failed, {len(skipped)} skipped")
sys.exit(1 if failed or passed == 0 else 0)
