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

  it("npm run check-config names the line of invalid TOML, and lists the accepted options after an unknown option", async () => {
    const [exitCode, lines] = await checkConfig(["broken"]);
    expect([exitCode, lines]).toEqual([1, [expect.stringMatching(/^wrangler\.toml:\d+: Invalid TOML/)]]);
    const [otherCode, others] = await checkConfig([], "--bogus");
    expect([otherCode, others.at(-1)]).toEqual([
      1,
      "Expected one of --config, --env, --var, --secrets-file, --secrets-deployed.",
    ]);
  });
});
