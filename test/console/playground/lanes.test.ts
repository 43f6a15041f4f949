/** The start times of a limit's windows, and how a click changes them. */
import { expect, test } from "vitest";
import { textOfLimit } from "../../../src/console/playground/model/scenario-query.ts";
import { windowNotesOf, withAlign } from "../../../src/console/playground/model/lanes.ts";
import { scenarioOf } from "./runs.ts";

const notesOf = (limits: string) => windowNotesOf(scenarioOf(limits).limits);

test("a fixed window shows its alignment, the burst that this allows, and the other alignment", () => {
  expect(notesOf("limit=100/minute+fixed-window")).toEqual([
    {
      text: "A window starts with the first request of a client (align=first-request). A burst from a new client meets one window, so that 100 pass; 200 can pass around the end of a window that is already open.",
      other: "clock",
    },
  ]);
  expect(notesOf("limit=100/minute+fixed-window+align=clock")).toEqual([
    {
      text: "Windows start on the clock, at multiples of their length (align=clock). A burst can meet the end of one window and the start of the next, so that up to 200 pass.",
      other: "first-request",
    },
  ]);
});

test("calendar windows have only one alignment, and other strategies have no windows with a start", () => {
  const [month, log, elastic, counter] = notesOf(
    "limit=100/month&limit=9/1m+sliding-log&limit=8/1m+fixed-window+elastic=true&limit=7/1m",
  );
  expect(month).toEqual({
    text: expect.stringMatching(/^Windows are calendar months/),
    other: null,
  });
  expect([log, elastic]).toEqual([null, null]);
  expect(counter?.text).toMatch(/It makes little difference/);
});

test("a click changes the alignment of one limit, and the default alignment is omitted", () => {
  const { limits } = scenarioOf("limit=100/1m+fixed-window&limit=5/1s+fixed-window+align=clock");
  expect(withAlign(limits, 0, "clock").map(textOfLimit)).toEqual([
    "100/1m fixed-window align=clock",
    "5/1s fixed-window align=clock",
  ]);
  expect(withAlign(limits, 1, "first-request").map(textOfLimit)).toEqual(["100/1m fixed-window", "5/1s fixed-window"]);
});
