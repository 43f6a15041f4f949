/** How many source files each kind of warm request runs. The numbers may only fall. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { beforeAll, expect, it } from "vitest";
import type { WarmFiles, Way } from "./ways.ts";

/** The largest number of files for each kind of request. Lower a number when its requests run fewer files. */
const budgets: Readonly<Record<Way, number>> = {
  "proxied and strict": 51,
  "POST /check": 49,
  "cached denial": 29,
  settle: 35,
  "creation of a rule": 53,
};

/** The number of files may be lower than the budget by at most this much. */
const slack = 3;

let files: WarmFiles;

beforeAll(async () => {
  const worker = new Worker(join(import.meta.dirname, "ways.ts"), { execArgv: [], stdout: true, stderr: true });
  files = await new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });
  await worker.terminate();
});

it.each(Object.entries(budgets) as [Way, number][])(
  "the warm request %s runs at most %i source files",
  (way, budget) => {
    const { length } = files[way];
    // A failure prints the paths of the files.
    if (length > budget || length < budget - slack) console.log(files[way].join("\n"));
    expect(length).toBeLessThanOrEqual(budget);
    // If this fails, lower the budget.
    expect(length).toBeGreaterThanOrEqual(budget - slack);
  },
);

it("the README names at most ten files of a strict request, and a strict request runs each of them", () => {
  const [, named = ""] =
    /A strict request passes [a-z]+ files below `src`: ([^]+?\.ts)`\.\n/.exec(readFileSync("README.md", "utf8")) ?? [];
  const stops = [...`${named}\``.matchAll(/`([\w/-]+\.ts)`/g)].map(([, path = ""]) => path);
  expect(stops.length).toBeGreaterThan(5);
  expect(stops.length).toBeLessThanOrEqual(10);
  expect(stops.filter((path) => !files["proxied and strict"].includes(path))).toEqual([]);
});
