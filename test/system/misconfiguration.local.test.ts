import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { checkout, freePort, runNpm, started, stopped } from "./checkout.ts";

const { folder, configure, remove } = checkout();
const devVars = join(folder, ".dev.vars");
afterEach(() => rmSync(devVars, { force: true }));
afterAll(remove);

const goodSecrets = [`KEY_SECRET="${"k".repeat(32)}"`, `CHECK_TOKENS="${"t".repeat(16)}"`];

interface Check {
  /** Lines for `[vars]` of wrangler.toml. */
  readonly vars?: readonly string[];
  /** Lines of `.dev.vars`. */
  readonly secrets?: readonly string[];
  /** The names of additional required secrets. */
  readonly required?: readonly string[];
}

/** The exit code and the output lines of an npm script with this configuration. */
async function outcomeOf(
  { vars = [], secrets, required = [] }: Check,
  ...words: string[]
): Promise<[number | null, string[]]> {
  configure(vars);
  const file = join(folder, "wrangler.toml");
  const names = ["KEY_SECRET", "CHECK_TOKENS", ...required].map((name) => `"${name}"`).join(", ");
  const text = readFileSync(file, "utf8");
  writeFileSync(
    file,
    text.replace('"KEY_SECRET", "CHECK_TOKENS"', () => names),
  );
  if (secrets !== undefined) writeFileSync(devVars, `${secrets.join("\n")}\n`);
  const run = runNpm(folder, "run", "--silent", ...words);
  return [await run.ended, run.output().trim().split("\n")];
}

const checked = (check: Check, ...options: string[]): Promise<[number | null, string[]]> =>
  outcomeOf(check, "check-config", "--", ...options);

const limits = 'LIMITS = "5/minute"';

describe("unknown variables", () => {
  const vars = [
    limits,
    'STRATEGEY = "sliding-log"',
    "LEGACY_HEADER = true",
    'LIMTS = "5/minute"',
    'CORS_ORIGIN = "*"',
    "TRUSTED_PROXIES = 1",
    'ON_ERROR = "closed"',
    'REGION = "eu"',
    'BUILD = "7"',
    'EXTRA_VARS = "BUILD"',
  ];
  const lines = [
    "wrangler.toml:18: unknown variable STRATEGEY; did you mean STRATEGY?",
    "wrangler.toml:19: unknown variable LEGACY_HEADER; did you mean LEGACY_HEADERS?",
    "wrangler.toml:20: unknown variable LIMTS; did you mean LIMITS?",
    "wrangler.toml:21: unknown variable CORS_ORIGIN; did you mean CORS_ORIGINS?",
    expect.stringMatching(
      /^wrangler.toml:22: unknown variable TRUSTED_PROXIES; trustedProxies is a field of a policy: .*\[\[vars\.POLICIES\]\]$/,
    ),
    expect.stringMatching(/^wrangler.toml:23: unknown variable ON_ERROR; onError is a field of a policy: /),
    "wrangler.toml:24: unknown variable REGION; if it is your own, add its name to EXTRA_VARS",
  ];

  it("npm run check-config reports unknown variables with a suggestion", async () => {
    expect(await checked({ vars })).toEqual([1, lines]);
  });

  it("npm run deploy deploys nothing if a variable is unknown", async () => {
    const [exitCode, printed] = await outcomeOf({ vars }, "deploy", "--", "--dry-run");
    expect([exitCode, printed.slice(0, lines.length)]).toEqual([1, lines]);
    expect(printed.at(-1)).toMatch(/^Nothing was deployed/);
  });
});

describe("npm start with unknown variables and short secrets", () => {
  it("npm start reports unknown variables and short secrets, and still runs", async () => {
    configure([limits, 'STRATEGEY = "sliding-log"']);
    writeFileSync(devVars, 'KEY_SECRET="short"\n');
    const port = await freePort();
    const run = await started(folder, port);
    const { status } = await fetch(`http://localhost:${port}/hello`);
    await stopped(run);
    expect(status).toBe(200);
    expect(run.output()).toContain("unknown variable STRATEGEY; did you mean STRATEGY?");
    expect(run.output()).toContain("KEY_SECRET: expected at least 32 random characters, got 5");
  });
});

