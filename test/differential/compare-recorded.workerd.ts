/**
 * After the last test of each file that runs in workerd, replays the file's requests and fails if an answer differs
 * between the versions. The short tests replay the conformance suite, and the long tests all files.
 */
import { afterAll, expect } from "vitest";
import { isFull } from "../mode.ts";
import origin from "../origin.js";
import { takeRecorded } from "./recorder.ts";
import { compare } from "./targets.ts";

const inShort = /\/test\/conformance\//;

afterAll(async () => {
  const { requests, skipped } = takeRecorded();
  const { testPath = "" } = expect.getState();
  expect(skipped).toBeLessThanOrEqual(requests.length);
  if (requests.length === 0 || (!isFull && !inShort.test(testPath))) return;
  const { differences } = await compare(requests, (request) => origin.fetch(request));
  expect(differences.slice(0, 3).join("\n\n")).toBe("");
}, 60_000);
