import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { checkout, freePort, started, stopped } from "./checkout.ts";

const { folder, configure, remove } = checkout();
afterAll(remove);

it("npm start reads POLICIES from the secrets in .dev.vars and adds no demo limits", async () => {
  configure([]);
  const file = join(folder, "wrangler.toml");
  const names = '"KEY_SECRET", "CHECK_TOKENS", "POLICIES", "POLICIES_2"';
  const text = readFileSync(file, "utf8").replace('"KEY_SECRET", "CHECK_TOKENS"', names);
  writeFileSync(file, text);
  const policies = [
    { name: "partners", key: "header:x-api-key", limits: "2/hour", objects: "sharded" },
  ];
  const overrides = [
    { continues: "partners", overrides: [{ key: "sk_live_1", limits: "9/hour" }] },
  ];
  writeFileSync(
    join(folder, ".dev.vars"),
    `POLICIES='${JSON.stringify(policies)}'\nPOLICIES_2='${JSON.stringify(overrides)}'\n`,
  );
  const port = await freePort();
  const run = await started(folder, port);
  try {
    const policyOf = async (key: string): Promise<string | null> => {
      const headers = { "X-Api-Key": key };
      const response = await fetch(`http://localhost:${port}/hello`, { headers });
      await response.body?.cancel();
      return response.headers.get("RateLimit-Policy");
    };
    expect(await policyOf("sk_live_1")).toBe('"partners";q=9;w=3600');
    expect(await policyOf("another")).toBe('"partners";q=2;w=3600');
    expect(run.output()).not.toContain("a demo, until you set LIMITS");
    expect(run.output()).not.toContain("sk_live_1");
  } finally {
    await stopped(run);
  }
});
