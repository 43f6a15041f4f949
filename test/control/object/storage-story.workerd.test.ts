/**
 * A sequence of changes leaves the same rows in the platform's SQL storage as in memory. The file storage-story.test.ts
 * makes the same changes in memory.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { rowsOfStory, storageStory } from "./storage-story.ts";

it("the platform's storage has the expected rows after a fixed sequence of changes", async () => {
  const log = vi.spyOn(console, "error").mockReturnValue(undefined);
  // An object of the class for keys: its database is empty, unlike that of a control plane.
  const object = env.RATE_LIMITER.getByName(crypto.randomUUID());
  const rows = await runInDurableObject(object, (_, { storage }) => storageStory(storage));
  expect(rows).toEqual(rowsOfStory);
  log.mockRestore();
});
