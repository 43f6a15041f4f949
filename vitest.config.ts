import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

/** The tests' own secrets, in place of those in .dev.vars. wrangler warns when it finds none. */
const secrets = { KEY_SECRET: "the tests' secret", CHECK_TOKENS: "the-tests-token" };
Object.assign(process.env, secrets);

/** Runs the tests of a project in workerd, beside a Worker that stands for the origin. */
const inWorkerd = () =>
  cloudflareTest({
    wrangler: { configPath: "./wrangler.toml" },
    miniflare: {
      bindings: secrets,
      outboundService: "origin",
      workers: [
        {
          name: "origin",
          modules: true,
          scriptPath: "./test/origin.js",
          compatibilityDate: "2026-11-01",
        },
      ],
    },
  });

/** Files that need a Worker of their own: one restarts it, one counts the rows in all shards. */
const exclusive = [
  "test/http/check/service.workerd.test.ts",
  "test/limiter/client/sharding.full.workerd.test.ts",
];

/**
 * The suffix of a test file states where it runs: `.workerd.test.ts` in workerd, `.local.test.ts` on the developer's
 * machine with processes of its own, others in plain Node. `npm test` runs them all except `.local` files without
 * `.smoke` and files with `.full`; those need `--mode full` (`npm run test:full`).
 */
export default defineConfig(({ mode }) => {
  const isFull = mode === "full";
  const skipped = isFull ? [] : ["test/**/*.full.*test.ts"];
  return {
    test: {
      // The output of a test is of interest only when it fails.
      silent: "passed-only",
      projects: [
        {
          mode,
          test: {
            name: "pure",
            isolate: false,
            pool: "threads",
            // The default would leave one core idle.
            maxWorkers: "100%",
            testTimeout: 60_000,
            include: ["test/**/*.test.ts"],
            exclude: ["test/**/*.{workerd,local}.test.ts", ...skipped],
          },
        },
        {
          mode,
          plugins: [inWorkerd()],
          test: {
            name: "workerd",
            // Starting a Worker for each file would take most of the time. Each file restores the mocks, the clock and the
            // variables that it changes, and each test has keys of its own.
            isolate: false,
            restoreMocks: true,
            setupFiles: ["test/differential/compare-recorded.workerd.ts"],
            // Evicting an object waits for its write-behind timer of one second.
            testTimeout: 60_000,
            include: ["test/**/*.workerd.test.ts"],
            exclude: [...exclusive, ...skipped],
            sequence: { groupOrder: 1 },
          },
        },
        {
          mode,
          plugins: [inWorkerd()],
          test: {
            name: "workerd-exclusive",
            restoreMocks: true,
            testTimeout: 60_000,
            include: exclusive,
            exclude: skipped,
            sequence: { groupOrder: 1 },
          },
        },
        {
          mode,
          test: {
            name: "local",
            // Most tests wait for the processes that they start, so two files at a time take half as long.
            maxWorkers: "100%",
            include: [isFull ? "test/**/*.local.test.ts" : "test/**/*.smoke.local.test.ts"],
            sequence: { groupOrder: 2 },
            testTimeout: 120_000,
            hookTimeout: 120_000,
          },
        },
      ],
    },
  };
});
