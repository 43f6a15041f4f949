import { defineConfig } from "vitest/config";

/** The pure tests, without simulations and tools, which a mutation run repeats for each change of the source. */
export default defineConfig({
  test: {
    include: ["test/{validation,strategies,policy,limiter,fakes}/**/*.test.ts"],
    exclude: ["test/**/*.{workerd,local}.test.ts", "test/**/*.full.*test.ts"],
    testTimeout: 60_000,
  },
});
