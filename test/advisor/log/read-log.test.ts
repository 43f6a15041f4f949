/** Reads logs as lists of requests and as timelines. */
import { describe, expect, it, test } from "vitest";
import { createLineReader, usualKeyOf } from "../../../src/advisor/log/line-reader.ts";
import { fieldName } from "../../../src/advisor/log/log-line.ts";
import { type LogBudget, LogTimelines, readLog } from "../../../src/advisor/log/read-log.ts";
import { LineSplitter } from "../../../src/advisor/log/splitter.ts";

const noon = Date.UTC(2026, 0, 5, 12);
const common = (ip: string, time: string) => `${ip} - - [${time}] "GET / HTTP/1.1" 200 512`;

/** The requests as time since noon, key and cost. */
function requestsOf(text: string) {
  const { requests } = readLog(text, 1_000);
  return requests.map(({ atMs, key, cost }) => [atMs - noon, key, cost]);
}

const reasonOf = (line: string) => readLog(line, 10).report.firstUnread[0]?.reason;

describe("a log in the common log format", () => {
  test("reading a log gives the time and the client address of each line", () => {
    const text = [
      common("203.0.113.7", "05/Jan/2026:12:00:00 +0000"),
      `${common("2001:db8::1", "05/Jan/2026:12:00:01 +0000")} "https://example.com/" "curl/8.5"`,
      `example.com:443 ${common("203.0.113.7", "05/Jan/2026:12:00:02 +0000")}`,
      '203.0.113.8 - Anna Muster [05/Jan/2026:12:00:03 +0000] "GET /[x] HTTP/1.1" 404 -',
    ].join("\r\n");
    expect(requestsOf(text)).toEqual([
      [0, "203.0.113.7", 1],
      [1_000, "2001:db8::1", 1],
      [2_000, "203.0.113.7", 1],
      [3_000, "203.0.113.8", 1],
    ]);
  });

  test.each([
    ["2001:db8::1 ident frank [05/Jan/2026:12:00:00 +0000] - -", "2001:db8::1"],
    ["2001:db8::1 - - [05/Jan/2026:12:00:00 +0000] - -", "2001:db8::1"],
    ["[2001:db8::9]:443 2001:db8::1 - - [05/Jan/2026:12:00:00 +0000] - -", "2001:db8::1"],
    ["203.0.113.7:8080 - - [05/Jan/2026:12:00:00 +0000] - -", "203.0.113.7:8080"],
    ["a - john [smith] [05/Jan/2026:12:00:00 +0000] - -", "a"],
  ])("the client of the line %s is %s", (line, client) => {
    expect(requestsOf(line)).toEqual([[0, client, 1]]);
  });

  test("times with an offset are read in that time zone, across midnight", () => {
    const times = ["05/Jan/2026:13:00:00 +0100", "05/Jan/2026:04:00:00 -0800", "06/Jan/2026:02:00:00 +1400"];
    for (const time of times) expect(requestsOf(common("a", time))).toEqual([[0, "a", 1]]);
  });

  test.each([
    "31/Feb/2026:12:00:00 +0000",
    "05/Foo/2026:12:00:00 +0000",
    "05/Jan/2026:24:00:00 +0000",
    "yesterday",
    "",
  ])("a line with the time %j is reported", (time) => {
    expect(reasonOf(common("a", time))).toContain(`got "${time}"`);
  });
});

