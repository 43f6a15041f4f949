import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { checkDeployment, summary } from "../../src/cli/configuration-check.ts";
import { configurationSource } from "../../src/cli/configuration-source.ts";
import { readSettings } from "../../src/cli/settings.ts";
import { checkout, freePort, started, stopped } from "./checkout.ts";

const { folder, configure, remove } = checkout();
const devVars = join(folder, ".dev.vars");
beforeEach(() => {
  // Without .dev.vars, wrangler reads secrets from the process environment.
  vi.stubEnv("KEY_SECRET", undefined);
  vi.stubEnv("CHECK_TOKENS", undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(devVars, { force: true });
});
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

/** The lines that `npm run check-config` prints about a file of the copy. */
function linesAbout(file: string): string[] {
  const source = configurationSource({ config: join(folder, file) }, {}, folder);
  const { config, lines, warnings } = checkDeployment(readSettings(source));
  const isValid = config !== null && lines.length === 0;
  return [...lines, ...warnings, ...(isValid ? summary(config).split("\n") : [])].map((line) =>
    line.replace(`${folder}/`, ""),
  );
}

function checked({ vars = [], secrets, required = [] }: Check): string[] {
  configure(vars);
  const file = join(folder, "wrangler.toml");
  const names = ["KEY_SECRET", "CHECK_TOKENS", ...required].map((name) => `"${name}"`).join(", ");
  const text = readFileSync(file, "utf8");
  writeFileSync(
    file,
    text.replace('"KEY_SECRET", "CHECK_TOKENS"', () => names),
  );
  if (secrets !== undefined) writeFileSync(devVars, `${secrets.join("\n")}\n`);
  return linesAbout("wrangler.toml");
}

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

  it("unknown variables are problems, with a suggestion", () => {
    expect(checked({ vars })).toEqual(lines);
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
  it("variables outside of [vars] are problems in any section", () => {
    configure([]);
    const file = join(folder, "wrangler.toml");
    const text = readFileSync(file, "utf8");
    const added =
      'KEY = "ip"\n[[POLICIES]]\nname = "a"\nlimits = "1/s"\n[env.staging]\nORIGIN = "route"\n' +
      '[[env.staging.POLICIES_2]]\nname = "b"\nlimits = "1/s"\n';
    writeFileSync(file, `STRATEGY = "sliding-log"\n${text}${added}`);
    const lines = linesAbout("wrangler.toml").filter((line) => line.includes("has no effect"));
    expect(lines[0]).toMatch(/^wrangler\.toml:1: /);
    expect(lines.map((line) => line.replace(/^wrangler\.toml:\d+: /, ""))).toEqual([
      "STRATEGY is at the top level, where it has no effect: move it to [vars]",
      "KEY is in [observability.logs], where it has no effect: move it to [vars]",
      "POLICIES is at the top level, where it has no effect: write [[vars.POLICIES]] instead of [[POLICIES]]",
      "ORIGIN is in [env.staging], where it has no effect: move it to [env.staging.vars]",
      "POLICIES_2 is in [env.staging], where it has no effect: write [[env.staging.vars.POLICIES_2]] instead of [[env.staging.POLICIES_2]]",
    ]);
  });

  it("variables outside of vars are problems in wrangler.jsonc too", () => {
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
    const lines = linesAbout("wrangler.jsonc");
    rmSync(file);
    expect(lines).toContainEqual(
      expect.stringContaining('LIMITS is at the top level, where it has no effect: move it to "vars"'),
    );
  });
});

describe("invalid secrets", () => {
  it("short secrets in .dev.vars are problems", () => {
    const secrets = ['KEY_SECRET="short"', 'CHECK_TOKENS="shorter-than-16"'];
    expect(checked({ vars: [limits], secrets })).toEqual([
      ".dev.vars:1: KEY_SECRET: expected at least 32 random characters, got 5",
      ".dev.vars:2: CHECK_TOKENS: expected tokens of at least 16 random characters, got one with 15 characters",
    ]);
  });

  it("the placeholders of an earlier .dev.vars.example are rejected as secrets", () => {
    const secrets = [
      'KEY_SECRET="at least 32 random characters"',
      'CHECK_TOKENS="at least 32 random characters without spaces"',
    ];
    const lines = checked({ vars: [limits], secrets });
    const problem = ": expected a secret of your own instead of the placeholder";
    expect(lines).toEqual(
      expect.arrayContaining([
        expect.stringContaining(`KEY_SECRET${problem}`),
        expect.stringContaining(`CHECK_TOKENS${problem}`),
      ]),
    );
  });
});

describe("POLICIES as a secret", () => {
  const policies = [{ name: "partners", key: "header:x-api-key", limits: "5/minute", objects: "sharded" }];
  const overrides = [{ continues: "partners", overrides: [{ key: "sk_live_1", limits: "9/s" }] }];

  it("the check of a deployment reads POLICIES from .dev.vars, and then does not use the demo limits", () => {
    const secrets = [
      ...goodSecrets,
      `POLICIES='${JSON.stringify(policies)}'`,
      `POLICIES_2='${JSON.stringify(overrides)}'`,
    ];
    expect(checked({ secrets, required: ["POLICIES", "POLICIES_2"] })).toEqual([
      "The configuration is valid. ORIGIN is not set, so only /check is served.",
      "  partners: 5 per 1m, sliding-window-counter (overrides: 1)",
    ]);
  });

  it("problems in a secret POLICIES never quote the secret's value", () => {
    const broken = JSON.stringify([...policies, ...overrides]).replace("9/s", "0/s");
    const secrets = [...goodSecrets, `POLICIES='${broken}'`];
    const lines = checked({ secrets, required: ["POLICIES"] });
    expect(lines).toEqual([
      expect.stringMatching(
        /^\.dev\.vars:3: POLICIES\[1\] \(partners\) overrides\[0\]\.limits\.limit: expected .*, got "0\/s"$/,
      ),
    ]);
    const cut = [...goodSecrets, `POLICIES='${broken.slice(0, -1)}'`];
    const cutLines = checked({ secrets: cut, required: ["POLICIES"] });
    expect(cutLines).toEqual([
      expect.stringMatching(/^\.dev\.vars:3: POLICIES: expected .*, got "\(hidden\)"; the JSON is invalid: .+$/),
    ]);
  });

  it("the check of a deployment accepts POLICIES as a secret whose value is not available locally", () => {
    expect(checked({ required: ["POLICIES"] })).toEqual([
      "The configuration is valid. ORIGIN is not set, so only /check is served.",
      "  POLICIES: a secret whose value is not available here",
    ]);
  });

  it("a secret POLICIES that is larger than 5 KB is a problem", () => {
    const long = Array.from({ length: 200 }, (_, index) => ({ name: `p${index}`, limits: "1/s" }));
    const secrets = [...goodSecrets, `POLICIES='${JSON.stringify(long)}'`];
    const lines = checked({ secrets, required: ["POLICIES"] });
    expect(lines).toEqual([expect.stringMatching(/^\.dev\.vars:3: POLICIES: expected at most 5120 bytes, got \d+;/)]);
  });
});

describe("a fresh clone", () => {
  it("a fresh clone is valid, with a warning that a deployment runs the demo", () => {
    const lines = checked({});
    expect(lines.toSorted()).toEqual([
      "  default: 5 per 10s, fixed-window",
      expect.stringMatching(/^LIMITS and ORIGIN are not set: the demo limits are in effect, /),
      expect.stringMatching(/^The configuration is valid\./),
    ]);
  });
});

describe("a limit that can never deny", () => {
  it("a limit that can never deny causes a warning, and the configuration is valid", () => {
    const vars = ['LIMITS = "10/second; 1000000000/minute"'];
    const lines = checked({ vars });
    expect(lines).toEqual([
      expect.stringMatching(/^LIMITS: the limit "default\.1000000000-per-1m" .* never denies/),
      expect.stringMatching(/^The configuration is valid\./),
      expect.stringMatching(/^ {2}default: 10 per 1s/),
    ]);
  });
});

describe("a broken value", () => {
  it("a problem names its line and its variable, and for invalid JSON also the reason", () => {
    const vars = [
      `JWT_AUDIENCE = '["a" "b"]'`,
      'POLICIES_3 = [{ name = "a", limits = "1/s", limts = "5/s" }]',
      `CORS_ORIGINS = '["https://app.example.com"'`,
    ];
    const lines = checked({ vars });
    expect(lines).toEqual([
      expect.stringMatching(/^POLICIES_2 is missing: .* because POLICIES_3 is set/),
      expect.stringMatching(
        /^wrangler\.toml:18: POLICIES_3\[0\] \(a\) limts: expected .*, got "5\/s"; did you mean limits\?$/,
      ),
      expect.stringMatching(/^wrangler\.toml:17: JWT_AUDIENCE: expected .*; the JSON is invalid: .+$/),
      expect.stringMatching(/^wrangler\.toml:19: CORS_ORIGINS: expected .*; the JSON is invalid: .+$/),
    ]);
  });
});
