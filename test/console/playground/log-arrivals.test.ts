/** Runs of pasted access logs. */
import { expect, test } from "vitest";
import { readLog } from "../../../src/advisor/log/read-log.ts";
import { arrivalsOfLog } from "../../../src/console/playground/model/log-arrivals.ts";
import { answersOf, scenarioOf } from "./runs.ts";

const noon = Date.UTC(2026, 0, 5, 12);
const common = (ip: string, time: string) => `${ip} - - [${time}] "GET / HTTP/1.1" 200 512`;

test("requests are sorted by time, and those of the same time keep their order", () => {
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

test("a log without any request is a failure that states the formats", () => {
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