describe("a log in JSON lines", () => {
  test.each([
    ['{"time":"2026-01-05T12:00:00Z","key":"a"}'],
    ['{"timestamp":"2026-01-05T13:00:00.000+01:00","ip":"a"}'],
    ['{"@timestamp":"2026-01-05 12:00:00","remote_addr":"a"}'],
    ['{"ts":1767614400.0,"request":{"remote_ip":"b","client_ip":"a"}}'],
    ['{"EdgeStartTimestamp":1767614400000000000,"ClientIP":"a"}'],
    ['{"time":1767614400000,"client":"a","cost":1}'],
    ['{"time":"1767614400000000","user_id":"a"}'],
    ['{"time_local":"05/Jan/2026:12:00:00 +0000","remote_addr":"a"}'],
  ])("the line %s is read", (line) => {
    expect(requestsOf(line)).toEqual([[0, "a", 1]]);
  });

  test("a time in seconds with a fraction is read with its milliseconds", () => {
    for (let ms = 0; ms < 1_000; ms++) {
      const seconds = `1767614400.${String(ms).padStart(3, "0")}`;
      const read = requestsOf(`{"time":${seconds},"key":"a"}`);
      expect(read).toEqual([[ms, "a", 1]]);
    }
  });

  test("a line may state its cost, and its key may be a number", () => {
    for (const cost of ["7", '"7"']) {
      const line = `{"time":"2026-01-05T12:00:00.250Z","key":42,"cost":${cost}}`;
      expect(requestsOf(line)).toEqual([[250, "42", 7]]);
    }
  });

  test.each([
    ["{broken", "expected an object in JSON"],
    ['{"key":"a"}', "expected a field such as time"],
    ['{"time":1767614400}', "expected a field such as key"],
    ['{"time":"noon","key":"a"}', 'time: expected a time such as "2026-01-05T12:00:00Z"'],
    ['{"time":true,"key":"a"}', "got true"],
    ['{"time":1767614400,"key":["a"]}', 'key: expected a text, got ["a"]'],
    ['{"time":1767614400,"key":"a","cost":-1}', "cost: expected an integer from 0"],
    ['{"time":1767614400,"key":"a","cost":""}', 'cost: expected an integer from 0 to 1000000000, got ""'],
    ['{"time":1767614400,"key":"a","cost":true}', "got true"],
    ['{"time":1767614400,"key":"a","cost":[5]}', "got [5]"],
    ['{"time":"2026-02-30T12:00:00Z","key":"a"}', 'time: expected a time such as "2026-01-05T12:00:00Z"'],
    ['{"time":"9999-12-31T12:00:00Z","key":"a"}', 'got "9999-12-31T12:00:00Z"'],
    ['{"time":1767614400,"key":"a","units":"many"}', 'cost: expected an integer from 0 to 1000000000, got "many"'],
  ])("the line %s is reported", (line, reason) => {
    expect(reasonOf(line)).toContain(reason);
  });
});

describe("any log", () => {
  test("lines that cannot be read are reported with their numbers, and the other lines are read", () => {
    const text = `${common("a", "05/Jan/2026:12:00:00 +0000")}\nrubbish\n\n{"time":1767614401,"ip":"b"}\n# end`;
    const { requests, report } = readLog(text, 1_000);
    expect(requests.map(({ key }) => key)).toEqual(["a", "b"]);
    expect(report).toEqual({
      read: 2,
      unread: 2,
      firstUnread: [
        { line: 2, reason: expect.stringContaining("common or combined log format") },
        { line: 5, reason: expect.stringContaining("JSON lines") },
      ],
    });
  });

  test.each([common("a", "05/Jan/2026:12:00:00 +0000"), '{"time":1767614400,"ip":"a"}'])(
    "a byte order mark before %s is ignored",
    (line) => expect(requestsOf(`\uFEFF${line}`)).toEqual([[0, "a", 1]]),
  );

  test("the list of lines that cannot be read and the number of requests are bounded", () => {
    const lines = Array.from({ length: 300 }, () => "rubbish");
    const { report } = readLog(lines.join("\n"), 10);
    expect([report.unread, report.firstUnread.length]).toEqual([300, 100]);
    const many = Array.from({ length: 12 }, () => common("a", "05/Jan/2026:12:00:00 +0000"));
    expect(readLog(many.join("\n"), 10).report).toEqual({
      read: 10,
      unread: 2,
      firstUnread: [11, 12].map((line) => ({ line, reason: "more than 10 requests" })),
    });
  });
});

const noonSeconds = 1_767_614_400;
const line = (second: number, key: string): string => `{"time":${noonSeconds + second},"key":"${key}"}`;
const readLine = createLineReader({ time: null, keyOf: usualKeyOf, cost: null });

function timelinesOf(lines: readonly string[], budget?: LogBudget): LogTimelines {
  const timelines = new LogTimelines(readLine, budget);
  timelines.startLog("a.log");
  for (const each of lines) timelines.addLine(each);
  return timelines;
}

