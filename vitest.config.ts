import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

/** The tests' secrets: what .dev.vars holds must not reach them, and wrangler warns when it finds none at all. */
const secrets = { KEY_SECRET: "the tests' secret", CHECK_TOKENS: "the-tests-token" };
Object.assign(process.env, secrets);

/** Pure code runs in plain Node, the Worker in workerd, and what runs on a developer's machine as it runs there. */
export default defineConfig({
  test: {
    // The events that a test provokes are of interest when it fails.
    silent: "passed-only",
    projects: [
      {
        test: {
          name: "pure",
          // Nothing pure has a state to keep from other tests.
          isolate: false,
          pool: "threads",
          // All of it is computing: by default one core would be left idle.
          maxWorkers: "100%",
          // They compute for seconds, on a busy machine for more; none of them waits.
          testTimeout: 60_000,
          include: ["test/**/*.test.ts"],
          exclude: ["test/**/*.{workerd,local}.test.ts"],
        },
      },
      {
        plugins: [
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
          }),
        ],
        test: {
          name: "workerd",
          // An object that is evicted first writes what it has gathered for a second.
          testTimeout: 60_000,
          include: ["test/**/*.workerd.test.ts"],
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: "local",
          include: ["test/**/*.local.test.ts"],
          sequence: { groupOrder: 1 },
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
