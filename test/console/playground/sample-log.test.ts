/** Samples of a deployment as the traffic of the playground. */
import { expect, it } from "vitest";
import { answersTo } from "../../../src/console/playground/model/answers.ts";
import { isSampleText, readSampleLog } from "../../../src/console/playground/model/sample-log.ts";
import { scenarioOf } from "./runs.ts";

const atMs = Date.UTC(2026, 10, 23, 12);
const header = {
  policy: "api",
  from: new Date(atMs - 86_400_000).toISOString(),
  to: new Date(atMs).toISOString(),
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
      [atMs - 3_000, 1, "allowed"],
      [atMs - 1_000, 2, "denied"],
    ],
  },
  { id: "key-b", arrivals: [[atMs - 2_000, 5, "allowed", 60_000, atMs - 1_500, 3]] },
  { id: "key-b", hasOtherLimits: true, arrivals: [[atMs - 500, 1, "allowed"]] },
);

it("samples are recognized by their first line, and logs in JSON are not taken for them", () => {
  expect(isSampleText(sample)).toBe(true);
  expect(isSampleText('{"time":"2026-01-05T12:00:00Z","ip":"203.0.113.7"}\n{"sample":"1/64"}')).toBe(false);
});

it("each sampled arrival is a request of its key with its actual cost, in the lanes of the limits", () => {
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
    startMs: atMs - 3_000,
    keys: ["key-a", "key-b"],
    summary: { allowed: 2, denied: 2 },
  });
});

it("lines that cannot be read, and those after the most requests, are counted with their reasons", () => {
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

it("samples without requests are a problem that says so", () => {
  const scenario = scenarioOf("limit=2/1m&traffic=log");
  for (const log of [textOf(header), `${textOf(header)}\n{"id":7}`]) {
    const [answer] = [...answersTo({ kind: "run", id: 1, scenario, log })];
    expect(answer).toMatchObject({
      kind: "failed",
      problems: [expect.stringMatching(/expected samples with requests/)],
    });
  }
});
