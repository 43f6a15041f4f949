/** The platform's SQL storage leaves the same rows as the one in memory; storage-story.test.ts runs the same story there. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { rowsOfStory, storageStory } from "./storage-story.ts";

it("the platform's storage has the expected rows after a story of changes", async () => {
  const log = vi.spyOn(console, "error").mockReturnValue(undefined);
  // An object of the other class, whose database is empty.
  const object = env.RATE_LIMITER.getByName(crypto.randomUUID());
  const rows = await runInDurableObject(object, (_, { storage }) => storageStory(storage));
  expect(rows).toEqual(rowsOfStory);
  log.mockRestore();
});
