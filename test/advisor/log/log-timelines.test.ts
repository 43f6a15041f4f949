/** Timelines of logs of any size: lines, disorder, and the bound of memory. */
import { describe, expect, it } from "vitest";
import { createLineReader, usualKeyOf } from "../../../src/advisor/log/line-reader.ts";
import { fieldName } from "../../../src/advisor/log/log-line.ts";
import { LineSplitter } from "../../../src/advisor/log/splitter.ts";
import { type LogBudget, LogTimelines } from "../../../src/advisor/log/read-log.ts";

const noon = 1_767_614_400;
const line = (second: number, key: string): string => `{"time":${noon + second},"key":"${key}"}`;
const readLine = createLineReader({ time: null, keyOf: usualKeyOf, cost: null });

function timelinesOf(lines: readonly string[], budget?: LogBudget): LogTimelines {
  const timelines = new LogTimelines(readLine, budget);
  timelines.startLog("a.log");
  for (const each of lines) timelines.addLine(each);
  return timelines;
}

describe("timelines of a log", () => {
  it("the arrivals of each key are in order of time, although lines are not", () => {
    const timelines = timelinesOf([line(5, "a"), line(3, "b"), line(4, "a")]).finish();
    expect(timelines.keys).toEqual(["a", "b"]);
    expect(Array.from(timelines.atMs, (atMs) => atMs / 1_000 - noon)).toEqual([4, 5, 3]);
    expect(timelines.source).toEqual({
      fromMs: (noon + 3) * 1_000,
      toMs: (noon + 5) * 1_000 + 1,
      oneKeyIn: 1,
      requests: 3,
      lostArrivals: 0,
      otherLimitsArrivals: 0,
    });
  });

  it("lines whose time is more than an hour before that of an earlier line are counted", () => {
    const timelines = timelinesOf([line(3_601, "a"), line(1, "a"), "", line(0, "a"), line(0, "b")]);
    expect(timelines.logs).toMatchObject([{ lines: 5, read: 2, unread: 2, outOfOrder: 2, firstOutOfOrder: 4 }]);
    expect(timelines.logs[0]?.firstUnread[0]).toEqual({
      line: 4,
      reason: "the time is 60 minutes before that of an earlier line; expected at most 60",
    });
  });

  it("another log may begin before the end of the one before it", () => {
    const timelines = timelinesOf([line(90_000, "a")]);
    timelines.startLog("a.log.1");
    timelines.addLine(line(0, "a"));
    expect(timelines.logs.map(({ name, read }) => [name, read])).toEqual([
      ["a.log", 1],
      ["a.log.1", 1],
    ]);
  });

  it("beyond the budget one key in 2, 4 or 8 is kept with all its arrivals, and requests stay exact", () => {
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

  it("many keys are sampled although they have few arrivals", () => {
    const lines = Array.from({ length: 4_000 }, (_, index) => line(index, `key-${index}`));
    const timelines = timelinesOf(lines, { arrivals: 100_000, keys: 1_000 });
    expect(timelines.finish().keys.length).toBeLessThan(1_000);
    expect(timelines.requests).toBe(4_000);
  });

  it("a log of few keys is full at the budget, since a sample of them would say little", () => {
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

  it("the time and the cost are those of the named fields, which may be nested", () => {
    const text = `{"time":1,"at":{"start":${noon}},"ip":"a","Tokens":7}`;
    expect(named("at.start", "tokens")(text)).toEqual({ atMs: noon * 1_000, key: "a", cost: 7 });
  });

  it.each([
    ["start", null, "start is missing; the fields of the line are time, ip"],
    ["time", "tokens", "tokens is missing; the fields of the line are time, ip"],
  ])("a line without the field %s %s is reported: %s", (time, cost, reason) => {
    expect(named(time, cost)(`{"time":${noon},"ip":"a"}`)).toBe(reason);
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

  it("a line may begin in one chunk and end in another", () => {
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
