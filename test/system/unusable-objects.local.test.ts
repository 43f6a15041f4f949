/** Workers whose objects can never decide, because the bound class has no SQLite storage or is not Headgate's. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startWorkerd, type Workerd, type WorkerdOptions } from "../tools/workerd.ts";
import { bundle } from "../tools/workerd-process.ts";

const repository = resolve(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "headgate-unusable-"));
const token = "the-token-of-unusable-objects";

const consistencies = ["strict", "leased", "eventual"] as const;
const failureModes = ["local", "open", "closed"] as const;

const policiesOf = (...[consistency, onError]: readonly [string, string]): readonly object[] => [
  { name: "api", match: { path: "/api/*" }, key: "ip", limits: "1/hour", consistency, onError },
];

/** A user's Hono app, with a limiter for each combination. */
const app = `
  import { Hono } from ${JSON.stringify(join(repository, "node_modules/hono/dist/index.js"))};
  import { rateLimit } from ${JSON.stringify(join(repository, "src/sdk/package/hono.ts"))};
  export { RateLimiter } from ${JSON.stringify(join(repository, "src/sdk/package/object.ts"))};
  export { Headgate } from ${JSON.stringify(join(repository, "src/index.ts"))};

  const app = new Hono();
  for (const consistency of ${JSON.stringify(consistencies)}) {
    for (const onError of ${JSON.stringify(failureModes)}) {
      const name = consistency + "-" + onError;
      const options = { name, key: "ip", limits: "1/hour", consistency, onError };
      app.get("/" + consistency + "/" + onError, rateLimit(options), (c) => c.text("handled"));
    }
  }
  app.get("/check/health", (c) => c.text("up"));
  export default app;
`;

/** Calls Headgate's service binding, and responds with the problem in the error. */
const other = `
  export default {
    async fetch(request, { HEADGATE }) {
      try {
        return Response.json(await HEADGATE.check({ policy: "api", key: "203.0.113.7" }));
      } catch (error) {
        return Response.json(error.problem ?? { message: error.message });
      }
    },
  };
`;

/** A class that is not part of Headgate. */
const otherClass = `
  import { DurableObject } from "cloudflare:workers";
  export * from "./index.js";
  export { default } from "./index.js";
  export class RateLimiter extends DurableObject {}
`;

const bundles = { worker: join(folder, "worker"), app: join(folder, "app") } as const;

beforeAll(() => {
  for (const each of Object.values(bundles)) mkdirSync(each);
  bundle(bundles.worker);
  const main = join(folder, "index.js");
  writeFileSync(main, app);
  const configuration = join(folder, "app.json");
  writeFileSync(configuration, JSON.stringify({ name: "app", main, compatibility_date: "2026-11-01" }));
  bundle(bundles.app, configuration);
});
afterAll(() => rmSync(folder, { recursive: true }));

interface Run {
  readonly workerd: Workerd;
  /** The problems in each logged event about the configuration. */
  readonly reported: () => readonly string[][];
}

let runs = 0;

