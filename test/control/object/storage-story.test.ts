/**
 * A sequence of changes leaves the same rows in the SQL storage in memory as on the platform. The file
 * storage-story.workerd.test.ts makes the same changes there.
 */
import { expect, it, vi } from "vitest";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { rowsOfStory, storageStory } from "./storage-story.ts";

it("the storage in memory has the expected rows after a fixed sequence of changes", async () => {
  const log = vi.spyOn(console, "error").mockReturnValue(undefined);
  expect(await storageStory(new MemorySql())).toEqual(rowsOfStory);
  log.mockRestore();
});
