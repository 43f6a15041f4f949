import { readFileSync } from "node:fs";
import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig, type Plugin, type TestProjectConfiguration } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { filesOfTests } from "./test/files.ts";

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

const inThreads = {
  isolate: false,
  pool: "threads",
  // The default would leave one core idle.
  maxWorkers: "100%",
  testTimeout: 60_000,
  hookTimeout: 60_000,
} as const;

/** The tests with processes of their own, which often wait for these: two cores run three files at a time. */
const besideProcesses = {
  maxWorkers: 3,
  sequence: { groupOrder: 1 },
} as const;

const inSharedWorkers = {
  ...besideProcesses,
  // Starting a Worker for each file would take most of the time. Each file restores the mocks, the clock and the
  // variables that it changes, and each test has keys of its own.
  isolate: false,
  restoreMocks: true,
  setupFiles: "test/differential/compare-recorded.workerd.ts",
  // Evicting an object waits for its write-behind timer of one second.
  testTimeout: 60_000,
} as const;

/** Turns joined calls on or off, whatever the platform allows. */
const withJoinedCalls = (areJoined: boolean): Plugin => ({
  name: areJoined ? "joined-calls" : "separate-calls",
  enforce: "pre",
  transform(code, id) {
    if (!id.endsWith("/src/limiter/isolate/object-caller.ts")) return undefined;
    const replaced = code.replace("joinsChecks = canResumeRequests()", `joinsChecks = ${areJoined}`);
    if (replaced === code) throw new Error(`expected the default of joinsChecks in ${id}`);
    return replaced;
  },
});

/** The tests in plain Node that only a full run has, or that draw and replay more in it. */
const isLonger = (file: string): boolean =>
  file.includes(".full.") || /\/(?:for-all|mode)\.ts"/.test(readFileSync(file, "utf8"));
const longerFiles = filesOfTests(".test.ts").filter((file) => !file.startsWith("test/tools/") && isLonger(file));
/** The tests in workerd of a full run: those that send checks, which it repeats with joined calls off, and longer ones. */
const inFullWorkerd = [
  "test/{http,limiter,tools}/**/*.workerd.test.ts",
  ...longerFiles.filter((file) => file.includes(".workerd.")),
];

/** Tests that need packages of test/tools, and packages themselves. */
const ofTools = ["test/tools/**"];
const packages = ["**/node_modules/**"];
/** Installs the packages of test/tools. */
const installed = "test/tools/install.ts";

/**
 * `.ci/run` has 15 minutes, which all stories in the browser and all measurements would exceed. It runs the stories of
 * keys and the smoke test of every view.
 */
const leftOut =
  process.env["HEADGATE_FEW_STORIES"] === undefined
    ? []
    : [
        "test/console/app/{advisor,audit,denied,key-history,keys-conflicts,live,overview,playground,policies,shell}.local.test.ts",
        "test/system/{heap,first-seen,control-plane-propagation}.local.test.ts",
      ];

/**
 * The slowest files of each group, which start first: Vitest starts large files first, so that a slow one would run last and
 * alone.
 */
const slowFiles = [
  "conformance/table",
  "console/app/console.smoke.local",
  "cli/start.smoke.local",
  "system/nginx.smoke.local",
  "limiter/isolate/sharding.full.workerd",
  "admin/key-spellings.full.workerd",
  "control/object/long-rollback.full.workerd",
  "console/app/keys.local",
  "console/app/shell.local",
  "console/app/overview.local",
  "console/app/policies.local",
  "console/app/audit.local",
  "console/app/playground.local",
  "console/app/advisor.local",
  "system/control-plane-propagation.local",
  "cli/deploy.local",
  "cli/start.local",
  "docs/examples.local",
  "docs/site.local",
  "system/control-plane-failures.local",
  "system/disconnects.local",
  "system/crash.local",
  "system/heap.local",
  "system/first-seen.local",
  "docs/command-line.local",
  "docs/worker-examples.local",
  "tools/path-spellings/path-spellings.local",
  "cli/first-deploy.local",
  "cli/plain-wrangler.local",
  "cli/smoke.local",
  "tools/package/hono-app.local",
  "tools/package/client-app.local",
  "tools/package/node-app.local",
  "tools/package/limiter-app.local",
  "tools/package/durable-object-app.local",
  "tools/package/packed.local",
  "tools/package/vitest-plugin.local",
  "tools/package/versions.local",
  "system/load.local",
  "system/fuzz.local",
  "tools/check.local",
].map((name) => `/test/${name}.test.ts`);

class SlowFilesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const byDefault = await super.sort(files);
    const slow = slowFiles.flatMap((name) => byDefault.filter(({ moduleId }) => moduleId.endsWith(name)));
    return [...slow, ...byDefault.filter((file) => !slow.includes(file))];
  }
}

/** Files that need a Worker of their own: one restarts it, one counts the rows in all shards. */
const exclusive = ["test/http/check/service.workerd.test.ts", "test/limiter/isolate/sharding.full.workerd.test.ts"];

const withProcesses = {
  // Each file would load wrangler and the browser's client again.
  isolate: false,
  ...besideProcesses,
  testTimeout: 120_000,
  hookTimeout: 120_000,
  // A busy machine needs longer than the default of one second.
  expect: { poll: { timeout: 20_000 } },
} as const;

const packageTests = "test/tools/package/*.local.test.ts";

/** The tests in plain Node of benchmarks, and of what needs their packages. */
const testsOfTools: TestProjectConfiguration = {
  mode: "full",
  test: {
    name: "tools",
    ...inThreads,
    include: ["test/tools/**/*.test.ts"],
    exclude: ["test/**/*.{workerd,local}.test.ts", ...packages],
    globalSetup: installed,
  },
};

/** The tests of the packed package, which share one build of it. */
const ofPackage: TestProjectConfiguration = {
  mode: "full",
  test: {
    name: "package",
    include: [packageTests],
    globalSetup: [installed, "test/tools/package/packed-package.ts"],
    ...withProcesses,
  },
};

/** The short tests in plain Node of everything that sends checks, once more with joined calls off. */
const withSeparateCalls: TestProjectConfiguration[] = [
  {
    mode: "test",
    plugins: [withJoinedCalls(false)],
    test: {
      name: "pure-separate-calls",
      ...inThreads,
      include: ["test/{differential,http,limiter/isolate,simulation}/**/*.test.ts"],
      exclude: [
        "test/**/*.{workerd,local}.test.ts",
        "test/**/*.full.*test.ts",
        // About joined calls themselves, and a page with the number of calls.
        "test/limiter/isolate/joined-calls.test.ts",
        "test/simulation/joined.test.ts",
        "test/tools/simulate.test.ts",
      ],
    },
  },
];

/**
 * The suffix of a test file states where it runs: `.workerd.test.ts` in workerd, `.local.test.ts` on the developer's
 * machine with processes of its own, others in plain Node. `npm test` runs them all except `.local` files without
 * `.smoke` and files with `.full`. `--mode full` (`npm run test:full`) runs these, the long versions of the others, and the
 * tests of calls to objects with joined calls off.
 */
export default defineConfig(({ mode }) => {
  const isFull = mode === "full";
  const skipped = isFull ? packages : ["test/**/*.full.*test.ts", ...ofTools];
  return {
    test: {
      // The output of a test is of interest only when it fails.
      silent: "passed-only",
      globalSetup: ["test/console/app/build.ts", "test/compile-cache.ts"],
      sequence: { sequencer: SlowFilesFirst },
      projects: [
        {
          mode,
          test: {
            name: "pure",
            ...inThreads,
            include: isFull ? longerFiles : ["test/**/*.test.ts"],
            exclude: ["test/**/*.{workerd,local}.test.ts", ...skipped],
          },
        },
        {
          mode,
          // Joined calls are on in the short tests, and off in the long ones. The vitest plugin disables the platform feature
          // that they need between requests, but these tests send their requests in one context, which does not need it.
          plugins: [withJoinedCalls(!isFull), inWorkerd()],
          test: {
            name: "workerd",
            ...inSharedWorkers,
            include: isFull ? inFullWorkerd : ["test/**/*.workerd.test.ts"],
            exclude: [...exclusive, ...skipped],
          },
        },
        {
          mode,
          plugins: [inWorkerd()],
          test: {
            name: "workerd-exclusive",
            ...besideProcesses,
            restoreMocks: true,
            testTimeout: 60_000,
            include: exclusive,
            exclude: skipped,
          },
        },
        {
          mode,
          test: {
            name: "local",
            include: [isFull ? "test/**/*.local.test.ts" : "test/**/*.smoke.local.test.ts"],
            exclude: isFull ? ["test/**/*.smoke.local.test.ts", packageTests, ...leftOut, ...skipped] : skipped,
            // The browser is one of the packages.
            globalSetup: isFull ? [installed] : [],
            ...withProcesses,
          },
        },
        ...(isFull ? [testsOfTools, ofPackage, ...withSeparateCalls] : []),
      ],
    },
  };
});
