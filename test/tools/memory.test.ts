import { expect, it } from "vitest";
import { outdated } from "./generated.ts";
import { memoryDocs, recordedRun } from "./memory/docs.ts";

it("the page about capacity shows the table and the plot of the recorded memory measurement", () => {
  expect(outdated(memoryDocs(recordedRun()))).toEqual([]);
});
