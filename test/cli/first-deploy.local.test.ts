/**
 * Deploys an unconfigured copy of the repository and configures it until it limits an origin, without a Cloudflare
 * account.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { startWorkerd } from "../tools/workerd.ts";
import { type Checkout, checkout, runNpm } from "../system/checkout.ts";
import { type CloudflareApi, startCloudflareApi, type Upload } from "../system/cloudflare-api.ts";

let api: CloudflareApi;
let copy: Checkout;
let root: string;
beforeEach(async () => {
  api = await startCloudflareApi();
  copy = checkout();
  root = mkdtempSync(join(tmpdir(), "headgate-deployed-"));
  for (const [name, value] of Object.entries(api.environment)) vi.stubEnv(name, value);
});
afterEach(() => {
  vi.unstubAllEnvs();
  api.close();
  copy.remove();
  rmSync(root, { recursive: true });
});

const deploy = async (...options: string[]): Promise<[number | null, string]> => {
  const npm = runNpm(copy.folder, "run", "--silent", "deploy", "--", ...options);
  return [await npm.ended, npm.output()];
};

const lastUpload = (): Upload => {
  const upload = api.uploads.at(-1);
  if (upload === undefined) throw new Error("nothing was uploaded");
  return upload;
};
const secretsIn = ({ bindings }: Upload): Record<string, string> =>
  Object.fromEntries(bindings.flatMap(({ type, name, text = "" }) => (type === "secret_text" ? [[name, text]] : [])));

const browser = { Accept: "text/html", "CF-Connecting-IP": "203.0.113.7" };

/**
 * Runs the uploaded code with the uploaded variables and these secrets, and sends the requests of one browser to it.
 */
async function visit(
  { code, bindings }: Upload,
  secrets: Readonly<Record<string, string>>,
  count: number,
): Promise<{ status: number; headers: Headers; body: string }[]> {
  const bundledIn = join(root, "uploaded");
  mkdirSync(bundledIn, { recursive: true });
  writeFileSync(join(bundledIn, "index.js"), code);
  const vars = Object.fromEntries(
    bindings.flatMap(({ type, name, text }) => (type === "plain_text" ? [[name, text]] : [])),
  );
  // Without this variable, workerd redirects requests for every origin to a stand-in, which responds with a number.
  const { ORIGIN: origin, ...others } = vars;
  const unset = origin === undefined ? { ORIGIN: "" } : {};
  const headgate = await startWorkerd(
    root,
    { KEY_SECRET: "", ...others, ...unset, ...secrets },
    { bundledIn, hasControlPlane: true },
  );
  try {
    const responses = [];
    for (let request = 0; request < count; request++) {
      // oxlint-disable no-await-in-loop
      const response = await fetch(headgate.url, { headers: browser });
      const { status, headers } = response;
      responses.push({ status, headers, body: await response.text() });
      // oxlint-enable no-await-in-loop
    }
    return responses;
  } finally {
    await headgate.close();
  }
}

describe("the first deployment", () => {
  it("an unconfigured copy deploys with random secrets and shows what to set, and the next deployment configures it", async () => {
    const [exitCode, output] = await deploy();
    expect([exitCode, output]).toEqual([0, expect.stringContaining("the demo limits are in effect")]);
    const first = lastUpload();
    const secrets = secretsIn(first);
    expect(Object.keys(secrets).toSorted()).toEqual(["CHECK_TOKENS", "KEY_SECRET"]);
    for (const secret of Object.values(secrets)) {
      expect(secret).toMatch(/^[\w-]{32}$/);
      expect(output).not.toContain(secret);
    }

    const visits = await visit(first, secrets, 6);
    expect(visits.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429]);
    expect(visits[0]?.body).toContain("Set LIMITS");
    expect(visits[4]?.headers.get("RateLimit")).toMatch(/^"default";r=0;t=\d+$/);
    const [withoutSecret] = await visit(first, {}, 1);
    expect([withoutSecret?.status, withoutSecret?.body]).toEqual([
      503,
      expect.stringContaining("npx wrangler secret put KEY_SECRET"),
    ]);

    copy.configure(['ORIGIN = "https://api.example.com"', 'LIMITS = "2/minute"']);
    expect((await deploy())[0]).toBe(0);
    const second = lastUpload();
    expect(second).not.toBe(first);
    expect(secretsIn(second)).toEqual({});
    const configured = await visit(second, secrets, 3);
    expect(configured.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(configured[0]?.body).toBe("1");
  });

  it("npm run deploy keeps a secret that the form of the deploy button has set, and generates a missing one", async () => {
    api.setSecrets(["CHECK_TOKENS"]);
    const [exitCode, output] = await deploy();
    expect([exitCode, output]).toEqual([0, expect.stringMatching(/^KEY_SECRET: not set yet/m)]);
    expect(Object.keys(secretsIn(lastUpload()))).toEqual(["KEY_SECRET"]);
  });

  it("npm run deploy uploads the secrets of --secrets-file and generates no secrets", async () => {
    writeFileSync(
      join(copy.folder, "own.json"),
      JSON.stringify({ KEY_SECRET: "k".repeat(32), CHECK_TOKENS: "t".repeat(32) }),
    );
    expect((await deploy("--secrets-file", "own.json"))[0]).toBe(0);
    expect(secretsIn(lastUpload())).toEqual({
      KEY_SECRET: "k".repeat(32),
      CHECK_TOKENS: "t".repeat(32),
    });
  });

  it("npm run deploy refuses to deploy an ORIGIN without limits", async () => {
    copy.configure(['ORIGIN = "https://api.example.com"']);
    const [exitCode, output] = await deploy();
    expect([exitCode, output]).toEqual([1, expect.stringMatching(/^POLICIES is missing: /m)]);
    expect(api.uploads).toEqual([]);
  });
});
