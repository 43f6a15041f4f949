/** The SQL storage in memory leaves the same rows as the platform's; storage-story.workerd.test.ts runs the same story there. */
import { expect, it, vi } from "vitest";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { rowsOfStory, storageStory } from "./storage-story.ts";

it("the storage in memory has the expected rows after a story of changes", async () => {
  const log = vi.spyOn(console, "error").mockReturnValue(undefined);
  expect(await storageStory(new MemorySql())).toEqual(rowsOfStory);
  log.mockRestore();
});