async function inWorkerd(
  vars: Readonly<Record<string, unknown>>,
  options: WorkerdOptions,
  act: (run: Run) => Promise<void>,
): Promise<void> {
  let printed = "";
  const print = (text: string): void => void (printed += text);
  const own = join(folder, `run-${(runs += 1)}`);
  const workerd = await startWorkerd(own, { CHECK_TOKENS: token, ...vars }, { ...options, print });
  const reported = (): string[][] =>
    [...printed.matchAll(/^\{"event":"configuration-invalid".*$/gm)].map(
      ([line]) => (JSON.parse(line) as { problems: string[] }).problems,
    );
  try {
    await act({ workerd, reported });
    expect(printed).not.toContain("object-silent");
    expect(printed).not.toContain("Uncaught");
  } finally {
    await workerd.close();
  }
}

interface ProblemAnswer {
  readonly status: number;
  readonly type: string | null;
  readonly errors: readonly { readonly variable: string; readonly accepted: string }[];
}

async function problemAt(url: URL, init: RequestInit = {}): Promise<ProblemAnswer> {
  const response = await fetch(url, init);
  const type = response.headers.get("Content-Type");
  const { errors = [] } = await response.json<Partial<ProblemAnswer>>();
  return { status: response.status, type, errors };
}

const problemWith = (accepted: string, variable = "RATE_LIMITER"): object => ({
  status: 500,
  type: "application/problem+json",
  errors: [{ variable, field: "", accepted: expect.stringContaining(accepted) }],
});

const noSqlite = problemWith('new_sqlite_classes = ["RateLimiter"]');

describe.each(consistencies)("with consistency %s and without SQLite storage", (consistency) => {
  it.each(failureModes)(
    "the Worker answers every limited request with 500 from the first one on, and reports the problem once: onError %s",
    async (onError) => {
      const POLICIES = policiesOf(consistency, onError);
      const options = { bundledIn: bundles.worker, hasSqlite: false, other };
      await inWorkerd({ POLICIES }, options, async ({ workerd, reported }) => {
        const path = new URL("/api/page", workerd.url);
        expect(await problemAt(path)).toEqual(noSqlite);
        await expect.poll(reported).toHaveLength(1);
        expect(reported()[0]?.join("\n")).toContain("new_sqlite_classes");
        expect(await Promise.all([problemAt(path), problemAt(path)])).toEqual([noSqlite, noSqlite]);
        const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
        const check = JSON.stringify({ policy: "api", key: "203.0.113.7" });
        const posted = { method: "POST", headers, body: check };
        expect(await problemAt(new URL("/check", workerd.url), posted)).toEqual(noSqlite);
        expect(await (await fetch(workerd.otherUrl)).json()).toMatchObject({ status: 500 });
        expect((await fetch(new URL("/other", workerd.url))).status).toBe(200);
        expect(reported()).toHaveLength(1);
      });
    },
  );

  it.each(failureModes)(
    "the middleware answers the first request with 500, and calls no handler: onError %s",
    async (onError) => {
      const options = { bundledIn: bundles.app, hasSqlite: false };
      await inWorkerd({}, options, async ({ workerd, reported }) => {
        const path = new URL(`/${consistency}/${onError}`, workerd.url);
        expect(await problemAt(path)).toEqual(noSqlite);
        await expect.poll(reported).toHaveLength(1);
      });
    },
  );
});

it("a binding to a class without the methods of RateLimiter is reported as a problem of the configuration", async () => {
  for (const consistency of consistencies) {
    const options = { bundledIn: bundles.worker, entry: otherClass };
    const POLICIES = policiesOf(consistency, "open");
    // oxlint-disable-next-line no-await-in-loop
    await inWorkerd({ POLICIES }, options, async ({ workerd, reported }) => {
      expect(await problemAt(new URL("/api/page", workerd.url))).toEqual(problemWith('class_name = "RateLimiter"'));
      await expect.poll(reported).toHaveLength(1);
    });
  }
});

describe("a control plane without SQLite storage", () => {
  it("the admin API answers every call with 500, and says what to write for CONTROL_PLANE", async () => {
    const admin = "the-admin-token-of-unusable-objects";
    const POLICIES = policiesOf("strict", "open");
    const variables = { POLICIES, ADMIN_TOKENS: [{ token: admin, name: "alice" }] };
    const options = { bundledIn: bundles.worker, hasSqlite: false, hasControlPlane: true };
    await inWorkerd(variables, options, async ({ workerd, reported }) => {
      const init = { headers: { Authorization: `Bearer ${admin}` } };
      for (const path of ["rules", "audit", "stats"]) {
        // oxlint-disable-next-line no-await-in-loop
        const answer = await problemAt(new URL(`/_headgate/api/${path}`, workerd.url), init);
        expect(answer).toEqual(problemWith('new_sqlite_classes = ["ControlPlane"]', "CONTROL_PLANE"));
      }
      expect(reported()[0]?.join("\n")).toContain("CONTROL_PLANE");
    });
  });
});