describe("variables outside of [vars]", () => {
  it("npm run check-config reports variables outside of [vars] in any section", async () => {
    configure([]);
    const file = join(folder, "wrangler.toml");
    const text = readFileSync(file, "utf8");
    const added =
      'KEY = "ip"\n[[POLICIES]]\nname = "a"\nlimits = "1/s"\n[env.staging]\nORIGIN = "route"\n' +
      '[[env.staging.POLICIES_2]]\nname = "b"\nlimits = "1/s"\n';
    writeFileSync(file, `STRATEGY = "sliding-log"\n${text}${added}`);
    const run = runNpm(folder, "run", "--silent", "check-config");
    expect(await run.ended).toBe(1);
    const lines = run
      .output()
      .split("\n")
      .filter((line) => line.includes("has no effect"));
    expect(lines[0]).toMatch(/^wrangler\.toml:1: /);
    expect(lines.map((line) => line.replace(/^wrangler\.toml:\d+: /, ""))).toEqual([
      "STRATEGY is at the top level, where it has no effect: move it to [vars]",
      "KEY is in [observability.logs], where it has no effect: move it to [vars]",
      "POLICIES is at the top level, where it has no effect: write [[vars.POLICIES]] instead of [[POLICIES]]",
      "ORIGIN is in [env.staging], where it has no effect: move it to [env.staging.vars]",
      "POLICIES_2 is in [env.staging], where it has no effect: write [[env.staging.vars.POLICIES_2]] instead of [[env.staging.POLICIES_2]]",
    ]);
  });

  it("npm run check-config reports variables outside of vars in wrangler.jsonc too", async () => {
    const file = join(folder, "wrangler.jsonc");
    const config = {
      name: "headgate",
      main: "src/index.ts",
      compatibility_date: "2026-11-01",
      durable_objects: { bindings: [{ name: "RATE_LIMITER", class_name: "RateLimiter" }] },
      LIMITS: "5/minute",
      vars: { POLICIES: [{ name: "a", limits: "5/minute" }] },
    };
    writeFileSync(file, `// a comment\n${JSON.stringify(config)}`);
    const run = runNpm(folder, "run", "--silent", "check-config");
    expect(await run.ended).toBe(1);
    rmSync(file);
    expect(run.output()).toContain('LIMITS is at the top level, where it has no effect: move it to "vars"');
  });
});

describe("invalid secrets", () => {
  it("short secrets in .dev.vars are problems", async () => {
    const secrets = ['KEY_SECRET="short"', 'CHECK_TOKENS="shorter-than-16"'];
    expect(await checked({ vars: [limits], secrets })).toEqual([
      1,
      [
        ".dev.vars:1: KEY_SECRET: expected at least 32 random characters, got 5",
        ".dev.vars:2: CHECK_TOKENS: expected tokens of at least 16 random characters, got one with 15 characters",
      ],
    ]);
  });

  it("the placeholders of an earlier .dev.vars.example are rejected as secrets", async () => {
    const secrets = [
      'KEY_SECRET="at least 32 random characters"',
      'CHECK_TOKENS="at least 32 random characters without spaces"',
    ];
    const [exitCode, lines] = await checked({ vars: [limits], secrets });
    const problem = ": expected a secret of your own instead of the placeholder";
    expect([exitCode, lines]).toEqual([
      1,
      expect.arrayContaining([
        expect.stringContaining(`KEY_SECRET${problem}`),
        expect.stringContaining(`CHECK_TOKENS${problem}`),
      ]),
    ]);
  });
});

