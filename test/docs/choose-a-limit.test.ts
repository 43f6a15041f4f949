/** The nginx log format on the page contains the fields that the log reader needs. */
import { expect, it } from "vitest";
import { createLineReader } from "../../src/advisor/log/line-reader.ts";
import { readLogKey } from "../../src/advisor/log/log-key.ts";
import { pageBlock } from "./page-block.ts";

/** The log line that nginx writes for these values of its variables. */
function loggedLine(values: Readonly<Record<string, string>>): string {
  const block = pageBlock("how-to/choose-a-limit-from-your-traffic", "nginx");
  const [, format = ""] = /^log_format headgate escape=json '(.*)';$/m.exec(block) ?? [];
  return format.replaceAll(/\$(\w+)/g, (variable, name: string) => values[name] ?? variable);
}

it.each([
  ["ip", "203.0.113.7"],
  ["header:x-api-key", "abc123"],
])("a line in the log format for nginx has milliseconds and the key %s", (part, value) => {
  const line = loggedLine({
    msec: "1767614400.123",
    remote_addr: "203.0.113.7",
    http_x_api_key: "abc123",
  });
  const key = readLogKey([part]);
  if ("problem" in key) throw new Error(key.problem);
  const read = createLineReader({ time: null, keyOf: key.value.keyOf, cost: null });
  expect(read(line)).toEqual({ atMs: 1_767_614_400_123, key: value, cost: 1 });
});
