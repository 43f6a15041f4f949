import { expect, it } from "vitest";
import { outdated } from "./generated.ts";
import { memoryDocs, recordedRun } from "./memory/docs.ts";

it("the table and the plot of the page about capacity show the recorded run of the memory measurement", () => {
  expect(outdated(memoryDocs(recordedRun()))).toEqual([]);
});
