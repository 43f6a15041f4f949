/** Logs that commands read: files, compression, and what the report says about lines that cannot be read. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, describe, expect, it } from "vitest";
import { CommandError } from "../../../src/cli/command.ts";
import { readLogTraffic } from "../../../src/advisor/cli/input-log.ts";
import { Progress, type ReadTraffic } from "../../../src/advisor/cli/input.ts";
import { trafficChoice, type TrafficValues } from "../../../src/advisor/cli/input-options.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-logs-"));
afterAll(() => rmSync(folder, { recursive: true }));

const line = (second: number, client = "203.0.113.7"): string =>
  `${client} - - [05/Jan/2026:12:00:${String(second).padStart(2, "0")} +0000] "GET / HTTP/1.1" 200 512\n`;

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

async function trafficOf(...log: string[]): Promise<ReadTraffic> {
  return readValues({ log });
}

async function readValues(values: TrafficValues): Promise<ReadTraffic> {
  const choice = trafficChoice(values);
  if (choice.kind !== "log") throw new Error("expected a log");
  return readLogTraffic(choice, new Progress());
}

const problemOf = async (values: TrafficValues): Promise<string> => {
  const error = await readValues(values).catch((each: unknown) => each);
  return error instanceof CommandError ? error.message : `no CommandError: ${String(error)}`;
};

describe("the logs of a command", () => {
  it("the report states the number of lines, requests and keys, the period and the skipped lines", async () => {
    const log = file("a.log", `${line(0)}rubbish\n\n${line(5, "198.51.100.1")}${line(9)}`);
    const { lines, timelines } = await trafficOf(log);
    expect(timelines.keys).toEqual(["203.0.113.7", "198.51.100.1"]);
    expect(lines.slice(0, 2)).toEqual([
      expect.stringMatching(/a\.log: 5 lines, 3 requests, 1 skipped$/),
      expect.stringMatching(/^ {2}line 2: expected the common or combined log format/),
    ]);
    expect(lines.slice(2)).toEqual([
      "3 requests of 2 keys by ip",
      "2026-01-05 12:00:00 to 2026-01-05 12:00:09 UTC (9.1 s)",
    ]);
    for (const each of lines) expect(each.length).toBeLessThanOrEqual(100);
  });

  it("a log with 429 responses gets a note that it shows only the traffic after limits, and how this affects the results", async () => {
    const denied = (second: number): string => line(second).replace(" 200 ", " 429 ");
    const text = Array.from({ length: 50 }, (_, at) => (at % 5 === 0 ? denied(at) : line(at)));
    const { lines, facts } = await trafficOf(file("limited.log", text.join("")));
    expect(facts).toMatchObject({ alreadyDenied: 10, wholeSeconds: true });
    const note =
      "Limits were in force: 10 of these 50 requests (20 %) were denied (status 429), so the recording shows what was left after limits, not the demand.";
    expect(facts["notes"]).toEqual([
      expect.stringContaining(note),
      expect.stringContaining("The times are whole seconds"),
    ]);
    expect(lines.join(" ")).toContain(note);
    expect(lines.join(" ")).toContain("a recommended limit is too strict");
    const json = { time: "2026-01-05T12:00:00.123Z", ip: "203.0.113.7", status: "429" };
    const allowed = { ...json, status: 200 };
    const ofJson = file("limited.json", [json, allowed].map((each) => `${JSON.stringify(each)}\n`).join(""));
    expect((await trafficOf(ofJson)).facts).toMatchObject({
      alreadyDenied: 1,
      wholeSeconds: false,
    });
  });

  it("the report states a single line, request and log in the singular", async () => {
    const denied = line(0).replace(" 200 ", " 429 ");
    const { lines } = await trafficOf(file("single.log", denied));
    expect(lines[0]).toMatch(/single\.log: 1 line, 1 request$/);
    expect(lines[1]).toBe("1 request of 1 key by ip");
    expect(lines[3]).toMatch(/^Limits were in force: the only request was denied \(status 429\), so/);
    const two = await trafficOf(file("two.log", denied + line(1)));
    expect(two.lines[3]).toMatch(/: 1 of these 2 requests \(50 %\) was denied \(status 429\), so/);
    const logs = Array.from({ length: 6 }, (_, at) => file(`s${at}.log`, line(at)));
    expect((await trafficOf(...logs)).lines[5]).toBe("and 1 more log");
  });

  it("gzip is recognised by its first bytes, and may have several members", async () => {
    const members = [line(0), line(1)].map((text) => gzipSync(text));
    const { timelines } = await trafficOf(file("any-name", Buffer.concat(members)));
    expect(timelines.atMs.length).toBe(2);
  });

  it("the lines of several logs are merged by time, although a rotated log begins before the current one", async () => {
    const [now, before] = [file("n.log", line(30)), file("n.log.1", line(1))];
    const { timelines, facts } = await trafficOf(now, before);
    expect(timelines.atMs[1]).toBe((timelines.atMs[0] ?? 0) + 29_000);
    expect(facts["logs"]).toMatchObject([{ requests: 1 }, { requests: 1 }]);
  });

  it("truncated gzip data give the lines before the truncation, with a note", async () => {
    const text = Array.from({ length: 50_000 }, (_, index) =>
      line(index % 60, `10.0.${index % 251}.${(index * 7919) % 241}`),
    ).join("");
    const packed = gzipSync(text);
    const cut = packed.subarray(0, Math.floor(packed.length / 2));
    const { timelines, lines } = await trafficOf(file("cut.gz", cut));
    expect(timelines.atMs.length).toBeGreaterThan(10_000);
    expect(lines.join(" ")).toContain("cut.gz: the gzip data end too early. The lines before are used.");
  });

  it("the report counts requests that a filter excludes apart from lines that cannot be read", async () => {
    const other = line(3).replace("GET /", "POST /login");
    const log = file("f.log", `${line(1)}${other}${other.replace("200", "401")}rubbish\n`);
    const { lines, facts, timelines } = await readValues({
      log: [log],
      match: ["POST /login"],
      status: "4xx",
    });
    expect(timelines.atMs.length).toBe(1);
    expect(lines[0]).toMatch(/f\.log: 4 lines, 1 request, 2 left out, 1 skipped$/);
    expect(lines).toContain("only POST /login");
    expect(lines).toContain("only the status 4xx");
    expect(facts).toMatchObject({ match: ["POST /login"], status: "4xx", logs: [{ leftOut: 2 }] });
  });

  it("a log with lists of addresses gets a note, and --trusted-proxies and --address-field choose the client address", async () => {
    const log = file("xff.json", '{"time":1767614400,"ip":"10.0.0.1","xff":"203.0.113.7, 192.0.2.1"}\n');
    const values = { log: [log], "address-field": "xff" };
    const last = await readValues(values);
    expect(last.timelines.keys).toEqual(["192.0.2.1"]);
    expect(last.lines.join(" ")).toContain("1 line has a list of addresses. The client is");
    const second = await readValues({ ...values, "trusted-proxies": "2" });
    expect(second.timelines.keys).toEqual(["203.0.113.7"]);
    expect(second.keyParts).toEqual(["ip"]);
  });

  it("options name the fields of the time, the key and the cost", async () => {
    const log = file("n.json", '{"at":{"start":1767614400},"user":"a","tokens":7}\n');
    const { timelines } = await readValues({
      log: [log],
      time: "at.start",
      key: ["user"],
      cost: "tokens",
    });
    expect([timelines.keys, [...timelines.cost]]).toEqual([["a"], [7]]);
  });
});

describe("logs that cannot be read", () => {
  it("a filter that excludes every request causes an error that names the options", async () => {
    const log = file("none.log", `${line(0)}${line(1)}`);
    expect(await problemOf({ log: [log], match: ["POST /login"] })).toMatch(
      /none\.log: --match and --status leave out 2 requests, and there is no other request\.$/,
    );
  });

  const matched = `${JSON.stringify({ time: 1_767_614_400, method: "GET", path: "/a" })}\n`;
  const traced = (url: string): string =>
    `${JSON.stringify({ Event: { Request: { URL: url, Method: "GET" } }, EventTimestampMs: 1_767_614_400_000 })}\n`;

  it.each([
    ["JSON lines", `${matched.repeat(12)}${line(0).replace("GET /", "GET /b")}`],
    ["Workers trace events", traced("https://example.com/b") + traced("https://example.com/a").repeat(12)],
  ])("%s that a filter keeps, but that have no address, cause an error that says so", async (_, content) => {
    const problem = await problemOf({ log: [file("kept.log", content)], match: ["GET /a"] });
    expect(problem).toMatch(
      /kept\.log: --match and --status leave out 1 request, and no other line has a request with a time and the key ip\.\nLine \d: \{.*\nip is missing; the fields of the line are /,
    );
  });

  it("a log that contains only console messages of Workers causes an error that does not mention filters", async () => {
    const message = `${JSON.stringify({ timestamp: 1_767_614_400_000, $metadata: { type: "cf-worker" } })}\n`;
    const [one, two] = [file("one.json", message), file("two.json", message.repeat(2))];
    expect(await problemOf({ log: [one] })).toMatch(
      /one\.json: 1 message of a Worker is left out, and there is no other request\.$/,
    );
    expect(await problemOf({ log: [two] })).toMatch(
      /two\.json: 2 messages of a Worker are left out, and there is no other request\.$/,
    );
  });

  it("a filter that excludes the only request of a log causes an error in the singular", async () => {
    expect(await problemOf({ log: [file("1.log", line(0))], match: ["POST /login"] })).toMatch(
      /1\.log: --match and --status leave out 1 request, and there is no other request\.$/,
    );
  });

  const cut = gzipSync(line(0)).subarray(0, 12);
  const many = Array.from({ length: 20_000 }, () => "rubbish\n").join("");
  const day = 86_400;
  const backwards = Array.from(
    { length: 10 },
    (_, index) => `{"time":${1_767_614_400 - index * day},"ip":"203.0.113.7"}\n`,
  ).join("");

  it.each([
    ["empty.log", "", /empty\.log: expected at least one line of an access log, got none$/],
    ["cut.gz", cut, /cut\.gz: the gzip data end too early$/],
    ["zeros.bin", new Uint8Array(100_000), /no line has a request .*\nLine 1: �+…�+\nexpected the/],
    ["many.txt", many, /no line has a request with a time and the key ip\.\nLine 1: rubbish\n/],
    ["z.zst", new Uint8Array([0x28, 0xb5, 0x2f, 0xfd, 0]), /is compressed with zstd: pipe zstd -dc/],
    ["utf16.log", Buffer.from(`\ufeff${line(0)}`, "utf16le"), /is in UTF-16: expected UTF-8/],
    ["back.json", backwards, /back\.json: the times of 9 of 10 lines .* first in line 2\. Expected/],
  ])("%s causes a clear error", async (name, content, message) => {
    expect(await problemOf({ log: [file(name, content)] })).toMatch(message);
  });

  it.each([
    [{ key: ["header:x-api-key"] }, /header:x-api-key is missing; the fields of the line are time, ip\n/],
    [{ time: "start" }, /start is missing; the fields of the line are time, ip\n/],
    [{ cost: "tokens" }, /tokens is missing; the fields of the line are time, ip\n/],
  ])("a field that no line has causes an error with the first line's fields: %o", async (values, message) => {
    const log = file("fields.json", '{"time":1767614400,"ip":"203.0.113.7"}\n');
    expect(await problemOf({ log: [log], ...values })).toMatch(message);
  });

  it("a folder and a missing file cause errors", async () => {
    expect(await problemOf({ log: [folder] })).toContain("is a folder: expected a file");
    expect(await problemOf({ log: ["no.log"] })).toBe(
      '--log: expected a file or "-" for standard input, got "no.log": no such file',
    );
  });
});
