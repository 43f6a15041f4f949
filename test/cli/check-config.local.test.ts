import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { checkout, runNpm } from "../system/checkout.ts";

const { folder, configure, remove } = checkout();
afterAll(remove);

const checkConfig = async (lines: string[], ...options: string[]): Promise<[number | null, string[]]> => {
  configure(lines);
  const run = runNpm(folder, "run", "--silent", "check-config", "--", ...options);
  const exitCode = await run.ended;
  return [exitCode, run.output().trim().split("\n")];
};

describe("npm run check-config", () => {
  it("npm run check-config reports every problem with its line, policy, field and value and with what is expected", async () => {
    const [exitCode, lines] = await checkConfig([
      'ORIGIN = "api.example.com"',
      'POLICIES = [{ name = "a", limits = ["0/minute", { limit = 5, window = "soon" }], extra = 1 }]',
    ]);
    expect(exitCode).toBe(1);
    expect(lines).toEqual([
      expect.stringMatching(/^wrangler\.toml:17: ORIGIN: expected an http or https URL .*, got "api\.example\.com"$/),
      expect.stringMatching(
        /^wrangler\.toml:18: POLICIES\[0\] \(a\) extra: expected one of the fields name, .*, got 1$/,
      ),
      expect.stringMatching(
        /^wrangler\.toml:18: POLICIES\[0\] \(a\) limits\[0\]\.limit: expected an integer.*, got "0\/minute"$/,
      ),
      expect.stringMatching(
        /^wrangler\.toml:18: POLICIES\[0\] \(a\) limits\[1\]\.window: expected a duration.*, got "soon"$/,
      ),
    ]);
  });

  it("npm run check-config needs no local secrets and prints the limits of each policy", async () => {
    expect(
      await checkConfig(['ORIGIN = "https://api.example.com"', 'LIMITS = "100/minute"', 'STRATEGY = "fixed-window"']),
    ).toEqual([0, ["The configuration is valid.", "  default: 100 per 1m, fixed-window"]]);
  });

  it("npm run check-config accepts a required secret JWT_KEY without a value, and reports a JWT_KEY that is not a required secret", async () => {
    const claimed = ['LIMITS = "100/minute"', 'KEY = "jwt:sub"'];
    const [exitCode, lines] = await checkConfig(claimed);
    expect([exitCode, lines]).toEqual([1, [expect.stringMatching(/^JWT_KEY is missing: expected a key .* in KEY$/)]]);
    const file = join(folder, "wrangler.toml");
    const required = '"CHECK_TOKENS", "JWT_KEY"]';
    writeFileSync(file, readFileSync(file, "utf8").replace('"CHECK_TOKENS"]', required));
    const run = runNpm(folder, "run", "--silent", "check-config", "--");
    expect([await run.ended, run.output().trim().split("\n")]).toEqual([
      0,
      [expect.stringContaining("is valid."), "  default: 100 per 1m, sliding-window-counter"],
    ]);
  });

  it("npm run check-config prints windows in the units of their notation, including calendar windows", async () => {
    const [, lines] = await checkConfig(['LIMITS = "100/month; 7/90s; 5 per 120 seconds"']);
    expect(lines.at(-1)).toBe(
      "  default: 100 per 1mo, fixed-window; 7 per 90s, sliding-window-counter; 5 per 2m, sliding-window-counter",
    );
  });

  it("npm run check-config prints dry runs and the number of overrides, allow and deny entries", async () => {
    const [, lines] = await checkConfig([
      'POLICIES = [{ name = "a", limits = "5/minute", dryRun = true, allow = ["10.0.0.0/8", "192.0.2.1"], overrides = [{ key = "203.0.113.7", limits = "9/s" }] }]',
    ]);
    expect(lines.at(-1)).toBe("  a: 5 per 1m, sliding-window-counter (dry run, overrides: 1, allow: 2)");
  });

  it("npm run check-config prints warnings and still exits with 0", async () => {
    const [exitCode, lines] = await checkConfig([
      'POLICIES = [{ name = "a", limits = [{ limit = 5, window = "1m", strategy = "fixed-window", elastic = true }] }]',
    ]);
    expect([exitCode, lines.toSorted()]).toEqual([
      0,
      [
        "  a: 5 per 1m, fixed-window",
        expect.stringMatching(
          /^POLICIES\[0\]\.limits: the limit "a" of the policy "a": elastic windows are deprecated/,
        ),
        expect.stringMatching(/^The configuration is valid\./),
      ],
    ]);
  });

  it("npm run check-config reports a variable that is larger than 5 KB", async () => {
    const names = Array.from({ length: 150 }, (_, index) => `{ name = "policy-${index}", limits = "1/${index + 1}s" }`);
    const [exitCode, lines] = await checkConfig([`POLICIES = [${names.join(", ")}]`]);
    expect(exitCode).toBe(1);
    expect(lines).toEqual([
      expect.stringMatching(/^wrangler\.toml:17: POLICIES: expected at most 5120 bytes, got \d+;/),
    ]);
  });

  it("npm run check-config names the line of invalid TOML, and lists the accepted options after an unknown option", async () => {
    const [exitCode, lines] = await checkConfig(["broken"]);
    expect([exitCode, lines]).toEqual([1, [expect.stringMatching(/^wrangler\.toml:\d+: Invalid TOML/)]]);
    const [otherCode, others] = await checkConfig([], "--bogus");
    expect([otherCode, others.at(-1)]).toEqual([
      1,
      "Expected one of --config, --env, --var, --secrets-file, --secrets-deployed.",
    ]);
  });

  it("npm run check-config accepts the shipped configuration, and warns of the demo limits", async () => {
    const [exitCode, lines] = await checkConfig([]);
    expect([exitCode, lines.join("\n")]).toEqual([
      0,
      expect.stringMatching(/^LIMITS and ORIGIN are not set: the demo limits are in effect/),
    ]);
  });
});
