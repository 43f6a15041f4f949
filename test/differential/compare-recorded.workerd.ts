/**
 * Replays the requests of each test file that runs in workerd, after its last test, and fails on any answer that
 * differs between the versions. The short tests compare the conformance suite, and the long ones all files.
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