describe("POLICIES as a secret", () => {
  const policies = [{ name: "partners", key: "header:x-api-key", limits: "5/minute", objects: "sharded" }];
  const overrides = [{ continues: "partners", overrides: [{ key: "sk_live_1", limits: "9/s" }] }];

  it("npm run check-config checks POLICIES from .dev.vars, and then does not use the demo limits", async () => {
    const secrets = [
      ...goodSecrets,
      `POLICIES='${JSON.stringify(policies)}'`,
      `POLICIES_2='${JSON.stringify(overrides)}'`,
    ];
    expect(await checked({ secrets, required: ["POLICIES", "POLICIES_2"] })).toEqual([
      0,
      [
        "The configuration is valid. ORIGIN is not set, so only /check is served.",
        "  partners: 5 per 1m, sliding-window-counter (overrides: 1)",
      ],
    ]);
  });

  it("problems in a secret POLICIES never quote the secret's value", async () => {
    const broken = JSON.stringify([...policies, ...overrides]).replace("9/s", "0/s");
    const secrets = [...goodSecrets, `POLICIES='${broken}'`];
    const [exitCode, lines] = await checked({ secrets, required: ["POLICIES"] });
    expect([exitCode, lines]).toEqual([
      1,
      [
        expect.stringMatching(
          /^\.dev\.vars:3: POLICIES\[1\] \(partners\) overrides\[0\]\.limits\.limit: expected .*, got "0\/s"$/,
        ),
      ],
    ]);
    const cut = [...goodSecrets, `POLICIES='${broken.slice(0, -1)}'`];
    const [, cutLines] = await checked({ secrets: cut, required: ["POLICIES"] });
    expect(cutLines).toEqual([
      expect.stringMatching(/^\.dev\.vars:3: POLICIES: expected .*, got "\(hidden\)"; the JSON is invalid: .+$/),
    ]);
  });

  it("the check of a deployment accepts POLICIES as a secret whose value is not available locally", async () => {
    expect(await checked({ required: ["POLICIES"] })).toEqual([
      0,
      [
        "The configuration is valid. ORIGIN is not set, so only /check is served.",
        "  POLICIES: a secret whose value is not available here",
      ],
    ]);
  });

  it("a secret POLICIES that is larger than 5 KB is a problem", async () => {
    const long = Array.from({ length: 200 }, (_, index) => ({ name: `p${index}`, limits: "1/s" }));
    const secrets = [...goodSecrets, `POLICIES='${JSON.stringify(long)}'`];
    const [exitCode, lines] = await checked({ secrets, required: ["POLICIES"] });
    expect([exitCode, lines]).toEqual([
      1,
      [expect.stringMatching(/^\.dev\.vars:3: POLICIES: expected at most 5120 bytes, got \d+;/)],
    ]);
  });
});

describe("a fresh clone", () => {
  it("npm run check-config accepts a fresh clone, and warns that a deployment runs the demo", async () => {
    const [exitCode, lines] = await checked({});
    expect([exitCode, lines.toSorted()]).toEqual([
      0,
      [
        "  default: 5 per 10s, fixed-window",
        expect.stringMatching(/^LIMITS and ORIGIN are not set: the demo limits are in effect, /),
        expect.stringMatching(/^The configuration is valid\./),
      ],
    ]);
  });
});

describe("a limit that can never deny", () => {
  it("npm run check-config warns about a limit that can never deny, and still exits with 0", async () => {
    const vars = ['LIMITS = "10/second; 1000000000/minute"'];
    const [exitCode, lines] = await checked({ vars });
    expect([exitCode, lines[0]]).toEqual([
      0,
      expect.stringMatching(/^LIMITS: the limit "default\.1000000000-per-1m" .* never denies/),
    ]);
  });
});

describe("a broken value", () => {
  it("a problem names its line and its variable, and for invalid JSON also the reason", async () => {
    const vars = [
      `JWT_AUDIENCE = '["a" "b"]'`,
      'POLICIES_3 = [{ name = "a", limits = "1/s", limts = "5/s" }]',
      `CORS_ORIGINS = '["https://app.example.com"'`,
    ];
    const [exitCode, lines] = await checked({ vars });
    expect([exitCode, lines]).toEqual([
      1,
      [
        expect.stringMatching(/^POLICIES_2 is missing: .* because POLICIES_3 is set/),
        expect.stringMatching(
          /^wrangler\.toml:18: POLICIES_3\[0\] \(a\) limts: expected .*, got "5\/s"; did you mean limits\?$/,
        ),
        expect.stringMatching(/^wrangler\.toml:17: JWT_AUDIENCE: expected .*; the JSON is invalid: .+$/),
        expect.stringMatching(/^wrangler\.toml:19: CORS_ORIGINS: expected .*; the JSON is invalid: .+$/),
      ],
    ]);
  });
});
