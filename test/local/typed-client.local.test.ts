import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startWorkerd, type Workerd } from "../tools/workerd.ts";
import { pageBlock } from "../docs/page-block.ts";

const page = "how-to/from-typescript";
const token = "the-tests-token";
const folder = mkdtempSync(join(tmpdir(), "headgate-client-"));
let workerd: Workerd;

/** Writes a caller with the documented declarations and client into a folder of its own. */
beforeAll(async () => {
  mkdirSync(join(folder, "src"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  writeFileSync(join(folder, "src/client.ts"), pageBlock(page, "ts", "hc<CheckRoutes>"));
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  const outDir = join(folder, "src/headgate");
  const command = pageBlock(page, "bash repository", "tsc").replace("../app/src/headgate", outDir);
  execFileSync("bash", ["-euc", command], { stdio: "pipe" });
  workerd = await startWorkerd(join(folder, "workerd"), {
    LIMITS: '{ "limit": 2, "window": "1h", "strategy": "fixed-window" }',
    KEY: "header:X-Api-Key",
    CHECK_TOKENS: token,
  });
  return workerd.close;
});

afterAll(() => rmSync(folder, { recursive: true }));

/** Module resolutions of current TypeScript projects. */
const resolutions = [
  { module: "nodenext", moduleResolution: "nodenext" },
  { module: "esnext", moduleResolution: "bundler" },
] as const;
type Resolution = (typeof resolutions)[number];

/** The compiler's errors for a file of the caller. */
function compiled(file: string, { module, moduleResolution }: Resolution, types = "node"): string {
  const strict = ["--strict", "--noEmit", "--skipLibCheck", "--target", "es2024"];
  const found = ["--module", module, "--moduleResolution", moduleResolution];
  const words = [...strict, ...found, "--ignoreConfig", "--types", types, `src/${file}`];
  const options = { cwd: folder, encoding: "utf8" } as const;
  return spawnSync(resolve("node_modules/.bin/tsc"), words, options).stdout;
}

/** The output of a module that imports the client. */
const printed = (code: string, bearer = token): unknown => {
  const script = `import { waitMsOf } from "./src/client.ts";\n${code}`;
  const HEADGATE_URL = new URL("/check", workerd.url).href;
  const env = { ...process.env, HEADGATE_URL, HEADGATE_TOKEN: bearer };
  const words = ["--input-type=module", "-e", script];
  return JSON.parse(execFileSync(process.execPath, words, { cwd: folder, env, encoding: "utf8" }));
};

describe("the documented typed client", () => {
  it.each(resolutions)(
    "the typed client compiles without Headgate's own environment under $moduleResolution",
    (resolution) => {
      expect(compiled("client.ts", resolution)).toBe("");
    },
  );

  it("the typed client is allowed up to the limit and then gets the wait", () => {
    const waits = printed(`
      const waits = [await waitMsOf("k"), await waitMsOf("k"), await waitMsOf("k")];
      console.log(JSON.stringify(waits));`);
    expect(waits).toEqual([0, 0, expect.any(Number)]);
    expect((waits as number[])[2]).toBeGreaterThan(3_590_000);
  });

  it("the typed client gets problem details", () => {
    const result = `console.log(JSON.stringify(await waitMsOf("k").catch(({ message }) => message)));`;
    expect(printed(result, "another")).toMatch(/^Unauthorized: The bearer token is invalid/);
  });
});

describe("the types of the documented client", () => {
  it.each(resolutions)(
    "the types describe the arguments and results of each route under $moduleResolution",
    (resolution) => {
      writeFileSync(
        join(folder, "src/typed.ts"),
        `import { hc } from "hono/client";
      import type { CheckRoutes } from "./headgate/app.js";
      const { index, batch, reserve, settle, health } = hc<CheckRoutes>("https://h.example/check");
      export async function use(): Promise<unknown> {
        const looked = await index.$get({ query: { policy: "p", key: ["a", "b"], deny: "429" } });
        const answer = await looked.json();
        if (!("allowed" in answer)) return answer.errors?.map(({ field }) => field.trim());
        const left: number[] = answer.limits.map(({ remaining }) => remaining);
        const { reason } = answer;
        const isFinal: boolean = reason === "deny" || reason === "cost";
        // @ts-expect-error a reason that there is not
        const isUnknown: boolean = reason === "weather";
        const attributes = { country: "DE", "jwt:level": 3, "jwt:beta": true, "jwt:groups": ["a"] };
        await index.$post({ json: { key: "k", attributes } });
        await index.$get({ query: { key: "k", attributes: JSON.stringify(attributes) } });
        // @ts-expect-error a value that is none
        await index.$post({ json: { key: "k", attributes: { country: null } } });
        const made = await reserve.$post({ json: { key: "k", limits: "5/minute", ttlMs: 1_000 } });
        if (!made.ok) return made.status;
        const { id } = await made.json();
        // @ts-expect-error denied, it would be null
        await settle.$post({ json: { id, cost: 1 } });
        if (id !== null) await settle.$post({ json: { id, cost: 1 } });
        const each = await batch.$post({ json: { checks: [{ key: "k" }] } });
        const results = each.ok ? (await each.json()).results : [];
        const titles: string[] = results.flatMap((one) => "problem" in one ? [one.problem.title] : []);
        const forgotten: boolean = (await index.$delete({ query: { key: "k" } })).status === 204;
        const status: "ok" = (await (await health.$get()).json()).status;
        // @ts-expect-error a field that there is not
        await index.$post({ json: { colour: 1 } });
        // @ts-expect-error one that is missing
        await reserve.$post({ json: { key: "k" } });
        return [left, titles, forgotten, status, isFinal, isUnknown];
      }`,
      );
      expect(compiled("typed.ts", resolution)).toBe("");
    },
  );

  it.each(resolutions)(
    "the types describe the results of the service under $moduleResolution",
    (resolution) => {
      const binding = pageBlock("how-to/from-another-worker", "ts", "HEADGATE");
      writeFileSync(
        join(folder, "src/bound.ts"),
        `${binding}
      export async function use({ HEADGATE }: Env): Promise<unknown> {
        const { reason, violated } = await HEADGATE.check({ key: "k", attributes: { ip: "::1" } });
        // @ts-expect-error a reason that there is not
        if (reason === "weather") return null;
        const first: string | undefined = violated[0];
        return [reason === "ban", first];
      }`,
      );
      expect(compiled("bound.ts", resolution, "@cloudflare/workers-types")).toBe("");
    },
  );
});
