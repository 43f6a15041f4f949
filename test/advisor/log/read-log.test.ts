/** The text of access logs. */
import { describe, expect, test } from "vitest";
import { readLog } from "../../../src/advisor/log/read-log.ts";

const noon = Date.UTC(2026, 0, 5, 12);
const common = (ip: string, time: string) => `${ip} - - [${time}] "GET / HTTP/1.1" 200 512`;

/** The requests as time from noon, key and cost. */
function requestsOf(text: string) {
  const { requests } = readLog(text, 1_000);
  return requests.map(({ atMs, key, cost }) => [atMs - noon, key, cost]);
}

const reasonOf = (line: string) => readLog(line, 10).report.firstUnread[0]?.reason;

describe("a log in the common log format", () => {
  test("gives the time and the client address of each line", () => {
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

  test("times with an offset are in that zone, across midnight", () => {
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

  test("a time in seconds with a fraction keeps its milliseconds", () => {
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
  test("lines that cannot be read are reported with their numbers, and the others are read", () => {
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

  test("the list of unread lines and the number of requests are bounded", () => {
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
