/** Reads the configuration in a page's `toml` block as `npm run check-config` and `npm start` would. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { demoLimits } from "../../src/policy/vars/config.ts";
import { hasLimits } from "../../src/policy/vars/policies.ts";
import { checkConfiguration } from "../../src/cli/configuration-check.ts";
import { deployedVariables, readSettings, type Settings } from "../../src/cli/settings.ts";
import type { Block } from "./pages.ts";

export interface ReadConfiguration {
  /** The names of the environments in the block. */
  readonly environments: readonly string[];
  /** The variables at the top level. */
  readonly vars: Readonly<Record<string, unknown>>;
  /** One line for each problem in any environment, as `npm run check-config` prints it. */
  readonly problems: readonly string[];
}

/** Whether a block is Headgate's configuration; `toml other` is another Worker's. */
export const isConfiguration = ({ language, info }: Block): boolean => language === "toml" && info[0] !== "other";

export const isInvalid = ({ info }: Block): boolean => info[0] === "invalid";

/** Replaces the secrets in the environment of the tests. */
const secrets = ["KEY_SECRET", "CHECK_TOKENS"]
  .map((name) => `${name}="${name.toLowerCase()}-${"x".repeat(32)}"\n`)
  .join("");

/** Puts the block under `[vars]` of the shipped wrangler.toml, and checks each of its environments. */
export function readConfiguration(block: Pick<Block, "text">): ReadConfiguration {
  const folder = mkdtempSync(join(tmpdir(), "headgate-page-"));
  const file = join(folder, "wrangler.toml");
  const environments = environmentsOf(block.text);
  const settingsOf = (environment: string): Settings =>
    readSettings({ file, environment, environmentOption: "--env", vars: {}, secretsFile: null });
  const read = (): Omit<ReadConfiguration, "environments"> => {
    const top = settingsOf("");
    return {
      vars: top.wrangler.vars,
      problems: [...topProblems(top), ...environments.map(settingsOf).flatMap((settings) => problemsOf(settings))],
    };
  };
  try {
    writeFileSync(join(folder, ".dev.vars"), secrets);
    writeFileSync(file, withBlock(readFileSync("wrangler.toml", "utf8"), block.text));
    const { vars, problems } = read();
    return {
      environments,
      vars,
      problems: problems.map((line) => line.replaceAll(file, "wrangler.toml")),
    };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { environments, vars: {}, problems: [message.replaceAll(file, "wrangler.toml")] };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const problemsOf = (settings: Settings, extra: object = {}): readonly string[] =>
  checkConfiguration(settings, { ...extra, ...deployedVariables(settings) }).problems;

/** Blocks about other variables set no limits at the top level. `npm start` uses the demo limits in this case. */
const topProblems = (settings: Settings): readonly string[] =>
  problemsOf(settings, hasLimits(deployedVariables(settings)) ? {} : demoLimits);

const environmentsOf = (text: string): string[] => [
  ...new Set([...text.matchAll(/^\[+env\.([\w-]+)[.\]]/gm)].map(([, name = ""]) => name)),
];

/** Tables of the block replace the tables of the same name in the file. */
export function withBlock(file: string, block: string): string {
  const [vars = "", ...tables] = tablesOf(block.replace(/^\[vars\]\n/m, ""));
  const replaced = new Set(tables.map(nameOf));
  const sections = tablesOf(file).map((section) => {
    if (nameOf(section) === "vars") {
      return ["[vars]", vars, ...tables.filter((table) => isVarsTable(table))].join("\n");
    }
    return replaced.has(nameOf(section)) ? "" : section;
  });
  const others = tables.filter((table) => !isVarsTable(table));
  return [...sections, ...others, ...missingBindings(tables)].join("\n");
}

/** The lines before the first table, and the lines of each table. */
const tablesOf = (text: string): string[] => `\n${text}`.split(/^(?=\[)/m);

const isVarsTable = (table: string): boolean => nameOf(table).startsWith("vars.");

/** Environments do not inherit bindings. A page shows these bindings once and omits them in its other blocks. */
const missingBindings = (tables: readonly string[]): string[] =>
  environmentsOf(tables.join(""))
    .map((environment) => `env.${environment}.durable_objects.bindings`)
    .filter((name) => !tables.some((table) => nameOf(table) === name))
    .map((name) => `[[${name}]]\nname = "RATE_LIMITER"\nclass_name = "RateLimiter"\n`);

const nameOf = (table: string): string => /^\[+([^\]]+)\]/.exec(table)?.[1] ?? "";