describe("timelines of a log", () => {
  it("the arrivals of each key are in order of time, even if the lines are not", () => {
    const timelines = timelinesOf([line(5, "a"), line(3, "b"), line(4, "a")]).finish();
    expect(timelines.keys).toEqual(["a", "b"]);
    expect(Array.from(timelines.atMs, (atMs) => atMs / 1_000 - noonSeconds)).toEqual([4, 5, 3]);
    expect(timelines.source).toEqual({
      fromMs: (noonSeconds + 3) * 1_000,
      toMs: (noonSeconds + 5) * 1_000 + 1,
      oneKeyIn: 1,
      requests: 3,
      lostArrivals: 0,
      otherLimitsArrivals: 0,
    });
  });

  it("a line counts as out of order when its time is more than an hour before that of an earlier line", () => {
    const timelines = timelinesOf([line(3_601, "a"), line(1, "a"), "", line(0, "a"), line(0, "b")]);
    expect(timelines.logs).toMatchObject([{ line: 5, read: 2, unread: 2, outOfOrder: 2, firstOutOfOrder: 4 }]);
    expect(timelines.logs[0]?.firstUnread[0]).toEqual({
      line: 4,
      reason: "the time is 60 minutes before that of an earlier line; expected at most 60",
    });
  });

  it("a log may begin before the end of the previous log", () => {
    const timelines = timelinesOf([line(90_000, "a")]);
    timelines.startLog("a.log.1");
    timelines.addLine(line(0, "a"));
    expect(timelines.logs.map(({ name, read }) => [name, read])).toEqual([
      ["a.log", 1],
      ["a.log.1", 1],
    ]);
  });

  it("when a log exceeds the memory budget, one key in 2, 4 or 8 is kept with all its arrivals, and the request count stays exact", () => {
    const lines = Array.from({ length: 8_000 }, (_, index) => line(index, `key-${index % 1_000}`));
    const timelines = timelinesOf(lines, { arrivals: 1_500, keys: 10_000 });
    const { keys, firstRow, source } = timelines.finish();
    expect([timelines.isFull, source.oneKeyIn, source.requests]).toEqual([false, 8, 8_000]);
    expect(keys.length).toBeGreaterThan(90);
    expect(keys.length).toBeLessThan(170);
    for (const index of keys.keys()) {
      expect((firstRow[index + 1] ?? 0) - (firstRow[index] ?? 0)).toBe(8);
    }
  });

  it("many keys are sampled even if each has few arrivals", () => {
    const lines = Array.from({ length: 4_000 }, (_, index) => line(index, `key-${index}`));
    const timelines = timelinesOf(lines, { arrivals: 100_000, keys: 1_000 });
    expect(timelines.finish().keys.length).toBeLessThan(1_000);
    expect(timelines.requests).toBe(4_000);
  });

  it("a log of few keys ends at the budget instead of being sampled, since a sample of few keys would say little", () => {
    const lines = Array.from({ length: 1_000 }, (_, index) => line(index, "a"));
    expect(timelinesOf(lines, { arrivals: 1_000, keys: 10 }).isFull).toBe(true);
    expect(timelinesOf(lines, { arrivals: 1_001, keys: 10 }).isFull).toBe(false);
  });
});

describe("named fields of a log", () => {
  const named = (time: string, cost: string | null) =>
    createLineReader({
      time: fieldName(time),
      keyOf: usualKeyOf,
      cost: cost === null ? null : fieldName(cost),
    });

  it("the time and the cost come from the named fields, which may be nested", () => {
    const text = `{"time":1,"at":{"start":${noonSeconds}},"ip":"a","Tokens":7}`;
    expect(named("at.start", "tokens")(text)).toEqual({ atMs: noonSeconds * 1_000, key: "a", cost: 7 });
  });

  it.each([
    ["start", null, "start is missing; the fields of the line are time, ip"],
    ["time", "tokens", "tokens is missing; the fields of the line are time, ip"],
  ])("a line without the field %s %s is reported: %s", (time, cost, reason) => {
    expect(named(time, cost)(`{"time":${noonSeconds},"ip":"a"}`)).toBe(reason);
  });
});

describe("lines of chunks", () => {
  function linesOf(chunks: readonly string[]): string[] {
    const lines: string[] = [];
    const splitter = new LineSplitter({
      addLine: (text) => lines.push(text),
      skipLine: (reason) => lines.push(`skipped: ${reason}`),
    });
    for (const chunk of chunks) splitter.add(chunk);
    splitter.end();
    return lines;
  }

  it("a line may be split across two chunks", () => {
    expect(linesOf(["a\nb", "c", "\n", "\nd"])).toEqual(["a", "bc", "", "d"]);
    expect(linesOf(["a\n"])).toEqual(["a"]);
  });

  it("an endless line is skipped, and the lines after it are read", () => {
    const endless = Array.from({ length: 11 }, () => "x".repeat(100_000));
    expect(linesOf(["a\n", ...endless, "\nb"])).toEqual([
      "a",
      "skipped: expected a line of at most 1048576 characters",
      "b",
    ]);
    expect(linesOf(endless)).toEqual(["skipped: expected a line of at most 1048576 characters"]);
  });
});
