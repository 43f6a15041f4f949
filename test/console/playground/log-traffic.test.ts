/** Pasted access logs and samples of a deployment as the traffic of the playground. */
import { expect, it, test } from "vitest";
import { answersTo } from "../../../src/console/playground/model/serve.ts";
import { isSampleText, readSampleLog, arrivalsOfLog } from "../../../src/console/playground/model/log-traffic.ts";
import { scenarioOf, answersOf } from "./runs.ts";
import { readLog } from "../../../src/advisor/log/read-log.ts";

const untilMs = Date.UTC(2026, 10, 23, 12);
const header = {
  policy: "api",
  from: new Date(untilMs - 86_400_000).toISOString(),
  to: new Date(untilMs).toISOString(),
  sample: "1/64",
  arrivals: 4,
  coverage: 1,
};
const textOf = (...lines: readonly object[]): string => lines.map((line) => JSON.stringify(line)).join("\n");

const sample = textOf(
  header,
  {
    id: "key-a",
    arrivals: [
      [untilMs - 3_000, 1, "allowed"],
      [untilMs - 1_000, 2, "denied"],
    ],
  },
  { id: "key-b", arrivals: [[untilMs - 2_000, 5, "allowed", 60_000, untilMs - 1_500, 3]] },
  { id: "key-b", hasOtherLimits: true, arrivals: [[untilMs - 500, 1, "allowed"]] },
);

it("samples are recognized by their first line, and JSON logs are not mistaken for samples", () => {
  expect(isSampleText(sample)).toBe(true);
  expect(isSampleText('{"time":"2026-01-05T12:00:00Z","ip":"203.0.113.7"}\n{"sample":"1/64"}')).toBe(false);
});

it("each sampled arrival is a request of its key with its actual cost, and the lanes use the policy's limits", () => {
  const { requests, report } = readSampleLog(sample, 100);
  expect(report).toEqual({ read: 3, unread: 0, firstUnread: [] });
  expect(requests.map(({ key, cost }) => [key, cost])).toEqual([
    ["key-a", 1],
    ["key-a", 2],
    ["key-b", 3],
    ["key-b", 1],
  ]);
  const scenario = scenarioOf("limit=2/1m&traffic=log");
  const answers = [...answersTo({ kind: "run", id: 1, scenario, log: sample })];
  const written = answers.flatMap((answer) =>
    answer.kind === "lane" && answer.run.lane === "written" ? [answer.run] : [],
  );
  expect(written[0]).toMatchObject({
    startMs: untilMs - 3_000,
    keys: ["key-a", "key-b"],
    summary: { allowed: 2, denied: 2 },
  });
});

it("lines that cannot be read, and those beyond the largest number of requests, are counted with their reasons", () => {
  const broken = `${sample}\n\n{"id":7}\n{"id":"key-c","arrivals":[["soon",1,"allowed"]]}`;
  const { report } = readSampleLog(broken, 100);
  expect(report).toMatchObject({ read: 3, unread: 2 });
  expect(report.firstUnread).toEqual([
    {
      line: 6,
      reason: expect.stringMatching(/^expected an "id", which is a partition key, got 7/),
    },
    { line: 7, reason: expect.stringMatching(/^expected an arrival such as/) },
  ]);
  expect(readSampleLog(sample, 2)).toMatchObject({
    requests: { length: 2 },
    report: { read: 1, unread: 2, firstUnread: [{ line: 3 }, { line: 4 }] },
  });
});

it("samples without requests cause a problem that says so", () => {
  const scenario = scenarioOf("limit=2/1m&traffic=log");
  for (const log of [textOf(header), `${textOf(header)}\n{"id":7}`]) {
    const [answer] = [...answersTo({ kind: "run", id: 1, scenario, log })];
    expect(answer).toMatchObject({
      kind: "failed",
      problems: [expect.stringMatching(/expected samples with requests/)],
    });
  }
});

const noon = Date.UTC(2026, 0, 5, 12);
const common = (ip: string, time: string) => `${ip} - - [${time}] "GET / HTTP/1.1" 200 512`;

test("requests are sorted by time, and requests of the same time keep their order", () => {
  const at = (second: number, key: string) => `{"time":${1_767_614_400 + second},"key":"${key}"}`;
  const text = [at(5, "late"), at(0, "x"), at(1, "first"), at(1, "second")].join("\n");
  const { startMs, atMs, key, keys } = arrivalsOfLog(readLog(text, 1_000).requests);
  expect([startMs, ...atMs]).toEqual([noon, 0, 1_000, 1_000, 5_000]);
  expect(Array.from(key, (index) => keys[index])).toEqual(["x", "first", "second", "late"]);
});

test("a run of a log names the keys that would have been denied, and the limits that deny them", () => {
  const lines = Array.from({ length: 30 }, (_, second) =>
    [0, 1, 2].map((client) =>
      client === 0 || second % 10 === client
        ? common(`10.0.0.${client}`, `05/Jan/2026:12:00:${String(second).padStart(2, "0")} +0000`)
        : "",
    ),
  ).flat();
  const scenario = scenarioOf("limit=10/1m+sliding-log&limit=1000/1h+sliding-log&traffic=log");
  const answers = answersOf(scenario, lines.join("\n"));
  expect(answers[0]).toMatchObject({
    kind: "started",
    requests: 36,
    log: { read: 36, unread: 0 },
  });
  const written = answers.find((answer) => answer.kind === "lane");
  expect(written?.run.startMs).toBe(noon);
  expect(written?.run.keys[0]).toBe("10.0.0.0");
  expect(written?.run.summary).toMatchObject({
    allowed: 16,
    denied: 20,
    deniedByLimit: [20, 0],
    deniedKeys: 1,
    topDenied: [{ key: 0, allowed: 10, denied: 20, deniedByLimit: [20, 0] }],
  });
});

test("a log without any request fails with a message that lists the formats", () => {
  const answers = answersOf(scenarioOf("traffic=log"), "rubbish");
  expect(answers).toEqual([
    {
      kind: "failed",
      id: 1,
      problems: [expect.stringContaining("JSON lines")],
      log: { read: 0, unread: 1, firstUnread: [{ line: 1, reason: expect.any(String) }] },
    },
  ]);
});
